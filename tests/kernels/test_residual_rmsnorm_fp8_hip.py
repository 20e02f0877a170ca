"""residual-rmsnorm-fp8's HIP kernel on the emulated card: the checks of the Triton variant, in its own fp8."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.evaltools import checks_find_nothing, generate
from tests.support.gemm_submissions import altered, no_case_spills
from tests.support.llama_fp8 import run_checks

PROBLEM, STEM, VARIANT = "residual-rmsnorm-fp8", "residual_rmsnorm_fp8", "hip"


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory, hip_compiler: None) -> Path:
    return generate(PROBLEM, VARIANT, tmp_path_factory.mktemp(STEM))


def test_all(submission: Path) -> None:
    assert not (said := run_checks(STEM, submission)), said


@pytest.mark.parametrize("seed", ["3", "4"])
def test_other_orders(submission: Path, seed: str) -> None:
    """Of workgroups and waves."""
    assert not (said := run_checks(STEM, submission, only="shapes and not 2047", CDNA_ORDER_SEED=seed)), said


FAULTS = {
    "a store past the row": ("make_buffer(out + row, hidden)", "make_buffer(out + row, 1u << 20)"),
    "clamped too early": ("FP8_LARGEST = 240.0f", "FP8_LARGEST = 224.0f"),
    "a number for NaN": ("KEEP_NAN && x != x", "false"),
    "a NaN of the weight that nobody looks for": ("&& no_number == 0", ""),
    "a wave left out of the sum": ("n_sums = threads / 16", "n_sums = threads / 16 - 4"),
    "rounded once": ("product_as_f16(as_f16x2(residual[i]), r) * as_f16x2(weight[i])",
                     "product_as_f16(as_f16x2(residual[i]) * as_f16x2(weight[i]), r)"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(submission: Path, tmp_path: Path, fault: str) -> None:
    broken = altered(submission, tmp_path, dict([FAULTS[fault]]))
    assert "failed" in run_checks(STEM, broken, only="shapes and 520 or extreme or weight")


def test_checks_find_nothing(submission: Path) -> None:
    checks_find_nothing(PROBLEM, submission)


def test_no_case_spills(tmp_path: Path, hip_compiler: None) -> None:
    no_case_spills(PROBLEM, VARIANT, tmp_path, "residual_rmsnorm_fp8_kernel", at_least=3)
