"""amd-mixture-of-experts in HIP: a DeepSeek-style layer in five launches, none of which waits for the host.

    y[t] = sum over the top k experts e of softmax(x[t] @ router.T)[e] * down_e(silu(gate_e(x[t])) * up_e(x[t]))
           + the shared expert of x[t]

moe_router_gfx942.h sorts the tokens by expert, moe_gemm_gfx942.h has the products; docs/kernels/moe_hip.md says why so.
"""

import functools

import torch

from kernels.common.hip_extension import load_extension
from kernels.common.hip_source import hip_source
from kernels.moe.hip_gfx942_tuning import DEFAULT, TUNING
from kernels.moe.moe_inputs import matrix_table, moe_inputs, shape_of_table

HIP_SOURCE = hip_source("moe_gfx942.hip")
ROUTER_TOKENS = 16  # as in moe_router_gfx942.h
MOST_GROUPS = 64
MOST_BYTES = 2**31  # of x, and of a matrix: offsets have 32 bits, of which one says that nothing is read


@functools.cache
def extension():
    return load_extension("moe_hip", HIP_SOURCE, functions=["moe"])


class Plan:
    """Buffers that a call writes before it reads them, and an upper bound of the tiles of rows."""

    def __init__(self, device, n_tokens, top_k, n_routed, n_shared, d_hidden, d_expert, tile_rows):
        n_groups, n_rows = n_routed + n_shared, n_tokens * (top_k + n_shared)

        def empty(*shape, dtype):
            return torch.empty(shape, dtype=dtype, device=device)

        self.most_tiles = n_rows // tile_rows + min(n_groups, n_rows)  # a group's last tile may be a small one
        self.buffers = [
            empty(n_rows, dtype=torch.int32),  # group_rank
            empty(n_rows, dtype=torch.float32),  # score
            empty(MOST_GROUPS, -(-n_tokens // ROUTER_TOKENS), dtype=torch.int32),  # count
            empty(n_rows, dtype=torch.int32),  # row_choice
            empty(1 + self.most_tiles, 4, dtype=torch.int32),  # tiles
            empty(n_rows, d_expert, dtype=torch.float16),  # h
            empty(n_rows, d_hidden, dtype=torch.float16),  # out
        ]
        self.addresses = [buffer.data_ptr() for buffer in self.buffers]


plan_of = functools.lru_cache(maxsize=1)(Plan)  # the last shape's


def custom_kernel(data):
    """x fp16 [batch, seq, d_hidden], weights by name and config as the problem hands them over -> fp16 like x."""
    x, router, matrices, sizes = moe_inputs(data)
    n_shared, d_hidden, d_expert = sizes[3:]
    if 2 * x.numel() >= MOST_BYTES or 2 * d_hidden * d_expert * n_shared >= MOST_BYTES:
        raise ValueError(f"x and matrices must be below 2^31 bytes, got {tuple(x.shape)}, {d_expert=}, {n_shared=}")
    row = TUNING.get(shape_of_table(sizes), DEFAULT)
    plan = plan_of(x.device, *sizes, row["TILE_ROWS"])
    y = torch.empty_like(x)
    addresses = (x.data_ptr(), router.data_ptr(), matrix_table(x.device, matrices).data_ptr(), *plan.addresses)
    extension().moe(*addresses, y.data_ptr(), *sizes, row["TILE_ROWS"], row["GROUP_ROWS"], plan.most_tiles)
    return y
