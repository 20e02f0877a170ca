"""`eval.py test` on an emulated device shows what the checks find, and leaves the verdict alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.evaltools import ROOT, checks_find_nothing, generate, run_command
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
    assert "check: " not in judge(faulty, "--checks", "race").stdout


def test_names_of_checks(submission: Path) -> None:
    result = judge(submission, "--checks", "bounds,racing")
    assert result.returncode == 2
    assert "no check is called racing: all, none, or some of bounds, wait, race" in result.stderr
