"""residual-rmsnorm-fp8's HIP kernel on the emulated card: the checks of the Triton variant, in its own fp8."""

from pathlib import Path

from tests.support.checks import run_checks
from tests.support.variant_tests import test_all, test_checks_find_nothing, test_no_kernel_spills  # noqa: F401

PROBLEM, STEM, VARIANT = "residual-rmsnorm-fp8", "residual_rmsnorm_fp8", "hip"
SPILLS_NOT = "residual_rmsnorm_fp8_kernel", 3


def test_other_orders(submission: Path) -> None:
    """Of workgroups and waves. Each launch of a process has an order of its own."""
    assert not (said := run_checks(STEM, submission, only="shapes and not 2047", CDNA_ORDER_SEED="3")), said
