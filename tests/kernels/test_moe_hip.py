"""amd-mixture-of-experts' HIP variant on an emulated MI300X, against float64 layers."""

from tests.support.variant_tests import test_all, test_checks_find_nothing, test_no_kernel_spills  # noqa: F401

PROBLEM, STEM, VARIANT = "amd-mixture-of-experts", "moe", "hip"
SPILLS_NOT = "gate_up_kernel", 1
