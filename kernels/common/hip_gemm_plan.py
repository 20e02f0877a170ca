"""The host side of a HIP GEMM between ranks: what is worked out once a shape, and what is done in a call."""

from collections.abc import Callable

import torch

from kernels.common.gemm_choice import choose_gemm_tile, gpu_arch
from kernels.common.gemm_inputs import aligned, check_hip_gemm_inputs, input_key, multiple_of_8, padded_to_8
from kernels.common.symmetric_heap import symmetric_heap

SMALLEST_PLACE_BYTES = 1 << 20
MERGED_BELOW = 32  # rows of a rank: below, tiles span the rows of several


def region_layout(place_bytes):
    """(bytes of flags, bytes of one of the two places) where peers write place_bytes in a call.

    Shapes of one size class share a region: the epoch counts the calls of all of them.
    """
    size = SMALLEST_PLACE_BYTES
    while size < place_bytes:
        size *= 2
    return 65536 + size // 32, size


class HipGemmPlan:
    """What is the same in all calls of one shape. A kernel's own class calls make_memory() and sets the rest."""

    launch: Callable  # the extension's function
    out_rows: int
    after: tuple  # its last arguments, behind those that `run` has for every kernel

    def __init__(self, heap, m, rows, w, tuning, default):
        """m: rows of all ranks together; rows: of one."""
        self.heap, self.m, self.rows = heap, m, rows
        self.n, k = w.shape
        self.k8, self.n8 = multiple_of_8(k), multiple_of_8(self.n)
        self.needs_padding = self.n8 != self.n or self.k8 != k
        arch = gpu_arch()
        self.table_key = (arch, m, self.n, k)
        self.table_row = tuning.get(self.table_key)
        self.row = self.table_row or default
        self.merged = rows < MERGED_BELOW
        if self.row["BLOCK_M"] == 0:
            groups, group_rows = (1, m) if self.merged else (heap.world_size, rows)
            chosen = choose_gemm_tile(arch, groups, group_rows, self.n, k)
            self.row = {**self.row, **dict(zip(("BLOCK_M", "BLOCK_N", "SPLIT_K"), chosen))}
        self.block_m, self.block_n = self.row["BLOCK_M"], self.row["BLOCK_N"]
        self.split_k = min(self.row["SPLIT_K"], -(-k // 64))
        # Of all ranks' rows if merged, else of one's.
        self.row_tiles = -(-(m if self.merged else rows) // self.block_m)
        self.column_tiles = -(-self.n // self.block_n)

    def make_memory(self, name, a, w, waits_for, place_bytes, n_flags, n_tiles):
        """Collective; to be called last, for peers would spin in their kernels while this rank compiles.

        HeapError on every rank unless all have inputs of these shapes. place_bytes: what peers write in a call, for
        which a region has two places. n_tiles: all that a rank computes.
        """
        flag_bytes, size = region_layout(place_bytes)
        assert n_flags * 4 <= flag_bytes
        heap = self.heap
        self.region = heap.region((name, size), flag_bytes + 2 * size)
        heap.name_waits({1: waits_for})
        # Shapes share regions, so a region that is there already says nothing of what the peers call for.
        heap.agree(f"to be ready for {name} of {list(a.shape)} and {list(w.shape)}")
        self.places = (flag_bytes, flag_bytes + size)
        partial_address = arrived_address = 0
        if self.split_k > 1:
            n_partial = n_tiles * self.split_k * self.block_m * self.block_n
            self.partial = torch.empty(n_partial, dtype=torch.float32, device=a.device)
            self.arrived = torch.zeros(n_tiles, dtype=torch.int32, device=a.device)
            partial_address, arrived_address = self.partial.data_ptr(), self.arrived.data_ptr()
        self.before = (partial_address, arrived_address, self.region.table_address)
        limits = (heap.alarm_address, heap.timeout_ticks)
        self.middle = (*limits, self.rows, self.n8, self.k8, heap.rank, heap.world_size)

    def run(self, a, w, bias):
        if self.needs_padding:
            # The rows are what they are: only k of a may grow.
            a, w = padded_to_8(a)[: a.shape[0]], padded_to_8(w)
            bias = None if bias is None else padded_to_8(bias)
        a, w = aligned(a), aligned(w)
        bias = None if bias is None else aligned(bias)
        out = torch.empty((self.out_rows, self.n8), dtype=torch.bfloat16, device=a.device)
        epoch = self.region.next_epoch()
        self.launch(
            a.data_ptr(),
            w.data_ptr(),
            0 if bias is None else bias.data_ptr(),
            out.data_ptr(),
            *self.before,
            self.places[epoch & 1],
            *self.middle,
            epoch,
            *self.after,
        )
        return out if self.n8 == self.n else out[:, : self.n].contiguous()


def run_plan(make_plan, plans, data, tuning):
    """custom_kernel(data), by a plan made at the first call of a shape, for another process group or another row.

    tuning: the variant's TUNING as it is now, for a tuner exchanges the dict itself.
    """
    a, w, bias = data
    key = input_key(a, w, bias)
    heap = symmetric_heap()
    plan = plans.get(key)
    if plan is None or plan.heap is not heap or tuning.get(plan.table_key) is not plan.table_row:
        check_hip_gemm_inputs(a, w, bias)
        for old in [old for old, other in plans.items() if other.heap is not heap]:
            del plans[old]
        plan = plans[key] = make_plan(heap, a, w)
    return plan.run(a, w, bias)


def row_of_plan(plans, data):
    """The row that custom_kernel(data) has used last: where the table has none, what the model chose. A tuner begins
    there, for it changes one column at a time: of a tile that the model chooses none would change anything."""
    return plans[input_key(*data)].row
