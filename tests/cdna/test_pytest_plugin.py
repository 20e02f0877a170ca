"""`pytest --cdna` in sessions of its own: what a test's report says of its kernels, with and without xdist."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from cdna.errors import NotEmulated, UnsupportedInstruction
from cdna.pytest_plugin import why_not_emulated
from tests.support.limits import ENDS_S

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import pytest, torch, triton, triton.language as tl

@triton.jit
def double(x, n: tl.constexpr):
    at = tl.arange(0, 64)
    tl.store(x + at, tl.load(x + at, mask=at < n, other=0) * 2)

@triton.jit
def wait(flag):
    while tl.atomic_add(flag, 0) == 0:
        pass

def test_good():
    x = torch.ones(64, device="cuda")
    double[(1,)](x, 64, num_warps=1)
    assert (x == 2).all()

def test_out_of_bounds():
    double[(1,)](torch.ones(100, device="cuda")[50:], 50, num_warps=1)  # line 20

def test_waits():
    try:
        wait[(1,)](torch.zeros(1, dtype=torch.int32, device="cuda"), num_warps=1)
    except Exception:
        pass

def test_without_kernel():
    pass

def test_not_emulated():
    torch.cuda.CUDAGraph().debug_dump("there")

@pytest.mark.xfail
def test_expected():
    assert torch.cuda.device_count() == 0
"""


def session(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """pytest in `folder`, where this checkout's packages are installed: with the entry points of its pyproject.toml."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    info = folder / "site" / "cdna_forge-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cdna-forge\nVersion: 0\n")
    groups = (f"[{group}]\n" + "".join(f"{name} = {at}\n" for name, at in of.items()) for group, of in points.items())
    (info / "entry_points.txt").write_text("\n".join(groups))
    # A worker of the suite's own xdist says so to what it starts.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": f"{folder / 'site'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1", **more}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=ENDS_S,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("project")
    (folder / "test_it.py").write_text(TESTS)
    options = "--cdna gfx942 --cdna-checks bounds --cdna-timeout 8 --annotations github --junitxml=out.xml -n 1 -q"
    done = session(folder, *options.split(), "--cdna-sarif=out.sarif")
    cases = {}
    for case in ElementTree.parse(folder / "out.xml").getroot().iter("testcase"):
        cases[case.get("name")] = case
    found = json.loads((folder / "out.sarif").read_text())["runs"][0]["results"]
    return SimpleNamespace(text=done.stdout, code=done.returncode, cases=cases, stderr=done.stderr, sarif=found)


def test_each_is_counted(run: SimpleNamespace) -> None:
    assert run.code == 1, run.text + run.stderr
    assert "2 failed, 2 passed, 1 skipped, 1 xfailed" in run.text
    assert "2 of 6 tests launched kernels, 2 launches" in run.text  # that which waited has not ended its launch
    assert "1 with findings, 1 not emulated, 1 over the time limit" in run.text


def test_a_finding_fails_its_test(run: SimpleNamespace) -> None:
    case = run.cases["test_out_of_bounds"]
    failure, found = case.find("failure"), case.find("properties/property[@name='cdna_finding']")
    assert "double on gfx942: bounds: writes 4 bytes" in failure.text and "test_it.py:7" in failure.text
    assert found.get("value").startswith("bounds: ")
    assert case.find("properties/property[@name='cdna_launches']").get("value") == "1"
    assert run.cases["test_good"].find("failure") is None


def test_findings_are_annotations(run: SimpleNamespace) -> None:
    lines = [line for line in run.text.splitlines() if line.startswith("::")]
    assert len(lines) == 1
    assert lines[0].startswith("::error file=test_it.py,line=7,title=cdna bounds on gfx942::double on gfx942: bounds: ")
    assert "%0A  at `" in lines[0]
    (result,) = run.sarif
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "test_it.py" and place["region"]["startLine"] == 7
    assert (result["ruleId"], result["properties"]["certainty"]) == ("bounds", "seen")


def test_the_end_of_time_names_the_line(run: SimpleNamespace) -> None:
    """An `except Exception` around the launch does not keep it."""
    text = run.cases["test_waits"].find("failure").text
    assert "took longer than 8 s (--cdna-timeout); its kernels:" in text and "wait on gfx942" in text
    assert "test_it.py:11" in text or "test_it.py:12" in text


def test_what_is_not_emulated_is_skipped(run: SimpleNamespace) -> None:
    reason = run.cases["test_not_emulated"].find("skipped").get("message")
    assert reason.startswith("not emulated: CUDAGraph.debug_dump")
    assert "skipped 1: not emulated: CUDAGraph.debug_dump" in run.text


def test_findings_that_are_only_reported(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    options = "--cdna gfx950 --cdna-checks bounds --cdna-findings report --annotations github -rA"
    done = session(tmp_path, *options.split(), "-k", "test_out_of_bounds")
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
    assert "1 with findings" in done.stdout and "::warning file=test_it.py,line=7," in done.stdout
    assert "double on gfx950: bounds: writes" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--cdna", "gfx90a"], "--cdna gfx90a: no such card: gfx942, gfx950"),
        (["--cdna", "gfx942", "--cdna-checks", "races"], "--cdna-checks races: no check is called races"),
        (["--cdna", "gfx942", "--cdna-timeout", "0"], "--cdna-timeout 0: seconds, more than 0"),
        (["--cdna-checks", "all"], "--cdna-checks has no meaning without --cdna ARCH"),
    ],
)
def test_bad_options_are_a_line(arguments: list[str], says: str, tmp_path: Path) -> None:
    done = session(tmp_path, *arguments)
    assert done.returncode == 4 and done.stderr.startswith(f"ERROR: {says}"), done.stderr


def test_without_checks_nothing_is_said_of_findings(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test(): ...\n")
    done = session(tmp_path, "--cdna", "gfx942")
    assert "no checks, 0 not emulated" in done.stdout, done.stdout


def test_why_something_is_not_emulated() -> None:
    assert why_not_emulated(UnsupportedInstruction("v_new")) == "not emulated: v_new"
    lacks = why_not_emulated(RuntimeError("\"mul_cpu\" not implemented for 'Float8'"))
    assert lacks.startswith("not emulated: torch's CPU build: ")
    assert why_not_emulated(AssertionError("Torch not compiled with CUDA enabled")).endswith("on CPU tensors")
    assert not why_not_emulated(RuntimeError("wrong")) and not why_not_emulated(None)
    outer = ValueError("theirs")
    outer.__context__ = NotEmulated("a thing")
    assert why_not_emulated(outer) == "not emulated: a thing"
