"""trimul's HIP variant on an emulated MI300X, against its formula in float64."""

from tests.support.variant_tests import *  # noqa: F403
from tests.support.variant_tests import test_no_kernel_spills  # noqa: F401

PROBLEM, STEM, VARIANT = "trimul", "trimul", "hip"
NOTICED_BY = "masks or test_shapes"
SPILLS_NOT = "_kernel", 11


FAULTS = {
    "the mask left out of left": ("pack_f16(masked(0, i, turn) *", "pack_f16(result(0, i) *"),
    "the last k left out": ("load_left, load_right, 0, args.n,", "load_left, load_right, 0, args.n - 1,"),
    "the norm's epsilon for a product that is not divided": ("EPSILON / args.n / args.n", "EPSILON"),
    "columns past dim in the norm": ("column + j * 64 < dim ? 1.0f : 0.0f", "1.0f"),
    "pairs past n in a row's product": ("? args.n * each : 0", "? args.n * each + 64 : 0"),
    "channels exchanged in LDS": ("chunk = pair * 8 + group / 4", "chunk = pair * 8 + (group / 4 ^ 1)"),
}  # fmt: skip
