"""trimul's Triton variant on an emulated MI300X, against its formula in float64."""

from tests.support.variant_tests import *  # noqa: F403

PROBLEM, STEM, VARIANT = "trimul", "trimul", "triton"
NOTICED_BY = "masks"


FAULTS = {
    "the mask left out of left": ("(left_sum * masked * ", "(left_sum * "),
    "the last k left out": ("inside = first + k < n\n", "inside = first + k < n - 1\n"),
}
