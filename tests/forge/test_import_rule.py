"""Who may import whom: this keeps the commands quick, `cdna` usable alone, and kernels fit for one file."""

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The rooms of the two packages, and those that each may import: a room stands above all that it uses, and none above
# itself. What a package has beside its rooms is a room, too.
FORGE: dict[str, set[str]] = {
    "cluster": set(),
    "console": set(),
    "files": set(),
    "interpreter": set(),
    "task": set(),
    "device": {"files", "task"},
}
FORGE["generate"] = {"console", "task"}
FORGE["judge"] = {"console", "task", "device"}
FORGE["history"] = {"console", "files", "task", "device", "judge"}
FORGE["commands"] = {"console", "files", "task", "device", "generate", "judge", "history", "compile_report"}
FORGE["compile_report"] = {"console", "task", "device", "generate", "judge", "history"}
FORGE["tune"] = {"cluster", "console", "interpreter", "files", "task", "device", "generate", "judge", "history"}
FORGE["bulk"] = {"cluster", "console", "files", "task", "device", "generate", "judge", "history", "commands"}
FORGE["serve"] = {"console", "task", "device", "generate", "judge", "history", "commands", "bulk"}
FORGE["__init__"] = {"bulk"}
FORGE["__main__"] = {"console", "interpreter", "device", "commands", "bulk", "serve", "tune"}
FACTS = {"errors", "cards", "isa", "results"}
CDNA: dict[str, set[str]] = {"cards": {"errors"}, "isa": {"errors", "cards"}}
CDNA |= {room: set() for room in ("errors", "results", "version")}
CDNA["sarif"] = {"results"}
CDNA["engine"] = FACTS
CDNA["binary"] = FACTS | {"engine"}
CDNA["memory"] = {"engine"}
CDNA["checks"] = {"errors", "engine", "memory", "results"}
CDNA["observe"] = FACTS | {"engine", "binary", "memory", "checks"}
CDNA["launch"] = {"errors", "cards", "results", "engine", "binary", "checks", "observe"}
CDNA["profile"] = FACTS | {"binary", "observe"}
CDNA["triton"] = {"errors", "cards", "isa", "engine", "binary", "checks", "observe", "launch"}
CDNA["hip"] = {"errors", "cards", "engine", "binary", "observe", "profile"}
CDNA["testing"] = FACTS | {"engine", "binary", "launch", "hip"}
CDNA["commands"] = FACTS | {
    "version",
    "sarif",
    "engine",
    "binary",
    "checks",
    "observe",
    "launch",
    "profile",
    "triton",
    "hip",
}
CDNA["__init__"] = {"errors", "cards", "results", "engine", "checks", "observe", "launch", "profile", "triton"}
CDNA["__main__"] = {"errors", "cards", "hip", "commands"}
CDNA["pytest_plugin"] = {"errors", "cards", "results", "sarif", "engine", "checks", "observe", "triton"}
ROOMS = {"forge": FORGE, "cdna": CDNA}
OURS = {"cdna", "forge", "kernels", "reference", "eval", "gen_submission", "tests", "lab"}
STDLIB = set(sys.stdlib_module_names)


def imported_modules(path: Path, root: Path | None = None) -> Iterator[tuple[str, int]]:
    """Every module that the file imports, at any depth, as (dotted name, line); relative ones resolved."""
    package = path.relative_to(root or ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            origin = ".".join(part for part in (base, node.module or "") if part)
            for alias in node.names:
                yield f"{origin}.{alias.name}", node.lineno


def is_under(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def arch_of(module: str) -> set[str]:
    """The GPU that a kernel's module is for, by its name: kernels.gemm_rs.hip_gfx942, lab.hopper.gemm_rs.hip."""
    return set(re.findall(r"(?<=_)gfx[0-9a-f]+|^lab\.hopper\b", module))


def may_import(path: str, module: str) -> bool:
    """Whether the file at `path` (relative to the root, with slashes) may import `module`."""
    parts = path.split("/")
    top = module.partition(".")[0]
    if parts[0] == "kernels" or path.startswith("lab/hopper/"):
        if top in ("kernels", "lab") and not arch_of(module) <= arch_of(path.removesuffix(".py").replace("/", ".")):
            return False
        own = [f"{root}.{part}" for root in ("kernels", "lab.hopper") for part in ("common", parts[-2])]
        return top in STDLIB or is_under(module, "torch", "triton", *own)
    if parts[0] == "reference":
        return top in STDLIB or is_under(module, "torch", "utils", "task")
    if parts[0] in ROOMS:
        if top == parts[0]:
            here, there = parts[1].removesuffix(".py"), module.split(".")[1]
            return here == there or there in ROOMS[top].get(here, set())
        if top == "cdna":
            return path.startswith("forge/device/")
        return top not in OURS
    return top not in OURS - {"forge"}  # the two commands


def python_files() -> list[str]:
    folders = ("kernels", "lab/hopper", "reference", "cdna", "forge")
    found = [p for folder in folders for p in (ROOT / folder).rglob("*.py")]
    found += [p for p in (ROOT / "eval.py", ROOT / "gen_submission.py") if p.exists()]
    return sorted(p.relative_to(ROOT).as_posix() for p in found)


def imports_among(files: list[str]) -> dict[str, set[str]]:
    """Which of the files import which, at any depth: a package stands for its __init__.py."""
    modules = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in files}
    found: dict[str, set[str]] = {}
    for module, path in modules.items():
        named = {name for name, _ in imported_modules(ROOT / path)}
        # `from package import name` names package.name, a module of ours or something in the package.
        found[module] = {name if name in modules else name.rpartition(".")[0] for name in named} & (
            modules.keys() - {module}
        )
    return found


def test_no_file_stands_in_a_circle_of_imports() -> None:
    """Imports inside functions count: they are how a circle is hidden."""
    graphlib.TopologicalSorter(imports_among(python_files())).prepare()  # raises CycleError, which names them


def test_a_circle_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/a.py").write_text("from kernels import b\n")
    (tmp_path / "kernels/b.py").write_text("def f():\n    from kernels.a import x\n")
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    with pytest.raises(graphlib.CycleError, match="nodes are in a cycle"):
        graphlib.TopologicalSorter(imports_among(["kernels/a.py", "kernels/b.py"])).prepare()


def test_every_file_keeps_the_rule() -> None:
    files = python_files()
    assert files, f"no Python file found under {ROOT}: the test looks in the wrong place"
    broken = [
        f"{path}:{line} imports {module}"
        for path in files
        for module, line in imported_modules(ROOT / path)
        if not may_import(path, module)
    ]
    assert not broken, "imports that the layout forbids:\n" + "\n".join(broken)


@pytest.mark.parametrize(
    ("path", "statement", "allowed"),
    [
        ("kernels/moe/triton_gfx942.py", "import triton.language as tl", True),
        ("kernels/moe/triton_gfx942.py", "from kernels.common.workgroup_order import grouped_rows", True),
        ("kernels/moe/triton_gfx942.py", "from ..common.workgroup_order import grouped_rows", True),
        ("kernels/moe/triton_gfx942.py", "from kernels.moe.routing import sort_tokens", True),
        ("kernels/moe/triton_gfx942.py", "from kernels.fp8_mm.routing import sort_tokens", False),
        ("kernels/moe/triton_gfx942.py", "from kernels.common.peer_signals_gfx950 import signal", False),
        ("kernels/moe/triton_gfx942.py", "from lab.hopper.moe.triton import moe", False),
        ("kernels/moe/routing.py", "from kernels.moe.triton_gfx942 import moe", False),
        ("lab/hopper/moe/triton.py", "from kernels.moe.routing import sort_tokens", True),
        ("lab/hopper/moe/triton.py", "from kernels.moe.triton_gfx942 import moe", False),
        ("lab/hopper/moe/triton.py", "from lab.hopper.fp8_mm.triton import multiply", False),
        ("kernels/moe/triton_gfx942.py", "import numpy", False),
        ("kernels/moe/triton_gfx942.py", "def f():\n    import forge.generate.rules", False),
        ("reference/moe/reference.py", "from utils import verbose_allclose", True),
        ("reference/moe/reference.py", "import aiter", False),
        ("cdna/binary/asm.py", "from forge import rules", False),
        ("cdna/binary/asm.py", "from .operands import Registers", True),
        ("cdna/binary/asm.py", "from ..engine import abi", True),
        ("cdna/engine/abi.py", "from ..binary import asm", False),
        ("cdna/triton/driver.py", "import triton", True),
        ("forge/device/emulated.py", "import cdna", True),
        ("forge/task/score.py", "import cdna", False),
        ("forge/task/score.py", "from forge.judge.results import Stats", False),
        ("forge/judge/worker.py", "def f():\n    from forge.tune import candidates", False),
        ("forge/tune/worker.py", "from forge.judge.worker import Worker", True),
        ("forge/task/score.py", "from kernels.common import swizzle", False),
        ("eval.py", "import forge.task.cases", True),
        ("eval.py", "import cdna", False),
    ],
)
def test_the_rule_itself(tmp_path: Path, path: str, statement: str, allowed: bool) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(statement + "\n")
    assert all(may_import(path, module) for module, _ in imported_modules(file, tmp_path)) is allowed


@pytest.mark.parametrize("package", ROOMS)
def test_every_room_is_known(package: str) -> None:
    there = {path.relative_to(ROOT / package).parts[0].removesuffix(".py") for path in (ROOT / package).rglob("*.py")}
    assert there - {"__init__"} == ROOMS[package].keys() - {"__init__"}


@pytest.mark.parametrize("package", ROOMS)
def test_no_room_stands_above_itself(package: str) -> None:
    graphlib.TopologicalSorter(ROOMS[package]).prepare()  # raises CycleError, which names them


def test_the_generator_starts_without_torch_and_triton() -> None:
    """`gen_submission.py` promises half a second; importing torch alone takes longer."""
    code = "import sys, forge.commands.generate; print({'torch', 'triton', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stdout + done.stderr
