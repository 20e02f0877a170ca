"""The host side of a HIP GEMM between ranks: what is worked out once a shape, and what is done in a call."""

from collections.abc import Callable

import torch

from kernels.common.gemm_choice import choose_gemm_tile
from kernels.common.gemm_inputs import aligned, check_hip_gemm_inputs, input_key, multiple_of_8, padded_to_8
from kernels.common.rank_plan import RankPlan, place_bytes_for, plan_for
from kernels.common.symmetric_heap import symmetric_heap

MERGED_BELOW = 32  # rows of a rank: below, tiles span the rows of several


def flag_bytes_for(place_bytes):
    return 65536 + place_bytes // 32


class HipGemmPlan(RankPlan):
    """A kernel's own class calls make_memory() and sets the rest."""

    launch: Callable  # the extension's function
    out_rows: int
    after: tuple  # its last arguments, behind those that `run` has for every kernel

    def __init__(self, heap, m, rows, w, tuning, default, card):
        """m: rows of all ranks together; rows: of one; card: a GemmCard."""
        self.n, k = w.shape
        super().__init__(heap, (m, self.n, k), tuning.get((m, self.n, k)))
        self.m, self.rows = m, rows
        self.k8, self.n8 = multiple_of_8(k), multiple_of_8(self.n)
        self.needs_padding = self.n8 != self.n or self.k8 != k
        self.row = self.table_row or default
        self.merged = rows < MERGED_BELOW
        if self.row["BLOCK_M"] == 0:
            groups, group_rows = (1, m) if self.merged else (heap.world_size, rows)
            chosen = choose_gemm_tile(card, groups, group_rows, self.n, k)
            self.row = {**self.row, **dict(zip(("BLOCK_M", "BLOCK_N", "SPLIT_K"), chosen))}
        self.block_m, self.block_n = self.row["BLOCK_M"], self.row["BLOCK_N"]
        self.split_k = min(self.row["SPLIT_K"], -(-k // 64))
        # Of all ranks' rows if merged, else of one's.
        self.row_tiles = -(-(m if self.merged else rows) // self.block_m)
        self.column_tiles = -(-self.n // self.block_n)

    def make_memory(self, name, a, w, waits_for, written_bytes, n_flags, n_tiles):
        """take_region() and meet(), so to be called last. written_bytes: what peers write in a call. n_tiles: all that
        a rank computes."""
        place_bytes = place_bytes_for(written_bytes)
        flag_bytes = flag_bytes_for(place_bytes)
        assert n_flags * 4 <= flag_bytes
        heap = self.heap
        self.take_region(name, flag_bytes, place_bytes, {1: waits_for})
        partial_address = arrived_address = 0
        if self.split_k > 1:
            n_partial = n_tiles * self.split_k * self.block_m * self.block_n
            self.partial = torch.empty(n_partial, dtype=torch.float32, device=a.device)
            self.arrived = torch.zeros(n_tiles, dtype=torch.int32, device=a.device)
            partial_address, arrived_address = self.partial.data_ptr(), self.arrived.data_ptr()
        self.before = (partial_address, arrived_address, self.region.table_address)
        limits = (heap.alarm_address, heap.timeout_ticks)
        self.middle = (*limits, self.rows, self.n8, self.k8, heap.rank, heap.world_size)
        self.meet(f"{name} of {list(a.shape)} and {list(w.shape)}")

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
    """custom_kernel(data), by a plan of `plans` or a new one: make_plan(heap, a, w)."""
    a, w, bias = data
    heap = symmetric_heap()

    def make():
        check_hip_gemm_inputs(a, w, bias)
        return make_plan(heap, a, w)

    return plan_for(plans, input_key(a, w, bias), heap, tuning, make)(a, w, bias)


def row_of_plan(plans, data):
    """The row that custom_kernel(data) has used last: where the table has none, what the model chose. A tuner begins
    there, for it changes one column at a time: of a tile that the model chooses none would change anything."""
    return plans[input_key(*data)].row
