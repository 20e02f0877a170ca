"""Plain Triton kernels for the two bandwidth-bound shapes of Hugging Face's MI300X kernels.

They do what those kernels do (huggingface/hf-rocm-kernels), in the obvious way: a row a workgroup, nothing
tuned. Their purpose is to have something whose published time the model can be held against.
"""

import torch
import triton
import triton.language as tl

FP8_MAX = tl.constexpr(240.0)  # of e4m3fnuz


@triton.jit
def residual_rmsnorm_fp8_kernel(  # type: ignore[no-untyped-def]
    x_ptr, residual_ptr, weight_ptr, out_ptr, inverse_scale, eps, N: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * N
    i = tl.arange(0, N)
    residual = tl.load(x_ptr + row + i) + tl.load(residual_ptr + row + i)  # fp16 [N]
    tl.store(residual_ptr + row + i, residual)
    wide = residual.to(tl.float32)
    r = tl.rsqrt(tl.sum(wide * wide) / N + eps)
    y = (wide * r).to(tl.float16) * tl.load(weight_ptr + i)
    scaled = tl.clamp(y.to(tl.float32) * inverse_scale, -FP8_MAX, FP8_MAX)
    tl.store(out_ptr + row + i, scaled.to(tl.float8e4b8))


def residual_rmsnorm_fp8(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, scale: float, eps: float
) -> torch.Tensor:
    """x, residual [rows, n] fp16 (residual is updated), weight [n] fp16 -> e4m3fnuz [rows, n]; n: a power of 2."""
    rows, n = x.shape
    out = torch.empty(rows, n, dtype=torch.float8_e4m3fnuz, device=x.device)
    residual_rmsnorm_fp8_kernel[(rows,)](x, residual, weight, out, 1 / scale, eps, N=n, num_warps=16)
    return out


@triton.jit
def swiglu_fp8_kernel(  # type: ignore[no-untyped-def]
    gate_up_ptr, out_ptr, inverse_scale, N: tl.constexpr, BLOCK: tl.constexpr
):
    row, i = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(gate_up_ptr + row * 2 * N + i, mask=i < N).to(tl.float32)
    up = tl.load(gate_up_ptr + row * 2 * N + N + i, mask=i < N).to(tl.float32)
    value = gate / (1 + tl.exp(-gate)) * up * inverse_scale
    out = tl.clamp(value, -FP8_MAX, FP8_MAX).to(tl.float8e4b8)
    tl.store(out_ptr + row * N + i, out, mask=i < N)


def swiglu_fp8(gate_up: torch.Tensor, scale: float) -> torch.Tensor:
    """gate_up [rows, 2 * n] fp16, a row's gates before its ups -> e4m3fnuz [rows, n]."""
    rows, n = gate_up.shape[0], gate_up.shape[1] // 2
    out = torch.empty(rows, n, dtype=torch.float8_e4m3fnuz, device=gate_up.device)
    block = 2048
    swiglu_fp8_kernel[(rows, triton.cdiv(n, block))](gate_up, out, 1 / scale, N=n, BLOCK=block, num_warps=4)
    return out
