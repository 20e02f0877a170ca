"""amd-gemm-rs in HIP: product, exchange and sum in one launch.

Rank r of W returns rows r*M/W .. (r+1)*M/W - 1 of the sum over all ranks of bf16(a @ w.T + bias). gemm_rs_kernel.hip
says how; docs/kernels/gemm_rs.md why it needs no barrier between calls.
"""

import torch

from kernels.common.gemm_choice import choose_gemm_tile, gpu_arch
from kernels.common.gemm_inputs import aligned, check_gemm_inputs, multiple_of_8, padded_to_8
from kernels.common.hip_extension import load_extension
from kernels.common.hip_source import hip_source
from kernels.common.symmetric_heap import symmetric_heap
from kernels.gemm_rs.hip_tuning import DEFAULT, TUNING

HIP_SOURCE = hip_source("gemm_rs_kernel.hip")

SMALLEST_SLOTS_BYTES = 1 << 20
MERGED_BELOW = 32  # rows of a rank: below, tiles span the rows of several
MAX_RANKS = 64  # one lane each

_plans: dict = {}


class Plan:
    """What is the same in all calls of one shape."""

    module = None

    def __init__(self, heap, a, w, bias):
        check_gemm_inputs(a, w, bias)
        self.heap, ranks = heap, heap.world_size
        (m, k), self.n = a.shape, w.shape[0]
        if m % ranks:
            raise ValueError(f"the input's {m} rows do not divide by the world size, {ranks}")
        if 2 * m * multiple_of_8(self.n) >= 1 << 31:  # offsets in a call's slots have 31 bits
            raise ValueError(f"the product [{m}, {self.n}] takes 2 GiB or more in bf16")
        if ranks > MAX_RANKS:
            raise ValueError(f"at most {MAX_RANKS} ranks, got {ranks}")
        self.rows, self.n8 = m // ranks, multiple_of_8(self.n)
        self.needs_padding = self.n8 != self.n or k % 8 != 0
        arch = gpu_arch()
        self.table_key = (arch, m, self.n, k)
        self.table_row = TUNING.get(self.table_key)
        row = self.table_row or DEFAULT
        merged = self.rows < MERGED_BELOW
        block_m, block_n, split_k = row["BLOCK_M"], row["BLOCK_N"], row["SPLIT_K"]
        if block_m == 0:
            groups, rows = (1, m) if merged else (ranks, self.rows)
            block_m, block_n, split_k = choose_gemm_tile(arch, groups, rows, self.n, k)
        split_k = min(split_k, -(-k // 64))
        row_tiles = -(-(m if merged else self.rows) // block_m)
        share_tiles = row_tiles * -(-self.n // block_n)
        tiles = share_tiles * (1 if merged else ranks + 1)  # own ones may be half as high
        # Before there is a region: no peer spins while this one compiles.
        if Plan.module is None:
            Plan.module = load_extension("gemm_rs_hip", HIP_SOURCE, functions=["gemm_rs"])
        self.launch = Plan.module.gemm_rs

        # Shapes of one size class share a region, flags first: the epoch counts the calls of all of them.
        slots_bytes = SMALLEST_SLOTS_BYTES
        while slots_bytes < 2 * m * self.n8:
            slots_bytes *= 2
        flag_bytes = 65536 + slots_bytes // 32
        assert share_tiles * ranks * 4 <= flag_bytes
        self.region = heap.region(("gemm_rs", slots_bytes), flag_bytes + 2 * slots_bytes)
        heap.name_waits({1: "a tile of the product"})
        self.places = (flag_bytes, flag_bytes + slots_bytes)
        partial_address = arrived_address = 0
        if split_k > 1:
            self.partial = torch.empty(tiles * split_k * block_m * block_n, dtype=torch.float32, device=a.device)
            self.arrived = torch.zeros(tiles, dtype=torch.int32, device=a.device)
            partial_address, arrived_address = self.partial.data_ptr(), self.arrived.data_ptr()
        self.before = (partial_address, arrived_address, self.region.table_address)
        self.middle = (heap.alarm_address, heap.timeout_ticks, self.rows, self.n8, multiple_of_8(k), heap.rank, ranks)
        self.after = (block_m, block_n, split_k, row["GROUP_M"], merged)

    def run(self, a, w, bias):
        if self.needs_padding:
            # M is what it is: only k of a may grow.
            a, w = padded_to_8(a)[: a.shape[0]], padded_to_8(w)
            bias = None if bias is None else padded_to_8(bias)
        a, w = aligned(a), aligned(w)
        bias = None if bias is None else aligned(bias)
        out = torch.empty((self.rows, self.n8), dtype=torch.bfloat16, device=a.device)
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
    """input bf16 [M, K/W], weight bf16 [N, K/W], bias bf16 [N] or None -> bf16 [M/W, N], of the sum over all ranks."""
    a, w, bias = data
    key = (a.shape, w.shape, a.dtype, w.dtype, bias is None or (bias.shape, bias.dtype))
    heap = symmetric_heap()
    plan = _plans.get(key)
    if plan is None or plan.heap is not heap or TUNING.get(plan.table_key) is not plan.table_row:
        for old in [old for old, other in _plans.items() if other.heap is not heap]:
            del _plans[old]
        plan = _plans[key] = Plan(heap, a, w, bias)
    return plan.run(a, w, bias)
