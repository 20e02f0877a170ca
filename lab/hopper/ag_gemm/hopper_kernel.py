"""ag-gemm for Hopper: one persistent workgroup an SM, whose warps copy, load and multiply side by side.

Sender warps push this rank's rows to the peers, one loader warp feeds a ring of LDS stages by TMA, eight warps
multiply. So pushing takes no SM from the product. Senders take pieces from one ticket counter: whichever workgroups
run push everything, so nobody's rows depend on a workgroup that has no place on the GPU yet.
"""

from dataclasses import dataclass

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from lab.hopper.common.peer_signals import signal_add, stores_complete, wait_until_at_least


@dataclass(frozen=True)
class Hopper:
    """What a kernel is compiled for. ROWS must be a multiple of BLOCK_M, K of SLICES * BLOCK_K, or of 8 with one slice,
    N of 8."""

    ROWS: int  # of each rank
    N: int
    K: int
    RANKS: int
    HAS_BIAS: bool
    BLOCK_M: int
    BLOCK_N: int
    BLOCK_K: int
    BAND: int  # row tiles
    SLICES: int  # of k, each with a counter of its own
    PIECE_ROWS: int
    SENDERS: int  # workgroups that send, the first ones
    SEND_WARPS: int  # in warps of their own; 0: the multiplying warps send before anything else
    LATE: int  # turns that workgroups miss which send before they multiply
    FULL: int  # tiles that are not split
    SPLIT_K: int  # slices of k of the tiles left over
    WORKGROUPS: int
    STAGES: int
    WARPS: int  # that multiply

    @property
    def ROW_TILES(self):
        return self.ROWS // self.BLOCK_M

    @property
    def COLUMN_TILES(self):
        return -(-self.N // self.BLOCK_N)

    @property
    def BANDS(self):
        """Of each rank: row tiles whose pieces are counted together."""
        return -(-self.ROW_TILES // self.BAND)

    @property
    def BLOCKS(self):
        return -(-self.K // self.BLOCK_K)

    @property
    def UNITS(self):
        return self.FULL + (self.RANKS * self.ROW_TILES * self.COLUMN_TILES - self.FULL) * self.SPLIT_K


def tile_layout(block):
    """How a block of a bf16 matrix lies in LDS for TMA and the matrix unit."""
    return gl.NVMMASharedLayout.get_default_for(list(block), gl.bfloat16)


@gluon.jit
def hopper_tile(unit, C: gl.constexpr):
    """Place in order -> (distance to the source rank, row tile of its rows, column tile): own rows first, then bands
    of BAND row tiles of every peer, rows fastest."""
    LOCAL: gl.constexpr = C.ROW_TILES * C.COLUMN_TILES
    PEERS: gl.constexpr = C.RANKS - 1 if C.RANKS > 1 else 1
    if unit < LOCAL:
        distance = 0
        row_tile = unit % C.ROW_TILES
        column_tile = unit // C.ROW_TILES
    else:
        PER_BAND: gl.constexpr = C.BAND * PEERS * C.COLUMN_TILES
        band = (unit - LOCAL) // PER_BAND
        at = (unit - LOCAL) % PER_BAND
        rows = gl.minimum(C.BAND, C.ROW_TILES - band * C.BAND) * PEERS
        distance = 1 + at % rows % PEERS
        row_tile = band * C.BAND + at % rows // PEERS
        column_tile = at // rows
    return distance, row_tile, column_tile


@gluon.jit
def first_turn(C: gl.constexpr):
    """Workgroups that send first miss LATE turns."""
    turn = 0
    if C.LATE > 0:
        if gl.program_id(0) < C.SENDERS:
            turn = C.LATE
    return turn


@gluon.jit
def unit_of_turn(turn, C: gl.constexpr):
    """This workgroup's unit of work in its `turn`; none where it is not below the number of units. The last workgroups
    come first, for the first ones send."""
    back = C.WORKGROUPS - 1 - gl.program_id(0)
    unit = turn * C.WORKGROUPS + back
    if C.LATE > 0:
        unit -= gl.minimum(turn, C.LATE) * C.SENDERS
    return unit


@gluon.jit
def unit_tile(unit, C: gl.constexpr):
    """Unit of work -> (tile, slice of k, slices of k): FULL whole tiles; of those left over SPLIT_K slices each, so
    that they busy more workgroups for a shorter time."""
    tile = unit
    slice_k = 0
    slices = 1
    if C.SPLIT_K > 1:
        if unit >= C.FULL:
            tile = C.FULL + (unit - C.FULL) // C.SPLIT_K
            slice_k = (unit - C.FULL) % C.SPLIT_K
            slices = C.SPLIT_K
    return tile, slice_k, slices


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
    C: gl.constexpr,
):
    stage = count % C.STAGES
    mbarrier.wait(free.index(stage), ((count // C.STAGES) & 1) ^ 1)
    mbarrier.expect(ready.index(stage), (C.BLOCK_M + C.BLOCK_N) * C.BLOCK_K * 2)
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
    a_ring,
    w_ring,
    ready,
    free,
    C: gl.constexpr,
):
    """The loader warp: for each tile, a stage of rows and a stage of weights after the other."""
    SLICE_K: gl.constexpr = C.K // C.SLICES if C.SLICES > 1 else C.BLOCKS * C.BLOCK_K
    count = 0
    turn = first_turn(C)
    unit = unit_of_turn(turn, C)
    while unit < C.UNITS:
        tile, part, parts = unit_tile(unit, C)
        distance, row_tile, column_tile = hopper_tile(tile, C)
        column = column_tile * C.BLOCK_N
        begin = part * C.BLOCKS // parts * C.BLOCK_K
        end = (part + 1) * C.BLOCKS // parts * C.BLOCK_K
        if distance == 0:
            for k in range(begin, end, C.BLOCK_K):
                fetch_stage(own_rows, w, row_tile * C.BLOCK_M, column, k, count, a_ring, w_ring, ready, free, C)
                count += 1
        else:
            source = (rank + distance) % C.RANKS
            row = source * C.ROWS + row_tile * C.BLOCK_M
            counter = counters + (source * C.BANDS + row_tile // C.BAND) * C.SLICES
            for slice_k in range(begin // SLICE_K, (end - 1) // SLICE_K + 1):
                wait_until_at_least(counter + slice_k, target, alarm, timeout_ticks, 1, source)
                # The rows were stored through the generic proxy, and TMA reads through the async one.
                gl.inline_asm_elementwise(
                    "fence.proxy.async; mov.u32 $0, 0;", "=r", [], dtype=gl.int32, is_pure=False, pack=1
                )
                begin_slice = gl.maximum(begin, slice_k * SLICE_K)
                for k in range(begin_slice, gl.minimum(end, slice_k * SLICE_K + SLICE_K), C.BLOCK_K):
                    fetch_stage(gathered, w, row, column, k, count, a_ring, w_ring, ready, free, C)
                    count += 1
        turn += 1
        unit = unit_of_turn(turn, C)


@gluon.jit
def multiply_tiles(
    out,
    bias,
    partial,
    arrived,
    rank,
    a_ring,
    w_ring,
    half,
    ready,
    free,
    C: gl.constexpr,
):
    """The multiplying warps: sum in fp32, add the bias, store bf16 in two halves of the columns."""
    BLOCK_M: gl.constexpr = C.BLOCK_M
    BLOCK_N: gl.constexpr = C.BLOCK_N
    HALF: gl.constexpr = BLOCK_N // 2
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [C.WARPS, 1], [16, BLOCK_N, 16])
    half_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [C.WARPS, 1], [16, HALF, 16])
    SIDE: gl.constexpr = BLOCK_M * HALF
    local_row = gl.arange(0, BLOCK_M, layout=gl.SliceLayout(1, half_layout))
    local_column = gl.arange(0, HALF, layout=gl.SliceLayout(0, half_layout))
    place = local_row[:, None] * HALF + local_column[None, :]
    count = 0
    turn = first_turn(C)
    unit = unit_of_turn(turn, C)
    while unit < C.UNITS:
        tile, slice_k, slices = unit_tile(unit, C)
        distance, row_tile, column_tile = hopper_tile(tile, C)
        acc = gl.zeros([BLOCK_M, BLOCK_N], gl.float32, layout)
        begin = slice_k * C.BLOCKS // slices
        for block in range(begin, (slice_k + 1) * C.BLOCKS // slices):
            stage = count % C.STAGES
            mbarrier.wait(ready.index(stage), (count // C.STAGES) & 1)
            acc = warpgroup_mma(a_ring.index(stage), w_ring.index(stage).permute((1, 0)), acc, is_async=True)
            # One product stays under way; the stage of the one before is free.
            acc = warpgroup_mma_wait(1, deps=[acc])
            mbarrier.arrive(free.index((count + C.STAGES - 1) % C.STAGES), pred=block > begin)
            count += 1
        acc = warpgroup_mma_wait(0, deps=[acc])
        mbarrier.arrive(free.index((count + C.STAGES - 1) % C.STAGES))
        row = (rank + distance) % C.RANKS * C.ROWS + row_tile * BLOCK_M
        left, right = acc.reshape([BLOCK_M, 2, HALF]).permute(0, 2, 1).split()
        left = gl.convert_layout(left, half_layout)
        right = gl.convert_layout(right, half_layout)
        finished = unit >= 0
        sums = partial + (gl.maximum(tile - C.FULL, 0) * C.SPLIT_K * 2) * SIDE
        if C.SPLIT_K > 1:
            if unit >= C.FULL:
                gl.store(sums + slice_k * 2 * SIDE + place, left)
                gl.store(sums + slice_k * 2 * SIDE + SIDE + place, right)
                stores_complete()
                finished = gl.atomic_add(arrived + tile - C.FULL, 1, sem="acq_rel", scope="gpu") == C.SPLIT_K - 1
        if finished:
            for side in gl.static_range(2):
                part = left if side == 0 else right
                if C.SPLIT_K > 1:
                    if unit >= C.FULL:
                        # The last slice to arrive adds all, in order: the result does not depend on who is last.
                        part = gl.zeros([BLOCK_M, HALF], gl.float32, half_layout)
                        for other in range(C.SPLIT_K):
                            part += gl.load(sums + (other * 2 + side) * SIDE + place, cache_modifier=".cg")
                column = column_tile * BLOCK_N + side * HALF
                if C.HAS_BIAS:
                    rn = column + local_column
                    part += gl.load(bias + rn, mask=rn < C.N, other=0.0).to(gl.float32)[None, :]
                tma.store_wait(0)  # of the half before, which has the same place in LDS
                half.store(part.to(gl.bfloat16))
                fence_async_shared()
                tma.async_copy_shared_to_global(out, [row, column], half)
            if C.SPLIT_K > 1:
                if unit >= C.FULL:
                    gl.store(arrived + tile - C.FULL, 0)
        turn += 1
        unit = unit_of_turn(turn, C)
    tma.store_wait(0)


@gluon.jit
def send_pieces(
    a,
    table,
    slot,
    tickets,
    first_ticket,
    rank,
    C: gl.constexpr,
    num_warps: gl.constexpr,
):
    """On the first SENDERS workgroups: take pieces of PIECE_ROWS rows by one slice of k until none is left;
    destinations fastest, then parts of a slice of a band, slices, bands."""
    PEERS: gl.constexpr = C.RANKS - 1 if C.RANKS > 1 else 1
    BAND_ROWS: gl.constexpr = C.BAND * C.BLOCK_M
    PARTS: gl.constexpr = BAND_ROWS // C.PIECE_ROWS
    SLICE_K: gl.constexpr = C.K // C.SLICES
    GROUPS: gl.constexpr = SLICE_K // 8  # of 16 bytes, in a row of a piece
    STEP: gl.constexpr = 256 * num_warps  # groups at a time
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [32, 1], [num_warps, 1], [1, 0])
    group = gl.arange(0, STEP, layout=gl.SliceLayout(1, layout))
    element = gl.arange(0, 8, layout=gl.SliceLayout(0, layout))
    TICKETS: gl.constexpr = C.BANDS * C.SLICES * PARTS * (C.RANKS - 1)
    ticket = TICKETS
    if gl.program_id(0) < C.SENDERS:
        ticket = gl.atomic_add(tickets, 1, sem="relaxed", scope="gpu") - first_ticket
    while ticket < TICKETS:
        destination = (rank + 1 + ticket % PEERS) % C.RANKS
        part = ticket // PEERS % PARTS
        slice_k = ticket // (PEERS * PARTS) % C.SLICES
        band = ticket // (PEERS * PARTS * C.SLICES)
        first_row = band * BAND_ROWS + part * C.PIECE_ROWS
        end_row = gl.minimum(first_row + C.PIECE_ROWS, C.ROWS)
        region = gl.load(table + destination)
        there = (region + slot).to(gl.pointer_type(gl.bfloat16))
        there = gl.multiple_of(there, 16)
        here = first_row.to(gl.int64) * C.K + slice_k * SLICE_K
        for begin in range(0, C.PIECE_ROWS * GROUPS, STEP):
            row = (begin + group) // GROUPS
            offset = (row * C.K + (begin + group) % GROUPS * 8)[:, None] + element[None, :]
            inside = ((begin + group < C.PIECE_ROWS * GROUPS) & (first_row + row < end_row))[:, None]
            x = gl.load(a + here + offset, mask=inside)
            gl.store(there + (rank * C.ROWS).to(gl.int64) * C.K + here + offset, x, mask=inside)
        stores_complete()
        counter = region.to(gl.pointer_type(gl.int32))
        signal_add(counter + (rank * C.BANDS + band) * C.SLICES + slice_k, 1)
        ticket = gl.atomic_add(tickets, 1, sem="relaxed", scope="gpu") - first_ticket


@gluon.jit(do_not_specialize=["rank", "first_ticket", "target", "timeout_ticks"])
def ag_gemm_hopper_kernel(
    own_rows,  # descriptor of a, blocks [BLOCK_M, BLOCK_K]
    gathered,  # descriptor of bf16 [M][K], where peers push to in this call, likewise
    w_blocks,  # descriptor of bf16 [N][K], blocks [BLOCK_N, BLOCK_K]
    out,  # descriptor of bf16 [M][N], blocks [BLOCK_M, BLOCK_N / 2]
    a,  # bf16 [ROWS][K]
    bias,  # bf16 [N], unused without HAS_BIAS
    partial,  # fp32 [tiles left over][SPLIT_K][2][BLOCK_M][BLOCK_N / 2], unused where SPLIT_K is 1
    counts,  # int32 [1 + tiles left over]: tickets, one in vain per sender, grow for ever; arrived, 0 between launches
    table,  # int64 [RANKS]: where each rank's region lies
    counters,  # int32 [RANKS][bands][SLICES]: pieces of that rank that have come; at the begin of the region
    slot,  # byte offset of `gathered` in a region
    rank,
    first_ticket,  # what the first of `counts` holds when this call begins
    target,  # what a counter holds when all pieces of this call have come
    alarm,
    timeout_ticks,
    C: gl.constexpr,  # Hopper
):
    STAGES: gl.constexpr = C.STAGES
    BLOCK_M: gl.constexpr = C.BLOCK_M
    BLOCK_N: gl.constexpr = C.BLOCK_N
    BLOCK_K: gl.constexpr = C.BLOCK_K
    SEND_WARPS: gl.constexpr = C.SEND_WARPS
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
        if gl.program_id(0) < C.SENDERS:
            send_pieces(a, table, slot, counts, first_ticket, rank, C, C.WARPS)
        gl.warp_specialize(
            [
                (
                    multiply_tiles,
                    (out, bias, partial, counts + 1, rank, a_ring, w_ring, half, ready, free, C),
                ),
                (
                    load_tiles,
                    (
                        own_rows, gathered, w_blocks, counters, rank, target, alarm, timeout_ticks,
                        a_ring, w_ring, ready, free, C,
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
                    (out, bias, partial, counts + 1, rank, a_ring, w_ring, half, ready, free, C),
                ),
                (
                    load_tiles,
                    (
                        own_rows, gathered, w_blocks, counters, rank, target, alarm, timeout_ticks,
                        a_ring, w_ring, ready, free, C,
                    ),
                ),
                (send_pieces, (a, table, slot, counts, first_ticket, rank, C, SEND_WARPS)),
            ],
            [1, SEND_WARPS],
            [40, 64],
        )  # fmt: skip
