"""amd-mixture-of-experts' Triton variant on an emulated MI300X, against float64 layers."""

from tests.support.variant_tests import *  # noqa: F403

PROBLEM, STEM, VARIANT = "amd-mixture-of-experts", "moe", "triton"
NOTICED_BY = "numbers_of_tokens and 3-5 or equal"


FAULTS = {
    "a group's last row left out": ("end - total + before", "end - total + before - 1"),
    "scores in fp32": (".to(tl.float16).to(tl.float32)\n\n    choice", "\n\n    choice"),
}
