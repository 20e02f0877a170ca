"""trimul's HIP variant on an emulated MI300X, against its formula in float64."""

from __future__ import annotations

from tests.support.variant_tests import *  # noqa: F403
from tests.support.variant_tests import test_no_kernel_spills  # noqa: F401

PROBLEM, STEM, VARIANT = "trimul", "trimul", "hip"
NOTICED_BY = "masks or test_shapes"
SPILLS_NOT = "_kernel", 11


FAULTS = {
    "the mask left out of left": ("at(0) * mask *", "at(0) *"),
    "the last k left out": ("load_left, load_right, 0, args.n,", "load_left, load_right, 0, args.n - 1,"),
    "the norm's epsilon for a product that is not divided": ("EPSILON / args.n / args.n", "EPSILON"),
    "columns past dim in the norm": ("first < dim ? 1.0f : 0.0f", "1.0f"),
    "pairs past n in a row's product": ("args.n * bytes),", "args.n * bytes + 64),"),
    "channels exchanged in LDS": ("chunk = pair * 8 + group / 4", "chunk = pair * 8 + (group / 4 ^ 1)"),
}  # fmt: skip
