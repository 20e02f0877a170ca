"""amd-ag-gemm in plain PyTorch: the library's all-gather, then its matrix product. What a kernel here must beat.

No tile is computed before the last row has arrived, not even those of the rank's own rows.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F


def custom_kernel(data):
    """input bf16 [m/W, k], weight bf16 [n/W, k], bias bf16 [n/W] or None -> bf16 [m, n/W]."""
    x, weight, bias = data
    rows, k = x.shape
    gathered = torch.empty((rows * dist.get_world_size(), k), dtype=x.dtype, device=x.device)
    dist.all_gather_into_tensor(gathered, x)
    return F.linear(gathered, weight, bias)
