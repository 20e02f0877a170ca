"""amd-ag-gemm in Triton, on NVIDIA's Hopper GPUs: hopper_kernel.py for large shapes, one as on gfx942 else."""

from typing import Any

import torch
import triton
import triton.language as tl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.ag_gemm.arrival_order import tile_in_arrival_order
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
from kernels.common.rank_plan import RankPlan, plan_for
from kernels.common.symmetric_heap import symmetric_heap
from kernels.common.workgroup_order import xcd_contiguous
from lab.hopper.ag_gemm.hopper_kernel import Hopper, ag_gemm_hopper_kernel, tile_layout
from lab.hopper.ag_gemm.triton_tuning import DEFAULT, TUNING
from lab.hopper.common.launch_arguments import MemoryAt, pointer
from lab.hopper.common.peer_signals import (
    acquire_system,
    load_flags,
    pause,
    raise_alarm,
    signal_add,
    stores_complete,
    wait_until_at_least,
    wall_clock,
)

PROCESSORS = 132  # H200


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
    for chunk in range(C.CHUNKS):
        first = (chunk * C.CHUNK_ROWS).to(tl.int64) * C.K
        size = tl.minimum(C.CHUNK_ROWS, C.ROWS - chunk * C.CHUNK_ROWS) * C.K
        for begin in range(share * C.PUSH, size, C.SENDERS * C.PUSH):
            inside = begin + at < size
            x = tl.load(a + first + begin + at, mask=inside)
            tl.store(there + first + begin + at, x, mask=inside)
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


@triton.jit
def prefetch_weights(w, first_column, part, C: tl.constexpr):
    """Have the L2 fetch this slice's weights while the rows are still under way."""
    BLOCK_K: tl.constexpr = C.BLOCK_K
    row = tl.minimum(first_column + tl.arange(0, C.BLOCK_N), C.N - 1).to(tl.int64) * C.K
    for block in range(part * (C.K // BLOCK_K) // C.SPLIT_K, (part + 1) * (C.K // BLOCK_K) // C.SPLIT_K):
        for line in tl.static_range(0, BLOCK_K, 64):
            tl.inline_asm_elementwise(
                "prefetch.global.L2 [$1]; mov.u32 $0, 0;",
                "=r,l",
                [(w + row + block * BLOCK_K + line).to(tl.int64)],
                dtype=tl.int32,
                is_pure=False,
                pack=1,
            )


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
            unit = xcd_contiguous(pid - C.PUSHERS, C.TILES * C.SPLIT_K, 1)
            part = unit % C.SPLIT_K
            row_tile = unit // C.SPLIT_K % C.ROW_TILES
            column_tile = unit // C.SPLIT_K // C.ROW_TILES
            out_row = row_tile * C.BLOCK_M
            first_row = out_row
            end_row = C.M
            end_out = C.M
            number = row_tile * C.COLUMN_TILES + column_tile
            prefetch_weights(w, column_tile * C.BLOCK_N, part, C)
            last_source = tl.minimum(first_row + C.BLOCK_M - 1, C.M - 1) // C.ROWS
            wait_for_sources(counters, first_row // C.ROWS, last_source, target, alarm, timeout_ticks)
        else:
            distance, row_tile, column_tile, part = tile_in_arrival_order(
                pid - C.PUSHERS, C.CHUNKS, C.COLUMN_TILES, C.RANKS, C.BAND, C.SPLIT_K, 1
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

    Shapes that fill the card with tiles of 128x256 take the warp-specialised kernel. For the others: tiles no larger
    than the shape (rows of a rank; where these are fewer than 32, of all ranks), and k split where fewer tiles than
    half the processors come out, into slices of 512 and more.
    """
    rows = m // ranks
    large = {**row, "BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "SLICES": 1, "LATE": 0, "BAND": 2}
    large = {**large, "num_warps": 8, "num_stages": 4, "SENDERS": 132, "SEND_WARPS": 1, "PUSH": 32768, "TAIL": 0}
    if n >= 2048:  # the product takes longer than NVLink: spare it, and share the last tiles
        large = {**large, "SENDERS": 64, "SEND_WARPS": 2, "PUSH": 16384, "SPLIT_K": 4, "TAIL": 1}
    if m * n >= 128 * 256 * 100 and fits_hopper_kernel(large, rows, n, k, ranks):
        return large
    span = rows < 32
    block_m = max(16, power_of_two_up_to(min(row["BLOCK_M"], 64) if span else row["BLOCK_M"], m if span else rows))
    block_n = max(16, power_of_two_up_to(row["BLOCK_N"], n))
    row_tiles = -(-m // block_m) if span else ranks * -(-rows // block_m)
    tiles = row_tiles * -(-n // block_n)
    split = row["SPLIT_K"]
    while split < 8 and tiles * split * 2 <= PROCESSORS and k // (split * 2) >= 512:
        split *= 2
    fitted = {**row, "BLOCK_M": block_m, "BLOCK_N": block_n, "SPLIT_K": split, "SLICES": 0}
    return {**fitted, "num_stages": 4, "SENDERS": 120}


def fits_hopper_kernel(row, rows, n, k, ranks):
    """Whether the warp-specialised kernel takes the shape: whole tiles of rows, whole slices of k, 16-byte lines."""
    slices = row["SLICES"]
    return (
        slices > 0
        and ranks > 1
        and rows % row["BLOCK_M"] == 0
        and n % 8 == 0
        and k % 8 == 0
        and (slices == 1 or k % (slices * row["BLOCK_K"]) == 0)
        and torch.cuda.get_device_capability() == (9, 0)
    )


# ---------------------------------------------------------------- host side


def row_for(a, w, ranks):
    """The table's row, or the default's where the table has none or its row's kernel does not take the shape."""
    rows, shape = a.shape[0], (w.shape[0], a.shape[1], ranks)
    row = TUNING.get(table_key(a, w, ranks))
    if row is None or (row["SLICES"] and not fits_hopper_kernel(row, rows, *shape)):
        row = adapted_row(DEFAULT, rows * ranks, *shape)
    return row


def as_int32(value):
    """Wrapped to 32 bits, signed."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


class MatrixArgument:
    """What Triton's launcher wants of a tensor descriptor; it is encoded at each launch."""

    padding, round_f32_to_tf32 = "zero", False

    def __init__(self, shape):
        self.shape, self.strides = list(shape), [shape[1], 1]

    def at(self, base):
        self.base = base
        return self


def descriptors_of(config):
    """Of the own rows, of all rows, of the weights and of the result: for compiling, without memory."""
    rows, m, n, k = config.ROWS, config.ROWS * config.RANKS, config.N, config.K
    of_rows, of_w = (config.BLOCK_M, config.BLOCK_K), (config.BLOCK_N, config.BLOCK_K)
    halves = (config.BLOCK_M, config.BLOCK_N // 2)
    sample = torch.empty(16, dtype=torch.bfloat16)
    matrices = (((rows, k), of_rows), ((m, k), of_rows), ((n, k), of_w), ((m, n), halves))
    return [TensorDescriptor(sample, shape, (shape[1], 1), b, tile_layout(b)) for shape, b in matrices]


class AgGemmPlan(RankPlan):
    def __init__(self, heap, a, w):
        key = table_key(a, w, heap.world_size)
        super().__init__(heap, key, TUNING.get(key))
        self.out_shape = (a.shape[0] * heap.world_size, w.shape[0])


class PortablePlan(AgGemmPlan):
    """A shape's compiled kernel and its arguments."""

    def __init__(self, heap, a, w, bias, row):
        super().__init__(heap, a, w)
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
        )
        self.launch = bound_to_grid(compiled, config.PUSHERS + config.TILES * config.SPLIT_K)
        name = f"ag_gemm {config.SPAN} {config.CHUNKS} {config.SENDERS} {rows} {k}"
        self.take_region(name, flag_bytes, place_bytes, WAITS)
        own = self.region.addresses[heap.rank]
        n_partial = config.TILES * config.SPLIT_K * config.BLOCK_M * config.BLOCK_N if config.SPLIT_K > 1 else 1
        self.partial = torch.empty(n_partial, device=a.device)
        self.arrived = torch.zeros(config.TILES, dtype=torch.int32, device=a.device)
        self.before = (pointer(self.partial), pointer(self.arrived), pointer(self.region.table), own)
        self.slots = tuple((own + place, place, heap.rank) for place in self.places)
        self.after = (heap.alarm_address, heap.timeout_ticks, config)
        self.meet(f"ag-gemm of rows {[rows, k]}")

    def run(self, a, w, bias):
        out = torch.empty(self.out_shape, dtype=torch.bfloat16, device=a.device)
        epoch = self.region.next_epoch()
        bias = a if bias is None else bias
        self.launch(
            pointer(a),
            pointer(w),
            pointer(bias),
            pointer(out),
            *self.before,
            *self.slots[epoch & 1],
            epoch,
            *self.after,
        )
        return out


class HopperPlan(AgGemmPlan):
    """One persistent workgroup a processor, which sends as well."""

    def __init__(self, heap, a, w, bias, row):
        super().__init__(heap, a, w)
        (rows, k), n, ranks = a.shape, w.shape[0], heap.world_size
        block_m, block_n, block_k, slices = row["BLOCK_M"], row["BLOCK_N"], row["BLOCK_K"], row["SLICES"]
        band = min(row["BAND"], rows // block_m)
        bands = -(-rows // (band * block_m))
        piece_rows = power_of_two_up_to(block_m, max(1, row["PUSH"] // (k // slices)))
        self.parts = band * block_m // piece_rows
        tiles = ranks * rows // block_m * -(-n // block_n)
        workgroups = min(tiles, torch.cuda.get_device_properties(a.device).multi_processor_count)
        senders = min(row["SENDERS"], workgroups)
        self.tickets_a_call = bands * slices * self.parts * (ranks - 1) + senders
        self.calls = 0
        # Split in k, for all workgroups to share: the tiles of the last TAIL bands, which begin when the last rows come
        # (or what is left over of whole rounds). Workgroups that send before they multiply miss the first turns.
        late = row["LATE"] if row["SEND_WARPS"] == 0 else 0
        left_over = (tiles - min(tiles, late * (workgroups - senders))) % workgroups
        if row["TAIL"]:
            tail_rows = rows // block_m - max(0, bands - row["TAIL"]) * band
            left_over = tail_rows * (ranks - 1) * -(-n // block_n)
        split_k = max(1, min(row["SPLIT_K"], workgroups // left_over if left_over else 1))
        config = Hopper(
            ROWS=rows,
            N=n,
            K=k,
            RANKS=ranks,
            HAS_BIAS=bias is not None,
            BLOCK_M=block_m,
            BLOCK_N=block_n,
            BLOCK_K=block_k,
            BAND=band,
            SLICES=slices,
            PIECE_ROWS=piece_rows,
            SENDERS=senders,
            SEND_WARPS=row["SEND_WARPS"],
            LATE=late,
            FULL=tiles - left_over if split_k > 1 else tiles,
            SPLIT_K=split_k,
            WORKGROUPS=workgroups,
            STAGES=row["num_stages"],
            WARPS=row["num_warps"],
        )
        shapes = ((rows, k), (ranks * rows, k), (n, k), (ranks * rows, n))
        flag_bytes = in_pages(4 * ranks * bands * slices)
        place_bytes = in_pages(2 * ranks * rows * k)
        limits = (heap.alarm_address, heap.timeout_ticks)
        bf16, int32, int64 = torch.bfloat16, torch.int32, torch.int64
        pointers = (bf16, bf16, torch.float32, int32, int64, int32)
        compiled = compile_kernel(
            ag_gemm_hopper_kernel,
            (*descriptors_of(config), *pointers, flag_bytes + place_bytes, 0, 0, 0, *limits, config),
            num_warps=row["num_warps"],
        )
        self.launch = bound_to_grid(compiled, workgroups)
        name = f"ag_gemm hopper {band * block_m} {slices} {piece_rows} {rows} {k}"
        self.take_region(name, flag_bytes, place_bytes, WAITS)
        own = self.region.addresses[heap.rank]
        self.matrices = tuple(MatrixArgument(s) for s in shapes)
        n_partial = left_over * split_k * block_m * block_n if split_k > 1 else 1
        self.partial = torch.empty(n_partial, device=a.device)
        self.counts = torch.zeros(1 + left_over, dtype=torch.int32, device=a.device)
        self.middle = (pointer(self.partial), pointer(self.counts), pointer(self.region.table), own)
        self.slots = tuple((MemoryAt(own + place), place) for place in self.places)
        self.after = (*limits, config)
        self.meet(f"ag-gemm of rows {[rows, k]}")

    def run(self, a, w, bias):
        out = torch.empty(self.out_shape, dtype=torch.bfloat16, device=a.device)
        epoch = self.region.next_epoch()
        first_ticket = as_int32(self.calls * self.tickets_a_call)
        self.calls += 1
        gathered, slot = self.slots[epoch & 1]
        own_rows, all_rows, weights, result = self.matrices
        self.launch(
            own_rows.at(a),
            all_rows.at(gathered),
            weights.at(w),
            result.at(out),
            pointer(a),
            pointer(a if bias is None else bias),
            *self.middle,
            slot,
            self.heap.rank,
            first_ticket,
            as_int32(epoch * self.parts),
            *self.after,
        )
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
        return (HopperPlan if row["SLICES"] else PortablePlan)(heap, a, w, bias, row)

    plan = plan_for(_plans, input_key(a, w, bias), heap, TUNING, make)
    return plan(aligned(a), aligned(w), None if bias is None else aligned(bias))
