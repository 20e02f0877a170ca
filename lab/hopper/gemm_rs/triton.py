"""amd-gemm-rs in Triton, on NVIDIA's Hopper GPUs: tiles come by TMA and leave under the next product."""

import math
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels.common.compiled_kernel import bound_to_grid, compile_kernel
from kernels.common.gemm_inputs import aligned, input_key
from kernels.common.gemm_tiles import add_slices, gemm_tile, store_slice
from kernels.common.rank_plan import RankPlan, plan_for
from kernels.common.symmetric_heap import symmetric_heap
from kernels.common.workgroup_order import grouped_rows
from kernels.gemm_rs.triton_shape import MAX_RANKS, Shape, check_input, rounded_tile
from lab.hopper.common.gemm_tiles import descriptor_tile, tile_stored
from lab.hopper.common.launch_arguments import MemoryAt, pointer
from lab.hopper.common.peer_signals import (
    acquire_system,
    load_flags,
    pause,
    raise_alarm,
    release_system,
    store_flags,
    stores_complete,
    wall_clock,
)
from lab.hopper.gemm_rs.triton_tuning import DEFAULT, TUNING

PROCESSORS = 132  # H200
WARP = 32
LARGEST_PAGE_BYTES = 2 << 20  # what the CUDA driver aligns large memory to


@dataclass(frozen=True)
class GemmRs(Shape):
    PRODUCERS: int  # workgroups that compute tiles, in a loop where there are more places than these
    DESCRIPTORS: bool  # load tiles by TMA
    BULK: bool  # store them by TMA

    @property
    def PLACES(self):
        return self.SHARE_TILES * self.SHARES * self.SPLIT_K

    @property
    def ADDERS(self):
        return self.OWN_TILES * self.PIECES


@triton.jit
def store_rows(
    place,  # where the tile begins, one pointer or one a row
    row_offset,  # [BLOCK_M], added to it
    row_inside,
    x,  # bf16 [BLOCK_M, BLOCK_N]
    columns,  # of x that are to be stored
    C: tl.constexpr,
):
    """Store rows of x, 16 bytes a lane where rows begin at multiples of 16 bytes."""
    row = place + row_offset
    if C.N % 8 == 0:
        ROWS: tl.constexpr = C.BLOCK_M
        EIGHTS: tl.constexpr = C.BLOCK_N // 8
        column = tl.arange(0, EIGHTS) * 8
        inside = row_inside[:, None] & (column < columns)[None, :]
        at = (row[:, None] + column[None, :])[:, :, None] + tl.arange(0, 8)[None, None, :]
        tl.store(at, tl.reshape(x, (ROWS, EIGHTS, 8)), mask=inside[:, :, None])
    else:
        column = tl.arange(0, C.BLOCK_N)
        inside = row_inside[:, None] & (column < columns)[None, :]
        tl.store(row[:, None] + column[None, :], x, mask=inside)


@triton.jit
def send_tile(
    x,  # bf16 [BLOCK_M, BLOCK_N]
    table,  # int64 [RANKS]: where each rank's region lies
    slots,  # byte offset of this call's slots in a region: [source rank][ROWS][N] bf16
    slot_pages,  # descriptor, or unused: see Plan.bulk_pages
    pages,  # int32 [2][RANKS], or unused: likewise
    rank,
    first_rank,  # whose rows come first in x
    first_row,  # among that rank's rows
    first_column,
    flag_offset,  # byte offset of the tile's flag of this source
    epoch,
    C: tl.constexpr,
):
    """Store a tile into the slots of this rank at the owners of its rows. Returns the address of the flag that is to be
    set once it is there (tile_sent), or sets all flags and returns 0 where there are several."""
    local = tl.arange(0, C.BLOCK_M)
    if C.SPAN == 0:
        region = tl.load(table + first_rank)
        if C.BULK:
            ROWS: tl.constexpr = C.BLOCK_M
            COLUMNS: tl.constexpr = C.BLOCK_N
            page = tl.load(pages + (epoch & 1) * C.RANKS + first_rank)
            slot_pages.store([page, first_row, first_column], tl.reshape(x, (1, ROWS, COLUMNS)))
        else:
            place = tl.multiple_of((region + slots).to(tl.pointer_type(tl.bfloat16)), 16)
            place += (rank * C.ROWS + first_row).to(tl.int64) * C.N + first_column
            store_rows(place, local * C.N, first_row + local < C.ROWS, x, C.N - first_column, C)
        flag = region + flag_offset
    else:
        owner = first_rank + local // C.ROWS
        inside = (local < C.SPAN * C.ROWS) & (owner < C.RANKS)
        region = tl.load(table + owner, mask=inside, other=0)
        place = tl.multiple_of((region + slots).to(tl.pointer_type(tl.bfloat16)), 16)
        row_offset = (rank * C.ROWS + local % C.ROWS) * C.N + first_column
        store_rows(place, row_offset, inside, x, C.N - first_column, C)
        tile_stored()
        release_system()
        owners = first_rank + tl.arange(0, MAX_RANKS)
        inside = (owners < first_rank + C.SPAN) & (owners < C.RANKS)
        flags = tl.load(table + owners, mask=inside, other=0) + flag_offset
        store_flags(flags.to(tl.pointer_type(tl.int32)), tl.zeros_like(owners) + epoch, inside, MAX_RANKS)
        flag = tl.full((), 0, tl.int64)
    return flag


@triton.jit
def tile_sent(flag, epoch, C: tl.constexpr):
    """Set the flag of a tile that send_tile() has stored (0: none), when it is there."""
    if C.BULK:
        # Each thread waits for the copies it has begun (one has), until they are written, not only read.
        tl.inline_asm_elementwise(
            "cp.async.bulk.wait_group 0; mov.u32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1
        )
    tile_stored()
    release_system()
    value = tl.full((), 0, tl.int32) + epoch
    store_flags(flag.to(tl.pointer_type(tl.int32)), value, flag != 0, 1)


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
    slot_pages,
    pages,
    rank,
    epoch,
    unflagged,  # what an earlier call has returned
    DEFER: tl.constexpr,
    C: tl.constexpr,
):
    """One slice of one tile of a @ w.T; whoever finishes a tile sends it. Returns the address of its flag, or 0.

    With DEFER the flag of the tile before is set here, after the product: its stores had that long to arrive.
    """
    part = order % C.SPLIT_K  # the slices of one tile run side by side
    number = order // C.SPLIT_K
    turn = number // C.SHARE_TILES  # of the rank whose rows these are; this rank's own come last
    tile_row, tile_column = grouped_rows(
        number % C.SHARE_TILES, C.SHARE_TILES // C.COLUMN_TILES, C.COLUMN_TILES, C.GROUP_M
    )
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
    if C.DESCRIPTORS:
        acc = descriptor_tile(a, w, first_row, first_column, C.K, part, C.SPLIT_K, C.BLOCK_M, C.BLOCK_N, C.BLOCK_K)
    else:
        acc = gemm_tile(
            a, w, first_row, end_row, first_column, C.N, C.K, part, C.SPLIT_K, C.BLOCK_M, C.BLOCK_N, C.BLOCK_K
        )
    if DEFER:
        tile_sent(unflagged, epoch, C)
    flag_address = tl.full((), 0, tl.int64)
    finished = True
    if C.SPLIT_K > 1:
        store_slice(acc, partial, number, part, C.SPLIT_K, C.BLOCK_M, C.BLOCK_N)
        stores_complete()
        acc, finished = add_slices(acc, partial, arrived, number, C.SPLIT_K, C.BLOCK_M, C.BLOCK_N)
    if finished:
        x = rounded_tile(acc, bias, first_column, C)
        flag_offset = (flag * C.RANKS + rank) * 4
        flag_address = send_tile(
            x, table, slots, slot_pages, pages, rank, owner, local_row, first_column, flag_offset, epoch, C
        )
    return flag_address


@triton.jit
def calls_behind(flags, epoch, C: tl.constexpr):
    """int32 [MAX_RANKS], negative where a rank's flag has not come to `epoch`; all flags in one load."""
    rank = tl.arange(0, MAX_RANKS)
    return tl.where(rank < C.RANKS, load_flags(flags + rank, rank < C.RANKS) - epoch, 0)


@triton.jit
def wait_for_sources(flags, epoch, alarm, timeout_ticks, C: tl.constexpr):
    """Wait until all RANKS flags (int32, side by side, own memory) have come to `epoch`: as wait_until_at_least.

    Each warp polls for itself. After timeout_ticks the kernel ends with an error that names a rank that is behind.
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
    tile_row, tile_column = grouped_rows(unit // C.PIECES, C.OWN_ROW_TILES, C.COLUMN_TILES, C.GROUP_M)
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
    slot_pages,  # with BULK: descriptor of this rank's slots at all ranks, [page][ROWS][N]
    pages,  # with BULK: int32 [2][RANKS]: on which page of it they begin, in even and in odd calls
    rank,
    epoch,  # the number of this call
    alarm,
    timeout_ticks,
    C: tl.constexpr,  # GemmRs
):
    """Workgroups 0 .. PRODUCERS - 1 compute tiles, PLACES in all; the others add."""
    pid = tl.program_id(0)
    slots = C.FLAG_BYTES + (epoch & 1).to(tl.int64) * C.SLOT_BYTES
    if pid < C.PRODUCERS:
        flag = tl.full((), 0, tl.int64)
        if C.PRODUCERS == C.PLACES:
            flag = compute_tile(
                pid, a, w, bias, partial, arrived, table, slots, slot_pages, pages, rank, epoch, flag, False, C
            )
        else:
            for order in tl.range(pid, C.PLACES, C.PRODUCERS, flatten=C.DESCRIPTORS):
                flag = compute_tile(
                    order, a, w, bias, partial, arrived, table, slots, slot_pages, pages, rank, epoch, flag, True, C
                )
        if flag != 0:
            tile_sent(flag, epoch, C)
    else:
        sum_rows(pid - C.PRODUCERS, out, table, slots, rank, epoch, alarm, timeout_ticks, C)


# ---------------------------------------------------------------- host side


def fitted(row, m, n, k, world_size):
    """DEFAULT for a shape outside the table.

    Blocks are halved, not below 64, while a rank's rows or n fill no more than half of one, and while there are fewer
    tiles than processors (the longer side first). Then k is split as long as processors are idle and slices keep 256
    of k. Large tiles are computed by persistent workgroups, with TMA loads.
    """
    row, rows = dict(row), m // world_size

    def tiles():
        row_tiles = triton.cdiv(rows, row["BLOCK_M"]) * world_size if rows >= 64 else triton.cdiv(m, row["BLOCK_M"])
        return row_tiles * triton.cdiv(n, row["BLOCK_N"])

    for side, size in (("BLOCK_M", rows), ("BLOCK_N", n)):
        while row[side] > 64 and row[side] // 2 >= size:
            row[side] //= 2
    while tiles() < PROCESSORS and max(row["BLOCK_M"], row["BLOCK_N"]) > 64:
        row["BLOCK_N" if row["BLOCK_N"] >= row["BLOCK_M"] else "BLOCK_M"] //= 2
    while row["SPLIT_K"] < 16 and tiles() * row["SPLIT_K"] * 2 <= PROCESSORS and k // (row["SPLIT_K"] * 2) >= 256:
        row["SPLIT_K"] *= 2
    large = row["BLOCK_M"] * row["BLOCK_N"] == 128 * 256
    if not large:
        row["num_warps"] = 4
    row.update(num_stages=3, DESCRIPTORS=large, PRODUCERS=PROCESSORS if large else 0)
    return row


def config_of(row, m, n, k, world_size, has_bias, bulk=True):
    """What a row of the tuning table makes of a shape. bulk: whether peers' memory can be reached by a descriptor."""
    block_m, block_n, rows = row["BLOCK_M"], row["BLOCK_N"], m // world_size
    # A tile holds the rows of several ranks where one rank's rows do not fill half of it.
    span = min(block_m // rows, world_size)
    span = span if span > 1 else 0
    sum_rows = min(row["SUM_ROWS"], triton.next_power_of_2(min(rows, block_m)))
    # What a workgroup adds at a time: 16 loads of 16 bytes in flight a lane.
    lanes = WARP * row["num_warps"]
    chunk_rows = max(1, min(sum_rows, max(1, 16 // world_size) * 8 * lanes // block_n))
    slot_bytes = max(LARGEST_PAGE_BYTES, triton.next_power_of_2(2 * m * n))
    own_row_tiles = 1 if span else triton.cdiv(rows, block_m)
    share_tiles = triton.cdiv(n, block_n) * (triton.cdiv(world_size, span) if span else own_row_tiles)
    places = share_tiles * (1 if span else world_size) * row["SPLIT_K"]
    config = GemmRs(
        M=m,
        N=n,
        K=k,
        RANKS=world_size,
        HAS_BIAS=has_bias,
        SPAN=span,
        FLAG_BYTES=triton.cdiv(slot_bytes // 32 + 65536, LARGEST_PAGE_BYTES) * LARGEST_PAGE_BYTES,
        SLOT_BYTES=slot_bytes,
        SUM_ROWS=sum_rows,
        CHUNK_ROWS=chunk_rows,
        PRODUCERS=min(places, row["PRODUCERS"] or places),
        DESCRIPTORS=row["DESCRIPTORS"] and k % 8 == 0,
        BULK=bulk and n % 8 == 0 and not span,
        **{name: row[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "SPLIT_K")},
    )
    assert config.PLACES == places and config.OWN_TILES * world_size * 4 <= config.FLAG_BYTES
    return config


def as_pages(places):
    """(lowest, page size in bytes, page numbers) with places[i] = lowest + page size * page number i.

    The page is as large as the places' alignment allows, for they may be mapped anywhere in 128 TiB. None where a
    number would exceed a descriptor's coordinates.
    """
    lowest = min(places)
    apart = math.gcd(*(place - lowest for place in places), LARGEST_PAGE_BYTES)
    pages = [(place - lowest) // apart for place in places]
    return (lowest, apart, pages) if max(pages) < 1 << 31 else None


def slot_descriptor(config, address, page_bytes=LARGEST_PAGE_BYTES, n_pages=1):
    """Descriptor of [page][row][column] from `address` on: one for the slots of one rank in all ranks' memory."""
    shape, strides = [n_pages, config.ROWS, config.N], [page_bytes // 2, config.N, 1]
    return TensorDescriptor(MemoryAt(address), shape, strides, [1, config.BLOCK_M, config.BLOCK_N])


class Plan(RankPlan):
    """A shape's compiled kernel and its arguments."""

    def __init__(self, heap, a, w, bias):
        (m, k), n = a.shape, w.shape[0]
        super().__init__(heap, (m, n, k), TUNING.get((m, n, k)))
        self.row = self.table_row or fitted(DEFAULT, m, n, k, heap.world_size)
        self.case = (self.row, m, n, k, heap.world_size, bias is not None)
        self.build(config_of(*self.case), aligned(a), aligned(w))
        config = self.config
        self.take_region("gemm_rs", config.FLAG_BYTES, config.SLOT_BYTES, {1: "a tile of gemm-rs"})
        self.out_shape = (config.ROWS, n)
        slot_pages: Any = pointer(self.arrived)
        self.pages = self.arrived
        if config.BULK:
            found = as_pages([address + place for place in self.places for address in self.region.addresses])
            if found is None:
                self.build(config_of(*self.case, bulk=False), aligned(a), aligned(w))
                slot_pages = pointer(self.arrived)
            else:
                lowest, page_bytes, pages = found
                own_slot = lowest + heap.rank * config.ROWS * n * 2
                slot_pages = slot_descriptor(config, own_slot, page_bytes, max(pages) + 1)
                self.pages = torch.tensor(pages, dtype=torch.int32, device=a.device)
        workspace = pointer(self.partial), pointer(self.arrived), pointer(self.region.table)
        self.before = (*workspace, slot_pages, pointer(self.pages), heap.rank)
        self.after = (heap.alarm_address, heap.timeout_ticks, self.config)
        self.meet(f"gemm-rs of {list(a.shape)} and {list(w.shape)}")

    def build(self, config, a, w):
        self.config, far = config, 1 << 40  # a 64-bit number
        split_tiles = config.SHARE_TILES * config.SHARES if config.SPLIT_K > 1 else 0
        n_partial = split_tiles * config.SPLIT_K * config.BLOCK_M * config.BLOCK_N
        self.partial = torch.empty(max(1, n_partial), dtype=torch.float32, device=a.device)
        self.arrived = torch.zeros(max(1, split_tiles), dtype=torch.int32, device=a.device)
        self.descriptors = None
        if config.DESCRIPTORS:
            self.descriptors = (
                TensorDescriptor.from_tensor(a, [config.BLOCK_M, config.BLOCK_K]),
                TensorDescriptor.from_tensor(w, [config.BLOCK_N, config.BLOCK_K]),
            )
        bf16, int32, int64 = torch.bfloat16, torch.int32, torch.int64
        slot_pages = slot_descriptor(config, 0) if config.BULK else int32
        memory = (bf16, bf16, torch.float32, int32, int64, slot_pages, int32)
        compiled = compile_kernel(
            gemm_rs_kernel,
            (*(self.descriptors or (bf16, bf16)), *memory, 0, 1, far, far, config),
            num_warps=self.row["num_warps"],
            num_stages=self.row["num_stages"],
        )
        self.launch = bound_to_grid(compiled, config.PRODUCERS + config.ADDERS)

    def run(self, a, w, bias):
        out = a.new_empty(self.out_shape)
        tiles_of = self.descriptors
        if tiles_of:
            tiles_of[0].base, tiles_of[1].base = a, w
        else:
            tiles_of = pointer(a), pointer(w)
        bias = w if bias is None else bias
        self.launch(*tiles_of, pointer(bias), pointer(out), *self.before, self.region.next_epoch(), *self.after)
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
