"""One output tile of a @ w.T in Triton, and the order in which workgroups take tiles on several GPUs."""

import triton
import triton.language as tl

from kernels.common.peer_signals import PEER_SIGNALS_HIP, stores_complete


@triton.jit
def gemm_tile(
    a,  # bf16 [.., K], K contiguous: pointer, or a descriptor of blocks [BLOCK_M, BLOCK_K]
    w,  # bf16 [N, K], likewise, blocks [BLOCK_N, BLOCK_K]
    first_row,  # of a; rows at and after end_row are computed from other rows of a, or from zeros: do not store them
    end_row,
    first_column,  # row of w; columns at and after N likewise
    N,
    K: tl.constexpr,
    part,  # of SPLIT_K: which slice of k
    SPLIT_K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
):
    """fp32 [BLOCK_M, BLOCK_N]: rows first_row.. of a times rows first_column.. of w, over slice `part` of k.

    a and w are row-major, of K columns. The load path is Hopper's (DESCRIPTORS) or plain pointers. Any K: slices are
    of whole blocks of k, and the last one takes the rest, masked.
    """
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    if DESCRIPTORS:
        blocks: tl.constexpr = (K + BLOCK_K - 1) // BLOCK_K  # what lies past the end of k reads as zero
        if SPLIT_K == 1:
            for block in range(blocks):
                x = a.load([first_row, block * BLOCK_K])
                y = w.load([first_column, block * BLOCK_K])
                acc = tl.dot(x, y.T, acc)
        else:
            for block in range(part * blocks // SPLIT_K, (part + 1) * blocks // SPLIT_K):
                x = a.load([first_row, block * BLOCK_K])
                y = w.load([first_column, block * BLOCK_K])
                acc = tl.dot(x, y.T, acc)
    else:
        full: tl.constexpr = K // BLOCK_K
        # Rows past the end read the last row: cheaper than a mask on each load, and inside the tensor.
        rm = tl.minimum(first_row + tl.arange(0, BLOCK_M), end_row - 1) - first_row
        rn = tl.minimum(first_column + tl.arange(0, BLOCK_N), N - 1) - first_column
        rk = tl.arange(0, BLOCK_K)
        first = part * full // SPLIT_K
        last = (part + 1) * full // SPLIT_K
        # The tile's place in 64 bits, a lane's place in the tile in 32.
        x_tile = a + first_row.to(tl.int64) * K + first * BLOCK_K
        y_tile = w + first_column.to(tl.int64) * K + first * BLOCK_K
        x_offset = rm[:, None] * K + rk[None, :]
        y_offset = rn[None, :] * K + rk[:, None]
        for _ in range(first, last):
            x = tl.load(x_tile + x_offset)
            y = tl.load(y_tile + y_offset)
            acc = tl.dot(x, y, acc)
            x_tile += BLOCK_K
            y_tile += BLOCK_K
        if K % BLOCK_K != 0:
            if part == SPLIT_K - 1:
                inside = rk < K % BLOCK_K
                x = tl.load(x_tile + x_offset, mask=inside[None, :], other=0.0)
                y = tl.load(y_tile + y_offset, mask=inside[:, None], other=0.0)
                acc = tl.dot(x, y, acc)
    return acc


@triton.jit
def ranks_in_turn(xcd, step, TILES: tl.constexpr, RANKS: tl.constexpr, XCDS: tl.constexpr):
    """The `step`-th tile of XCD `xcd` -> (turn of the rank, tile of that rank); none where tile >= TILES.

    For work that belongs to RANKS ranks, TILES tiles each; turn RANKS - 1 is this rank's own share and comes last.
    Steps are 0 .. RANKS * ceil(TILES / XCDS) - 1. With one XCD (a GPU that has none), a rank's tiles come after the
    other's. Several (workgroup id mod XCDS) each have their own sequence of all ranks, at any time different from most
    others', so that all links carry data at once; of each rank's share an XCD has one contiguous range of tiles, so
    that its L2 serves neighbours. It is the same range for all ranks, so that an XCD keeps to few columns; only where
    shares do not divide by XCDS the ranges move on by one XCD with each rank: that burdens all alike.
    """
    per_xcd: tl.constexpr = (TILES + XCDS - 1) // XCDS
    remote: tl.constexpr = RANKS - 1 if RANKS > 1 else 1
    slot = step // per_xcd
    part = xcd
    if TILES % XCDS != 0:
        part = (xcd + slot) % XCDS
    tile = part * per_xcd + step % per_xcd
    turn = (slot + part) % remote if XCDS > 1 else slot
    turn = tl.where(slot == RANKS - 1, RANKS - 1, turn)
    return turn, tile


@triton.jit
def tile_stored():
    """stores_complete(), for use in a loop that shall be pipelined.

    Triton does not overlap the iterations of a loop with a barrier of its own in it, not even of the loop inside that
    loads tiles: so on NVIDIA the barrier hides in assembly. Elsewhere no loop over tiles is pipelined.
    """
    if PEER_SIGNALS_HIP:
        stores_complete()
    else:
        tl.inline_asm_elementwise("bar.sync 0; mov.u32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def sum_of_slices(
    acc,  # fp32 [BLOCK_M, BLOCK_N]: this slice's partial sums
    partial,  # fp32 [tiles][SPLIT_K][BLOCK_M][BLOCK_N]
    arrived,  # int32 [tiles], zero between launches
    number,  # of the tile
    part,  # of SPLIT_K
    SPLIT_K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """(sum of a tile's slices, True) for the slice that arrives last, (anything, False) for the others.

    It adds all of them in slice order: the result does not depend on who is last.
    """
    at = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    slices = partial + (number * SPLIT_K).to(tl.int64) * (BLOCK_M * BLOCK_N)
    # Write-through, so that the slices of other XCDs' workgroups find the partial sums in memory.
    tl.store(slices + part * (BLOCK_M * BLOCK_N) + at, acc, cache_modifier=".wt")
    stores_complete()
    finished = tl.atomic_add(arrived + number, 1, sem="acq_rel", scope="gpu") == SPLIT_K - 1
    if finished:
        tl.debug_barrier()
        acc = tl.load(slices + at, cache_modifier=".cv")
        for other in range(1, SPLIT_K):
            acc += tl.load(slices + other * (BLOCK_M * BLOCK_N) + at, cache_modifier=".cv")
        tl.store(arrived + number, 0)
    return acc, finished
