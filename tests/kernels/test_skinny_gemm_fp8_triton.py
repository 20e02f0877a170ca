"""skinny-gemm-fp8's Triton kernel on emulated cards of both archs, each with its own fp8."""

from pathlib import Path

from tests.support.checks import run_checks
from tests.support.variant_tests import *  # noqa: F403

PROBLEM, STEM, VARIANT = "skinny-gemm-fp8", "skinny_gemm_fp8", "triton"
NOTICED_BY = "test_slices and 3 or test_rows and 9"


def test_ocp_fp8(submission: Path) -> None:
    only = "test_rows and not table or zero or scales"
    assert not (said := run_checks(STEM, submission, "gfx950", only)), said


def test_other_orders(submission: Path) -> None:
    """Of workgroups and waves: whichever slice comes last. Each launch of a process has an order of its own."""
    assert not (said := run_checks(STEM, submission, only="slices", CDNA_ORDER_SEED="3")), said


FAULTS = {
    "a column past the end": ("inside = (row < M) & (column < N)", "inside = (row < M) & (column < N + 8)"),
    "the rest of k left out": ("= (K + BLOCK_K - 1) // BLOCK_K", "= K // BLOCK_K"),
}
