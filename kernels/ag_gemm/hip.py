"""amd-ag-gemm in HIP: gather and product in one launch.

Each of W ranks has M/W rows of the input and N/W columns' weights; each returns all M rows of its columns.
ag_gemm_kernel.hip says how; docs/kernels/ag_gemm.md why it needs no barrier between calls.
"""

import torch

from kernels.ag_gemm.hip_tuning import DEFAULT, TUNING
from kernels.common.gemm_choice import choose_gemm_tile, gpu_arch
from kernels.common.gemm_inputs import aligned, check_gemm_inputs, multiple_of_8, padded_to_8
from kernels.common.hip_extension import load_extension
from kernels.common.hip_source import hip_source
from kernels.common.symmetric_heap import symmetric_heap

HIP_SOURCE = hip_source("ag_gemm_kernel.hip")

SMALLEST_GATHERED_BYTES = 1 << 20
MERGED_BELOW = 32  # rows of a rank: below, tiles span the rows of several

_plans: dict = {}


class Plan:
    """What is the same in all calls of one shape."""

    module = None

    def __init__(self, heap, a, w, bias):
        check_gemm_inputs(a, w, bias)
        self.heap, ranks = heap, heap.world_size
        (rows, k), self.n = a.shape, w.shape[0]
        m, k8, self.n8 = rows * ranks, multiple_of_8(k), multiple_of_8(self.n)
        self.needs_padding = self.n8 != self.n or k8 != k
        arch = gpu_arch()
        self.table_key = (arch, m, self.n, k)
        self.table_row = TUNING.get(self.table_key)
        row = self.table_row or DEFAULT
        merged = rows < MERGED_BELOW
        block_m, block_n, split_k = row["BLOCK_M"], row["BLOCK_N"], row["SPLIT_K"]
        if block_m == 0:
            groups, group_rows = (1, m) if merged else (ranks, rows)
            block_m, block_n, split_k = choose_gemm_tile(arch, groups, group_rows, self.n, k)
        split_k = min(split_k, -(-k // 64))
        row_tiles = -(-(m if merged else rows) // block_m)
        tiles = row_tiles * -(-self.n // block_n) * (1 if merged else ranks)
        # Before there is a region: no peer spins while this one compiles.
        if Plan.module is None:
            Plan.module = load_extension("ag_gemm_hip", HIP_SOURCE, functions=["ag_gemm"])
        self.launch = Plan.module.ag_gemm

        # Shapes of one size class share a region, flags first: the epoch counts the calls of all of them.
        gathered_bytes = SMALLEST_GATHERED_BYTES
        while gathered_bytes < 2 * m * k8:
            gathered_bytes *= 2
        flag_bytes = 65536 + gathered_bytes // 32
        assert (1 if merged else row_tiles) * ranks * row["SENDERS"] * 4 <= flag_bytes
        self.region = heap.region(("ag_gemm", gathered_bytes), flag_bytes + 2 * gathered_bytes)
        heap.name_waits({1: "rows of the input"})
        self.places = (flag_bytes, flag_bytes + gathered_bytes)
        partial_address = arrived_address = 0
        if split_k > 1:
            self.partial = torch.empty(tiles * split_k * block_m * block_n, dtype=torch.float32, device=a.device)
            self.arrived = torch.zeros(tiles, dtype=torch.int32, device=a.device)
            partial_address, arrived_address = self.partial.data_ptr(), self.arrived.data_ptr()
        self.out_shape = (m, self.n8)
        self.before = (partial_address, arrived_address, self.region.table_address)
        self.middle = (heap.alarm_address, heap.timeout_ticks, rows, self.n8, k8, heap.rank, ranks)
        self.after = (block_m, block_n, split_k, row["GROUP_M"], row["BAND"], row["SENDERS"], merged)

    def run(self, a, w, bias):
        if self.needs_padding:
            # The rows are what they are: only k of a may grow.
            a, w = padded_to_8(a)[: a.shape[0]], padded_to_8(w)
            bias = None if bias is None else padded_to_8(bias)
        a, w = aligned(a), aligned(w)
        bias = None if bias is None else aligned(bias)
        out = torch.empty(self.out_shape, dtype=torch.bfloat16, device=a.device)
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


def custom_kernel(data):
    """input bf16 [M/W, K], weight bf16 [N/W, K], bias bf16 [N/W] or None -> bf16 [M, N/W], of the rows of all ranks."""
    a, w, bias = data
    key = (a.shape, w.shape, a.dtype, w.dtype, bias is None or (bias.shape, bias.dtype))
    heap = symmetric_heap()
    plan = _plans.get(key)
    if plan is None or plan.heap is not heap or TUNING.get(plan.table_key) is not plan.table_row:
        for old in [old for old, other in _plans.items() if other.heap is not heap]:
            del _plans[old]
        plan = _plans[key] = Plan(heap, a, w, bias)
    return plan.run(a, w, bias)
