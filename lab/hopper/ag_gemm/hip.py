"""amd-ag-gemm in HIP, on NVIDIA's Hopper GPUs."""

import functools

from kernels.ag_gemm.hip_plan import AgGemmPlan
from kernels.common.hip_extension import load_extension
from kernels.common.hip_gemm_plan import row_of_plan, run_plan
from kernels.common.hip_source import hip_source
from lab.hopper.ag_gemm.hip_tuning import DEFAULT, TUNING
from lab.hopper.common.gemm_card import H200

HIP_SOURCE = hip_source("ag_gemm.hip")

_plans: dict = {}


@functools.cache
def extension():
    return load_extension("ag_gemm_hip", HIP_SOURCE, functions=["ag_gemm"])


def make_plan(heap, a, w):
    return AgGemmPlan(heap, a, w, TUNING, DEFAULT, H200, extension().ag_gemm)


def tuning_row(data):
    """The row that custom_kernel(data) uses: the tuner begins there."""
    return row_of_plan(_plans, data)


def custom_kernel(data):
    """input bf16 [M/W, K], weight bf16 [N/W, K], bias bf16 [N/W] or None -> bf16 [M, N/W], of the rows of all ranks."""
    return run_plan(make_plan, _plans, data, TUNING)
