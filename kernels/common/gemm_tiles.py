"""One output tile of a @ w.T in Triton, and the sum of its slices of k."""

import triton
import triton.language as tl


@triton.jit
def gemm_tile(
    a,  # bf16 [.., K], K contiguous
    w,  # bf16 [N, K], likewise
    first_row,  # of a; rows at and after end_row are computed from other rows of a: do not store them
    end_row,
    first_column,  # row of w; columns at and after N likewise
    N,
    K: tl.constexpr,
    part,  # of SPLIT_K: which slice of k
    SPLIT_K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """fp32 [BLOCK_M, BLOCK_N]: rows first_row.. of a times rows first_column.. of w, over slice `part` of k.

    a and w are row-major, of K columns. Any K: slices are of whole blocks of k; the last one takes the rest, masked.
    """
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    full: tl.constexpr = K // BLOCK_K
    # The rest of k: one more block behind the loop, or, where k is split, masks in the loop. Triton 3.6.0 crashes on
    # the former there (ConvertToBufferOps).
    MASKED: tl.constexpr = K % BLOCK_K != 0 and SPLIT_K > 1
    blocks: tl.constexpr = full + MASKED
    # Rows past the end read the last row: cheaper than a mask on each load, and inside the tensor.
    rm = tl.minimum(first_row + tl.arange(0, BLOCK_M), end_row - 1) - first_row
    rn = tl.minimum(first_column + tl.arange(0, BLOCK_N), N - 1) - first_column
    rk = tl.arange(0, BLOCK_K)
    first = part * blocks // SPLIT_K
    last = (part + 1) * blocks // SPLIT_K
    # The tile's place in 64 bits, a lane's place in the tile in 32.
    x_tile = a + first_row.to(tl.int64) * K + first * BLOCK_K
    y_tile = w + first_column.to(tl.int64) * K + first * BLOCK_K
    x_offset = rm[:, None] * K + rk[None, :]
    y_offset = rn[None, :] * K + rk[:, None]
    for block in range(first, last):
        if MASKED:
            inside = rk < K - block * BLOCK_K
            x = tl.load(x_tile + x_offset, mask=inside[None, :], other=0.0)
            y = tl.load(y_tile + y_offset, mask=inside[:, None], other=0.0)
        else:
            x = tl.load(x_tile + x_offset)
            y = tl.load(y_tile + y_offset)
        acc = tl.dot(x, y, acc)
        x_tile += BLOCK_K
        y_tile += BLOCK_K
    if K % BLOCK_K != 0 and not MASKED:
        inside = rk < K % BLOCK_K
        x = tl.load(x_tile + x_offset, mask=inside[None, :], other=0.0)
        y = tl.load(y_tile + y_offset, mask=inside[:, None], other=0.0)
        acc = tl.dot(x, y, acc)
    return acc


@triton.jit
def store_slice(
    acc,  # fp32 [BLOCK_M, BLOCK_N]: this slice's partial sums
    partial,  # fp32 [tiles][SPLIT_K][BLOCK_M][BLOCK_N]
    number,  # of the tile
    part,  # of SPLIT_K
    SPLIT_K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """A tile's slice of k for whoever finishes the tile: stores_complete() and add_slices() are to follow."""
    at = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    place = partial + (number * SPLIT_K + part).to(tl.int64) * (BLOCK_M * BLOCK_N)
    # Write-through, so that the slices of workgroups elsewhere find the partial sums in memory.
    tl.store(place + at, acc, cache_modifier=".wt")


@triton.jit
def add_slices(
    acc,  # fp32 [BLOCK_M, BLOCK_N]
    partial,  # fp32 [tiles][SPLIT_K][BLOCK_M][BLOCK_N]
    arrived,  # int32 [tiles], zero between launches
    number,  # of the tile
    SPLIT_K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """(sum of a tile's slices, True) for the slice that arrives last, (anything, False) for the others.

    It adds all of them in slice order: the result does not depend on who is last.
    """
    finished = tl.atomic_add(arrived + number, 1, sem="acq_rel", scope="gpu") == SPLIT_K - 1
    if finished:
        tl.debug_barrier()
        at = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
        slices = partial + (number * SPLIT_K).to(tl.int64) * (BLOCK_M * BLOCK_N)
        acc = tl.load(slices + at, cache_modifier=".cv")
        for other in range(1, SPLIT_K):
            acc += tl.load(slices + other * (BLOCK_M * BLOCK_N) + at, cache_modifier=".cv")
        tl.store(arrived + number, 0)
    return acc, finished
