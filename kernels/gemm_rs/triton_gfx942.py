"""amd-gemm-rs in Triton: product, exchange and sum in one launch.

Rank r of W returns rows r*M/W .. (r+1)*M/W - 1 of the sum over all ranks of bf16(a @ w.T + bias).

Workgroups with the lowest ids compute tiles of a @ w.T and store them, rounded to bf16, straight into the slot of this
rank in the owner's memory; then the tile's flag there takes the number of this call. Workgroups with the highest ids
wait for a tile's flags from all ranks, add the W slots in fp32 and store the output. Flags are never reset and slots
alternate from call to call: see docs/kernels/gemm_rs.md for why that is safe without any barrier between calls.
"""

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from kernels.common.compiled_kernel import bound_to_grid, compile_kernel
from kernels.common.gemm_inputs import aligned, input_key
from kernels.common.gemm_tiles import add_slices, gemm_tile, store_slice
from kernels.common.peer_signals_gfx942 import (
    acquire_system,
    load_flags,
    pause,
    raise_alarm,
    release_system,
    signal,
    store_flags,
    stores_complete,
    wall_clock,
)
from kernels.common.rank_plan import RankPlan, place_bytes_for, plan_for
from kernels.common.symmetric_heap import symmetric_heap
from kernels.common.workgroup_order import grouped_rows
from kernels.gemm_rs.triton_gfx942_tuning import DEFAULT, TUNING
from kernels.gemm_rs.triton_shape import MAX_RANKS, Shape, check_input, rounded_tile

COMPUTE_UNITS = 304  # MI300X
XCDS = tl.constexpr(8)
WAVE = 64


@dataclass(frozen=True)
class GemmRs(Shape):
    @property
    def PRODUCERS(self):
        """Workgroups that compute a slice of a tile; each XCD has the same number, some have nothing to do."""
        return -(-self.SHARE_TILES // XCDS.value) * XCDS.value * self.SHARES * self.SPLIT_K

    @property
    def ADDERS(self):
        return -(-self.OWN_TILES // XCDS.value) * XCDS.value * self.PIECES


@triton.jit
def ranks_in_turn(xcd, step, TILES: tl.constexpr, RANKS: tl.constexpr, N_XCD: tl.constexpr):
    """The `step`-th tile of XCD `xcd` -> (turn of the rank, tile of that rank); none where tile >= TILES.

    For work that belongs to RANKS ranks, TILES tiles each; turn RANKS - 1 is this rank's own share and comes last.
    Steps are 0 .. RANKS * ceil(TILES / N_XCD) - 1. XCDs (workgroup id mod N_XCD) each have their own sequence of all
    ranks, at any time different from most others', so that all links carry data at once; of each rank's share an XCD
    has one contiguous range of tiles, so that its L2 serves neighbours. It is the same range for all ranks, so that an
    XCD keeps to few columns; only where shares do not divide by N_XCD the ranges move on by one XCD with each rank:
    that burdens all alike.
    """
    per_xcd: tl.constexpr = (TILES + N_XCD - 1) // N_XCD
    remote: tl.constexpr = RANKS - 1 if RANKS > 1 else 1
    slot = step // per_xcd
    part = xcd
    if TILES % N_XCD != 0:
        part = (xcd + slot) % N_XCD
    tile = part * per_xcd + step % per_xcd
    turn = tl.where(slot == RANKS - 1, RANKS - 1, (slot + part) % remote)
    return turn, tile


@triton.jit
def send_tile(
    x,  # bf16 [BLOCK_M, BLOCK_N]
    table,  # int64 [RANKS]: where each rank's region lies
    slots,  # byte offset of this call's slots in a region: [source rank][ROWS][N] bf16
    rank,
    first_rank,  # whose rows come first in x
    first_row,  # among that rank's rows
    first_column,
    flag_offset,  # byte offset of the tile's flag of this source
    epoch,
    C: tl.constexpr,
):
    """Store a tile into the slots of this rank at the owners of its rows, and set its flags there.

    A lane stores 16 bytes where rows begin at multiples of 16 bytes, and its neighbour the next 16 of the row; through
    all caches, so that a release finds nothing to write back. For that the tile becomes a list of such pieces:
    Triton's AMD backend turns it through LDS then. As [BLOCK_M, BLOCK_N] it would be stored in the matrix instruction's
    own layout, 32 bytes of a row at a time; as [BLOCK_M, BLOCK_N / 8, 8] Triton 3.6 gives each lane a row of its own.
    """
    WIDTH: tl.constexpr = 8 if C.N % 8 == 0 else 1
    PER_ROW: tl.constexpr = C.BLOCK_N // WIDTH
    PIECES: tl.constexpr = C.BLOCK_M * PER_ROW
    piece = tl.arange(0, PIECES)
    local, column = piece // PER_ROW, piece % PER_ROW * WIDTH
    inside = column < C.N - first_column
    pieces = tl.reshape(x, (PIECES, WIDTH))
    within = tl.arange(0, WIDTH)[None, :]
    if C.SPAN == 0:
        region = tl.load(table + first_rank)
        place = tl.multiple_of((region + slots).to(tl.pointer_type(tl.bfloat16)), 16)
        place += (rank * C.ROWS + first_row).to(tl.int64) * C.N + first_column
        inside &= first_row + local < C.ROWS
        # One address, offsets of 32 bits: buffer stores. LLVM has a wave wait behind each plain store of ".wt".
        tl.store(place + ((local * C.N + column)[:, None] + within), pieces, mask=inside[:, None], cache_modifier=".wt")
        stores_complete()
        signal((region + flag_offset).to(tl.pointer_type(tl.int32)), epoch)
    else:
        owner = first_rank + local // C.ROWS
        inside &= (local < C.SPAN * C.ROWS) & (owner < C.RANKS)
        region = tl.load(table + owner, mask=inside, other=0)
        place = tl.multiple_of((region + slots).to(tl.pointer_type(tl.bfloat16)), 16)
        place += (rank * C.ROWS + local % C.ROWS) * C.N + first_column + column
        tl.store(place[:, None] + within, pieces, mask=inside[:, None], cache_modifier=".wt")
        stores_complete()
        release_system()
        owners = first_rank + tl.arange(0, MAX_RANKS)
        inside = (owners < first_rank + C.SPAN) & (owners < C.RANKS)
        flags = tl.load(table + owners, mask=inside, other=0) + flag_offset
        store_flags(flags.to(tl.pointer_type(tl.int32)), tl.zeros_like(owners) + epoch, inside)


@triton.jit
def compute_tile(
    order,  # place in launch order
    a,
    w,
    bias,
    partial,
    arrived,
    table,
    slots,
    rank,
    epoch,
    C: tl.constexpr,
):
    """One slice of one tile of a @ w.T; whoever finishes a tile sends it."""
    step = order // XCDS
    part = step % C.SPLIT_K  # the slices of one tile run side by side, on one XCD
    turn, tile = ranks_in_turn(order % XCDS, step // C.SPLIT_K, C.SHARE_TILES, C.SHARES, XCDS)
    if tile < C.SHARE_TILES:
        tile_row, tile_column = grouped_rows(tile, C.SHARE_TILES // C.COLUMN_TILES, C.COLUMN_TILES, C.GROUP_M)
        first_column = tile_column * C.BLOCK_N
        if C.SPAN == 0:
            owner = (rank + 1 + turn) % C.RANKS
            local_row = tile_row * C.BLOCK_M
            first_row = owner * C.ROWS + local_row
            end_row = owner * C.ROWS + C.ROWS
            flag = tile_row * C.COLUMN_TILES + tile_column
        else:
            owner = tile_row * C.SPAN
            local_row = 0
            first_row = owner * C.ROWS
            end_row = C.M
            flag = tile_column
        acc = gemm_tile(
            a, w, first_row, end_row, first_column, C.N, C.K, part, C.SPLIT_K, C.BLOCK_M, C.BLOCK_N, C.BLOCK_K
        )
        finished = True
        if C.SPLIT_K > 1:
            number = turn * C.SHARE_TILES + tile
            store_slice(acc, partial, number, part, C.SPLIT_K, C.BLOCK_M, C.BLOCK_N)
            stores_complete()
            acc, finished = add_slices(acc, partial, arrived, number, C.SPLIT_K, C.BLOCK_M, C.BLOCK_N)
        if finished:
            x = rounded_tile(acc, bias, first_column, C)
            flag_offset = (flag * C.RANKS + rank) * 4
            send_tile(x, table, slots, rank, owner, local_row, first_column, flag_offset, epoch, C)


@triton.jit
def calls_behind(flags, epoch, C: tl.constexpr):
    """int32 [MAX_RANKS], negative where a rank's flag has not come to `epoch`; all flags in one load."""
    rank = tl.arange(0, MAX_RANKS)
    return tl.where(rank < C.RANKS, load_flags(flags + rank, rank < C.RANKS) - epoch, 0)


@triton.jit
def wait_for_sources(flags, epoch, alarm, timeout_ticks, C: tl.constexpr):
    """Wait until all RANKS flags (int32, side by side, own memory) have come to `epoch`: as wait_until_at_least.

    Each wave polls for itself. After timeout_ticks the kernel ends with an error that names a rank that is behind.
    """
    if tl.min(calls_behind(flags, epoch, C)) < 0:
        start = wall_clock()
        while tl.min(calls_behind(flags, epoch, C)) < 0:
            pause()
            if wall_clock() - start > timeout_ticks:
                raise_alarm(alarm, 1, tl.argmin(calls_behind(flags, epoch, C), 0), epoch)
    acquire_system()


@triton.jit
def sum_rows(
    unit,
    out,  # bf16 [ROWS][N]
    table,
    slots,
    rank,
    epoch,
    alarm,
    timeout_ticks,
    C: tl.constexpr,
):
    """Wait until all ranks have stored a tile of this rank's rows; add SUM_ROWS of its rows."""
    # In the order in which tiles are finished: all XCDs' ranges side by side.
    order = unit // C.PIECES
    tile = order % XCDS * ((C.OWN_TILES + XCDS - 1) // XCDS) + order // XCDS
    if tile < C.OWN_TILES:
        tile_row, tile_column = grouped_rows(tile, C.OWN_ROW_TILES, C.COLUMN_TILES, C.GROUP_M)
        region = tl.load(table + rank)
        flags = region.to(tl.pointer_type(tl.int32)) + (tile_row * C.COLUMN_TILES + tile_column) * C.RANKS
        wait_for_sources(flags, epoch, alarm, timeout_ticks, C)
        first_row = tile_row * C.BLOCK_M + unit % C.PIECES * C.SUM_ROWS
        rn = tile_column * C.BLOCK_N + tl.arange(0, C.BLOCK_N)
        RANKS: tl.constexpr = C.RANKS
        CHUNK_ROWS: tl.constexpr = C.CHUNK_ROWS
        BLOCK_N: tl.constexpr = C.BLOCK_N
        for row in range(0, C.SUM_ROWS, C.CHUNK_ROWS):
            rm = first_row + row + tl.arange(0, C.CHUNK_ROWS)
            # A tile's rows end where the next tile's begin, and a rank's at ROWS.
            inside = ((rm < C.ROWS) & (rm < tile_row * C.BLOCK_M + C.BLOCK_M))[:, None] & (rn < C.N)[None, :]
            place = (region + slots).to(tl.pointer_type(tl.bfloat16))
            place = tl.multiple_of(place, 16 if C.N % 8 == 0 else 2)
            at = rm[:, None] * C.N + rn[None, :]
            total = tl.zeros((CHUNK_ROWS, BLOCK_N), dtype=tl.float32)
            for _ in tl.static_range(RANKS):
                total += tl.load(place + at, mask=inside, other=0.0).to(tl.float32)
                place += C.ROWS * C.N
            tl.store(out + at, total.to(tl.bfloat16), mask=inside)


@triton.jit(do_not_specialize=["rank", "epoch", "alarm", "timeout_ticks"])
def gemm_rs_kernel(
    a,  # bf16 [M][K]
    w,  # bf16 [N][K]
    bias,  # bf16 [N], unused without HAS_BIAS
    out,  # bf16 [M / RANKS][N]
    partial,  # fp32 [tiles][SPLIT_K][BLOCK_M][BLOCK_N], unused where SPLIT_K is 1
    arrived,  # int32 [tiles], zero between launches
    table,  # int64 [RANKS]: where each rank's region lies: flags, then the slots of even and of odd calls
    rank,
    epoch,  # the number of this call
    alarm,
    timeout_ticks,
    C: tl.constexpr,  # GemmRs
):
    """Workgroups 0 .. PRODUCERS - 1 compute tiles; the others add."""
    pid = tl.program_id(0)
    slots = C.FLAG_BYTES + (epoch & 1).to(tl.int64) * C.SLOT_BYTES
    if pid < C.PRODUCERS:
        compute_tile(pid, a, w, bias, partial, arrived, table, slots, rank, epoch, C)
    else:
        sum_rows(pid - C.PRODUCERS, out, table, slots, rank, epoch, alarm, timeout_ticks, C)


# ---------------------------------------------------------------- host side


def fitted(row, m, n, k, world_size):
    """DEFAULT for a shape outside the table.

    Blocks are halved, not below 64, while a rank's rows or n fill no more than half of one, and while there are fewer
    tiles than compute units (the longer side first). Then k is split as long as there are less than twice as many
    workgroups as units and slices keep 256 of k.
    """
    row, rows = dict(row), m // world_size

    def tiles():
        row_tiles = triton.cdiv(rows, row["BLOCK_M"]) * world_size if rows >= 64 else triton.cdiv(m, row["BLOCK_M"])
        return row_tiles * triton.cdiv(n, row["BLOCK_N"])

    for side, size in (("BLOCK_M", rows), ("BLOCK_N", n)):
        while row[side] > 64 and row[side] // 2 >= size:
            row[side] //= 2
    while tiles() < COMPUTE_UNITS and max(row["BLOCK_M"], row["BLOCK_N"]) > 64:
        row["BLOCK_N" if row["BLOCK_N"] >= row["BLOCK_M"] else "BLOCK_M"] //= 2
    while row["SPLIT_K"] < 16 and tiles() * row["SPLIT_K"] <= COMPUTE_UNITS and k // (row["SPLIT_K"] * 2) >= 256:
        row["SPLIT_K"] *= 2
    if row["BLOCK_M"] * row["BLOCK_N"] < 128 * 256:
        row["num_warps"] = 4
    return row


def config_of(row, m, n, k, world_size, has_bias):
    """What a row of the tuning table makes of a shape."""
    block_m, block_n, rows = row["BLOCK_M"], row["BLOCK_N"], m // world_size
    # A tile holds the rows of several ranks where one rank's rows do not fill half of it.
    span = min(block_m // rows, world_size)
    sum_rows = min(row["SUM_ROWS"], triton.next_power_of_2(min(rows, block_m)))
    # What a workgroup adds at a time: 16 loads of 16 bytes in flight a lane.
    lanes = WAVE * row["num_warps"]
    chunk_rows = max(1, min(sum_rows, max(1, 16 // world_size) * 8 * lanes // block_n))
    slot_bytes = place_bytes_for(2 * m * n)
    config = GemmRs(
        M=m,
        N=n,
        K=k,
        RANKS=world_size,
        HAS_BIAS=has_bias,
        SPAN=span if span > 1 else 0,
        FLAG_BYTES=65536 + slot_bytes // 32,
        SLOT_BYTES=slot_bytes,
        SUM_ROWS=sum_rows,
        CHUNK_ROWS=chunk_rows,
        **{name: row[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "SPLIT_K")},
    )
    assert config.OWN_TILES * world_size * 4 <= config.FLAG_BYTES
    return config


class Plan(RankPlan):
    """A shape's compiled kernel and its arguments."""

    def __init__(self, heap, a, w, bias):
        (m, k), n, ranks = a.shape, w.shape[0], heap.world_size
        super().__init__(heap, (m, n, k), TUNING.get((m, n, k)))
        row = self.table_row or fitted(DEFAULT, m, n, k, ranks)
        config = config_of(row, m, n, k, ranks, bias is not None)
        split_tiles = config.SHARE_TILES * config.SHARES if config.SPLIT_K > 1 else 0
        n_partial = split_tiles * config.SPLIT_K * config.BLOCK_M * config.BLOCK_N
        partial = torch.empty(max(1, n_partial), dtype=torch.float32, device=a.device)
        arrived = torch.zeros(max(1, split_tiles), dtype=torch.int32, device=a.device)
        bf16, far = torch.bfloat16, 1 << 40  # a 64-bit number
        compiled = compile_kernel(
            gemm_rs_kernel,
            (bf16, bf16, bf16, bf16, torch.float32, torch.int32, torch.int64, 0, 1, far, far, config),
            num_warps=row["num_warps"],
            num_stages=row["num_stages"],
            matrix_instr_nonkdim=row["MFMA"],
        )
        self.launch = bound_to_grid(compiled, config.PRODUCERS + config.ADDERS)
        self.take_region("gemm_rs", config.FLAG_BYTES, config.SLOT_BYTES, {1: "a tile of gemm-rs"})
        self.out_shape = (config.ROWS, n)
        self.before = (partial, arrived, self.region.table, heap.rank)
        self.after = (heap.alarm_address, heap.timeout_ticks, config)
        self.meet(f"gemm-rs of {list(a.shape)} and {list(w.shape)}")

    def run(self, a, w, bias):
        out = a.new_empty(self.out_shape)
        self.launch(a, w, w if bias is None else bias, out, *self.before, self.region.next_epoch(), *self.after)
        return out


_plans: dict[Any, Plan] = {}


def tuning_row(data):
    """The row that custom_kernel(data) uses: the tuner begins there."""
    a, w, _ = data
    shape = (a.shape[0], w.shape[0], a.shape[1])
    return TUNING.get(shape) or fitted(DEFAULT, *shape, symmetric_heap().world_size)


def custom_kernel(data):
    """input bf16 [m, k/W], weight bf16 [n, k/W], bias bf16 [n] or None -> bf16 [m/W, n], of the sum over all ranks."""
    a, w, bias = data
    heap = symmetric_heap()

    def make():
        check_input(a, w, bias, heap.world_size)
        return Plan(heap, a, w, bias)

    plan = plan_for(_plans, input_key(a, w, bias), heap, TUNING, make)
    return plan(aligned(a), aligned(w), None if bias is None else aligned(bias))
