"""skinny-gemm-fp8's Triton kernel on emulated cards of both archs, each with its own fp8."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.evaltools import checks_find_nothing, generate
from tests.support.gemm_submissions import altered, no_case_spills
from tests.support.llama_fp8 import run_checks

PROBLEM, STEM, VARIANT = "skinny-gemm-fp8", "skinny_gemm_fp8", "triton_gfx942"


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(PROBLEM, VARIANT, tmp_path_factory.mktemp(STEM))


def test_all(submission: Path) -> None:
    assert not (said := run_checks(STEM, submission)), said


def test_ocp_fp8(submission: Path) -> None:
    only = "test_rows or zero or scales"
    assert not (said := run_checks(STEM, submission, "gfx950", only)), said


@pytest.mark.parametrize("seed", ["3", "4"])
def test_other_orders(submission: Path, seed: str) -> None:
    """Of workgroups and waves: whichever slice comes last."""
    assert not (said := run_checks(STEM, submission, only="slices", CDNA_ORDER_SEED=seed)), said


FAULTS = {
    "a column past the end": ("inside = (row < M) & (column < N)", "inside = (row < M) & (column < N + 8)"),
    "the rest of k left out": ("= (K + BLOCK_K - 1) // BLOCK_K", "= K // BLOCK_K"),
    "a slice left out": ("for other in range(SPLIT_K):", "for other in range(SPLIT_K - 1):"),
    "counters not reset": ("tl.store(arrived_ptr + tile, 0)", "pass"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(submission: Path, tmp_path: Path, fault: str) -> None:
    broken = altered(submission, tmp_path, dict([FAULTS[fault]]))
    assert "failed" in run_checks(STEM, broken, only="test_slices and 3 or test_rows and 9")


def test_checks_find_nothing(submission: Path) -> None:
    checks_find_nothing(PROBLEM, submission)


def test_no_case_spills(tmp_path: Path) -> None:
    no_case_spills(PROBLEM, VARIANT, tmp_path, "skinny_gemm_fp8_kernel", at_least=8)
