"""amd-all2all in HIP, on NVIDIA's Hopper GPUs."""

import functools

from kernels.all2all.all2all_host import FUNCTIONS, All2AllPlan, all2all
from kernels.common.hip_extension import load_extension
from kernels.common.hip_source import hip_source

ALL2ALL_SOURCE = hip_source("all2all.hip")

MAX_GROUPS = 132  # one fits on each of H200's multiprocessors
# On 4 H200 the largest case takes 88, 68, 64, 67 and 70 us with 1, 2, 4, 8 and 16 of 16.
SENDERS = 4

_plans: dict = {}


@functools.cache
def extension():
    return load_extension("all2all_hip", ALL2ALL_SOURCE, functions=FUNCTIONS)


def make_plan(heap, data):
    return All2AllPlan(heap, data, extension, MAX_GROUPS, SENDERS)


def custom_kernel(data):
    """(cfg, rank_data, rank, world_size), see the problem's task.yml -> fp16 [num_tokens, hidden_dim]."""
    return all2all(data, _plans, make_plan)
