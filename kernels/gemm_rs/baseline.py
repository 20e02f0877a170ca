"""amd-gemm-rs in plain PyTorch: the library's matrix product, then its reduce-scatter. What a kernel here must beat.

The product writes [m, n] to memory before the first byte moves, and no link is busy while the matrix cores are.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F


def custom_kernel(data):
    """input bf16 [m, k/W], weight bf16 [n, k/W], bias bf16 [n] or None -> bf16 [m/W, n]."""
    x, weight, bias = data
    world_size = dist.get_world_size()
    m, n = x.shape[0], weight.shape[0]
    if m % world_size:
        raise ValueError(f"m must be a multiple of the world size, got {m=}, {world_size=}")
    partial = F.linear(x, weight, bias)  # the bias counts on every rank
    out = torch.empty((m // world_size, n), dtype=x.dtype, device=x.device)
    dist.reduce_scatter_tensor(out, partial)
    return out
