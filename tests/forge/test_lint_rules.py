"""No architecture is named in the product outside its card, its table of instructions and files that carry its name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ARCH = re.compile(r"gfx9[0-9a-f]{2}")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
CODE = {".py", ".cpp", ".h", ".hpp", ".hip", ".inc", ".cu"}
ITS_OWN = ("cdna/cards/", "cdna/isa/")
BOTH = {"gfx942", "gfx950"}

# Files that name an arch for a reason: (why, which).
ALLOWED = {
    "cdna/hip/include/hip/hip_fp8.h": ("the compiler's macro says what is compiled for", BOTH),
    "cdna/hip/libraries/rocwmma/rocwmma.hpp": ("the compiler's macro says what is compiled for", BOTH),
    "forge/task/problem.py": ("what the leaderboard calls its GPUs; task may not import cdna's cards", BOTH),
    "kernels/common/hip_extension.py": ("what a submission is built for, whose one file has no cards", {"gfx942"}),
}


def names_in(path: str, text: str) -> Iterator[tuple[int, str]]:
    """(line, arch) of each that code names; comments and docstrings do not count."""
    if path.endswith(".py"):
        tree = ast.parse(text, path)
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            words = [node.value] if isinstance(node, ast.Constant) and id(node) not in docstrings else []
            words += [getattr(node, field, None) for field in ("id", "arg", "attr", "name")]
            for word in words:
                yield from ((getattr(node, "lineno", 0), found[0]) for found in ARCH.finditer(str(word)))
        return
    code = COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)
    for number, line in enumerate(code.splitlines(), 1):
        yield from ((number, found[0]) for found in ARCH.finditer(line))


def files() -> list[str]:
    found = [p for folder in ("cdna", "forge", "kernels") for p in (ROOT / folder).rglob("*") if p.suffix in CODE]
    return sorted(p.relative_to(ROOT).as_posix() for p in found if "/build/" not in p.as_posix())


def may_name(path: str, arch: str) -> bool:
    return path.startswith(ITS_OWN) or arch in path or arch in ALLOWED.get(path, ("", ()))[1]


def found_in(path: str, text: str) -> list[str]:
    return [f"{path}:{line}: {arch}" for line, arch in names_in(path, text) if not may_name(path, arch)]


@pytest.mark.parametrize(
    "path, text",
    [
        ("forge/judge/run.py", "card = 'gfx942'"),
        ("forge/judge/run.py", "name = f'emulated-gfx950-{n}'"),
        ("forge/judge/run.py", "run(gfx942=1)"),
        ("forge/judge/run.py", "gfx942 = 1"),
        ("cdna/engine/run/launch.cpp", 'bool old = !strcmp(arch, "gfx942");  // the arch'),
        ("cdna/engine/run/launch.cpp", "/* two\nlines */ int gfx950;"),
        ("kernels/moe/hip_gfx942.py", "ARCH = 'gfx950'"),
        ("kernels/common/hip_extension.py", "ARCH = 'gfx950'"),
    ],
)
def test_a_name_is_found(path: str, text: str) -> None:
    assert found_in(path, text)


@pytest.mark.parametrize(
    "path, text",
    [
        ("forge/judge/run.py", '"""As gfx942 does."""\n\n\ndef f():  # as gfx950\n    """gfx950."""'),
        ("cdna/engine/run/launch.cpp", "int a;  // gfx942\n/* gfx950\n   gfx942 */"),
        ("cdna/cards/__init__.py", "ARCH = 'gfx942'"),
        ("kernels/moe/hip_gfx942.py", "ARCH = 'gfx942'"),
        ("kernels/common/hip_extension.py", "ARCH = 'gfx942'"),
    ],
)
def test_what_may_be_named(path: str, text: str) -> None:
    assert not found_in(path, text)


def test_no_arch_is_named_but_where_it_is_stated() -> None:
    assert [line for path in files() for line in found_in(path, (ROOT / path).read_text(encoding="utf-8"))] == []


def test_each_exception_is_needed() -> None:
    for path, (_, archs) in ALLOWED.items():
        assert {arch for _, arch in names_in(path, (ROOT / path).read_text(encoding="utf-8"))} == archs, path


# Source files of others that comments name as where a fact is from.
ELSEWHERE = {"AMDGPUBaseInfo.cpp", "GCNSubtarget.cpp", "AMDGPULegalizerInfo.cpp", "rockernel.cpp", "emu.py"}
FILE = re.compile(r"[\w.]+\.(?:py|cpp|hip)\b")


def files_not_there(text: str, there: set[str]) -> list[str]:
    return [name for name in FILE.findall(text) if name not in there and not name.startswith("cdna.hip")]


def test_files_that_comments_and_the_labs_page_name_are_there() -> None:
    there = {path.name for folder in ("lab", "cdna", "forge", "kernels") for path in (ROOT / folder).rglob("*")}
    there |= {path.name for path in ROOT.glob("*.py")}
    pages = {"lab/README.md": (ROOT / "lab/README.md").read_text(encoding="utf-8")}
    for path in files():
        if not path.endswith(".py"):
            pages[path] = "\n".join(COMMENT.findall((ROOT / path).read_text(encoding="utf-8")))
    assert {path: lost for path, text in pages.items() if (lost := files_not_there(text, there | ELSEWHERE))} == {}
    assert files_not_there("// see rtc.py", there) == ["rtc.py"]
