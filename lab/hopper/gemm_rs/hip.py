"""amd-gemm-rs in HIP, on NVIDIA's Hopper GPUs: gemm_rs.hip says how it differs from that for gfx942."""

import functools

import torch

from kernels.common.hip_extension import load_extension
from kernels.common.hip_gemm_plan import row_of_plan, run_plan
from kernels.common.hip_source import hip_source
from kernels.gemm_rs.hip_plan import GemmRsPlan
from lab.hopper.common.gemm_card import H200, IN_TURN
from lab.hopper.gemm_rs.hip_tuning import DEFAULT, TUNING

HIP_SOURCE = hip_source("gemm_rs.hip")

_plans: dict = {}


@functools.cache
def extension():
    return load_extension("gemm_rs_hip", HIP_SOURCE, functions=["gemm_rs"])


class InTurnPlan(GemmRsPlan):
    """Workgroups take large tiles in turn, by a counter of tickets."""

    def __init__(self, heap, a, w):
        super().__init__(heap, a, w, TUNING, DEFAULT, H200, extension().gemm_rs)
        self.tickets = torch.zeros(1, dtype=torch.int32, device=a.device)
        self.after = (*self.after, self.tickets.data_ptr() if self.in_turn() else 0)

    def in_turn(self):
        return not self.merged and (self.block_m, self.block_n) in IN_TURN

    def slots_bytes(self):
        if not self.in_turn():
            return super().slots_bytes()
        # A slot holds whole tiles.
        return 2 * self.heap.world_size * self.row_tiles * self.block_m * self.column_tiles * self.block_n


def tuning_row(data):
    """The row that custom_kernel(data) uses: the tuner begins there."""
    return row_of_plan(_plans, data)


def custom_kernel(data):
    """input bf16 [M, K/W], weight bf16 [N, K/W], bias bf16 [N] or None -> bf16 [M/W, N], of the sum over all ranks."""
    return run_plan(InTurnPlan, _plans, data, TUNING)
