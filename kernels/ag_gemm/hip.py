"""amd-ag-gemm in HIP: gather and product in one launch.

Each of W ranks has M/W rows of the input and N/W columns' weights; each returns all M rows of its columns.
ag_gemm_kernel.hip says how; docs/kernels/ag_gemm.md why it needs no barrier between calls.
"""

import functools

from kernels.ag_gemm.hip_tuning import DEFAULT, TUNING
from kernels.common.hip_extension import load_extension
from kernels.common.hip_gemm_plan import HipGemmPlan, region_layout, row_of_plan, run_plan
from kernels.common.hip_source import hip_source

HIP_SOURCE = hip_source("ag_gemm_kernel.hip")

_plans: dict = {}


@functools.cache
def extension():
    return load_extension("ag_gemm_hip", HIP_SOURCE, functions=["ag_gemm"])


class Plan(HipGemmPlan):
    def __init__(self, heap, a, w):
        ranks, rows = heap.world_size, a.shape[0]
        super().__init__(heap, rows * ranks, rows, w, TUNING, DEFAULT)
        self.launch = extension().ag_gemm
        row, merged = self.row, self.merged
        gathered_bytes = 2 * self.m * self.k8
        n_chunks = (1 if merged else self.row_tiles) * ranks
        # Of one destination; each flags each chunk.
        senders = -(-row["SENDERS"] // (ranks if merged else max(1, ranks - 1)))
        senders = min(senders, region_layout(gathered_bytes)[0] // 4 // n_chunks)
        n_tiles = self.row_tiles * self.column_tiles * (1 if merged else ranks)
        self.make_memory("ag-gemm", a, w, "rows of the input", gathered_bytes, n_chunks * senders, n_tiles)
        self.out_rows = self.m
        tile = (self.block_m, self.block_n, self.split_k)
        self.after = (*tile, row["GROUP_M"], row["BAND"], senders, merged)


def tuning_row(data):
    """The row that custom_kernel(data) uses: the tuner begins there."""
    return row_of_plan(_plans, data)


def custom_kernel(data):
    """input bf16 [M/W, K], weight bf16 [N/W, K], bias bf16 [N/W] or None -> bf16 [M, N/W], of the rows of all ranks."""
    return run_plan(Plan, _plans, data, TUNING)
