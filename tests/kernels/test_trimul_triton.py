"""trimul's Triton variant on an emulated MI300X, against its formula in float64."""

from tests.support.variant_tests import *  # noqa: F403

PROBLEM, STEM, VARIANT = "trimul", "trimul", "triton"
NOTICED_BY = "masks"


FAULTS = {
    "the mask left out of left": ("(left_sum * masked * ", "(left_sum * "),
    "the last k left out": ("inside = first + k < n\n", "inside = first + k < n - 1\n"),
    "the norm's epsilon for a product that is not divided": ("EPSILON / n / n", "EPSILON"),
    "the norm's bias left out": ("tl.sum(w * tl.load(norm_bias", "tl.sum(0 * w * tl.load(norm_bias"),
}  # fmt: skip
