"""amd-ag-gemm in Triton: gather and product in one launch.

Each of W ranks has M/W rows of the input and N/W columns' weights; each returns all M rows of its N/W columns.

The workgroups with the lowest ids push this rank's rows, chunk by chunk, into the memory of every peer and count each
chunk there. The others compute tiles: first those of the own rows, read where they lie, then those of the peers' rows,
in the order in which they arrive. Nobody who pushes ever waits, counters are never reset, and the gathered rows
alternate between two places from call to call: docs/kernels/ag_gemm.md says why that is safe without any barrier.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from kernels.ag_gemm.arrival_order import tile_in_arrival_order
from kernels.ag_gemm.triton_gfx942_tuning import DEFAULT, TUNING
from kernels.ag_gemm.triton_shape import (
    MAX_RANKS,
    WAITS,
    check_input,
    config_of,
    in_pages,
    power_of_two_up_to,
    table_key,
)
from kernels.common.compiled_kernel import bound_to_grid, compile_kernel
from kernels.common.gemm_inputs import aligned, input_key
from kernels.common.gemm_tiles import add_slices, gemm_tile, store_slice
from kernels.common.peer_signals_gfx942 import (
    acquire_system,
    load_flags,
    pause,
    raise_alarm,
    signal_add,
    stores_complete,
    wait_until_at_least,
    wall_clock,
)
from kernels.common.rank_plan import RankPlan, plan_for
from kernels.common.symmetric_heap import symmetric_heap
from kernels.common.workgroup_order import xcd_contiguous

COMPUTE_UNITS = 304  # MI300X
XCDS = tl.constexpr(8)
LDS_BYTES = 65536


@triton.jit
def push_rows(
    sender,
    a,  # bf16 [ROWS][K], this rank's rows
    table,  # int64 [RANKS]: where each rank's region lies
    slot,  # byte offset in a region of this call's rows, [RANKS][ROWS][K] bf16
    rank,
    C: tl.constexpr,
):
    """One of the SENDERS workgroups of one destination: its share of every chunk, PUSH elements at a time."""
    destination = (rank + 1 + sender % C.DESTINATIONS) % C.RANKS
    share = sender // C.DESTINATIONS
    region = tl.load(table + destination)
    counters = region.to(tl.pointer_type(tl.int32)) + rank * C.CHUNKS
    there = (region + slot).to(tl.pointer_type(tl.bfloat16)) + (rank * C.ROWS).to(tl.int64) * C.K
    there = tl.multiple_of(there, 16 if C.K % 8 == 0 else 2)
    at = tl.arange(0, C.PUSH)
    # Write-through keeps the L2 free of lines that the release would have to write back.
    for chunk in range(C.CHUNKS):
        first = (chunk * C.CHUNK_ROWS).to(tl.int64) * C.K
        size = tl.minimum(C.CHUNK_ROWS, C.ROWS - chunk * C.CHUNK_ROWS) * C.K
        for begin in range(share * C.PUSH, size, C.SENDERS * C.PUSH):
            inside = begin + at < size
            x = tl.load(a + first + begin + at, mask=inside)
            tl.store(there + first + begin + at, x, mask=inside, cache_modifier=".wt")
        stores_complete()
        signal_add(counters + chunk, 1)


@triton.jit
def wait_for_sources(counters, first, last, target, alarm, timeout_ticks):
    """wait_until_at_least() for the counters first .. last, all looked at in one load."""
    source = first + tl.arange(0, MAX_RANKS)
    inside = source <= last
    behind = (inside & (load_flags(counters + source, inside) - target < 0)).to(tl.int32)
    if tl.sum(behind) > 0:
        start = wall_clock()
        while tl.sum(behind) > 0:
            pause()
            behind = (inside & (load_flags(counters + source, inside) - target < 0)).to(tl.int32)
            if wall_clock() - start > timeout_ticks:
                raise_alarm(alarm, 1, first + tl.argmax(behind, 0), target)
    acquire_system()


@triton.jit(do_not_specialize=["rank", "epoch", "timeout_ticks"])
def ag_gemm_kernel(
    a,  # bf16 [M / RANKS][K]
    w,  # bf16 [N][K]
    bias,  # bf16 [N], unused without HAS_BIAS
    out,  # bf16 [M][N]
    partial,  # fp32 [tiles][SPLIT_K][BLOCK_M][BLOCK_N], unused where SPLIT_K is 1
    arrived,  # int32 [tiles], zero between launches
    table,  # int64 [RANKS]: where each rank's region lies
    counters,  # int32 [RANKS][chunks]: how often a chunk of that rank has been pushed here, in parts; grows for ever
    gathered,  # bf16 [M][K]: where peers push to in this call
    slot,  # byte offset of `gathered` in a region
    rank,
    epoch,  # the number of this call
    alarm,
    timeout_ticks,
    C: tl.constexpr,  # AgGemm
):
    """Workgroups 0 .. PUSHERS - 1 push; the others compute a slice of a tile each."""
    pid = tl.program_id(0)
    alarm = alarm.to(tl.int64)  # whatever the size of its value
    if pid < C.PUSHERS:
        push_rows(pid, a, table, slot, rank, C)
    else:
        target = epoch * C.SENDERS
        x = gathered
        if C.SPAN:
            unit = xcd_contiguous(pid - C.PUSHERS, C.TILES * C.SPLIT_K, XCDS)
            part = unit % C.SPLIT_K
            row_tile = unit // C.SPLIT_K % C.ROW_TILES
            column_tile = unit // C.SPLIT_K // C.ROW_TILES
            out_row = row_tile * C.BLOCK_M
            first_row = out_row
            end_row = C.M
            end_out = C.M
            number = row_tile * C.COLUMN_TILES + column_tile
            last_source = tl.minimum(first_row + C.BLOCK_M - 1, C.M - 1) // C.ROWS
            wait_for_sources(counters, first_row // C.ROWS, last_source, target, alarm, timeout_ticks)
        else:
            distance, row_tile, column_tile, part = tile_in_arrival_order(
                pid - C.PUSHERS, C.CHUNKS, C.COLUMN_TILES, C.RANKS, C.BAND, C.SPLIT_K, XCDS
            )
            source = (rank + distance) % C.RANKS
            out_row = source * C.ROWS + row_tile * C.BLOCK_M
            end_out = source * C.ROWS + C.ROWS
            first_row = out_row
            end_row = end_out
            number = (source * C.CHUNKS + row_tile) * C.COLUMN_TILES + column_tile
            if distance == 0:
                x = a
                first_row = row_tile * C.BLOCK_M
                end_row = C.ROWS
            else:
                wait_until_at_least(counters + source * C.CHUNKS + row_tile, target, alarm, timeout_ticks, 1, source)
        first_column = column_tile * C.BLOCK_N
        acc = gemm_tile(
            x, w, first_row, end_row, first_column, C.N, C.K, part, C.SPLIT_K, C.BLOCK_M, C.BLOCK_N, C.BLOCK_K
        )
        finished = True
        if C.SPLIT_K > 1:
            store_slice(acc, partial, number, part, C.SPLIT_K, C.BLOCK_M, C.BLOCK_N)
            stores_complete()
            acc, finished = add_slices(acc, partial, arrived, number, C.SPLIT_K, C.BLOCK_M, C.BLOCK_N)
        if finished:
            rm = out_row + tl.arange(0, C.BLOCK_M)
            rn = first_column + tl.arange(0, C.BLOCK_N)
            if C.HAS_BIAS:
                acc += tl.load(bias + rn, mask=rn < C.N, other=0.0).to(tl.float32)[None, :]
            place = out + out_row.to(tl.int64) * C.N + first_column
            inside = (rm < end_out)[:, None] & (rn < C.N)[None, :]
            at_out = tl.arange(0, C.BLOCK_M)[:, None] * C.N + tl.arange(0, C.BLOCK_N)[None, :]
            tl.store(place + at_out, acc.to(tl.bfloat16), mask=inside)


# ---------------------------------------------------------------- the choice of a row


def adapted_row(row, m, n, k, ranks):
    """A row for a shape that the table does not have, from a given one.

    Tiles no larger than the shape (rows of a rank; where these are fewer than 32, of all ranks), and k split where
    fewer tiles than half the compute units come out, into slices of 512 and more. Two stages in 64 KB of LDS.
    """
    rows = m // ranks
    span = rows < 32
    block_m = max(16, power_of_two_up_to(min(row["BLOCK_M"], 64) if span else row["BLOCK_M"], m if span else rows))
    block_n = max(16, power_of_two_up_to(row["BLOCK_N"], n))
    row_tiles = -(-m // block_m) if span else ranks * -(-rows // block_m)
    tiles = row_tiles * -(-n // block_n)
    split, block_k = row["SPLIT_K"], row["BLOCK_K"]
    while split < 8 and tiles * split * 2 <= COMPUTE_UNITS and k // (split * 2) >= 512:
        split *= 2
    while (block_m + block_n) * block_k * 2 > LDS_BYTES:
        block_k //= 2
    return {**row, "BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "SPLIT_K": split, "num_stages": 2}


# ---------------------------------------------------------------- host side


def row_for(a, w, ranks):
    m, n, k = table_key(a, w, ranks)
    return TUNING.get((m, n, k)) or adapted_row(DEFAULT, m, n, k, ranks)


class Plan(RankPlan):
    """A shape's compiled kernel and its arguments."""

    def __init__(self, heap, a, w, bias, row):
        super().__init__(heap, table_key(a, w, heap.world_size), TUNING.get(table_key(a, w, heap.world_size)))
        self.out_shape = (a.shape[0] * heap.world_size, w.shape[0])
        rows, k = a.shape
        config = config_of(row, rows, w.shape[0], k, heap.world_size, bias is not None)
        flag_bytes = in_pages(4 * config.RANKS * config.CHUNKS)
        place_bytes = in_pages(2 * config.M * k)
        bf16, int32 = torch.bfloat16, torch.int32
        pointers = (bf16, bf16, bf16, bf16, torch.float32, int32, torch.int64, int32, bf16)
        compiled = compile_kernel(
            ag_gemm_kernel,
            (*pointers, flag_bytes + place_bytes, 0, 0, heap.alarm_address, heap.timeout_ticks, config),
            num_warps=row["num_warps"],
            num_stages=row["num_stages"],
            matrix_instr_nonkdim=row["MFMA"],
        )
        self.launch = bound_to_grid(compiled, config.PUSHERS + config.TILES * config.SPLIT_K)
        name = f"ag_gemm {config.SPAN} {config.CHUNKS} {config.SENDERS} {rows} {k}"
        self.take_region(name, flag_bytes, place_bytes, WAITS)
        own = self.region.addresses[heap.rank]
        n_partial = config.TILES * config.SPLIT_K * config.BLOCK_M * config.BLOCK_N if config.SPLIT_K > 1 else 1
        self.partial = torch.empty(n_partial, device=a.device)
        self.arrived = torch.zeros(config.TILES, dtype=torch.int32, device=a.device)
        self.before = (self.partial, self.arrived, self.region.table, own)
        self.slots = tuple((own + place, place, heap.rank) for place in self.places)
        self.after = (heap.alarm_address, heap.timeout_ticks, config)
        self.meet(f"ag-gemm of rows {[rows, k]}")

    def run(self, a, w, bias):
        out = torch.empty(self.out_shape, dtype=torch.bfloat16, device=a.device)
        epoch = self.region.next_epoch()
        bias = a if bias is None else bias
        self.launch(a, w, bias, out, *self.before, *self.slots[epoch & 1], epoch, *self.after)
        return out


_plans: dict[Any, RankPlan] = {}


def tuning_row(data):
    """The row that custom_kernel(data) uses: the tuner begins there."""
    a, w, _ = data
    return row_for(a, w, symmetric_heap().world_size)


def custom_kernel(data):
    """input bf16 [M/W, K], weight bf16 [N/W, K], bias bf16 [N/W] or None -> bf16 [M, N/W], of the rows of all ranks."""
    a, w, bias = data
    heap = symmetric_heap()

    def make():
        check_input(a, w, bias)
        row = row_for(a, w, heap.world_size)
        return Plan(heap, a, w, bias, row)

    plan = plan_for(_plans, input_key(a, w, bias), heap, TUNING, make)
    return plan(aligned(a), aligned(w), None if bias is None else aligned(bias))
