"""amd-fp8-mm in Triton: block-scaled fp8 GEMM, one launch, no transpose pass.

c[m, n] = sum over kb of a_scale[m, kb] * b_scale[n // 128, kb] * dot(a[m, kb*128 : kb*128+128], b[n, same])

a [M, K] and b [N, K] come column-major (m resp. n contiguous) while the matrix instruction wants 8 consecutive k in
a lane. Tiles are read along m and n, 16 bytes a lane, and turned in registers on the way to LDS: Triton's in-thread
transpose, on by default for gfx942. A separate transpose costs the published solutions 2.6 to 21.6 us a call.

Each 128-wide scale block is one native fp8 dot into fresh accumulators, which then enter the fp32 result with the
product of both scales. A workgroup's columns lie in one 128-block, so b's scale is a scalar.
"""

from dataclasses import dataclass

import triton
import triton.language as tl

from kernels.common.split_k import split_k_workspace, store_sum_of_slices
from kernels.common.workgroup_order import grouped_rows, xcd_contiguous
from kernels.fp8_mm.triton_gfx942_tuning import DEFAULT, TUNING

XCDS = tl.constexpr(8)  # MI300X
SCALE_BLOCK = 128  # k (and n, for b) covered by one scale


@dataclass(frozen=True)
class Tile:
    """What a kernel is compiled for: columns of a row of the tuning table, and whether tiles cover M and N exactly."""

    BLOCK_M: int
    BLOCK_N: int
    BLOCK_K: int
    GROUP_M: int
    SPLIT_K: int
    EVEN_M: bool
    EVEN_N: bool


@triton.jit
def fp8_mm_kernel(
    a_ptr,  # fp8 [K][M]
    b_ptr,  # fp8 [K][N]
    a_scale_ptr,  # fp32 [K/128][M]
    b_scale_ptr,  # fp32 [K/128][N_SCALES], N_SCALES = ceil(N/128)
    c_ptr,  # bf16 [M][N]
    partial_ptr,  # fp32 [SPLIT_K][M][N], unused where SPLIT_K is 1
    arrived_ptr,  # int32 [tiles], zero between launches
    M,
    N,
    K,
    N_SCALES,
    T: tl.constexpr,  # Tile
):
    BLOCK_M: tl.constexpr = T.BLOCK_M
    BLOCK_N: tl.constexpr = T.BLOCK_N
    BLOCK_K: tl.constexpr = T.BLOCK_K
    SPLIT_K: tl.constexpr = T.SPLIT_K
    tl.static_assert(128 % BLOCK_K == 0 and 128 % BLOCK_N == 0)
    n_tiles_m = tl.cdiv(M, BLOCK_M)
    n_tiles_n = tl.cdiv(N, BLOCK_N)
    order = xcd_contiguous(tl.program_id(0), n_tiles_m * n_tiles_n * SPLIT_K, XCDS)
    tile = order // SPLIT_K  # the slices of one tile run side by side on one XCD
    part = order % SPLIT_K
    tile_m, tile_n = grouped_rows(tile, n_tiles_m, n_tiles_n, T.GROUP_M)

    n_blocks = K // 128
    first = part * n_blocks // SPLIT_K
    last = (part + 1) * n_blocks // SPLIT_K

    rm = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    a_offset = rk[None, :] * M + rm[:, None]
    b_offset = rk[:, None] * N + rn[None, :]
    scale_n = tile_n * BLOCK_N // 128

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for block in range(first, last):
        if T.EVEN_M:
            a_scale = tl.load(a_scale_ptr + block * M + rm)
        else:
            a_scale = tl.load(a_scale_ptr + block * M + rm, mask=rm < M, other=0.0)
        b_scale = tl.load(b_scale_ptr + block * N_SCALES + scale_n)
        products = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for inner in tl.static_range(0, 128, BLOCK_K):
            a_tile = a_ptr + (block * 128 + inner) * M
            b_tile = b_ptr + (block * 128 + inner) * N
            if T.EVEN_M:
                a = tl.load(a_tile + a_offset)
            else:
                a = tl.load(a_tile + a_offset, mask=rm[:, None] < M, other=0.0)
            if T.EVEN_N:
                b = tl.load(b_tile + b_offset)
            else:
                b = tl.load(b_tile + b_offset, mask=rn[None, :] < N, other=0.0)
            products = tl.dot(a, b, products)
        acc += products * (a_scale * b_scale)[:, None]

    if SPLIT_K == 1:
        # As the matrix unit leaves it, eight neighbouring lanes have eight rows, and the L1 takes them one by one. Of a
        # flat tile Triton stores whole lines, by way of LDS.
        at = tl.arange(0, BLOCK_M * BLOCK_N)
        row = tile_m * BLOCK_M + at // BLOCK_N
        column = tile_n * BLOCK_N + at % BLOCK_N
        flat = tl.reshape(acc.to(c_ptr.dtype.element_ty), (BLOCK_M * BLOCK_N,))
        if T.EVEN_M and T.EVEN_N:
            tl.store(c_ptr + row * N + column, flat)
        else:
            tl.store(c_ptr + row * N + column, flat, mask=(row < M) & (column < N))
        return

    inside = (rm[:, None] < M) & (rn[None, :] < N)
    c_offset = rm[:, None] * N + rn[None, :]
    store_sum_of_slices(acc, c_ptr, partial_ptr, arrived_ptr, c_offset, inside, M * N, tile, part, SPLIT_K)


def fp8_mm(a, b, a_scale, b_scale, c, config):
    """Launch with the given row of the tuning table; shapes as in `custom_kernel`."""
    m, k = a.shape
    n = b.shape[0]
    block_m, block_n, split_k = config["BLOCK_M"], config["BLOCK_N"], config["SPLIT_K"]
    n_tiles = triton.cdiv(m, block_m) * triton.cdiv(n, block_n)
    if split_k > 1:
        partial, arrived = split_k_workspace(a.device, split_k * m * n, n_tiles)
    else:
        partial = arrived = a_scale  # not touched
    tile = Tile(
        EVEN_M=m % block_m == 0,
        EVEN_N=n % block_n == 0,
        **{name: config[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "SPLIT_K")},
    )
    fp8_mm_kernel[(n_tiles * split_k,)](
        a,
        b,
        a_scale,
        b_scale,
        c,
        partial,
        arrived,
        m,
        n,
        k,
        b_scale.shape[0],
        tile,
        num_warps=config["num_warps"],
        num_stages=config["num_stages"],
        matrix_instr_nonkdim=config["MFMA"],
    )
    return c


def custom_kernel(data):
    """a [M, K], b [N, K] fp8 e4m3fnuz column-major; a_scale [M, K/128], b_scale [ceil(N/128), K/128] fp32 column-major;
    c [M, N] bf16 row-major, written and returned. K is a multiple of 128."""
    a, b, a_scale, b_scale, c = data
    m, k = a.shape
    if k % SCALE_BLOCK:
        raise ValueError(f"K must be a multiple of {SCALE_BLOCK}, got {k=}")
    return fp8_mm(a, b, a_scale, b_scale, c, TUNING.get((m, b.shape[0], k), DEFAULT))
