"""skinny-gemm-fp8's HIP kernel on the emulated card: the checks of the Triton variant, in its own fp8."""

from pathlib import Path

from tests.support.checks import run_checks
from tests.support.variant_tests import *  # noqa: F403
from tests.support.variant_tests import test_no_kernel_spills  # noqa: F401

PROBLEM, STEM, VARIANT = "skinny-gemm-fp8", "skinny_gemm_fp8", "hip"
NOTICED_BY = "test_slices and 3 or test_rows and 9 or test_shapes"
SPILLS_NOT = "skinny_gemm_fp8_kernel", 4
QUICK_FAULTS = 0  # its compilation takes longest


def test_other_orders(submission: Path) -> None:
    """Of workgroups and waves: whichever slice comes last. Each launch of a process has an order of its own."""
    assert not (said := run_checks(STEM, submission, only="slices", CDNA_ORDER_SEED="3")), said


FAULTS = {
    "a column past the end": ("column + i < n", "column + i < n + 2"),
    "the next row's k": ("step < last && at_k < k", "step < last"),
    "the next slice's k": ("step < last && at_k < k", "at_k < k"),
    "a slice left out": ("slices * slice_bytes);", "(slices - 1) * slice_bytes);"),
    "a wave left out": ("other < WAVES", "other < WAVES - 1"),
    "another row's words": ("place(lane % 16, lane / 16)", "place(lane % 16 ^ 1, lane / 16)"),
    "counters not reset": ("reset_arrivals(arrived + tile);", ""),
    "another k of a than of b": ("words.a[j][i] = __builtin_amdgcn_raw_buffer_load_b128(a[i], at, at_k,",
                                 "words.a[j][i] = __builtin_amdgcn_raw_buffer_load_b128(a[i], at ^ 16, at_k,"),
}  # fmt: skip
