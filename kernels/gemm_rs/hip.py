"""amd-gemm-rs in HIP: product, exchange and sum in one launch.

Rank r of W returns rows r*M/W .. (r+1)*M/W - 1 of the sum over all ranks of bf16(a @ w.T + bias). gemm_rs_kernel.hip
says how; docs/kernels/gemm_rs.md why it needs no barrier between calls.
"""

import functools

import torch

from kernels.common.gemm_choice import IN_TURN
from kernels.common.hip_extension import load_extension
from kernels.common.hip_gemm_plan import HipGemmPlan, row_of_plan, run_plan
from kernels.common.hip_source import hip_source
from kernels.gemm_rs.hip_tuning import DEFAULT, TUNING

HIP_SOURCE = hip_source("gemm_rs_kernel.hip")

MAX_RANKS = 64  # one lane each

_plans: dict = {}


@functools.cache
def extension():
    return load_extension("gemm_rs_hip", HIP_SOURCE, functions=["gemm_rs"])


class Plan(HipGemmPlan):
    def __init__(self, heap, a, w):
        ranks, m = heap.world_size, a.shape[0]
        if m % ranks:
            raise ValueError(f"the input's {m} rows do not divide by the world size, {ranks}")
        super().__init__(heap, m, m // ranks, w, TUNING, DEFAULT)
        in_turn = not self.merged and (self.block_m, self.block_n) in IN_TURN[self.table_key[0]]
        slots_bytes = 2 * m * self.n8
        if in_turn:  # a slot holds whole tiles
            slots_bytes = 2 * ranks * self.row_tiles * self.block_m * self.column_tiles * self.block_n
        if slots_bytes >= 1 << 31:  # offsets in a call's slots have 31 bits
            raise ValueError(f"the product [{m}, {self.n}] takes 2 GiB or more in bf16")
        if ranks > MAX_RANKS:
            raise ValueError(f"at most {MAX_RANKS} ranks, got {ranks}")
        self.launch = extension().gemm_rs
        share_tiles = self.row_tiles * self.column_tiles
        n_tiles = share_tiles * (1 if self.merged else ranks + 1)  # own ones may be half as high
        self.make_memory("gemm-rs", a, w, "a tile of the product", slots_bytes, share_tiles * ranks, n_tiles)
        self.out_rows = self.rows
        self.tickets = torch.zeros(1, dtype=torch.int32, device=a.device) if in_turn else None
        tickets = 0 if self.tickets is None else self.tickets.data_ptr()
        self.after = (self.block_m, self.block_n, self.split_k, self.row["GROUP_M"], self.merged, tickets)


def tuning_row(data):
    """The row that custom_kernel(data) uses: the tuner begins there."""
    return row_of_plan(_plans, data)


def custom_kernel(data):
    """input bf16 [M, K/W], weight bf16 [N, K/W], bias bf16 [N] or None -> bf16 [M/W, N], of the sum over all ranks."""
    return run_plan(Plan, _plans, data, TUNING)
