"""swiglu-fp8's HIP kernel on the emulated card: the checks of the Triton variant, in its own fp8."""

from tests.support.hip_spills import spilled_in
from tests.support.variant_tests import test_all, test_checks_find_nothing, test_no_kernel_spills  # noqa: F401

PROBLEM, STEM, VARIANT = "swiglu-fp8", "swiglu_fp8", "hip"
SPILLS_NOT = "swiglu_fp8_kernel", 4


def test_what_spills_is_read_of_each_kernel() -> None:
    def metadata(name: str, *counts: int) -> str:
        scratch, scalar, vector = counts
        return (
            f"  - .name:           {name}\n    .private_segment_fixed_size: {scratch}\n    .sgpr_count:     12\n"
            f"    .sgpr_spill_count: {scalar}\n    .symbol:         {name}.kd\n    .vgpr_count:     9\n"
            f"    .vgpr_spill_count: {vector}\n"
        )

    text = metadata("a", 0, 0, 0) + metadata("b", 8, 0, 2) + metadata("c", 0, 0, 0) + metadata("d", 0, 3, 0)
    assert spilled_in(text) == {"a": 0, "b": 8, "c": 0, "d": 3}
