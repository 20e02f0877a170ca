"""What no compiler sees: archs are named where they are stated, files that comments name are there, pages are short of
breath and type no constant, the root holds what belongs there, and commits say their room."""

import ast
import functools
import io
import os
import re
import subprocess
import tokenize
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
    "cdna/binary/stale_operands.py": ("a defect of one card's, unconfirmed: no fact for its file", {"gfx950"}),
    "cdna/hip/include/hip/hip_fp8.h": ("the compiler's macro says what is compiled for", BOTH),
    "cdna/hip/libraries/rocwmma/rocwmma.hpp": ("the compiler's macro says what is compiled for", BOTH),
    "forge/task/problem.py": ("what the leaderboard calls its GPUs; task may not import cdna's cards", BOTH),
    "kernels/common/hip_extension.py": ("what a submission is built for, whose one file has no cards", {"gfx942"}),
}


def names_in(path: str, text: str) -> Iterator[tuple[int, str]]:
    """(line, arch) of each that code names; comments and docstrings do not count."""
    if not ARCH.search(text):
        return
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


# Files that comments name and that are not here: of others, as where a fact is from, and of examples.
ELSEWHERE = set(
    "AMDGPUBaseInfo.cpp AMDGPULegalizerInfo.cpp AMDGPUMCExpr.cpp AMDGPUPreloadKernArgProlog.cpp CLAUDE.md "
    "ATen/core/TensorBase.h GCNSubtarget.cpp __clang_hip_cmath.h aiter/ops/shuffle.py api_utils.py cblas.h "
    "amd_transpose_load_encoding.hpp c10/util/complex.h doc/OCML.md emu.py hipBin_amd.h hip/hip_runtime.h "
    "linker_types.h macros.h problems/amd_202602/eval.py rockernel.cpp swiglu/vs_vllm.py test/mockgpu/amd/emu.py "
    "torch/extension.h utils/benchmarking.py vllm/platforms/rocm.py amd/hipcc/src/hipBin_amd.h hip/hiprtc.h "
    "src/gemm/gemm_kernel.cpp src/moe/gemm_thirdparty.cpp src/moe/moe.cpp src/moe/moe_gemm_pipeline_kernel.cpp "
    "amdgpu_ds_read_b64_waitcnt/ROOT_CAUSE.md SIDefines.h include/uapi/linux/landlock.h include/uapi/linux/prctl.h "
    "kernels/toy/plain.py a.hip header.h kernel.hip math.h mine.hip parts.py tables.md".split()
)
NAMED = re.compile(
    r"(?<![\w/.$~{}<>-])(?:[\w.-]+/)*[\w-]+\.(?:py|cpp|h|hpp|hip|inc|md|toml)\b(?![\w/*(]|\.\w)", re.ASCII
)
BASES = [".", "cdna", "cdna/engine", "cdna/hip", "docs", "forge", "kernels", "reference"]
NOTED = "lab/tried/"  # as it was noted: its sentences are lists of figures
FENCED = re.compile(r"```.*?```|^    .*?$", re.DOTALL | re.MULTILINE)
AT_THE_ROOT = set(
    ".clang-format .gitignore .pre-commit-hooks.yaml AGENTS.md CHANGELOG.md CITATION.cff CONTRIBUTING.md LICENSE "
    "README.md action.yml conftest.py constraints.txt eval.py gen_submission.py pyproject.toml task.yml "
    "Makefile".split()
)


def tracked(*words: str) -> list[str]:
    done = subprocess.run(["git", "ls-files", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in done.stdout.splitlines() if (ROOT / path).is_file()]


def comments_in(path: str, text: str) -> str:
    if not path.endswith(".py"):
        return "\n".join(COMMENT.findall(text))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    found = [token.string for token in tokens if token.type == tokenize.COMMENT]
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found += [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    return "\n".join(found)


@functools.cache
def names_of(paths: frozenset[str]) -> set[str]:
    return {path.rpartition("/")[2] for path in paths}


def lost_files(path: str, text: str, there: set[str]) -> list[str]:
    """Names of files that are not in the checkout: with folders as they stand below one of the bases or the file's own,
    without any, whichever folder they are in."""
    names = names_of(frozenset(there))
    bases = [*BASES, *(str(folder) for folder in Path(path).parents)]

    def known(name: str) -> bool:
        if "/" not in name:
            return name in names
        return any(os.path.normpath(f"{base}/{name}") in there for base in bases)

    return [name for name in NAMED.findall(text) if name not in ELSEWHERE and not known(name)]


def test_files_that_comments_and_pages_name_are_there() -> None:
    there = set(tracked())
    lost = {}
    for path in sorted(there):
        if path == "lab/README.md":
            text = (ROOT / path).read_text(encoding="utf-8")
        elif path.endswith(".md") and not path.startswith(NOTED):
            page = (ROOT / path).read_text(encoding="utf-8").partition("## A complete example")[0]
            text = "\n".join(name for name in NAMED.findall(FENCED.sub("", page)) if "/" in name)
        elif Path(path).suffix in CODE and not path.startswith("lab/corpus/"):
            text = (ROOT / path).read_text(encoding="utf-8")
            if lost_files(path, text, there):  # seldom, and sooner looked for than comments
                text = comments_in(path, text)
        else:
            continue
        if found := lost_files(path, text, there):
            lost[path] = found
    assert lost == {}


def test_what_readme_says_where_it_is_is_there() -> None:
    section = (ROOT / "README.md").read_text().partition("## Where things are\n")[2].partition("\n#")[0]
    lines = [line for line in section.splitlines() if line.startswith("    ")]
    places = " ".join(line[4:36] for line in lines).replace("<stem>/", "").split()
    assert len(places) > 20 and [place for place in places if not any(ROOT.glob(place.rstrip("/")))] == []
    files = {Path(path).name for path in tracked()}
    assert set(re.findall(r"\b\w+\.(?:py|cpp|h|toml|yml)\b", " ".join(line[36:] for line in lines))) <= files


@pytest.mark.parametrize(
    "path, text, lost",
    [
        ("cdna/a.py", "# see rtc.py\n", ["rtc.py"]),
        ("cdna/a.py", '"""As engine/clock.cpp and engine/time/device_clock.cpp do."""\n', ["engine/clock.cpp"]),
        ("cdna/engine/run/a.cpp", "// isa/core.h, check.h, ../isa/core.h and checks/core.h\n", ["checks/core.h"]),
        ("forge/a.py", "x = 'rtc.py'  # or docs/none.md\n", ["docs/none.md"]),
        ("forge/a.py", '"""As in docs/none.md."""\n', ["docs/none.md"]),
    ],
)
def test_a_name_that_is_lost(path: str, text: str, lost: list[str]) -> None:
    there = set(tracked("cdna", "docs"))
    assert lost_files(path, comments_in(path, text), there) == lost


def test_the_root_has_no_file_that_nobody_meant_to_put_there() -> None:
    assert {path for path in tracked() if "/" not in path} == AT_THE_ROOT


# ---------------------------------------------------------------- pages

COLUMNS, WORDS = 130, 40  # of a line, of a sentence; not of tables and code
MEASURE = re.compile(r"[\d.]+ ?(?:us|µs|ns|ms|cycles|[TGM]B/s|[MGk]Hz)\b")
STATED = {"4 cycles"}  # of the ISA: a wave's issue
MADE = re.compile(r"(<!-- (?:results|cards): .*?-->).*?(<!-- end of)", re.DOTALL)
ENDS = re.compile(r"(?<=[.!?])[)*\"]*\s+")
IN_CODE = re.compile(rf"{FENCED.pattern}|`[^`]*`", FENCED.flags)
LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]+)")


def paragraphs(page: str) -> Iterator[tuple[int, str]]:
    """(first line, text) of each paragraph and entry of a list; tables, code and headings are none."""
    fenced, start, held = False, 0, ""
    for number, line in enumerate([*page.splitlines(), ""], 1):
        text = line.strip()
        fenced ^= text.startswith("```")
        other = (
            fenced or not text or text.startswith(("|", "#", "<!--", "```")) or (not held and line.startswith("    "))
        )
        if held and (other or re.match(r"([-*]|\d+\.) ", text)):
            yield start, held
            held = ""
        if not other:
            start, held = (start, f"{held} {text}") if held else (number, re.sub(r"^[-*] ", "", text))


def faults_of(path: str, page: str, there: set[str]) -> list[str]:
    plain = IN_CODE.sub("code", page)
    prose = [(start, re.sub("`[^`]*`", "code", text)) for start, text in paragraphs(page)]
    sentences = [(start, len(sentence.split())) for start, text in prose for sentence in ENDS.split(text)]
    found = [f"{start}: {words} words" for start, words in sentences if words > WORDS and not path.startswith(NOTED)]
    lines = enumerate(re.sub("(?s)```.*?```", lambda code: "\n" * code[0].count("\n"), page).splitlines(), 1)
    wide = [(n, len(line)) for n, line in lines if not line.startswith("    ") and line.lstrip()[:1] != "|"]
    found += [f"{n}: {columns} columns" for n, columns in wide if columns > COLUMNS]
    links = {link: os.path.normpath(os.path.join(os.path.dirname(path), link)) for link in LINK.findall(plain)}
    found += [f"no {link}" for link, to in links.items() if not any(f"{file}/".startswith(f"{to}/") for file in there)]
    if path.startswith("docs/"):
        found += [f"types {measure}" for measure in MEASURE.findall(MADE.sub(r"\1\2", plain)) if measure not in STATED]
    return [f"{path}:{fault}" for fault in found]


def test_pages_are_short_of_breath_and_type_no_constant() -> None:
    there = set(tracked())
    assert [
        fault for path in tracked("*.md") for fault in faults_of(path, (ROOT / path).read_text(encoding="utf-8"), there)
    ] == []


@pytest.mark.parametrize(
    "page, fault",
    [
        ("Of " + "a " * 40 + "b.", ["docs/a.md:1: 42 words"]),
        ("It is.\n\n- Of " + "a " * 20 + "\n  " + "a " * 20 + "b.", ["docs/a.md:3: 42 words"]),
        ("A" * 131, ["docs/a.md:1: 131 columns"]),
        ("See [b](b.md), [c](c.md#d) and [e](https://e.org).", ["docs/a.md:no c.md"]),
        ("A launch takes 2.1 us.\n\n| L2 | 15 TB/s |", ["docs/a.md:types 2.1 us", "docs/a.md:types 15 TB/s"]),
        ("Some. " + "Of a. " * 3 + "`" + "a " * 41 + "`", []),
        ("Some:\n\n    " + "it takes 3 us " * 15 + "\n\n| " + "a " * 99 + "|\n\n```\n" + "a " * 99 + "\n```", []),
        ("<!-- cards: a -->\n| a | 3 us |\n<!-- end of cards -->", []),
    ],
)
def test_a_fault_of_a_page(page: str, fault: list[str]) -> None:
    assert faults_of("docs/a.md", page, {"docs/b.md"}) == fault


# ---------------------------------------------------------------- commits

SINCE = "5333af53588e8004306cf803c2930bf5d61c866e"  # those before have longer ones
SUBJECT = re.compile(r"(?=.{1,72}$)[a-z0-9_/.-]+: \S")


def subjects() -> list[str] | None:
    """Of the commits since then; None without their history, as in a shallow clone or an archive."""
    command = ["git", "log", "--no-merges", "--format=%s", f"{SINCE}..HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else None


def test_commits_begin_with_their_room_in_a_line_that_is_short() -> None:
    found = subjects()
    if found is None:
        pytest.skip("no history of commits here")
    assert [subject for subject in found if not SUBJECT.match(subject)] == []


@pytest.mark.parametrize("subject, good", [("judge: end it", True), ("End it", False), ("judge: " + "x" * 66, False)])
def test_a_subject(subject: str, good: bool) -> None:
    assert bool(SUBJECT.match(subject)) == good
