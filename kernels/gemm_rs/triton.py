"""amd-gemm-rs in Triton: product, exchange and sum in one launch.

Rank r of W returns rows r*M/W .. (r+1)*M/W - 1 of the sum over all ranks of bf16(a @ w.T + bias).

Workgroups with the lowest ids compute tiles of a @ w.T and store them, rounded to bf16, straight into the slot of this
rank in the owner's memory; then the tile's flag there takes the number of this call. Workgroups with the highest ids
wait for a tile's flags from all ranks, add the W slots in fp32 and store the output. Flags are never reset and slots
alternate from call to call: see docs/kernels/gemm_rs.md for why that is safe without any barrier between calls.
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels.common.compiled_kernel import MemoryAt, bound_to_grid, compile_kernel, pointer
from kernels.common.gemm_choice import COMPUTE_UNITS, gpu_arch
from kernels.common.gemm_inputs import aligned, check_gemm_inputs, input_key
from kernels.common.gemm_tiles import gemm_tile, ranks_in_turn, sum_of_slices, tile_stored
from kernels.common.peer_signals import (
    acquire_system,
    load_flags,
    pause,
    raise_alarm,
    release_system,
    store_flags,
    wall_clock,
)
from kernels.common.symmetric_heap import symmetric_heap
from kernels.common.workgroup_order import grouped_rows
from kernels.gemm_rs.triton_tuning import DEFAULT, TUNING

MAX_RANKS = tl.constexpr(16)  # a power of two
# How lanes store slots. On AMD through all caches, so that a release finds nothing to write back; on NVIDIA the same
# modifier makes strong stores of them, about a tenth slower over the links.
SLOT_STORE = tl.constexpr(".wt" if torch.version.hip else "")


@triton.jit
def stamp(trace, moment: tl.constexpr, TRACE: tl.constexpr):
    """With TRACE: the clock into this workgroup's row of `trace`, int64 [workgroups][4]."""
    if TRACE:
        tl.store(trace + tl.program_id(0) * 4 + moment, wall_clock())


@triton.jit
def rounded_tile(acc, bias, first_column, N, BLOCK_N: tl.constexpr, HAS_BIAS: tl.constexpr):
    """bf16 of acc + bias, the addition in fp32."""
    if HAS_BIAS:
        rn = first_column + tl.arange(0, BLOCK_N)
        acc += tl.load(bias + rn, mask=rn < N, other=0.0).to(tl.float32)[None, :]
    return acc.to(tl.bfloat16)


@triton.jit
def store_rows(
    place,  # where the tile begins, one pointer or one a row
    row_offset,  # [BLOCK_M], added to it
    row_inside,
    x,  # bf16 [BLOCK_M, BLOCK_N]
    columns,  # of x that are to be stored
    N: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Store rows of x, 16 bytes a lane and lanes side by side where rows begin at multiples of 16 bytes.

    The third dimension makes Triton's AMD backend turn x through LDS. Of two dimensions it would store the matrix
    instruction's own layout: 8 bytes a lane, 32 bytes of a row at a time, which a link carries badly.
    """
    row = place + row_offset
    if N % 8 == 0:
        column = tl.arange(0, BLOCK_N // 8) * 8
        inside = row_inside[:, None] & (column < columns)[None, :]
        at = (row[:, None] + column[None, :])[:, :, None] + tl.arange(0, 8)[None, None, :]
        tl.store(at, tl.reshape(x, (BLOCK_M, BLOCK_N // 8, 8)), mask=inside[:, :, None], cache_modifier=SLOT_STORE)
    else:
        column = tl.arange(0, BLOCK_N)
        inside = row_inside[:, None] & (column < columns)[None, :]
        tl.store(row[:, None] + column[None, :], x, mask=inside, cache_modifier=SLOT_STORE)


@triton.jit
def send_tile(
    x,  # bf16 [BLOCK_M, BLOCK_N]
    table,  # int64 [RANKS]: where each rank's region lies
    slots,  # byte offset of this call's slots in a region: [source rank][ROWS][N] bf16
    slot_pages,  # descriptor, or unused: see Plan.join
    pages,  # int32 [2][RANKS], or unused: likewise
    rank,
    first_rank,  # whose rows come first in x
    first_row,  # among that rank's rows
    first_column,
    flag_offset,  # byte offset of the tile's flag of this source
    epoch,
    ROWS: tl.constexpr,  # of each rank
    N: tl.constexpr,
    RANKS: tl.constexpr,
    SPAN: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BULK: tl.constexpr,
):
    """Store a tile into the slots of this rank at the owners of its rows. Returns the address of the flag that is to be
    set once it is there (tile_sent), or sets all flags and returns 0 where there are several.

    SPAN 0: all rows of x belong to first_rank; otherwise x has the rows of SPAN ranks, all ROWS of each.
    """
    local = tl.arange(0, BLOCK_M)
    if SPAN == 0:
        region = tl.load(table + first_rank)
        if BULK:
            page = tl.load(pages + (epoch & 1) * RANKS + first_rank)
            slot_pages.store([page, first_row, first_column], tl.reshape(x, (1, BLOCK_M, BLOCK_N)))
        else:
            place = tl.multiple_of((region + slots).to(tl.pointer_type(tl.bfloat16)), 16)
            place += (rank * ROWS + first_row).to(tl.int64) * N + first_column
            store_rows(place, local * N, first_row + local < ROWS, x, N - first_column, N, BLOCK_M, BLOCK_N)
        flag = region + flag_offset
    else:
        owner = first_rank + local // ROWS
        inside = (local < SPAN * ROWS) & (owner < RANKS)
        region = tl.load(table + owner, mask=inside, other=0)
        place = tl.multiple_of((region + slots).to(tl.pointer_type(tl.bfloat16)), 16)
        row_offset = (rank * ROWS + local % ROWS) * N + first_column
        store_rows(place, row_offset, inside, x, N - first_column, N, BLOCK_M, BLOCK_N)
        tile_stored()
        release_system()
        owners = first_rank + tl.arange(0, MAX_RANKS)
        inside = (owners < first_rank + SPAN) & (owners < RANKS)
        flags = tl.load(table + owners, mask=inside, other=0) + flag_offset
        values = tl.zeros_like(owners) + epoch
        store_flags(flags.to(tl.pointer_type(tl.int32)), values, inside, MAX_RANKS)
        flag = tl.full((), 0, tl.int64)
    return flag


@triton.jit
def tile_sent(flag, epoch, BULK: tl.constexpr):
    """Set the flag of a tile that send_tile() has stored (0: none), when it is there."""
    if BULK:
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
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    RANKS: tl.constexpr,
    SPAN: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    SPLIT_K: tl.constexpr,
    XCDS: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
    BULK: tl.constexpr,
    DEFER: tl.constexpr,
):
    """One slice of one tile of a @ w.T; whoever finishes a tile sends it. Returns the address of its flag, or 0.

    With DEFER the flag of the tile before is set here, after the product: its stores had that long to arrive.
    """
    ROWS: tl.constexpr = M // RANKS
    ROW_TILES: tl.constexpr = (ROWS + BLOCK_M - 1) // BLOCK_M if SPAN == 0 else (RANKS + SPAN - 1) // SPAN
    COLUMN_TILES: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    SHARES: tl.constexpr = RANKS if SPAN == 0 else 1
    TILES: tl.constexpr = ROW_TILES * COLUMN_TILES

    step = order // XCDS
    part = step % SPLIT_K  # the slices of one tile run side by side, on one XCD
    flag_address = unflagged
    turn, tile = ranks_in_turn(order % XCDS, step // SPLIT_K, TILES, SHARES, XCDS)
    if TILES % XCDS == 0 or tile < TILES:
        tile_row, tile_column = grouped_rows(tile, ROW_TILES, COLUMN_TILES, GROUP_M)
        first_column = tile_column * BLOCK_N
        if SPAN == 0:
            owner = (rank + 1 + turn) % RANKS
            local_row = tile_row * BLOCK_M
            first_row = owner * ROWS + local_row
            end_row = owner * ROWS + ROWS
            flag = tile_row * COLUMN_TILES + tile_column
        else:
            owner = tile_row * SPAN
            local_row = 0
            first_row = owner * ROWS
            end_row = M
            flag = tile_column
        acc = gemm_tile(
            a, w, first_row, end_row, first_column, N, K, part, SPLIT_K, BLOCK_M, BLOCK_N, BLOCK_K, DESCRIPTORS
        )
        if DEFER:
            tile_sent(unflagged, epoch, BULK)
        flag_address = tl.full((), 0, tl.int64)
        finished = True
        if SPLIT_K > 1:
            number = turn * TILES + tile
            acc, finished = sum_of_slices(acc, partial, arrived, number, part, SPLIT_K, BLOCK_M, BLOCK_N)
        if finished:
            flag_address = send_tile(
                rounded_tile(acc, bias, first_column, N, BLOCK_N, HAS_BIAS),
                table,
                slots,
                slot_pages,
                pages,
                rank,
                owner,
                local_row,
                first_column,
                (flag * RANKS + rank) * 4,
                epoch,
                ROWS,
                N,
                RANKS,
                SPAN,
                BLOCK_M,
                BLOCK_N,
                BULK,
            )
    return flag_address


@triton.jit
def calls_behind(flags, epoch, RANKS: tl.constexpr):
    """int32 [MAX_RANKS], negative where a rank's flag has not come to `epoch`; all flags in one load."""
    rank = tl.arange(0, MAX_RANKS)
    return tl.where(rank < RANKS, load_flags(flags + rank, rank < RANKS) - epoch, 0)


@triton.jit
def wait_for_sources(flags, epoch, alarm, timeout_ticks, RANKS: tl.constexpr):
    """Wait until all RANKS flags (int32, side by side, own memory) have come to `epoch`: as wait_until_at_least.

    Each wave polls for itself. After timeout_ticks the kernel ends with an error that names a rank that is behind.
    """
    if tl.min(calls_behind(flags, epoch, RANKS)) < 0:
        start = wall_clock()
        while tl.min(calls_behind(flags, epoch, RANKS)) < 0:
            pause()
            if wall_clock() - start > timeout_ticks:
                raise_alarm(alarm, 1, tl.argmin(calls_behind(flags, epoch, RANKS), 0), epoch)
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
    trace,
    ROWS: tl.constexpr,
    N: tl.constexpr,
    RANKS: tl.constexpr,
    SPAN: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    GROUP_M: tl.constexpr,
    SUM_ROWS: tl.constexpr,
    CHUNK_ROWS: tl.constexpr,
    XCDS: tl.constexpr,
    TRACE: tl.constexpr,
):
    """Wait until all ranks have stored a tile of this rank's rows; add SUM_ROWS of its rows."""
    ROW_TILES: tl.constexpr = (ROWS + BLOCK_M - 1) // BLOCK_M if SPAN == 0 else 1
    COLUMN_TILES: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    TILES: tl.constexpr = ROW_TILES * COLUMN_TILES
    TILE_ROWS: tl.constexpr = BLOCK_M if ROWS > BLOCK_M else ROWS
    PIECES: tl.constexpr = (TILE_ROWS + SUM_ROWS - 1) // SUM_ROWS

    # In the order in which tiles are finished: all XCDs' ranges side by side.
    order = unit // PIECES
    tile = order % XCDS * ((TILES + XCDS - 1) // XCDS) + order // XCDS
    if TILES % XCDS == 0 or tile < TILES:
        tile_row, tile_column = grouped_rows(tile, ROW_TILES, COLUMN_TILES, GROUP_M)
        region = tl.load(table + rank)
        flags = region.to(tl.pointer_type(tl.int32)) + (tile_row * COLUMN_TILES + tile_column) * RANKS
        wait_for_sources(flags, epoch, alarm, timeout_ticks, RANKS)
        stamp(trace, 1, TRACE)
        first_row = tile_row * BLOCK_M + unit % PIECES * SUM_ROWS
        rn = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
        for row in range(0, SUM_ROWS, CHUNK_ROWS):
            rm = first_row + row + tl.arange(0, CHUNK_ROWS)
            # A tile's rows end where the next tile's begin, and a rank's at ROWS.
            inside = ((rm < ROWS) & (rm < tile_row * BLOCK_M + BLOCK_M))[:, None] & (rn < N)[None, :]
            place = (region + slots).to(tl.pointer_type(tl.bfloat16))
            place = tl.multiple_of(place, 16 if N % 8 == 0 else 2)
            at = rm[:, None] * N + rn[None, :]
            total = tl.zeros((CHUNK_ROWS, BLOCK_N), dtype=tl.float32)
            for _ in tl.static_range(RANKS):
                total += tl.load(place + at, mask=inside, other=0.0).to(tl.float32)
                place += ROWS * N
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
    trace,  # int64 [workgroups][4], with TRACE: when a workgroup began, had its flags (of those that add), and ended
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    RANKS: tl.constexpr,
    SPAN: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    FLAG_BYTES: tl.constexpr,
    SLOT_BYTES: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    SPLIT_K: tl.constexpr,
    SUM_ROWS: tl.constexpr,
    CHUNK_ROWS: tl.constexpr,
    PLACES: tl.constexpr,
    PRODUCERS: tl.constexpr,
    XCDS: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
    FLATTEN: tl.constexpr,
    BULK: tl.constexpr,
    TRACE: tl.constexpr,
):
    """Workgroups 0 .. PRODUCERS - 1 compute tiles, PLACES in all; the others add."""
    pid = tl.program_id(0)
    slots = FLAG_BYTES + (epoch & 1).to(tl.int64) * SLOT_BYTES
    stamp(trace, 0, TRACE)
    if pid < PRODUCERS:
        flag = tl.full((), 0, tl.int64)
        if PRODUCERS == PLACES:
            flag = compute_tile(
                pid, a, w, bias, partial, arrived, table, slots, slot_pages, pages, rank, epoch, flag, M, N, K, RANKS,
                SPAN, HAS_BIAS, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, SPLIT_K, XCDS, DESCRIPTORS, BULK, False,
            )  # fmt: skip
        else:
            for order in tl.range(pid, PLACES, PRODUCERS, flatten=FLATTEN):
                flag = compute_tile(
                    order, a, w, bias, partial, arrived, table, slots, slot_pages, pages, rank, epoch, flag, M, N, K,
                    RANKS, SPAN, HAS_BIAS, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, SPLIT_K, XCDS, DESCRIPTORS, BULK,
                    True,
                )  # fmt: skip
        if flag != 0:
            tile_sent(flag, epoch, BULK)
    else:
        sum_rows(
            pid - PRODUCERS, out, table, slots, rank, epoch, alarm, timeout_ticks, trace, M // RANKS, N, RANKS, SPAN,
            BLOCK_M, BLOCK_N, GROUP_M, SUM_ROWS, CHUNK_ROWS, XCDS, TRACE,
        )  # fmt: skip
    stamp(trace, 2, TRACE)


# ---------------------------------------------------------------- host side

TRACE = False  # time stamps of every workgroup, in plan.trace
XCD_COUNT = {"gfx942": 8, "sm_90": 1}
WAVE_SIZE = {"gfx942": 64, "sm_90": 32}
LARGEST_PAGE_BYTES = 2 << 20  # what the CUDA driver aligns large memory to


def fitted(row, arch, m, n, k, world_size):
    """DEFAULT for a shape outside the table.

    Blocks are halved, not below 64, while a rank's rows or n fill no more than half of one, and while there are fewer
    tiles than compute units (the longer side first). Then k is split as long as units are idle (on gfx942: less than
    twice as many workgroups as units) and slices keep 256 of k.
    """
    row = dict(row)
    units, rows = COMPUTE_UNITS[arch], m // world_size

    def tiles():
        row_tiles = triton.cdiv(rows, row["BLOCK_M"]) * world_size if rows >= 64 else triton.cdiv(m, row["BLOCK_M"])
        return row_tiles * triton.cdiv(n, row["BLOCK_N"])

    for side, size in (("BLOCK_M", rows), ("BLOCK_N", n)):
        while row[side] > 64 and row[side] // 2 >= size:
            row[side] //= 2
    while tiles() < units and max(row["BLOCK_M"], row["BLOCK_N"]) > 64:
        row["BLOCK_N" if row["BLOCK_N"] >= row["BLOCK_M"] else "BLOCK_M"] //= 2
    most = 2 * units if arch == "gfx942" else units
    while row["SPLIT_K"] < 16 and tiles() * row["SPLIT_K"] * 2 <= most and k // (row["SPLIT_K"] * 2) >= 256:
        row["SPLIT_K"] *= 2
    large = row["BLOCK_M"] * row["BLOCK_N"] == 128 * 256
    if not large:
        row["num_warps"] = 4
    if arch == "sm_90":  # persistent with TMA loads for large tiles
        row.update(num_stages=3, DESCRIPTORS=large, PRODUCERS=units if large else 0)
    return row


class Geometry:
    """What a row of the tuning table makes of a shape: the kernel's constants, its grid, its memory."""

    def __init__(self, row, arch, m, n, k, world_size, has_bias, bulk=True):
        block_m, block_n, split_k = row["BLOCK_M"], row["BLOCK_N"], row["SPLIT_K"]
        xcds = XCD_COUNT[arch]
        descriptors = arch == "sm_90" and row["DESCRIPTORS"] and k % 8 == 0
        rows = m // world_size
        # A tile holds the rows of several ranks where one rank's rows do not fill half of it.
        span = min(block_m // rows, world_size)
        span = span if span > 1 else 0
        own_tiles = triton.cdiv(n, block_n) * (1 if span else triton.cdiv(rows, block_m))
        shares = 1 if span else world_size
        share_tiles = own_tiles * triton.cdiv(world_size, span) if span else own_tiles
        places = triton.cdiv(share_tiles, xcds) * xcds * shares * split_k
        producers = min(places, row["PRODUCERS"] or places)
        bulk = bulk and arch == "sm_90" and n % 8 == 0 and not span
        tile_rows = min(rows, block_m)
        sum_rows = min(row["SUM_ROWS"], triton.next_power_of_2(tile_rows))
        # What a workgroup adds at a time: 16 loads of 16 bytes in flight a lane.
        lanes = WAVE_SIZE[arch] * row["num_warps"]
        chunk_rows = max(1, min(sum_rows, max(1, 16 // world_size) * 8 * lanes // block_n))
        self.n_workgroups = producers + triton.cdiv(own_tiles, xcds) * xcds * triton.cdiv(tile_rows, sum_rows)
        # Shapes of one size class share a region, flags first: its epoch counts the calls of all of them.
        slot_bytes = max(LARGEST_PAGE_BYTES, triton.next_power_of_2(2 * m * n))
        flag_bytes = triton.cdiv(slot_bytes // 32 + 65536, LARGEST_PAGE_BYTES) * LARGEST_PAGE_BYTES
        assert own_tiles * world_size * 4 <= flag_bytes
        self.region_key, self.region_bytes = ("gemm_rs", slot_bytes), flag_bytes + 2 * slot_bytes
        self.n_tiles = share_tiles * shares if split_k > 1 else 1
        self.n_partial = self.n_tiles * split_k * block_m * block_n if split_k > 1 else 1
        self.constants = {
            "M": m,
            "N": n,
            "K": k,
            "RANKS": world_size,
            "SPAN": span,
            "HAS_BIAS": has_bias,
            "FLAG_BYTES": flag_bytes,
            "SLOT_BYTES": slot_bytes,
            "BLOCK_M": block_m,
            "BLOCK_N": block_n,
            "BLOCK_K": row["BLOCK_K"],
            "GROUP_M": row["GROUP_M"],
            "SPLIT_K": split_k,
            "SUM_ROWS": sum_rows,
            "CHUNK_ROWS": chunk_rows,
            "PLACES": places,
            "PRODUCERS": producers,
            "XCDS": xcds,
            "DESCRIPTORS": bool(descriptors),
            "FLATTEN": bool(descriptors),
            "BULK": bool(bulk),
            "TRACE": TRACE,
        }
        self.options = {"num_warps": row["num_warps"], "num_stages": row["num_stages"]}
        if arch == "gfx942":
            self.options["matrix_instr_nonkdim"] = row["MFMA"]

    def compile(self, a, w, bias, partial, arrived):
        """(what launches the kernel, what to give it for a and w)."""
        c = self.constants
        tiles_of = a, w
        if c["DESCRIPTORS"]:
            tiles_of = (
                TensorDescriptor.from_tensor(a, [c["BLOCK_M"], c["BLOCK_K"]]),
                TensorDescriptor.from_tensor(w, [c["BLOCK_N"], c["BLOCK_K"]]),
            )
        far = 1 << 40  # a 64-bit number
        arguments = (
            *tiles_of,
            bias,
            a,
            partial,
            arrived,
            torch.int64,
            self.slot_pages(0) if c["BULK"] else arrived,
            torch.int32,
            0,
            1,
            far,
            far,
            torch.int64,
            *c.values(),
        )
        compiled = compile_kernel(gemm_rs_kernel, arguments, **self.options)
        return bound_to_grid(compiled, self.n_workgroups), tiles_of

    def slot_pages(self, address, page_bytes=LARGEST_PAGE_BYTES, n_pages=1):
        """Descriptor of [page][row][column] from `address` on: one for the slots of one rank in all ranks' memory."""
        c = self.constants
        shape, strides = [n_pages, c["M"] // c["RANKS"], c["N"]], [page_bytes // 2, c["N"], 1]
        return TensorDescriptor(MemoryAt(address), shape, strides, [1, c["BLOCK_M"], c["BLOCK_N"]])


def as_pages(places):
    """(lowest, page size in bytes, page numbers) with places[i] = lowest + page size * page number i.

    The page is as large as the places' alignment allows, for they may be mapped anywhere in 128 TiB. None where a
    number would exceed a descriptor's coordinates.
    """
    lowest = min(places)
    apart = math.gcd(*(place - lowest for place in places), LARGEST_PAGE_BYTES)
    pages = [(place - lowest) // apart for place in places]
    return (lowest, apart, pages) if max(pages) < 1 << 31 else None


class Plan:
    """What is the same in all calls of one shape on one device: the compiled kernel and its arguments."""

    def __init__(self, a, w, bias, world_size):
        (m, k), n, arch = a.shape, w.shape[0], gpu_arch()
        self.shape = (arch, m, n, k)
        self.table_row = TUNING.get(self.shape)
        row = self.table_row or fitted(DEFAULT, *self.shape, world_size)
        self.case = (row, *self.shape, world_size, bias is not None)
        self.out_shape = (m // world_size, n)
        self.heap: Any = None
        self.region: Any = None
        # Before there is a region: no peer spins while this one compiles.
        self.build(a, w, bias, bulk=True)

    def build(self, a, w, bias, bulk):
        a, w = aligned(a), aligned(w)
        self.geometry = geometry = Geometry(*self.case, bulk)
        constants = geometry.constants
        self.partial = torch.empty(geometry.n_partial, dtype=torch.float32, device=a.device)
        self.arrived = torch.zeros(geometry.n_tiles, dtype=torch.int32, device=a.device)
        self.trace = torch.empty(4 * geometry.n_workgroups if TRACE else 1, dtype=torch.int64, device=a.device)
        self.bulk = constants["BULK"]
        self.pages = self.arrived
        self.launch, tiles_of = geometry.compile(a, w, w if bias is None else bias, self.partial, self.arrived)
        self.descriptors = tiles_of if constants["DESCRIPTORS"] else None
        self.constants = tuple(constants.values())
        # Slots of even and of odd calls in the region.
        self.places = (constants["FLAG_BYTES"], constants["FLAG_BYTES"] + constants["SLOT_BYTES"])

    def join(self, heap, a, w, bias):
        """Take part in the heap of this process group."""
        geometry = self.geometry
        slot_pages: Any = None
        heap.name_waits({1: "a tile of gemm-rs"})
        self.region = region = heap.region(geometry.region_key, geometry.region_bytes)
        if self.bulk:
            found = as_pages([address + place for place in self.places for address in region.addresses])
            if found is None:
                self.build(a, w, bias, bulk=False)
            else:
                lowest, page_bytes, pages = found
                own_slot = lowest + heap.rank * self.out_shape[0] * self.out_shape[1] * 2
                slot_pages = geometry.slot_pages(own_slot, page_bytes, max(pages) + 1)
                self.pages = torch.tensor(pages, dtype=torch.int32, device=region.table.device)
        # The region may be there already: nobody shall wait in a kernel for a peer that still compiles.
        heap.agree(f"to be ready for gemm-rs of {list(a.shape)} and {list(w.shape)}")
        self.heap = heap
        workspace = pointer(self.partial), pointer(self.arrived), pointer(region.table)
        self.before = (*workspace, slot_pages or workspace[1], pointer(self.pages), heap.rank)
        self.after = (heap.alarm_address, heap.timeout_ticks, pointer(self.trace), *self.constants)

    def call(self, a, w, bias):
        out = a.new_empty(self.out_shape)
        tiles_of = self.descriptors
        if tiles_of:
            tiles_of[0].base, tiles_of[1].base = a, w
        else:
            tiles_of = pointer(a), pointer(w)
        bias = w if bias is None else bias
        self.launch(*tiles_of, pointer(bias), pointer(out), *self.before, self.region.next_epoch(), *self.after)
        return out


# (world size, input_key()) -> Plan
_plans: dict[Any, Plan] = {}


def check_input(a, w, bias, world_size):
    """ValueError where the kernel does not support what it is given."""
    check_gemm_inputs(a, w, bias)
    m, n = a.shape[0], w.shape[0]
    if world_size > MAX_RANKS.value:
        raise ValueError(f"at most {MAX_RANKS.value} ranks are supported, got {world_size}")
    if m % world_size:
        raise ValueError(f"m must be a multiple of the world size {world_size}, got {m}")
    if m * n >= 1 << 31:
        raise ValueError(f"m * n must be below 2^31, got {m=}, {n=}")


def tuning_row(data):
    """The row that custom_kernel(data) uses: the tuner begins there."""
    a, w, _ = data
    shape = (gpu_arch(), a.shape[0], w.shape[0], a.shape[1])
    return TUNING.get(shape) or fitted(DEFAULT, *shape, symmetric_heap().world_size)


def custom_kernel(data):
    """input bf16 [m, k/W], weight bf16 [n, k/W], bias bf16 [n] or None -> bf16 [m/W, n], of the sum over all ranks."""
    a, w, bias = data
    heap = symmetric_heap()
    key = heap.world_size, input_key(a, w, bias)
    plan = _plans.get(key)
    if plan is None or plan.table_row is not TUNING.get(plan.shape):
        check_input(a, w, bias, heap.world_size)
        plan = _plans[key] = Plan(a, w, bias, heap.world_size)
    if plan.heap is not heap:
        plan.join(heap, a, w, bias)
    return plan.call(aligned(a), aligned(w), None if bias is None else aligned(bias))
