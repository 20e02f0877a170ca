"""`eval.py test` on an emulated device shows what checks find; the verdict stays, but where a card would not go on."""

import json
import subprocess
from pathlib import Path

import pytest

from forge.console import EXIT_BUT
from lab.verdicts import PROBLEM, corpus
from tests.forge.test_own_evaluator import other
from tests.support.evaltools import (
    REFERENCE,
    ROOT,
    TASK,
    checks_find_nothing,
    generate,
    run_command,
    statuses,
    write_problem,
)
from tests.support.evaltools import judge as judge_json
from tests.support.limits import ENDS_S

STORE = "tl.reshape(acc.to(c_ptr"
# Looks at the element behind the result's last one: the right answer, after a read of memory that is nobody's.
BEHIND = "tl.where(tl.load(c_ptr + M * N).to(tl.int16, bitcast=True) == 0x4321, 1e-6, 0.0)"
FAULTY = f"tl.reshape((acc + {BEHIND}).to(c_ptr"


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate("amd-fp8-mm", "triton", tmp_path_factory.mktemp("checks"))


def judge(file: Path, *more: str) -> subprocess.CompletedProcess[str]:
    chosen = ("--device", "gfx942", "--cases", "0")
    return run_command("test", "amd-fp8-mm", "--submission", file, *chosen, *more, cwd=ROOT, timeout=ENDS_S)


def test_our_kernel_has_no_finding(submission: Path) -> None:
    result = judge(submission)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "check:" not in result.stdout


def test_a_finding_is_shown_and_changes_no_verdict(submission: Path) -> None:
    text = submission.read_text()
    assert STORE in text
    faulty = submission.with_name("faulty.py")
    faulty.write_text(text.replace(STORE, FAULTY))
    with pytest.raises(AssertionError, match="check: .*bounds: reads 2 bytes at 0x") as found:  # not at the exit code
        checks_find_nothing("amd-fp8-mm", faulty, 0)
    assert "0 bytes past the end of `c_ptr` (bf16[64x64])" in str(found.value)
    assert " of the device's checks" in str(found.value) and "FAIL" not in str(found.value)
    assert "check: " not in judge(faulty, "--checks", "none").stdout
    sarif = submission.with_name("found.sarif")
    judge(faulty, "--checks", "bounds", "--sarif", str(sarif))
    (result,) = json.loads(sarif.read_text())["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == faulty.as_uri()
    assert FAULTY in faulty.read_text().splitlines()[place["region"]["startLine"] - 1]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("findings_taken", "bounds"),
        ("checks_off", "race"),
        ("unwritten_hidden", "unwritten"),
        ("hazard_taken", "hazard"),
    ],
)
def test_a_finding_that_its_worker_does_not_tell_is_found_anew(tmp_path: Path, name: str, kind: str) -> None:
    submission = tmp_path / "submission.py"
    submission.write_text(next(one.source for one in corpus() if one.name == name))
    chosen = ("--submission", submission, "--device", "gfx942", "--trust")
    done = run_command("test", PROBLEM, *chosen, "--strict", cwd=ROOT, timeout=ENDS_S)
    assert done.returncode == EXIT_BUT and f"{kind}: " in done.stdout, done.stdout + done.stderr
    alone = run_command("test", PROBLEM, *chosen, cwd=ROOT, timeout=ENDS_S)
    assert alone.returncode == 0 and "check: " not in alone.stdout, alone.stdout


# Stores where nobody has memory, in a case that is not small: of its later calls not each is looked at.
OUTSIDE = """
import torch, triton, triton.language as tl

@triton.jit
def outside(c_ptr, BN: tl.constexpr):
    at = tl.arange(0, BN)
    for _ in range(800):
        tl.store(c_ptr + at, tl.zeros((BN,), tl.bfloat16))
        tl.debug_barrier()
    tl.store(c_ptr + 1_000_000_000 + at, tl.zeros((BN,), tl.bfloat16))

def custom_kernel(data):
    a, b, a_scale, b_scale, c = data
    outside[(32,)](c, 1024)
    wide = b_scale.repeat_interleave(128, 0)[: b.shape[0]].repeat_interleave(128, 1)[:, : b.shape[1]]
    return ((a.float() * a_scale.repeat_interleave(128, 1)) @ (b.float() * wide).T).to(c.dtype)
"""


def test_stores_outside_are_dropped_in_each_call(tmp_path: Path) -> None:
    """Those of the second and third call as well: they may be the worker's own memory."""
    (tmp_path / "mine.py").write_text(OUTSIDE)
    case = ("--device", "gfx942", "--case", "m: 64, n: 64, k: 128, seed: 5")
    result = run_command("test", "amd-fp8-mm", "--submission", tmp_path / "mine.py", *case, cwd=ROOT, timeout=ENDS_S)
    assert "1 of 1 cases" in result.stdout and "bounds: writes" in result.stdout, result.stdout + result.stderr


def test_a_crash_without_checks_says_which_check_tells_more(tmp_path: Path) -> None:
    """A benchmark has none, so that stores outside end its process."""
    (tmp_path / "mine.py").write_text(OUTSIDE)
    case = ("--device", "gfx942", "--case", "m: 64, n: 64, k: 128, seed: 5")
    arguments = ("benchmark", "amd-fp8-mm", "--submission", tmp_path / "mine.py", *case)
    result = run_command(*arguments, cwd=ROOT, timeout=ENDS_S)
    assert "the process died of SIGSEGV" in result.stdout, result.stdout + result.stderr
    assert "--checks bounds says where" in result.stdout
    result = run_command(*arguments, "--checks", "bounds", cwd=ROOT, timeout=ENDS_S)
    assert "bounds: writes" in result.stdout and "says where" not in result.stdout, result.stdout + result.stderr


def test_names_of_checks(submission: Path) -> None:
    result = judge(submission, "--checks", "bounds,racing")
    assert result.returncode == 2
    assert "no check is called racing: all, none, or some of bounds, wait, race" in result.stderr


SUM = """
import torch, triton, triton.language as tl

@triton.jit
def total(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n, other=0)))

def custom_kernel(data):
    x, out = data
    if len(x) == 5:
        return torch.empty_like(out)
    if len(x) == 6:
        out.zero_()
    if len(x) == 7:
        out = torch.zeros_like(out)
    total[(1,)](x, out, x.numel(), B=64, num_warps=1)
    return out
"""
NOBODY = "unwritten: the judge reads 1 of the 1 elements of the output, and what"


def test_an_output_that_nobody_has_written(tmp_path: Path) -> None:
    """The input's room for the result is torch.empty's, as in GPU MODE's vectorsum: what is added to was 0 by luck."""
    reference = REFERENCE.replace(
        "return torch.randn(n,", "return torch.empty(1000, device='cuda')[:n].copy_(torch.randn(n,"
    )
    reference = reference.replace("generator=generator)\n", "generator=generator)), torch.empty(1, device='cuda')\n")
    task = TASK.replace("benchmarks:", "  - {n: 7, seed: 4}\nbenchmarks:")
    problem = write_problem(tmp_path / "problem", task, reference.replace("x * 2", "x[0].sum()[None]"))
    done, result = judge_json(tmp_path, SUM, problem=problem)
    assert statuses(result) == ["fail", "fail", "pass", "pass"], done.stdout
    found = [[one["text"] for one in case["report"].get("findings", [])] for case in result["cases"]]
    assert f"total on gfx942: {NOBODY}" in found[0][0] and NOBODY in found[1][0] and found[2:] == [[], []], found


ON_THE_HOST = """
import torch, triton, triton.language as tl
COUNTS = [torch.zeros(1, dtype=torch.int32, pin_memory=pinned) for pinned in (False, True)]

@triton.jit
def twice(x_ptr, y_ptr, count, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y_ptr + at, tl.load(x_ptr + at, at < n) * 2, at < n)
    tl.store(count.to(tl.pointer_type(tl.int32)), 1)

def custom_kernel(x):
    y = torch.empty_like(x)
    twice[(triton.cdiv(x.numel(), 64),)](x, y, COUNTS[len(x) not in (4, 7)].data_ptr(), x.numel(), 64)
    return y
"""


@pytest.mark.parametrize("mode, own", [("test", False), ("test", True), ("benchmark", False), ("benchmark", True)])
def test_what_would_end_the_program_on_a_card_is_no_pass(tmp_path: Path, mode: str, own: bool) -> None:
    """The outputs are right: a kernel counts in the host's memory, which faults on a card unless it is pinned."""
    problem, text = write_problem(tmp_path / "problem"), ON_THE_HOST
    if own:
        problem = other(tmp_path)
        text = text.replace("custom_kernel", "double") + "\ndef halve(x):\n    return x * 0.5\n"
    done, result = judge_json(tmp_path, text, mode, problem=problem)
    first, *others = statuses(result)
    assert done.returncode == 1 and first != "pass" and set(others) == {"pass"}, done.stdout
    assert ("a memory access fault on a card: " if mode == "test" else "") + "bounds: " in done.stdout
    assert "of the host's, which the card does not reach" in done.stdout
