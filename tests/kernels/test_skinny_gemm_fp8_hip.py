"""skinny-gemm-fp8's HIP kernel on the emulated card: the checks of the Triton variant, in its own fp8."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.evaltools import checks_find_nothing, generate
from tests.support.gemm_submissions import altered, no_case_spills
from tests.support.llama_fp8 import run_checks

PROBLEM, STEM, VARIANT = "skinny-gemm-fp8", "skinny_gemm_fp8", "hip"


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory, hip_compiler: None) -> Path:
    return generate(PROBLEM, VARIANT, tmp_path_factory.mktemp(STEM))


def test_all(submission: Path) -> None:
    assert not (said := run_checks(STEM, submission)), said


@pytest.mark.parametrize("seed", ["3", "4"])
def test_other_orders(submission: Path, seed: str) -> None:
    """Of workgroups and waves: whichever slice comes last."""
    assert not (said := run_checks(STEM, submission, only="slices", CDNA_ORDER_SEED=seed)), said


FAULTS = {
    "a column past the end": ("column + i < n", "column + i < n + 2"),
    "the next row's k": ("step < last && at_k < k", "step < last"),
    "the next slice's k": ("step < last && at_k < k", "at_k < k"),
    "a slice left out": ("slices * slice_bytes);", "(slices - 1) * slice_bytes);"),
    "a wave left out": ("other < WAVES", "other < WAVES - 1"),
    "counters not reset": ("reset_arrivals(arrived + tile);", ""),
    "another k of a than of b": ("words.a[j][i] = __builtin_amdgcn_raw_buffer_load_b128(a[i], at, at_k,",
                                 "words.a[j][i] = __builtin_amdgcn_raw_buffer_load_b128(a[i], at ^ 16, at_k,"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(submission: Path, tmp_path: Path, fault: str) -> None:
    broken = altered(submission, tmp_path, dict([FAULTS[fault]]))
    assert "failed" in run_checks(STEM, broken, only="test_slices and 3 or test_rows and 9 or test_shapes")


def test_checks_find_nothing(submission: Path) -> None:
    checks_find_nothing(PROBLEM, submission)


def test_no_case_spills(tmp_path: Path, hip_compiler: None) -> None:
    no_case_spills(PROBLEM, VARIANT, tmp_path, "skinny_gemm_fp8_kernel", at_least=4)
