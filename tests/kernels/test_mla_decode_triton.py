"""amd-mla-decode's Triton variant on an emulated MI300X, against float64 attention with the reference's rotation."""

from tests.support.variant_tests import *  # noqa: F403

PROBLEM, STEM, VARIANT = "amd-mla-decode", "mla_decode", "triton"
NOTICED_BY = "lengths and 33 or bit_by_bit"


FAULTS = {
    "the last key left out": ("position[None, :] < length,", "position[None, :] < length - 1,"),
    "splits that weigh the same": ("weight = tl.exp2(tl.load(lse_ptr + place) - top)", "weight = tl.exp2(top - top)"),
}
