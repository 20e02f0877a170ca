"""amd-fp8-mm in Triton: block-scaled fp8 GEMM.

c[m, n] = sum over kb of a_scale[m, kb] * b_scale[n // 128, kb] * dot(a[m, kb*128 : kb*128+128], b[n, same])

a [M, K] and b [N, K] come column-major (m resp. n contiguous) while the matrix instruction wants 8 consecutive k in
a lane. Two ways, chosen by the tuning table's TURN:

0: the product turns tiles in registers on the way to LDS: Triton's in-thread transpose, on by default for gfx942.
1: a launch before it turns both operands in memory. It takes what moving their bytes twice takes, and leaves the
   product's loop a third of its vector instructions: faster where many tiles read each operand.

Each 128-wide scale block is one native fp8 dot into fresh accumulators, which then enter the fp32 result with the
product of both scales. A workgroup's columns lie in one 128-block, so b's scale is a scalar. Where k is split, a last
launch adds the slices.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from kernels.common.workgroup_order import grouped_rows, xcd_contiguous
from kernels.fp8_mm.triton_gfx942_tuning import DEFAULT, TUNING

XCDS = tl.constexpr(8)  # MI300X
SCALE_BLOCK = 128  # k (and n, for b) covered by one scale
SUM_ROWS = 8  # by a workgroup of sum_kernel
TURNED_ROWS = 128


@dataclass(frozen=True)
class Tile:
    """What a kernel is compiled for: columns of a row of the tuning table, and whether tiles cover M and N exactly."""

    BLOCK_M: int
    BLOCK_N: int
    BLOCK_K: int
    GROUP_M: int
    SPLIT_K: int
    VEC: int
    TURN: bool
    EVEN_M: bool
    EVEN_N: bool


@triton.jit
def turn_tile(x, out, rows, block, tile, ROWS: tl.constexpr):
    """ROWS rows of one block of 128 of k, from x, [K][rows] bytes, to out, [K/128][rows][128]; both in words of 4.

    Of four rows of k a word each, 4 x 4 bytes, becomes the four words of 4 k each. rows is a multiple of 4.
    """
    k4 = tl.arange(0, 32)[:, None]
    row4 = tile * (ROWS // 4) + tl.arange(0, ROWS // 4)[None, :]
    at = x + (block * 128 + k4 * 4) * (rows // 4) + row4
    inside = row4 < rows // 4
    k0 = tl.load(at, mask=inside, other=0)
    k1 = tl.load(at + rows // 4, mask=inside, other=0)
    k2 = tl.load(at + rows // 4 * 2, mask=inside, other=0)
    k3 = tl.load(at + rows // 4 * 3, mask=inside, other=0)
    even01 = (k0 & 0x00FF00FF) | ((k1 & 0x00FF00FF) << 8)  # rows 0 and 2 of the four
    even23 = (k2 & 0x00FF00FF) | ((k3 & 0x00FF00FF) << 8)
    odd01 = ((k0 >> 8) & 0x00FF00FF) | (k1 & 0xFF00FF00)
    odd23 = ((k2 >> 8) & 0x00FF00FF) | (k3 & 0xFF00FF00)
    row0, row2 = (even01 & 0xFFFF) | (even23 << 16), (even01 >> 16) | (even23 & 0xFFFF0000)
    row1, row3 = (odd01 & 0xFFFF) | (odd23 << 16), (odd01 >> 16) | (odd23 & 0xFFFF0000)
    turned = tl.reshape(tl.join(tl.join(row0, row2), tl.join(row1, row3)), (32, ROWS))
    row = tile * ROWS + tl.arange(0, ROWS)[None, :]
    tl.store(out + (block * rows + row) * 32 + k4, turned, mask=row < rows)


@triton.jit
def turn_kernel(a_ptr, b_ptr, a_turned_ptr, b_turned_ptr, M, N, K, ROWS: tl.constexpr):
    """Both operands, in words of 4 bytes; a workgroup of each tile of ROWS rows of a or b and block of 128 of k."""
    block = tl.program_id(0) % (K // 128)
    tile = tl.program_id(0) // (K // 128)
    a_tiles = tl.cdiv(M, ROWS)
    if tile < a_tiles:
        turn_tile(a_ptr, a_turned_ptr, M, block, tile, ROWS)
    else:
        turn_tile(b_ptr, b_turned_ptr, N, block, tile - a_tiles, ROWS)


@triton.jit
def fp8_mm_kernel(
    a_ptr,  # fp8 [K][M], or [K/128][M][128] where TURN
    b_ptr,  # fp8 [K][N], likewise
    a_scale_ptr,  # fp32 [K/128][M]
    b_scale_ptr,  # fp32 [K/128][N_SCALES], N_SCALES = ceil(N/128)
    c_ptr,  # bf16 [M][N]
    partial_ptr,  # fp32 [tiles][SPLIT_K][BLOCK_M * BLOCK_N], unused where SPLIT_K is 1
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
    if T.TURN:
        a_offset = rm[:, None] * 128 + rk[None, :]
        b_offset = rn[None, :] * 128 + rk[:, None]
    else:
        # The fewer bytes of a row of k a lane loads at once, the more rows it has, and the wider are its writes to LDS.
        VEC: tl.constexpr = T.VEC
        a_offset = tl.max_contiguous(rk[None, :] * M + rm[:, None], [VEC, 1])
        b_offset = tl.max_contiguous(rk[:, None] * N + rn[None, :], [1, VEC])
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
            a_tile = a_ptr + block * 128 * M + (inner if T.TURN else inner * M)
            b_tile = b_ptr + block * 128 * N + (inner if T.TURN else inner * N)
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

    # In the order in which lanes hold them: 4 columns of one row, then the row below.
    m, n = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)[None, :]
    slice_ptr = partial_ptr + (tile * SPLIT_K + part) * (BLOCK_M * BLOCK_N)
    tl.store(slice_ptr + n // 4 * (BLOCK_M * 4) + m * 4 + n % 4, acc)


@triton.jit
def sum_kernel(partial_ptr, c_ptr, M, N, T: tl.constexpr, ROWS: tl.constexpr):
    """c = the slices of k, added in their order: ROWS rows of a tile a workgroup, on the XCD that has stored them."""
    BLOCK_M: tl.constexpr = T.BLOCK_M
    BLOCK_N: tl.constexpr = T.BLOCK_N
    SPLIT_K: tl.constexpr = T.SPLIT_K
    n_tiles_m = tl.cdiv(M, BLOCK_M)
    n_tiles_n = tl.cdiv(N, BLOCK_N)
    order = xcd_contiguous(tl.program_id(0), n_tiles_m * n_tiles_n * (BLOCK_M // ROWS), XCDS)
    tile = order // (BLOCK_M // ROWS)
    first_row = order % (BLOCK_M // ROWS) * ROWS
    tile_m, tile_n = grouped_rows(tile, n_tiles_m, n_tiles_n, T.GROUP_M)

    at = tl.arange(0, ROWS * BLOCK_N)
    at = at // (ROWS * 4) * (BLOCK_M * 4) + first_row * 4 + at % (ROWS * 4)
    slices = partial_ptr + tile * SPLIT_K * (BLOCK_M * BLOCK_N) + at
    total = tl.load(slices)
    for part in tl.static_range(1, SPLIT_K):
        total += tl.load(slices + part * (BLOCK_M * BLOCK_N))
    c = tl.reshape(tl.permute(tl.reshape(total, (BLOCK_N // 4, ROWS, 4)), (1, 0, 2)), (ROWS, BLOCK_N))
    row = tile_m * BLOCK_M + first_row + tl.arange(0, ROWS)[:, None]
    column = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    tl.store(c_ptr + row * N + column, c.to(c_ptr.dtype.element_ty), mask=(row < M) & (column < N))


def fp8_mm(a, b, a_scale, b_scale, c, config):
    """Launch with the given row of the tuning table; shapes as in `custom_kernel`."""
    m, k = a.shape
    n = b.shape[0]
    block_m, block_n, split_k = config["BLOCK_M"], config["BLOCK_N"], config["SPLIT_K"]
    n_tiles = triton.cdiv(m, block_m) * triton.cdiv(n, block_n)
    if split_k > 1:
        partial = torch.empty(n_tiles * split_k * block_m * block_n, dtype=torch.float32, device=a.device)
    else:
        partial = a_scale  # not touched
    if config["TURN"]:
        words = torch.empty((m + n) * k // 4, dtype=torch.uint32, device=a.device)
        a_words, b_words = words[: m * k // 4], words[m * k // 4 :]
        n_turned = (triton.cdiv(m, TURNED_ROWS) + triton.cdiv(n, TURNED_ROWS)) * (k // 128)
        turn_kernel[(n_turned,)](a.T.view(torch.uint32), b.T.view(torch.uint32), a_words, b_words, m, n, k, TURNED_ROWS)
        a, b = a_words.view(a.dtype), b_words.view(b.dtype)
    tile = Tile(
        EVEN_M=m % block_m == 0,
        EVEN_N=n % block_n == 0,
        **{name: config[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "SPLIT_K", "VEC", "TURN")},
    )
    fp8_mm_kernel[(n_tiles * split_k,)](
        a,
        b,
        a_scale,
        b_scale,
        c,
        partial,
        m,
        n,
        k,
        b_scale.shape[0],
        tile,
        num_warps=config["num_warps"],
        num_stages=config["num_stages"],
        matrix_instr_nonkdim=config["MFMA"],
        waves_per_eu=config["WAVES"],
        kpack=config["KPACK"],
    )
    if split_k > 1:
        sum_kernel[(n_tiles * (block_m // SUM_ROWS),)](partial, c, m, n, tile, SUM_ROWS)
    return c


def custom_kernel(data):
    """a [M, K], b [N, K] fp8 e4m3fnuz column-major; a_scale [M, K/128], b_scale [ceil(N/128), K/128] fp32 column-major;
    c [M, N] bf16 row-major, written and returned. K is a multiple of 128."""
    a, b, a_scale, b_scale, c = data
    m, k = a.shape
    if k % SCALE_BLOCK:
        raise ValueError(f"K must be a multiple of {SCALE_BLOCK}, got {k=}")
    return fp8_mm(a, b, a_scale, b_scale, c, TUNING.get((m, b.shape[0], k), DEFAULT))
