"""ag-gemm for Hopper: one persistent workgroup an SM, whose warps copy, load and multiply side by side.

Sender warps push this rank's rows to the peers, one loader warp feeds a ring of LDS stages by TMA, eight warps
multiply. So pushing takes no SM from the product. Senders take pieces from one ticket counter: whichever workgroups
run push everything, so nobody's rows depend on a workgroup that has no place on the GPU yet.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from kernels.common.peer_signals import signal_add, stores_complete, wait_until_at_least, wall_clock


def tile_layout(block):
    """How a block of a bf16 matrix lies in LDS for TMA and the matrix unit."""
    return gl.NVMMASharedLayout.get_default_for(list(block), gl.bfloat16)


@gluon.jit
def hopper_tile(unit, ROW_TILES: gl.constexpr, COLUMN_TILES: gl.constexpr, RANKS: gl.constexpr, BAND: gl.constexpr):
    """Place in order -> (distance to the source rank, row tile of its rows, column tile): own rows first, then bands
    of BAND row tiles of every peer, rows fastest."""
    LOCAL: gl.constexpr = ROW_TILES * COLUMN_TILES
    PEERS: gl.constexpr = RANKS - 1 if RANKS > 1 else 1
    if unit < LOCAL:
        distance = 0
        row_tile = unit % ROW_TILES
        column_tile = unit // ROW_TILES
    else:
        PER_BAND: gl.constexpr = BAND * PEERS * COLUMN_TILES
        band = (unit - LOCAL) // PER_BAND
        at = (unit - LOCAL) % PER_BAND
        rows = gl.minimum(BAND, ROW_TILES - band * BAND) * PEERS
        distance = 1 + at % rows % PEERS
        row_tile = band * BAND + at % rows // PEERS
        column_tile = at // rows
    return distance, row_tile, column_tile


@gluon.jit
def first_turn(SENDERS: gl.constexpr, LATE: gl.constexpr):
    """Workgroups that send first miss LATE turns."""
    turn = 0
    if LATE > 0:
        if gl.program_id(0) < SENDERS:
            turn = LATE
    return turn


@gluon.jit
def unit_of_turn(turn, SENDERS: gl.constexpr, LATE: gl.constexpr, WORKGROUPS: gl.constexpr):
    """This workgroup's unit of work in its `turn`; none where it is not below the number of units. The last workgroups
    come first, for the first ones send."""
    back = WORKGROUPS - 1 - gl.program_id(0)
    unit = turn * WORKGROUPS + back
    if LATE > 0:
        unit -= gl.minimum(turn, LATE) * SENDERS
    return unit


@gluon.jit
def unit_tile(unit, FULL: gl.constexpr, SPLIT_K: gl.constexpr):
    """Unit of work -> (tile, slice of k, slices of k): FULL whole tiles; of those left over SPLIT_K slices each, so
    that they busy more workgroups for a shorter time."""
    tile = unit
    slice_k = 0
    slices = 1
    if SPLIT_K > 1:
        if unit >= FULL:
            tile = FULL + (unit - FULL) // SPLIT_K
            slice_k = (unit - FULL) % SPLIT_K
            slices = SPLIT_K
    return tile, slice_k, slices


@gluon.jit
def trace_time(trace, slot, TRACE: gl.constexpr):
    """Note the time, ns, in this workgroup's slot of `trace`, int64 [workgroups][64]."""
    if TRACE:
        gl.store(trace + gl.program_id(0) * 64 + slot, wall_clock())


@gluon.jit
def fetch_stage(
    a_block,
    w_block,
    row,
    column,
    k,
    count,
    a_ring,
    w_ring,
    ready,
    free,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    STAGES: gl.constexpr,
):
    stage = count % STAGES
    mbarrier.wait(free.index(stage), ((count // STAGES) & 1) ^ 1)
    mbarrier.expect(ready.index(stage), (BLOCK_M + BLOCK_N) * BLOCK_K * 2)
    tma.async_copy_global_to_shared(a_block, [row, k], ready.index(stage), a_ring.index(stage))
    tma.async_copy_global_to_shared(w_block, [column, k], ready.index(stage), w_ring.index(stage))


@gluon.jit
def load_tiles(
    own_rows,
    gathered,
    w,
    counters,
    rank,
    target,
    alarm,
    timeout_ticks,
    trace,
    a_ring,
    w_ring,
    ready,
    free,
    ROWS: gl.constexpr,
    N: gl.constexpr,
    K: gl.constexpr,
    RANKS: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    BAND: gl.constexpr,
    SLICES: gl.constexpr,
    SENDERS: gl.constexpr,
    LATE: gl.constexpr,
    FULL: gl.constexpr,
    SPLIT_K: gl.constexpr,
    WORKGROUPS: gl.constexpr,
    STAGES: gl.constexpr,
    TRACE: gl.constexpr,
):
    """The loader warp: for each tile, a stage of rows and a stage of weights after the other."""
    ROW_TILES: gl.constexpr = ROWS // BLOCK_M
    COLUMN_TILES: gl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    BANDS: gl.constexpr = (ROW_TILES + BAND - 1) // BAND
    BLOCKS: gl.constexpr = (K + BLOCK_K - 1) // BLOCK_K
    SLICE_K: gl.constexpr = K // SLICES if SLICES > 1 else BLOCKS * BLOCK_K
    UNITS: gl.constexpr = FULL + (RANKS * ROW_TILES * COLUMN_TILES - FULL) * SPLIT_K
    count = 0
    turn = first_turn(SENDERS, LATE)
    unit = unit_of_turn(turn, SENDERS, LATE, WORKGROUPS)
    while unit < UNITS:
        tile, part, parts = unit_tile(unit, FULL, SPLIT_K)
        distance, row_tile, column_tile = hopper_tile(tile, ROW_TILES, COLUMN_TILES, RANKS, BAND)
        column = column_tile * BLOCK_N
        begin = part * BLOCKS // parts * BLOCK_K
        end = (part + 1) * BLOCKS // parts * BLOCK_K
        if distance == 0:
            for k in range(begin, end, BLOCK_K):
                fetch_stage(own_rows, w, row_tile * BLOCK_M, column, k, count, a_ring, w_ring, ready, free,
                            BLOCK_M, BLOCK_N, BLOCK_K, STAGES)  # fmt: skip
                count += 1
        else:
            source = (rank + distance) % RANKS
            row = source * ROWS + row_tile * BLOCK_M
            counter = counters + (source * BANDS + row_tile // BAND) * SLICES
            trace_time(trace, 4 * turn, TRACE)
            for slice_k in range(begin // SLICE_K, (end - 1) // SLICE_K + 1):
                wait_until_at_least(counter + slice_k, target, alarm, timeout_ticks, 1, source)
                # The rows were stored through the generic proxy, and TMA reads through the async one.
                gl.inline_asm_elementwise(
                    "fence.proxy.async; mov.u32 $0, 0;", "=r", [], dtype=gl.int32, is_pure=False, pack=1
                )
                if slice_k == begin // SLICE_K:
                    trace_time(trace, 4 * turn + 1, TRACE)
                begin_slice = gl.maximum(begin, slice_k * SLICE_K)
                for k in range(begin_slice, gl.minimum(end, slice_k * SLICE_K + SLICE_K), BLOCK_K):
                    fetch_stage(gathered, w, row, column, k, count, a_ring, w_ring, ready, free,
                                BLOCK_M, BLOCK_N, BLOCK_K, STAGES)  # fmt: skip
                    count += 1
            trace_time(trace, 4 * turn + 2, TRACE)
        turn += 1
        unit = unit_of_turn(turn, SENDERS, LATE, WORKGROUPS)


@gluon.jit
def multiply_tiles(
    out,
    bias,
    partial,
    arrived,
    rank,
    trace,
    a_ring,
    w_ring,
    half,
    ready,
    free,
    ROWS: gl.constexpr,
    N: gl.constexpr,
    K: gl.constexpr,
    RANKS: gl.constexpr,
    HAS_BIAS: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    BAND: gl.constexpr,
    SENDERS: gl.constexpr,
    LATE: gl.constexpr,
    FULL: gl.constexpr,
    SPLIT_K: gl.constexpr,
    WORKGROUPS: gl.constexpr,
    STAGES: gl.constexpr,
    TRACE: gl.constexpr,
    num_warps: gl.constexpr,
):
    """The multiplying warps: sum in fp32, add the bias, store bf16 in two halves of the columns."""
    ROW_TILES: gl.constexpr = ROWS // BLOCK_M
    COLUMN_TILES: gl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    HALF: gl.constexpr = BLOCK_N // 2
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [num_warps, 1], [16, BLOCK_N, 16])
    half_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [num_warps, 1], [16, HALF, 16])
    BLOCKS: gl.constexpr = (K + BLOCK_K - 1) // BLOCK_K
    UNITS: gl.constexpr = FULL + (RANKS * ROW_TILES * COLUMN_TILES - FULL) * SPLIT_K
    SIDE: gl.constexpr = BLOCK_M * HALF
    local_row = gl.arange(0, BLOCK_M, layout=gl.SliceLayout(1, half_layout))
    local_column = gl.arange(0, HALF, layout=gl.SliceLayout(0, half_layout))
    place = local_row[:, None] * HALF + local_column[None, :]
    count = 0
    turn = first_turn(SENDERS, LATE)
    unit = unit_of_turn(turn, SENDERS, LATE, WORKGROUPS)
    while unit < UNITS:
        tile, slice_k, slices = unit_tile(unit, FULL, SPLIT_K)
        distance, row_tile, column_tile = hopper_tile(tile, ROW_TILES, COLUMN_TILES, RANKS, BAND)
        acc = gl.zeros([BLOCK_M, BLOCK_N], gl.float32, layout)
        begin = slice_k * BLOCKS // slices
        for block in range(begin, (slice_k + 1) * BLOCKS // slices):
            stage = count % STAGES
            mbarrier.wait(ready.index(stage), (count // STAGES) & 1)
            acc = warpgroup_mma(a_ring.index(stage), w_ring.index(stage).permute((1, 0)), acc, is_async=True)
            # One product stays under way; the stage of the one before is free.
            acc = warpgroup_mma_wait(1, deps=[acc])
            mbarrier.arrive(free.index((count + STAGES - 1) % STAGES), pred=block > begin)
            count += 1
        acc = warpgroup_mma_wait(0, deps=[acc])
        mbarrier.arrive(free.index((count + STAGES - 1) % STAGES))
        row = (rank + distance) % RANKS * ROWS + row_tile * BLOCK_M
        left, right = acc.reshape([BLOCK_M, 2, HALF]).permute(0, 2, 1).split()
        left = gl.convert_layout(left, half_layout)
        right = gl.convert_layout(right, half_layout)
        finished = unit >= 0
        sums = partial + (gl.maximum(tile - FULL, 0) * SPLIT_K * 2) * SIDE
        if SPLIT_K > 1:
            if unit >= FULL:
                gl.store(sums + slice_k * 2 * SIDE + place, left)
                gl.store(sums + slice_k * 2 * SIDE + SIDE + place, right)
                stores_complete()
                finished = gl.atomic_add(arrived + tile - FULL, 1, sem="acq_rel", scope="gpu") == SPLIT_K - 1
        if finished:
            for side in gl.static_range(2):
                part = left if side == 0 else right
                if SPLIT_K > 1:
                    if unit >= FULL:
                        # The last slice to arrive adds all, in order: the result does not depend on who is last.
                        part = gl.zeros([BLOCK_M, HALF], gl.float32, half_layout)
                        for other in range(SPLIT_K):
                            part += gl.load(sums + (other * 2 + side) * SIDE + place, cache_modifier=".cg")
                column = column_tile * BLOCK_N + side * HALF
                if HAS_BIAS:
                    rn = column + local_column
                    part += gl.load(bias + rn, mask=rn < N, other=0.0).to(gl.float32)[None, :]
                tma.store_wait(0)  # of the half before, which has the same place in LDS
                half.store(part.to(gl.bfloat16))
                fence_async_shared()
                tma.async_copy_shared_to_global(out, [row, column], half)
            if SPLIT_K > 1:
                if unit >= FULL:
                    gl.store(arrived + tile - FULL, 0)
        trace_time(trace, 4 * turn + 3, TRACE)
        turn += 1
        unit = unit_of_turn(turn, SENDERS, LATE, WORKGROUPS)
    tma.store_wait(0)


@gluon.jit
def send_pieces(
    a,
    table,
    slot,
    tickets,
    first_ticket,
    rank,
    trace,
    ROWS: gl.constexpr,
    K: gl.constexpr,
    RANKS: gl.constexpr,
    BAND_ROWS: gl.constexpr,
    SLICES: gl.constexpr,
    PIECE_ROWS: gl.constexpr,
    SENDERS: gl.constexpr,
    TRACE: gl.constexpr,
    num_warps: gl.constexpr,
):
    """On the first SENDERS workgroups: take pieces of PIECE_ROWS rows by one slice of k until none is left;
    destinations fastest, then parts of a slice of a band, slices, bands."""
    PEERS: gl.constexpr = RANKS - 1 if RANKS > 1 else 1
    BANDS: gl.constexpr = (ROWS + BAND_ROWS - 1) // BAND_ROWS
    PARTS: gl.constexpr = BAND_ROWS // PIECE_ROWS
    SLICE_K: gl.constexpr = K // SLICES
    GROUPS: gl.constexpr = SLICE_K // 8  # of 16 bytes, in a row of a piece
    STEP: gl.constexpr = 256 * num_warps  # groups at a time
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [32, 1], [num_warps, 1], [1, 0])
    group = gl.arange(0, STEP, layout=gl.SliceLayout(1, layout))
    element = gl.arange(0, 8, layout=gl.SliceLayout(0, layout))
    TICKETS: gl.constexpr = BANDS * SLICES * PARTS * (RANKS - 1)
    ticket = TICKETS
    if gl.program_id(0) < SENDERS:
        ticket = gl.atomic_add(tickets, 1, sem="relaxed", scope="gpu") - first_ticket
    while ticket < TICKETS:
        destination = (rank + 1 + ticket % PEERS) % RANKS
        part = ticket // PEERS % PARTS
        slice_k = ticket // (PEERS * PARTS) % SLICES
        band = ticket // (PEERS * PARTS * SLICES)
        first_row = band * BAND_ROWS + part * PIECE_ROWS
        end_row = gl.minimum(first_row + PIECE_ROWS, ROWS)
        region = gl.load(table + destination)
        there = (region + slot).to(gl.pointer_type(gl.bfloat16))
        there = gl.multiple_of(there, 16)
        here = first_row.to(gl.int64) * K + slice_k * SLICE_K
        for begin in range(0, PIECE_ROWS * GROUPS, STEP):
            row = (begin + group) // GROUPS
            offset = (row * K + (begin + group) % GROUPS * 8)[:, None] + element[None, :]
            inside = ((begin + group < PIECE_ROWS * GROUPS) & (first_row + row < end_row))[:, None]
            x = gl.load(a + here + offset, mask=inside)
            gl.store(there + (rank * ROWS).to(gl.int64) * K + here + offset, x, mask=inside)
        stores_complete()
        counter = region.to(gl.pointer_type(gl.int32))
        signal_add(counter + (rank * BANDS + band) * SLICES + slice_k, 1)
        ticket = gl.atomic_add(tickets, 1, sem="relaxed", scope="gpu") - first_ticket
    trace_time(trace, 63, TRACE)


@gluon.jit(do_not_specialize=["rank", "first_ticket", "target", "timeout_ticks"])
def ag_gemm_hopper_kernel(
    own_rows,  # descriptor of a, blocks [BLOCK_M, BLOCK_K]
    gathered,  # descriptor of bf16 [M][K], where peers push to in this call, likewise
    w_blocks,  # descriptor of bf16 [N][K], blocks [BLOCK_N, BLOCK_K]
    out,  # descriptor of bf16 [M][N], blocks [BLOCK_M, BLOCK_N / 2]
    a,  # bf16 [ROWS][K]
    bias,  # bf16 [N], unused without HAS_BIAS
    partial,  # fp32 [tiles left over][SPLIT_K][2][BLOCK_M][BLOCK_N / 2], unused where SPLIT_K is 1
    arrived,  # int32 [tiles left over], zero between launches
    table,  # int64 [RANKS]: where each rank's region lies
    counters,  # int32 [RANKS][bands][SLICES]: pieces of that rank that have come; at the begin of the region
    tickets,  # int32: pieces taken, and one ticket in vain per sender; grows for ever
    trace,  # int64 [workgroups][64], unused without TRACE
    slot,  # byte offset of `gathered` in a region
    rank,
    first_ticket,  # what `tickets` holds when this call begins
    target,  # what a counter holds when all pieces of this call have come
    alarm,
    timeout_ticks,
    ROWS: gl.constexpr,  # of each rank
    N: gl.constexpr,
    K: gl.constexpr,
    RANKS: gl.constexpr,
    HAS_BIAS: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    BAND: gl.constexpr,  # row tiles
    SLICES: gl.constexpr,  # of k, each with a counter of its own
    PIECE_ROWS: gl.constexpr,
    SENDERS: gl.constexpr,  # workgroups that send, the first ones
    SEND_WARPS: gl.constexpr,  # in warps of their own; 0: the multiplying warps send before anything else
    LATE: gl.constexpr,  # turns that workgroups miss which send before they multiply
    FULL: gl.constexpr,  # tiles that are not split
    SPLIT_K: gl.constexpr,  # slices of k of the tiles left over
    WORKGROUPS: gl.constexpr,
    STAGES: gl.constexpr,
    TRACE: gl.constexpr,
    num_warps: gl.constexpr,
):
    """ROWS must be a multiple of BLOCK_M, K of SLICES * BLOCK_K, or of 8 with one slice, N of 8."""
    a_ring = gl.allocate_shared_memory(gl.bfloat16, [STAGES, BLOCK_M, BLOCK_K], own_rows.layout)
    w_ring = gl.allocate_shared_memory(gl.bfloat16, [STAGES, BLOCK_N, BLOCK_K], w_blocks.layout)
    half = gl.allocate_shared_memory(gl.bfloat16, [BLOCK_M, BLOCK_N // 2], out.layout)
    ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(ready.index(stage), count=1)
        mbarrier.init(free.index(stage), count=1)
    alarm = alarm.to(gl.int64)  # whatever the size of its value
    if SEND_WARPS == 0:
        if gl.program_id(0) < SENDERS:
            send_pieces(
                a, table, slot, tickets, first_ticket, rank, trace,
                ROWS, K, RANKS, BAND * BLOCK_M, SLICES, PIECE_ROWS, SENDERS, TRACE, num_warps,
            )  # fmt: skip
        gl.warp_specialize(
            [
                (
                    multiply_tiles,
                    (
                        out, bias, partial, arrived, rank, trace, a_ring, w_ring, half, ready, free,
                        ROWS, N, K, RANKS, HAS_BIAS, BLOCK_M, BLOCK_N, BLOCK_K, BAND,
                        SENDERS, LATE, FULL, SPLIT_K, WORKGROUPS, STAGES, TRACE, num_warps,
                    ),
                ),
                (
                    load_tiles,
                    (
                        own_rows, gathered, w_blocks, counters, rank, target, alarm, timeout_ticks, trace,
                        a_ring, w_ring, ready, free,
                        ROWS, N, K, RANKS, BLOCK_M, BLOCK_N, BLOCK_K, BAND, SLICES,
                        SENDERS, LATE, FULL, SPLIT_K, WORKGROUPS, STAGES, TRACE,
                    ),
                ),
            ],
            [1],
            [40],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (
                    multiply_tiles,
                    (
                        out, bias, partial, arrived, rank, trace, a_ring, w_ring, half, ready, free,
                        ROWS, N, K, RANKS, HAS_BIAS, BLOCK_M, BLOCK_N, BLOCK_K, BAND,
                        SENDERS, LATE, FULL, SPLIT_K, WORKGROUPS, STAGES, TRACE, num_warps,
                    ),
                ),
                (
                    load_tiles,
                    (
                        own_rows, gathered, w_blocks, counters, rank, target, alarm, timeout_ticks, trace,
                        a_ring, w_ring, ready, free,
                        ROWS, N, K, RANKS, BLOCK_M, BLOCK_N, BLOCK_K, BAND, SLICES,
                        SENDERS, LATE, FULL, SPLIT_K, WORKGROUPS, STAGES, TRACE,
                    ),
                ),
                (
                    send_pieces,
                    (
                        a, table, slot, tickets, first_ticket, rank, trace,
                        ROWS, K, RANKS, BAND * BLOCK_M, SLICES, PIECE_ROWS, SENDERS, TRACE, SEND_WARPS,
                    ),
                ),
            ],
            [1, SEND_WARPS],
            [40, 64],
        )  # fmt: skip
