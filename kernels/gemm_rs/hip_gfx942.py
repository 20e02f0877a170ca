"""amd-gemm-rs in HIP: product, exchange and sum in one launch.

Rank r of W returns rows r*M/W .. (r+1)*M/W - 1 of the sum over all ranks of bf16(a @ w.T + bias). gemm_rs_kernel.h says
how; docs/kernels/gemm_rs.md why it needs no barrier between calls.
"""

import functools

from kernels.common.gemm_card_gfx942 import MI300X
from kernels.common.hip_extension import load_extension
from kernels.common.hip_gemm_plan import row_of_plan, run_plan
from kernels.common.hip_source import hip_source
from kernels.gemm_rs.hip_gfx942_tuning import DEFAULT, TUNING
from kernels.gemm_rs.hip_plan import GemmRsPlan

HIP_SOURCE = hip_source("gemm_rs_gfx942.hip")

_plans: dict = {}


@functools.cache
def extension():
    return load_extension("gemm_rs_hip", HIP_SOURCE, functions=["gemm_rs"])


def make_plan(heap, a, w):
    return GemmRsPlan(heap, a, w, TUNING, DEFAULT, MI300X, extension().gemm_rs)


def tuning_row(data):
    """The row that custom_kernel(data) uses: the tuner begins there."""
    return row_of_plan(_plans, data)


def custom_kernel(data):
    """input bf16 [M, K/W], weight bf16 [N, K/W], bias bf16 [N] or None -> bf16 [M/W, N], of the sum over all ranks."""
    return run_plan(make_plan, _plans, data, TUNING)
