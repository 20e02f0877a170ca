"""trimul's HIP variant on an emulated MI300X, against its formula in float64."""

from tests.support.variant_tests import test_all, test_checks_find_nothing, test_no_kernel_spills  # noqa: F401

PROBLEM, STEM, VARIANT = "trimul", "trimul", "hip"
SPILLS_NOT = "_kernel", 11
