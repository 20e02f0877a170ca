"""swiglu-fp8's HIP kernel on the emulated card: the checks of the Triton variant, in its own fp8."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.evaltools import checks_find_nothing, generate
from tests.support.gemm_submissions import altered, no_case_spills
from tests.support.llama_fp8 import run_checks

PROBLEM, STEM, VARIANT = "swiglu-fp8", "swiglu_fp8", "hip"


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory, hip_compiler: None) -> Path:
    return generate(PROBLEM, VARIANT, tmp_path_factory.mktemp(STEM))


def test_all(submission: Path) -> None:
    assert not (said := run_checks(STEM, submission)), said


FAULTS = {
    "a store past the row": ("(out + row * n, n)", "(out + row * n, 1u << 20)"),
    "clamped too early": ("FP8_LARGEST = 240.0f", "FP8_LARGEST = 224.0f"),
    "a number for NaN": ("KEEP_NAN && x != x", "false"),
    "a NaN that nobody looks for": ("__any(all != all)", "all != all && all == 0"),
    "a row's ups taken from the next": ("make_buffer(gates + n,", "make_buffer(gates + 2 * n,"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(submission: Path, tmp_path: Path, fault: str) -> None:
    broken = altered(submission, tmp_path, dict([FAULTS[fault]]))
    assert "failed" in run_checks(STEM, broken, only="shapes and 520 or extreme")


def test_checks_find_nothing(submission: Path) -> None:
    checks_find_nothing(PROBLEM, submission)


def test_no_case_spills(tmp_path: Path, hip_compiler: None) -> None:
    no_case_spills(PROBLEM, VARIANT, tmp_path, "swiglu_fp8_kernel", at_least=4)
