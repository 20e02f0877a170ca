"""residual-rmsnorm-fp8's HIP kernel on the emulated card: the checks of the Triton variant, in its own fp8."""

from pathlib import Path

from tests.support.checks import run_checks
from tests.support.variant_tests import *  # noqa: F403
from tests.support.variant_tests import test_no_kernel_spills  # noqa: F401

PROBLEM, STEM, VARIANT = "residual-rmsnorm-fp8", "residual_rmsnorm_fp8", "hip"
NOTICED_BY = "shapes and 520 or extreme or weight"
SPILLS_NOT = "residual_rmsnorm_fp8_kernel", 3


def test_other_orders(submission: Path) -> None:
    """Of workgroups and waves. Each launch of a process has an order of its own."""
    assert not (said := run_checks(STEM, submission, only="shapes and not 2047", CDNA_ORDER_SEED="3")), said


FAULTS = {
    "a store past the row": ("make_buffer(out + row, hidden)", "make_buffer(out + row, 1u << 20)"),
    "clamped too early": ("FP8_LARGEST = 240.0f", "FP8_LARGEST = 224.0f"),
    "a number for NaN": ("KEEP_NAN && x != x", "false"),
    "a NaN of the weight that nobody looks for": ("&& no_number == 0", ""),
    "a wave left out of the sum": ("n_sums = threads / 16", "n_sums = threads / 16 - 4"),
    "rounded once": ("product_as_f16(as_f16x2(residual[i]), r) * as_f16x2(weight[i])",
                     "product_as_f16(as_f16x2(residual[i]) * as_f16x2(weight[i]), r)"),
}  # fmt: skip
