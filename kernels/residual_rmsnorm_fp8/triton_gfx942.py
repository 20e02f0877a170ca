"""residual-rmsnorm-fp8 in Triton: residual addition, RMS norm and quantisation in one pass over memory.

    residual = x + residual                         fp16, written back
    r        = rsqrt(mean(residual^2) + eps)        fp32, of each row
    y        = fp16(residual * r) * weight          product in fp32, rounded; product in fp16
    out      = fp8(clamp(y * (1 / scale)))          fp32; to the type's largest value; to nearest, ties to even

A workgroup takes a row and keeps it in registers between the sum and the scaling, so each element is read once and
written once: 7 bytes. A lane reads and writes 8 neighbouring elements at a time, 16 bytes of fp16 and 8 of fp8: with 16
elements for the sake of 16-byte stores of fp8, the residual would have to change its layout through LDS.
"""

import torch
import triton
import triton.language as tl

from kernels.common.fp8_checks import FP8_TYPES
from kernels.common.fp8_quantise import clear_in_turn, to_fp8
from kernels.residual_rmsnorm_fp8.host import check_inputs, register_operator
from kernels.residual_rmsnorm_fp8.triton_gfx942_tuning import DEFAULT, TUNING


@triton.jit
def residual_rmsnorm_fp8_kernel(
    x_ptr,  # fp16 [rows][N]
    residual_ptr,  # fp16 [rows][N], updated
    weight_ptr,  # fp16 [N]
    scale_ptr,  # fp32 [1]
    out_ptr,  # fp8 [rows][N]
    clear_ptr,  # [n_clear] of any type, zeroed; or None
    eps,
    n_clear,
    N: tl.constexpr,  # a multiple of 8
    BLOCK: tl.constexpr,  # N rounded up to a power of two
):
    row = tl.program_id(0).to(tl.int64) * N
    eight = tl.arange(0, BLOCK // 8)[:, None]
    column = eight * 8 + tl.arange(0, 8)[None, :]
    inside = eight < N // 8
    # ".cg": non-temporal on AMD. x is not read again, the residual only after it has been written.
    x = tl.load(x_ptr + row + column, mask=inside, other=0.0, cache_modifier=".cg")
    residual = tl.load(residual_ptr + row + column, mask=inside, other=0.0, cache_modifier=".cg")
    weight = tl.load(weight_ptr + column, mask=inside, other=0.0)
    inverse_scale = tl.div_rn(1.0, tl.load(scale_ptr))
    residual += x
    tl.store(residual_ptr + row + column, residual, mask=inside)
    wide = residual.to(tl.float32)
    r = tl.rsqrt(tl.sum(wide * wide) * (1 / N) + eps)
    y = (wide * r).to(tl.float16) * weight
    out = to_fp8(y.to(tl.float32) * inverse_scale, out_ptr.dtype.element_ty)
    tl.store(out_ptr + row + column, out, mask=inside)
    if clear_ptr is not None:
        clear_in_turn(clear_ptr, n_clear, 1024)


def residual_rmsnorm_fp8(x, residual, weight, scale, eps, clear=None, fp8=torch.float8_e4m3fnuz):
    """out: fp8 [rows, hidden]; residual is updated in place, and clear, if given, zeroed.

    x, residual fp16 [rows, hidden], weight fp16 [hidden], scale fp32 [1], eps a float; contiguous, on the current GPU;
    hidden a multiple of 8 up to 32768. clear: a contiguous tensor of any type, such as the buffer in which the next
    GEMM sums. fp8: e4m3fnuz, or OCP's e4m3fn for GPUs that have that. ValueError before anything is launched otherwise.
    """
    check_inputs(x, residual, weight, scale, clear, fp8, FP8_TYPES)
    rows, hidden = x.shape
    config = TUNING.get((min(triton.next_power_of_2(rows), 2048), hidden), DEFAULT)
    block = triton.next_power_of_2(hidden)
    out = torch.empty(x.shape, dtype=fp8, device=x.device)
    residual_rmsnorm_fp8_kernel[(rows,)](
        x,
        residual,
        weight,
        scale,
        out,
        clear,
        eps,
        0 if clear is None else clear.numel(),
        N=hidden,
        BLOCK=block,
        num_warps=min(max(block // (64 * config["LANE"]), 1), 16),
    )
    return out


register_operator(residual_rmsnorm_fp8)


def custom_kernel(data):
    """x, residual fp16 [rows, hidden], weight fp16 [hidden], scale fp32 [1], eps -> (out e4m3fnuz, residual)."""
    x, residual, weight, scale, eps = data
    return residual_rmsnorm_fp8(x, residual, weight, scale, eps), residual
