"""swiglu-fp8's Triton kernel on emulated cards of both archs, each with its own fp8."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.evaltools import checks_find_nothing, generate
from tests.support.gemm_submissions import altered, no_case_spills
from tests.support.llama_fp8 import run_checks

PROBLEM, STEM, VARIANT = "swiglu-fp8", "swiglu_fp8", "triton"


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(PROBLEM, VARIANT, tmp_path_factory.mktemp(STEM))


def test_all(submission: Path) -> None:
    assert not (said := run_checks(STEM, submission)), said


def test_ocp_fp8(submission: Path) -> None:
    only = "shapes and not 32768 or extreme or scales"
    assert not (said := run_checks(STEM, submission, "gfx950", only)), said


FAULTS = {
    "a store past the end": ("piece * LANE + one, out, mask=inside)", "piece * LANE + one, out)"),
    "clamped too early": ("LARGEST: tl.constexpr = 240.0", "LARGEST: tl.constexpr = 224.0"),
    "a number for NaN": ("value != value", "value == 12345"),
    "a row's ups taken from the next": ("gates + N + at", "gates + 2 * N + at"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(submission: Path, tmp_path: Path, fault: str) -> None:
    broken = altered(submission, tmp_path, dict([FAULTS[fault]]))
    assert "failed" in run_checks(STEM, broken, only="shapes and 520 or extreme")


def test_checks_find_nothing(submission: Path) -> None:
    checks_find_nothing(PROBLEM, submission)


def test_no_case_spills(tmp_path: Path) -> None:
    no_case_spills(PROBLEM, VARIANT, tmp_path, "swiglu_fp8_kernel", at_least=3)
