"""The end of a memory-bound kernel with an fp8 output, in Triton: quantise, and clear a buffer on the way."""

import triton
import triton.language as tl


@triton.jit
def to_fp8(value, TYPE: tl.constexpr):
    """fp32 -> TYPE, to nearest with ties to even; beyond the type's largest value that value; NaN stays NaN.

    gfx942's conversion instruction gives NaN beyond it unless a mode bit is set, as some versions of Triton do: this
    does not rely on it. A clamp alone (v_med3_f32) would give a number for NaN.
    """
    LARGEST: tl.constexpr = 240.0 if TYPE == tl.float8e4b8 else 448.0
    return tl.where(value != value, value, tl.clamp(value, -LARGEST, LARGEST)).to(TYPE)


@triton.jit
def clear_in_turn(clear_ptr, n_clear, BLOCK: tl.constexpr):
    """Zero clear_ptr[0:n_clear], the workgroups of a one-dimensional grid a block each in turn."""
    for first in range(tl.program_id(0) * BLOCK, n_clear, tl.num_programs(0) * BLOCK):
        at = first + tl.arange(0, BLOCK)
        tl.store(clear_ptr + at, tl.zeros((BLOCK,), clear_ptr.dtype.element_ty), mask=at < n_clear)
