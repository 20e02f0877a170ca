"""`eval.py test` on an emulated device shows what the checks find, and leaves the verdict alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
STORE = "acc.to(tl.bfloat16), mask=inside)"
# Looks at the element behind the result's last one: the right answer, after a read of memory that is nobody's.
BEHIND = "tl.where(tl.load(c_ptr + M * N).to(tl.int16, bitcast=True) == 0x4321, 1e-6, 0.0)"
FAULTY = f"(acc + {BEHIND}).to(tl.bfloat16), mask=inside)"



def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("checks") / "submission.py"
    made = run("gen_submission.py", "amd-fp8-mm", "-o", str(file))
    assert made.returncode == 0, made.stderr
    return file


def judge(file: Path, *more: str) -> subprocess.CompletedProcess[str]:
    chosen = ("--device", "gfx942", "--cases", "0,3")
    return run("eval.py", "test", "amd-fp8-mm", "--submission", str(file), *chosen, *more)


def test_our_kernel_has_no_finding(submission: Path) -> None:
    result = judge(submission)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "check:" not in result.stdout


def test_a_finding_is_shown_and_changes_no_verdict(submission: Path) -> None:
    text = submission.read_text()
    assert STORE in text
    faulty = submission.with_name("faulty.py")
    faulty.write_text(text.replace(STORE, FAULTY))
    result = judge(faulty)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "check: " in result.stdout
    assert "bounds: reads 2 bytes at 0x" in result.stdout
    assert "0 bytes past the end of `c_ptr` (bf16[64x64])" in result.stdout
    assert "findings of the device's checks" in result.stdout
    assert "check: " not in judge(faulty, "--checks", "none").stdout
    assert "check: " not in judge(faulty, "--checks", "race").stdout


def test_names_of_checks(submission: Path) -> None:
    result = judge(submission, "--checks", "bounds,racing")
    assert result.returncode == 2
    assert "no check is called racing: all, none, or some of bounds, wait, race" in result.stderr
