"""amd-ag-gemm in Triton: gather and product in one launch.

Each of W ranks has M/W rows of the input and N/W columns' weights; each returns all M rows of its N/W columns.

The workgroups with the lowest ids push this rank's rows, chunk by chunk, into the memory of every peer and count each
chunk there. The others compute tiles: first those of the own rows, read where they lie, then those of the peers' rows,
in the order in which they arrive. Nobody who pushes ever waits, counters are never reset, and the gathered rows
alternate between two places from call to call: docs/kernels/ag_gemm.md says why that is safe without any barrier.
"""

from typing import Any

import torch
import torch.distributed as dist
import triton
import triton.language as tl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.ag_gemm.triton_tuning import DEFAULT, TUNING
from kernels.common.ag_gemm_hopper import ag_gemm_hopper_kernel, tile_layout
from kernels.common.compiled_kernel import MemoryAt, bound_to_grid, compile_kernel, pointer
from kernels.common.gemm_choice import COMPUTE_UNITS, gpu_arch
from kernels.common.gemm_inputs import aligned, check_gemm_inputs, input_key
from kernels.common.gemm_tiles import gemm_tile, sum_of_slices
from kernels.common.peer_signals import (
    PEER_SIGNALS_HIP,
    acquire_system,
    load_flags,
    pause,
    raise_alarm,
    signal_add,
    stores_complete,
    wait_until_at_least,
    wall_clock,
)
from kernels.common.symmetric_heap import PAGE_BYTES, symmetric_heap
from kernels.common.workgroup_order import xcd_contiguous

GFX942 = torch.version.hip is not None
N_XCD = 8  # MI300X
# Write-through keeps gfx942's L2 free of lines that the release would have to write back.
PUSH_THROUGH = tl.constexpr(GFX942)
MAX_RANKS = tl.constexpr(16)  # a power of two


@triton.jit
def push_rows(
    sender,
    a,  # bf16 [ROWS][K], this rank's rows
    table,  # int64 [RANKS]: where each rank's region lies
    slot,  # byte offset in a region of this call's rows, [RANKS][ROWS][K] bf16
    rank,
    ROWS: tl.constexpr,
    K: tl.constexpr,
    RANKS: tl.constexpr,
    TO_SELF: tl.constexpr,
    CHUNK_ROWS: tl.constexpr,
    PUSH: tl.constexpr,
    SENDERS: tl.constexpr,
):
    """One of the SENDERS workgroups of one destination: its share of every chunk, PUSH elements at a time."""
    DESTINATIONS: tl.constexpr = RANKS if TO_SELF else RANKS - 1
    CHUNKS: tl.constexpr = (ROWS + CHUNK_ROWS - 1) // CHUNK_ROWS
    destination = (rank + 1 + sender % DESTINATIONS) % RANKS
    share = sender // DESTINATIONS
    region = tl.load(table + destination)
    counters = region.to(tl.pointer_type(tl.int32)) + rank * CHUNKS
    there = (region + slot).to(tl.pointer_type(tl.bfloat16)) + (rank * ROWS).to(tl.int64) * K
    there = tl.multiple_of(there, 16 if K % 8 == 0 else 2)
    at = tl.arange(0, PUSH)
    for chunk in range(CHUNKS):
        first = (chunk * CHUNK_ROWS).to(tl.int64) * K
        size = tl.minimum(CHUNK_ROWS, ROWS - chunk * CHUNK_ROWS) * K
        for begin in range(share * PUSH, size, SENDERS * PUSH):
            inside = begin + at < size
            x = tl.load(a + first + begin + at, mask=inside)
            tl.store(there + first + begin + at, x, mask=inside, cache_modifier=".wt" if PUSH_THROUGH else "")
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
def prefetch_weights(
    w,
    first_column,
    N: tl.constexpr,
    K: tl.constexpr,
    part,
    SPLIT_K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Have NVIDIA's L2 fetch this slice's weights while the rows are still under way."""
    if not PEER_SIGNALS_HIP:
        row = tl.minimum(first_column + tl.arange(0, BLOCK_N), N - 1).to(tl.int64) * K
        for block in range(part * (K // BLOCK_K) // SPLIT_K, (part + 1) * (K // BLOCK_K) // SPLIT_K):
            for line in tl.static_range(0, BLOCK_K, 64):
                tl.inline_asm_elementwise(
                    "prefetch.global.L2 [$1]; mov.u32 $0, 0;",
                    "=r,l",
                    [(w + row + block * BLOCK_K + line).to(tl.int64)],
                    dtype=tl.int32,
                    is_pure=False,
                    pack=1,
                )


@triton.jit
def tile_in_arrival_order(
    unit,
    ROW_TILES: tl.constexpr,
    COLUMN_TILES: tl.constexpr,
    RANKS: tl.constexpr,
    BAND: tl.constexpr,
    SPLIT_K: tl.constexpr,
    XCDS: tl.constexpr,
):
    """Place in launch order -> (distance to the source rank, row tile of its rows, column tile, slice of k).

    Own rows first. Then bands of BAND row tiles of every peer: these arrive at the same time. Within a band (and
    within the own rows) each XCD takes one contiguous range, rows fastest: all peers in turn, a few columns.
    """
    LOCAL: tl.constexpr = ROW_TILES * COLUMN_TILES * SPLIT_K
    PEERS: tl.constexpr = RANKS - 1 if RANKS > 1 else 1
    if unit < LOCAL:
        unit = xcd_contiguous(unit, LOCAL, XCDS)
        tile = unit // SPLIT_K
        distance = 0
        row_tile = tile % ROW_TILES
        column_tile = tile // ROW_TILES
    else:
        PER_BAND: tl.constexpr = BAND * PEERS * COLUMN_TILES * SPLIT_K
        band = (unit - LOCAL) // PER_BAND
        rows = tl.minimum(BAND, ROW_TILES - band * BAND) * PEERS
        unit = xcd_contiguous((unit - LOCAL) % PER_BAND, rows * COLUMN_TILES * SPLIT_K, XCDS)
        tile = unit // SPLIT_K
        distance = 1 + tile % rows % PEERS
        row_tile = band * BAND + tile % rows // PEERS
        column_tile = tile // rows
    return distance, row_tile, column_tile, unit % SPLIT_K


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
    M: tl.constexpr,
    N: tl.constexpr,  # columns of this rank
    K: tl.constexpr,
    RANKS: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    SPAN: tl.constexpr,  # a row tile spans several ranks' rows, the own among them, all read from `gathered`
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BAND: tl.constexpr,
    SPLIT_K: tl.constexpr,
    PUSH: tl.constexpr,
    SENDERS: tl.constexpr,  # per destination
    XCDS: tl.constexpr,
):
    """Workgroups 0 .. SENDERS * destinations - 1 push; the others compute a slice of a tile each."""
    ROWS: tl.constexpr = M // RANKS
    CHUNK_ROWS: tl.constexpr = ROWS if SPAN else BLOCK_M
    CHUNKS: tl.constexpr = (ROWS + CHUNK_ROWS - 1) // CHUNK_ROWS
    PUSHERS: tl.constexpr = SENDERS * (RANKS if SPAN else RANKS - 1)
    COLUMN_TILES: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    pid = tl.program_id(0)
    alarm = alarm.to(tl.int64)  # whatever the size of its value
    if pid < PUSHERS:
        push_rows(pid, a, table, slot, rank, ROWS, K, RANKS, SPAN, CHUNK_ROWS, PUSH, SENDERS)
    else:
        target = epoch * SENDERS
        x = gathered
        if SPAN:
            ROW_TILES: tl.constexpr = (M + BLOCK_M - 1) // BLOCK_M
            unit = xcd_contiguous(pid - PUSHERS, ROW_TILES * COLUMN_TILES * SPLIT_K, XCDS)
            part = unit % SPLIT_K
            row_tile = unit // SPLIT_K % ROW_TILES
            column_tile = unit // SPLIT_K // ROW_TILES
            out_row = row_tile * BLOCK_M
            first_row = out_row
            end_row = M
            end_out = M
            prefetch_weights(w, column_tile * BLOCK_N, N, K, part, SPLIT_K, BLOCK_N, BLOCK_K)
            last_source = tl.minimum(first_row + BLOCK_M - 1, M - 1) // ROWS
            wait_for_sources(counters, first_row // ROWS, last_source, target, alarm, timeout_ticks)
        else:
            distance, row_tile, column_tile, part = tile_in_arrival_order(
                pid - PUSHERS, CHUNKS, COLUMN_TILES, RANKS, BAND, SPLIT_K, XCDS
            )
            source = (rank + distance) % RANKS
            out_row = source * ROWS + row_tile * BLOCK_M
            end_out = source * ROWS + ROWS
            first_row = out_row
            end_row = end_out
            if distance == 0:
                x = a
                first_row = row_tile * BLOCK_M
                end_row = ROWS
            else:
                wait_until_at_least(counters + source * CHUNKS + row_tile, target, alarm, timeout_ticks, 1, source)
        first_column = column_tile * BLOCK_N
        acc = gemm_tile(x, w, first_row, end_row, first_column, N, K, part, SPLIT_K, BLOCK_M, BLOCK_N, BLOCK_K, False)
        finished = True
        if SPLIT_K > 1:
            number = out_row // BLOCK_M * COLUMN_TILES + column_tile
            if not SPAN:
                number = (source * CHUNKS + row_tile) * COLUMN_TILES + column_tile
            acc, finished = sum_of_slices(acc, partial, arrived, number, part, SPLIT_K, BLOCK_M, BLOCK_N)
        if finished:
            rm = out_row + tl.arange(0, BLOCK_M)
            rn = first_column + tl.arange(0, BLOCK_N)
            if HAS_BIAS:
                acc += tl.load(bias + rn, mask=rn < N, other=0.0).to(tl.float32)[None, :]
            place = out + out_row.to(tl.int64) * N + first_column
            inside = (rm < end_out)[:, None] & (rn < N)[None, :]
            at_out = tl.arange(0, BLOCK_M)[:, None] * N + tl.arange(0, BLOCK_N)[None, :]
            tl.store(place + at_out, acc.to(tl.bfloat16), mask=inside)


# ---------------------------------------------------------------- the choice of a row


def power_of_two_up_to(limit, n):
    """The smallest power of two >= n, and not above `limit`."""
    power = 1
    while power < n and power < limit:
        power *= 2
    return power


def adapted_row(row, m, n, k, ranks):
    """A row for a shape that the table does not have, from a given one.

    On Hopper, shapes that fill the card with tiles of 128x256 take the warp-specialised kernel. For the others: tiles
    no larger than the shape (rows of a rank; where these are fewer than 32, of all ranks), and k split where fewer
    tiles than half the compute units come out, into slices of 512 and more.
    """
    rows = m // ranks
    large = {**row, "BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "SLICES": 1, "LATE": 0, "BAND": 2}
    large = {**large, "num_warps": 8, "num_stages": 4, "SENDERS": 132, "SEND_WARPS": 1, "PUSH": 32768, "TAIL": 0}
    if n >= 2048:  # the product takes longer than NVLink: spare it, and share the last tiles
        large = {**large, "SENDERS": 64, "SEND_WARPS": 2, "PUSH": 16384, "SPLIT_K": 4, "TAIL": 1}
    if not GFX942 and m * n >= 128 * 256 * 100 and fits_hopper_kernel(large, rows, n, k, ranks):
        return large
    span = rows < 32
    block_m = max(16, power_of_two_up_to(min(row["BLOCK_M"], 64) if span else row["BLOCK_M"], m if span else rows))
    block_n = max(16, power_of_two_up_to(row["BLOCK_N"], n))
    row_tiles = -(-m // block_m) if span else ranks * -(-rows // block_m)
    tiles = row_tiles * -(-n // block_n)
    units = COMPUTE_UNITS[gpu_arch()]
    split = row["SPLIT_K"]
    while split < 8 and tiles * split * 2 <= units and k // (split * 2) >= 512:
        split *= 2
    fitted = {**row, "BLOCK_M": block_m, "BLOCK_N": block_n, "SPLIT_K": split, "SLICES": 0}
    if GFX942:  # 64 KB of LDS
        fitted["num_stages"] = 2
        while (block_m + block_n) * fitted["BLOCK_K"] * 2 > 65536:
            fitted["BLOCK_K"] //= 2
    else:
        fitted["num_stages"], fitted["SENDERS"] = 4, 120
    return fitted


def fits_hopper_kernel(row, rows, n, k, ranks):
    """Whether the warp-specialised kernel takes the shape: whole tiles of rows, whole slices of k, 16-byte lines."""
    slices = row["SLICES"]
    return (
        not GFX942
        and slices > 0
        and ranks > 1
        and rows % row["BLOCK_M"] == 0
        and n % 8 == 0
        and k % 8 == 0
        and (slices == 1 or k % (slices * row["BLOCK_K"]) == 0)
        and torch.cuda.get_device_capability() == (9, 0)
    )


# ---------------------------------------------------------------- host side


def table_key(a, w, ranks):
    return (gpu_arch(), a.shape[0] * ranks, w.shape[0], a.shape[1])


def row_for(a, w, ranks):
    """The table's row, or the default's where the table has none or its row's kernel does not take the shape."""
    rows, shape = a.shape[0], (w.shape[0], a.shape[1], ranks)
    row = TUNING.get(table_key(a, w, ranks))
    if row is None or (row["SLICES"] and not fits_hopper_kernel(row, rows, *shape)):
        row = adapted_row(DEFAULT, rows * ranks, *shape)
    return row


def make_plan(heap, a, w, bias):
    key = table_key(a, w, heap.world_size)
    row = row_for(a, w, heap.world_size)
    plan = (HopperPlan if row["SLICES"] else PortablePlan)(heap, a, w, bias)
    plan.table_key, plan.table_row = key, TUNING.get(key)
    plan.prepare(row, bias is not None)
    return plan


def in_pages(n_bytes):
    return -(-n_bytes // PAGE_BYTES) * PAGE_BYTES


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


class Plan:
    """Everything about a shape and a row of the table that does not change from call to call."""

    table_key: tuple
    table_row: dict | None

    def __init__(self, heap, a, w, bias):
        self.heap, self.rank, self.ranks = heap, heap.rank, heap.world_size
        self.rows, self.k = a.shape
        self.n = w.shape[0]
        self.device = a.device
        self.out_shape = (self.rows * self.ranks, self.n)
        self.slot_bytes = in_pages(2 * self.ranks * self.rows * self.k)
        self.limits = (heap.alarm_address, heap.timeout_ticks)

    def prepare(self, row, has_bias):
        raise NotImplementedError

    def run(self, a, w, bias):
        raise NotImplementedError

    def make_region(self, name, counters):
        """After compiling, so that no peer spins meanwhile: counters, then two places for everybody's rows."""
        first, second = self.slots(counters)
        self.region = self.heap.region((name, self.rows, self.k), second + self.slot_bytes)
        self.heap.name_waits({1: "rows of the input, whose parts the epoch counts"})
        # The region may be there already: nobody shall wait in a kernel for a peer that still compiles.
        self.heap.agree(f"to be ready for ag-gemm of rows {[self.rows, self.k]}")
        self.own = self.region.addresses[self.rank]
        self.first_slot = first
        return first, second

    def slots(self, counters):
        """Byte offsets of the places for even and odd calls."""
        first = in_pages(4 * counters)
        return first, first + self.slot_bytes


class PortablePlan(Plan):
    def prepare(self, row, has_bias):
        block_m, block_n, split_k = row["BLOCK_M"], row["BLOCK_N"], row["SPLIT_K"]
        span = self.rows < block_m and self.rows < 32
        destinations = self.ranks if span else self.ranks - 1
        senders = max(1, row["SENDERS"] // max(1, destinations))
        chunks = 1 if span else -(-self.rows // block_m)
        row_tiles = -(-self.rows * self.ranks // block_m) if span else self.ranks * chunks
        tiles = row_tiles * -(-self.n // block_n)
        blocks = (block_m, block_n, row["BLOCK_K"], row["BAND"], split_k, row["PUSH"], senders)
        constants = (self.out_shape[0], self.n, self.k, self.ranks, has_bias, span, *blocks, N_XCD if GFX942 else 1)
        bf16, int32 = torch.bfloat16, torch.int32
        pointers = (bf16, bf16, bf16, bf16, torch.float32, int32, torch.int64, int32, bf16)
        counters = self.ranks * chunks
        compiled = compile_kernel(
            ag_gemm_kernel,
            (*pointers, self.slots(counters)[1], 0, 0, *self.limits, *constants),
            num_warps=row["num_warps"],
            num_stages=row["num_stages"],
            **({"matrix_instr_nonkdim": row["MFMA"]} if GFX942 else {}),
        )
        self.launch = bound_to_grid(compiled, senders * destinations + tiles * split_k)
        slots = self.make_region(f"ag_gemm {span} {chunks} {senders}", counters)
        partial = torch.empty(tiles * split_k * block_m * block_n if split_k > 1 else 1, device=self.device)
        arrived = torch.zeros(tiles, dtype=torch.int32, device=self.device)
        self.workspace = (partial, arrived)
        self.before = (pointer(partial), pointer(arrived), pointer(self.region.table), self.own)
        self.places = tuple((self.own + slot, slot, self.rank) for slot in slots)
        self.after = (*self.limits, *constants)

    def run(self, a, w, bias):
        out = torch.empty(self.out_shape, dtype=torch.bfloat16, device=self.device)
        epoch = self.region.next_epoch()
        bias = a if bias is None else bias
        inputs = (pointer(a), pointer(w), pointer(bias), pointer(out))
        self.launch(*inputs, *self.before, *self.places[epoch & 1], epoch, *self.after)
        return out


class HopperPlan(Plan):
    trace = None  # int64 [workgroups][64]: set before the first call to have times noted

    def prepare(self, row, has_bias):
        block_m, block_n, block_k, slices = row["BLOCK_M"], row["BLOCK_N"], row["BLOCK_K"], row["SLICES"]
        m, n, k = self.out_shape[0], self.n, self.k
        band = min(row["BAND"], self.rows // block_m)
        bands = -(-self.rows // (band * block_m))
        piece_rows = power_of_two_up_to(block_m, max(1, row["PUSH"] // (k // slices)))
        self.parts = band * block_m // piece_rows
        tiles = m // block_m * -(-n // block_n)
        workgroups = min(tiles, torch.cuda.get_device_properties(self.device).multi_processor_count)
        senders = min(row["SENDERS"], workgroups)
        self.tickets_a_call = bands * slices * self.parts * (self.ranks - 1) + senders
        self.calls = 0
        # Split in k, for all workgroups to share: the tiles of the last TAIL bands, which begin when the last rows come
        # (or what is left over of whole rounds). Workgroups that send before they multiply miss the first turns.
        late = row["LATE"] if row["SEND_WARPS"] == 0 else 0
        left_over = (tiles - min(tiles, late * (workgroups - senders))) % workgroups
        if row["TAIL"]:
            tail_rows = self.rows // block_m - max(0, bands - row["TAIL"]) * band
            left_over = tail_rows * (self.ranks - 1) * -(-n // block_n)
        split_k = max(1, min(row["SPLIT_K"], workgroups // left_over if left_over else 1))
        full = tiles - left_over if split_k > 1 else tiles
        pieces = (band, slices, piece_rows, senders, row["SEND_WARPS"])
        units = (late, full, split_k, workgroups, row["num_stages"], self.trace is not None)
        constants = (self.rows, n, k, self.ranks, has_bias, block_m, block_n, block_k, *pieces, *units)
        shapes = ((self.rows, k), (m, k), (n, k), (m, n))
        blocks = ((block_m, block_k), (block_m, block_k), (block_n, block_k), (block_m, block_n // 2))
        sample = torch.empty(16, dtype=torch.bfloat16)
        descriptors = [TensorDescriptor(sample, s, (s[1], 1), b, tile_layout(b)) for s, b in zip(shapes, blocks)]
        bf16, int32, int64 = torch.bfloat16, torch.int32, torch.int64
        counters = self.ranks * bands * slices
        numbers = (self.slots(counters)[1], 0, 0, 0)
        compiled = compile_kernel(
            ag_gemm_hopper_kernel,
            (*descriptors, bf16, bf16, torch.float32, int32, int64, int32, int32, int64)
            + (*numbers, *self.limits, *constants),
            num_warps=row["num_warps"],
        )
        self.launch = bound_to_grid(compiled, workgroups)
        slots = self.make_region(f"ag_gemm hopper {band * block_m} {slices} {piece_rows}", counters)
        tickets = torch.zeros(1, dtype=torch.int32, device=self.device)
        self.matrices = tuple(MatrixArgument(s) for s in shapes)
        partial = torch.empty(left_over * split_k * block_m * block_n if split_k > 1 else 1, device=self.device)
        arrived = torch.zeros(max(1, left_over), dtype=torch.int32, device=self.device)
        trace = tickets if self.trace is None else self.trace
        self.workspace = (partial, arrived, tickets, trace)
        sums = (pointer(partial), pointer(arrived))
        self.middle = (*sums, pointer(self.region.table), self.own, pointer(tickets), pointer(trace))
        self.places = tuple((MemoryAt(self.own + slot), slot) for slot in slots)
        self.after = (*self.limits, *constants, row["num_warps"])

    def run(self, a, w, bias):
        out = torch.empty(self.out_shape, dtype=torch.bfloat16, device=self.device)
        epoch = self.region.next_epoch()
        first_ticket = as_int32(self.calls * self.tickets_a_call)
        self.calls += 1
        gathered, slot = self.places[epoch & 1]
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
            self.rank,
            first_ticket,
            as_int32(epoch * self.parts),
            *self.after,
        )
        return out


_plans: dict[Any, Plan] = {}


def check_input(a, w, bias):
    """ValueError where the kernel cannot take the input."""
    check_gemm_inputs(a, w, bias)
    if dist.get_world_size() > MAX_RANKS.value:
        raise ValueError(f"at most {MAX_RANKS.value} ranks, got {dist.get_world_size()}")


def plan_for(key, a, w, bias):
    """The plan of a shape, made anew for another process group or another row of the table."""
    heap = symmetric_heap()
    plan = _plans.get(key)
    if plan is None or plan.heap is not heap or TUNING.get(plan.table_key) is not plan.table_row:
        check_input(a, w, bias)
        for other in [other for other, plan in _plans.items() if plan.heap is not heap]:
            del _plans[other]
        plan = _plans[key] = make_plan(heap, a, w, bias)
    return plan


def tuning_row(data):
    """The row that custom_kernel(data) uses: the tuner begins there."""
    a, w, _ = data
    return row_for(a, w, symmetric_heap().world_size)


def custom_kernel(data):
    """input bf16 [M/W, K], weight bf16 [N/W, K], bias bf16 [N/W] or None -> bf16 [M, N/W], of the rows of all ranks."""
    a, w, bias = data
    plan = plan_for(input_key(a, w, bias), a, w, bias)
    return plan.run(aligned(a), aligned(w), None if bias is None else aligned(bias))
