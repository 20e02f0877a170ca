"""skinny-gemm-fp8 in Triton: c = (a @ b.T) * scale for at most 32 rows of a, one launch.

The weight b is the row operand of the matrix instruction and a, padded to 16 or 32 rows, the column operand: waves
divide the columns of c among them instead of repeating each other's work. Rows past the end of a and b are read from
the last row and not stored.

k is cut into SPLIT_K slices, so that few columns fill the card too. Slices leave fp32 partial sums in memory, the one
that arrives last adds them in slice order: no output to be zeroed before, and two runs give the same bits.
"""

import torch
import triton
import triton.language as tl

from kernels.common.fp8_checks import FP8_TYPES
from kernels.common.split_k import split_k_workspace, store_sum_of_slices
from kernels.skinny_gemm_fp8.host import check_inputs, register_operator, split_k
from kernels.skinny_gemm_fp8.triton_gfx942_tuning import DEFAULT, TUNING


@triton.jit
def skinny_gemm_fp8_kernel(
    a_ptr,  # fp8 [M][K]
    b_ptr,  # fp8 [N][K], of the same type
    scale_ptr,  # fp32 [1]
    c_ptr,  # fp16 [M][N]
    partial_ptr,  # fp32 [SPLIT_K][M][N], unused where SPLIT_K is 1
    arrived_ptr,  # int32 [tiles], zero between launches; likewise
    M,
    N,
    K: tl.constexpr,  # a multiple of 64
    BLOCK_M: tl.constexpr,  # M <= BLOCK_M
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SPLIT_K: tl.constexpr,
    kpack: tl.constexpr,  # an option of Triton's AMD backend by its name: 2 reads LDS 16 bytes a lane
):
    tile = tl.program_id(0) // SPLIT_K
    part = tl.program_id(0) % SPLIT_K
    first_column = tile * BLOCK_N
    BLOCKS: tl.constexpr = (K + BLOCK_K - 1) // BLOCK_K
    first = part * BLOCKS // SPLIT_K
    last = (part + 1) * BLOCKS // SPLIT_K

    rm = tl.minimum(tl.arange(0, BLOCK_M), M - 1)
    rn = tl.minimum(first_column + tl.arange(0, BLOCK_N), N - 1) - first_column
    rk = tl.arange(0, BLOCK_K)
    a_tile = a_ptr + first * BLOCK_K
    b_tile = b_ptr + first_column.to(tl.int64) * K + first * BLOCK_K
    a_at = rk[:, None] + rm[None, :] * K
    b_at = rn[:, None] * K + rk[None, :]
    scale = tl.load(scale_ptr)
    acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    for block in range(first, last):
        # ".cg": non-temporal on AMD. Of the weight nothing is read twice.
        if K % BLOCK_K == 0:
            a = tl.load(a_tile + a_at)
            b = tl.load(b_tile + b_at, cache_modifier=".cg")
        else:
            inside = rk < K - block * BLOCK_K
            a = tl.load(a_tile + a_at, mask=inside[:, None], other=0.0)
            b = tl.load(b_tile + b_at, mask=inside[None, :], other=0.0, cache_modifier=".cg")
        acc = tl.dot(b, a, acc)
        a_tile += BLOCK_K
        b_tile += BLOCK_K

    row = tl.arange(0, BLOCK_M)[:, None]
    column = first_column + tl.arange(0, BLOCK_N)[None, :]
    inside = (row < M) & (column < N)
    acc = tl.trans(acc) * scale
    store_sum_of_slices(acc, c_ptr, partial_ptr, arrived_ptr, row * N + column, inside, M * N, tile, part, SPLIT_K)


def table_row(m, n, k):
    """The row for a [m, k] and b [n, k], with a SPLIT_K that is not 0."""
    row = TUNING.get((16 if m <= 16 else 32, n, k), DEFAULT)
    if row["SPLIT_K"]:
        return row
    return {**row, "SPLIT_K": split_k(triton.cdiv(n, row["BLOCK_N"]), k, row["BLOCK_K"])}


def skinny_gemm_fp8(a, b, scale):
    """c = (a @ b.T) * scale: fp16 [m, n], summed in fp32 and rounded once.

    a fp8 [m, k] with m at most 32, b [n, k] of the same type (e4m3fnuz, or OCP's e4m3fn on GPUs that have that), scale
    fp32 [1]; contiguous, on the current GPU; k a multiple of 64. ValueError before anything is launched otherwise.
    """
    m, n, k = check_inputs(a, b, scale, FP8_TYPES)
    row = table_row(m, n, k)
    n_tiles = triton.cdiv(n, row["BLOCK_N"])
    c = torch.empty((m, n), dtype=torch.float16, device=a.device)
    partial = arrived = None
    if row["SPLIT_K"] > 1:
        partial, arrived = split_k_workspace(a.device, row["SPLIT_K"] * m * n, n_tiles)
    skinny_gemm_fp8_kernel[(n_tiles * row["SPLIT_K"],)](
        a, b, scale, c, partial, arrived, m, n, K=k, BLOCK_M=16 if m <= 16 else 32, kpack=2, **row
    )
    return c


def tuning_row(data):
    """The row that custom_kernel(data) uses."""
    a, b, _ = data
    return table_row(a.shape[0], *b.shape)


register_operator(skinny_gemm_fp8)


def custom_kernel(data):
    """a e4m3fnuz [m, k], b e4m3fnuz [n, k], scale fp32 [1] -> c fp16 [m, n]."""
    return skinny_gemm_fp8(*data)
