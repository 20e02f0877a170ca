"""gen_submission.py as a person runs it, on this repository's own problems."""

import ast
import functools
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from forge.generate.pysource import GenerationError
from forge.generate.render import generate, variants_of
from forge.task.problem import ProblemEntry, ProblemError, load_sets, own_entries

ROOT = Path(__file__).resolve().parents[2]
WITH_KERNEL = [
    (entry.name, variant) for group in load_sets() for entry in group.problems for variant in variants_of(entry)
]


def gen(*arguments: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "gen_submission.py", *arguments], cwd=cwd, capture_output=True, text=True
    )


def own_entry(problem: str) -> ProblemEntry:
    return next(entry for entry in own_entries() if entry.name == problem)


@functools.cache
def shown(problem: str, variant: str) -> str:
    return generate(own_entry(problem), variant).text


def refused(*arguments: str | Path) -> str:
    done = gen(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("gen_submission.py: "), done.stderr
    return lines[0]


@pytest.mark.parametrize(("problem", "variant"), WITH_KERNEL)
def test_every_variant_makes_a_submission(problem: str, variant: str, tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    done = gen(problem, "--variant", variant, "-o", file)
    assert done.returncode == 0, done.stderr
    assert problem in done.stdout and str(file) in done.stdout
    text = file.read_text()
    assert file.read_bytes() == shown(problem, variant).encode()  # the same from another process
    assert text.splitlines()[0] == f"#!POPCORN leaderboard {problem}"
    assert text.splitlines()[1].startswith("#!POPCORN gpu MI3")
    assert "  kernels/" in text  # a line of provenance
    assert str(ROOT) not in text and "stream" not in text.lower()
    compile(text, "submission.py", "exec")
    assert any(isinstance(n, ast.FunctionDef) and n.name == "custom_kernel" for n in ast.parse(text).body)


# triton.language.extra: libdevice, which has the AMD backend's functions too.
IN_EVERY_TRITON = ("triton", "triton.language", "triton.language.extra")


@pytest.mark.parametrize(("problem", "variant"), WITH_KERNEL)
def test_a_file_for_an_amd_leaderboard_is_for_amd_alone(problem: str, variant: str) -> None:
    """No word of the other vendor's, and no import that a ROCm build of Triton may lack: it would fail on the spot."""
    text = shown(problem, variant)
    assert text and not re.findall(r"sm_90|wgmma|nvidia", text, re.IGNORECASE)
    for node in ast.walk(ast.parse(text)):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for module in modules:
            top = module.partition(".")[0]
            assert top in {*sys.stdlib_module_names, "torch"} or module in IN_EVERY_TRITON, module


@pytest.mark.parametrize(("problem", "variant"), WITH_KERNEL)
def test_also_makes_the_file_that_runs_on_both(problem: str, variant: str) -> None:
    try:
        text = generate(own_entry(problem), variant, also="sm_90").text
    except GenerationError as error:
        assert re.fullmatch(r"--also sm_90: .* is for AMD alone", str(error)), error
        return
    if text == shown(problem, variant):  # of a variant for every GPU
        return
    branches = [node for node in ast.parse(text).body if isinstance(node, ast.If)]
    assert ast.unparse(branches[-1].test) == "torch.version.hip"
    for body in (branches[-1].body, branches[-1].orelse):
        assert any(isinstance(node, ast.FunctionDef) and node.name == "custom_kernel" for node in body)


def test_from_anywhere_and_to_standard_output(tmp_path: Path) -> None:
    problem = WITH_KERNEL[0][0]
    shown = gen(problem, "-o", "-", cwd=tmp_path)
    assert shown.returncode == 0 and shown.stdout.startswith("#!POPCORN leaderboard ")
    assert list(tmp_path.iterdir()) == []
    assert gen(problem, cwd=tmp_path).returncode == 0
    assert (tmp_path / "submission.py").read_text() == shown.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["submission.py"]


def test_it_imports_little(tmp_path: Path) -> None:
    code = f"import sys; from forge.commands.generate import main; main([{WITH_KERNEL[0][0]!r}, '-o', 's.py'])\n"
    code += "assert not {'torch', 'triton', 'numpy', 'sympy'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)


def test_list_names_every_problem() -> None:
    done = gen("--list")
    assert done.returncode == 0
    rows = {line.split()[0]: line for line in done.stdout.splitlines()}
    for group in load_sets():
        for entry in group.problems:
            assert all(gpu in rows[entry.name] for gpu in entry.gpus)
            for variant in variants_of(entry):
                assert (f"{variant}*" if variant == entry.variant else variant) in rows[entry.name]
            assert not entry.modelled_us or entry.variant == min(entry.modelled_us, key=entry.modelled_us.__getitem__)


def test_the_fastest_variant_is_the_default(tmp_path: Path) -> None:
    row = "{directory: a, name: a, gpus: [MI300], arch: gfx942, harness: amd, modelled_us: {hip: %s, triton: 6}}"
    sets = tmp_path / "task.yml"
    sets.write_text(f"sets: [{{name: s, problems: [{row % 6.5}]}}]\n")
    (entry,) = load_sets(tmp_path)[0].problems
    assert entry.variant == "triton" and list(entry.modelled_us.items()) == [("triton", 6), ("hip", 6.5)]
    sets.write_text(f"sets: [{{name: s, problems: [{row % 'fast'}]}}]\n")
    with pytest.raises(ProblemError, match=r"problems\[0\] modelled_us: 'hip' must be an integer or a number"):
        load_sets(tmp_path)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    problem, old = WITH_KERNEL[0][0], tmp_path / "s.py"
    old.write_text("old")
    old.chmod(0o600)
    assert gen(problem, "--variant", "absent", "-o", old).returncode == 2
    assert old.read_text() == "old"
    assert gen(problem, "-o", old).returncode == 0
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(old.stat().st_mode) == 0o666 & ~umask  # readable to others, not mkstemp's 0600
    assert [path.name for path in tmp_path.iterdir()] == ["s.py"]


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    assert "did you mean 'amd-fp8-mm'?" in refused("amd-fp8-nm")
    assert "--also sm_70: there is nothing for it" in refused("amd-fp8-mm", "--also", "sm_70")
    assert "its variant 'hip' is for AMD alone" in refused("amd-fp8-mm", "--variant", "hip", "--also", "sm_90")
    problem, variant = WITH_KERNEL[0]
    message = refused(problem, "--variant", "fastest")
    assert f"{problem} has no variant 'fastest'; it has: " in message and variant in message
    assert "cannot be written: No such file or directory" in refused(problem, "-o", tmp_path / "absent" / "s.py")
    assert "cannot be written: Is a directory" in refused(problem, "-o", tmp_path)
    usage = gen()
    assert usage.returncode == 2 and "--list shows them" in usage.stderr


def test_a_reader_that_stops_reading_is_no_error() -> None:
    command = [sys.executable, str(ROOT / "gen_submission.py"), WITH_KERNEL[0][0], "-o", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_a_file_to_be_checked_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe")
    problem = WITH_KERNEL[0][0]
    absent = refused(problem, "--check-file", tmp_path / "absent.py")
    assert absent.endswith(f"--check-file {tmp_path / 'absent.py'}: cannot be read: No such file or directory")
    assert "not UTF-8 text" in refused(problem, "--check-file", tmp_path / "bytes.py")
