"""amd-mixture-of-experts in Triton, on NVIDIA's Hopper: the same kernels with a row for its 227 KB of shared memory."""

from kernels.moe.moe_inputs import moe_inputs
from kernels.moe.triton_kernels import moe

# For a few tokens an expert, as the MI300X's.
SMALL_ROW = {"BLOCK_M": 64, "GATE_N": 64, "DOWN_N": 128, "GROUP_M": 8}
SMALL_ROW |= {"BLOCK_K": 64, "MFMA": 32, "num_warps": 4, "num_stages": 2}
# Of 26 rows tried on an H200 the fastest at both benchmark shapes (lab/tried/moe.md).
ROW = SMALL_ROW | {"BLOCK_M": 128, "GATE_N": 128, "DOWN_N": 256, "GROUP_M": 16}
LARGE_FROM = 128  # rows of an expert, on average


def custom_kernel(data):
    """x fp16 [batch, seq, d_hidden], weights by name and config as the problem hands them over -> fp16 like x."""
    x, router, matrices, sizes = moe_inputs(data)
    n_tokens, top_k, n_routed = sizes[:3]
    row = ROW if n_tokens * top_k >= LARGE_FROM * n_routed else SMALL_ROW
    return moe(x.view(-1, x.shape[-1]), router, matrices, sizes, row).view(x.shape)
