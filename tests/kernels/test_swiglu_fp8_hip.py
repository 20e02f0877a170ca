"""swiglu-fp8's HIP kernel on the emulated card: the checks of the Triton variant, in its own fp8."""

from __future__ import annotations

from tests.support.variant_tests import (  # noqa: F401
    test_all,
    test_checks_find_nothing,
    test_faults_are_noticed,
    test_no_case_spills,
)

PROBLEM, STEM, VARIANT = "swiglu-fp8", "swiglu_fp8", "hip"
NOTICED_BY = "shapes and 520 or extreme"
SPILLS_NOT = "swiglu_fp8_kernel", 4


FAULTS = {
    "a store past the row": ("(out + row * n, n)", "(out + row * n, 1u << 20)"),
    "clamped too early": ("FP8_LARGEST = 240.0f", "FP8_LARGEST = 224.0f"),
    "a number for NaN": ("KEEP_NAN && x != x", "false"),
    "a NaN that nobody looks for": ("__any(all != all)", "all != all && all == 0"),
    "a row's ups taken from the next": ("make_buffer(gates + n,", "make_buffer(gates + 2 * n,"),
}  # fmt: skip
