"""amd-mxfp4-mm in Triton: c = MXFP4(a) @ MXFP4(b).T in one launch, a quantised inside.

Every workgroup quantises the rows of a that it needs: with at most 256 rows that is less work than writing codes and
reading them back, and it saves a launch. b's codes go from memory straight to the registers in which the matrix
instruction wants them: the shuffled layout is made for that.
"""

import torch
import triton
import triton.language as tl

from kernels.common.mxfp4 import load_mxfp4_weight, mxfp4_quantize
from kernels.common.split_k import split_k_workspace, store_sum_of_slices
from kernels.common.workgroup_order import xcd_contiguous
from kernels.mxfp4_mm.inputs import check_inputs
from kernels.mxfp4_mm.triton_gfx950_tuning import DEFAULT, TUNING

N_XCD = 8  # MI355X


@triton.jit
def mxfp4_mm_kernel(
    a_ptr,  # int32 [M][K/2], two bf16 each
    b_ptr,  # uint8 [N/16][K/64][2][16][16], codes
    b_scale_ptr,  # uint8, see load_mxfp4_weight
    c_ptr,  # bf16 [M][N]
    partial_ptr,  # fp32 [SPLIT_K][M][N], unused where SPLIT_K is 1
    arrived_ptr,  # int32 [tiles], zero between launches
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SPLIT_K: tl.constexpr,
    EVEN_K: tl.constexpr,
    XCDS: tl.constexpr,
):
    n_tiles_m = tl.cdiv(M, BLOCK_M)
    order = xcd_contiguous(tl.program_id(0), n_tiles_m * tl.cdiv(N, BLOCK_N) * SPLIT_K, XCDS)
    tile = order // SPLIT_K
    part = order % SPLIT_K
    tile_m = tile % n_tiles_m  # tiles that read the same columns of b run side by side on one XCD
    tile_n = tile // n_tiles_m

    n_blocks = tl.cdiv(K, BLOCK_K)
    first = part * n_blocks // SPLIT_K
    last = (part + 1) * n_blocks // SPLIT_K

    rm = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for block in range(first, last):
        pair = block * (BLOCK_K // 2) + tl.arange(0, BLOCK_K // 2)
        inside = rm[:, None] < M
        if not EVEN_K:
            inside = inside & (pair[None, :] < K // 2)
        pairs = tl.load(a_ptr + rm[:, None] * (K // 2) + pair[None, :], mask=inside, other=0)
        a, a_scale = mxfp4_quantize(pairs, BLOCK_M, BLOCK_K, TIES_AWAY=False)
        b, b_scale = load_mxfp4_weight(
            b_ptr, b_scale_ptr, tile_n * BLOCK_N, block * BLOCK_K, N, K, BLOCK_N, BLOCK_K, EVEN_K
        )
        acc = tl.dot_scaled(a, a_scale, "e2m1", b.T, b_scale, "e2m1", acc)

    inside = (rm[:, None] < M) & (rn[None, :] < N)
    offset = rm[:, None] * N + rn[None, :]
    store_sum_of_slices(acc, c_ptr, partial_ptr, arrived_ptr, offset, inside, M * N, tile, part, SPLIT_K)


def mxfp4_mm(a, b, b_scale, c, config):
    """Launch with the given row of the tuning table; shapes and dtypes as `custom_kernel` has checked them."""
    m, k = a.shape
    n = b.shape[0]
    split_k = min(config["SPLIT_K"], triton.cdiv(k, config["BLOCK_K"]))  # no slice without a block of k
    n_tiles = triton.cdiv(m, config["BLOCK_M"]) * triton.cdiv(n, config["BLOCK_N"])
    if split_k > 1:
        partial, arrived = split_k_workspace(a.device, split_k * m * n, n_tiles)
    else:
        partial = arrived = c  # not touched
    mxfp4_mm_kernel[(n_tiles * split_k,)](
        a.view(torch.int32),
        b.view(torch.uint8),
        b_scale.view(torch.uint8),
        c,
        partial,
        arrived,
        m,
        n,
        k,
        BLOCK_M=config["BLOCK_M"],
        BLOCK_N=config["BLOCK_N"],
        BLOCK_K=config["BLOCK_K"],
        SPLIT_K=split_k,
        EVEN_K=k % config["BLOCK_K"] == 0,
        XCDS=N_XCD,
        num_warps=config["num_warps"],
        num_stages=config["num_stages"],
    )
    return c


def custom_kernel(data):
    """(a, b, b_q, b_shuffle, b_scale_sh) -> c bf16 [M, N]; b and b_q are not read.

    a bf16 [M, K]; b_shuffle fp4x2 [N, K/2] and b_scale_sh e8m0 [N up to 256, K/32 up to 8], as reference/utils.py
    shuffles them. Any M, N a multiple of 16, K of 64.
    """
    a, _, _, b, b_scale = data
    check_inputs(a, b, b_scale)
    (m, k), n = a.shape, b.shape[0]
    c = torch.empty((m, n), dtype=torch.bfloat16, device=a.device)
    return mxfp4_mm(a, b, b_scale, c, TUNING.get((m, n, k), DEFAULT))
