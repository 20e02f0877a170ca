"""amd-fp8-mm in Triton, on NVIDIA's GPUs: for trying the problem there, not for speed.

Their matrix units read no e4m3fnuz. fp16 holds each of its values exactly, so tiles are multiplied as fp16.
"""

import torch
import triton
import triton.language as tl

from kernels.common.workgroup_order import grouped_rows

SCALE_BLOCK = 128  # k (and n, for b) covered by one scale
BLOCK_M, BLOCK_N, GROUP_M = 64, 128, 4


@triton.jit
def as_fp16(x):
    """Bytes of e4m3fnuz as fp16. fnuz has exponent bias 8 and fp16 15: the byte's fields shifted into fp16's place are
    2^-7 of the value. 0x80 is NaN."""
    bits = x.to(tl.uint16)
    value = (((bits & 0x80) << 8) | ((bits & 0x7F) << 7)).to(tl.float16, bitcast=True) * 128.0
    return tl.where(bits == 0x80, float("nan"), value).to(tl.float16)


@triton.jit
def fp8_mm_kernel(
    a_ptr,  # e4m3fnuz as bytes [K][M]
    b_ptr,  # likewise [K][N]
    a_scale_ptr,  # fp32 [K/128][M]
    b_scale_ptr,  # fp32 [K/128][ceil(N/128)]
    c_ptr,  # bf16 [M][N]
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    tl.static_assert(128 % BLOCK_N == 0)
    tile_m, tile_n = grouped_rows(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    rm = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, 128)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for block in range(K // 128):
        a = tl.load(a_ptr + (block * 128 + rk)[None, :] * M + rm[:, None], mask=rm[:, None] < M, other=0)
        b = tl.load(b_ptr + (block * 128 + rk)[:, None] * N + rn[None, :], mask=rn[None, :] < N, other=0)
        a_scale = tl.load(a_scale_ptr + block * M + rm, mask=rm < M, other=0.0)
        b_scale = tl.load(b_scale_ptr + block * tl.cdiv(N, 128) + tile_n * BLOCK_N // 128)
        acc += tl.dot(as_fp16(a), as_fp16(b)) * (a_scale * b_scale)[:, None]
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc.to(tl.bfloat16), mask=(rm[:, None] < M) & (rn[None, :] < N))


def custom_kernel(data):
    """a [M, K], b [N, K] fp8 e4m3fnuz column-major; a_scale [M, K/128], b_scale [ceil(N/128), K/128] fp32 column-major;
    c [M, N] bf16 row-major, written and returned. K is a multiple of 128."""
    a, b, a_scale, b_scale, c = data
    (m, k), n = a.shape, b.shape[0]
    if k % SCALE_BLOCK:
        raise ValueError(f"K must be a multiple of {SCALE_BLOCK}, got {k=}")
    grid = (triton.cdiv(m, BLOCK_M) * triton.cdiv(n, BLOCK_N),)
    a, b = a.view(torch.uint8), b.view(torch.uint8)
    fp8_mm_kernel[grid](a, b, a_scale, b_scale, c, m, n, k, BLOCK_M, BLOCK_N, GROUP_M, num_warps=4, num_stages=3)
    return c
