"""amd-all2all in HIP: one launch a call. Tokens go straight into the memory of the ranks that own their experts, one
row a rank comes back. all2all_kernel.h says how, docs/kernels/all2all.md why back-to-back calls need no barrier.
"""

import functools

from kernels.all2all.all2all_host import FUNCTIONS, All2AllPlan, all2all
from kernels.common.hip_extension import load_extension
from kernels.common.hip_source import hip_source

ALL2ALL_SOURCE = hip_source("all2all_gfx942.hip")

# MI300X has 304 compute units; 32 for each of its 8 dies are enough to fill the links.
MAX_GROUPS = 256
# As many bytes under way as the best number on the narrower waves of an H200 (lab/tried/all2all.md); not measured.
SENDERS = 2

_plans: dict = {}


@functools.cache
def extension():
    return load_extension("all2all_hip", ALL2ALL_SOURCE, functions=FUNCTIONS)


def make_plan(heap, data):
    return All2AllPlan(heap, data, extension, MAX_GROUPS, SENDERS)


def custom_kernel(data):
    """(cfg, rank_data, rank, world_size), see the problem's task.yml -> fp16 [num_tokens, hidden_dim]."""
    return all2all(data, _plans, make_plan)
