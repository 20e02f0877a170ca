"""Types of amd-ag-gemm: what a kernel is given on each rank, what it returns, what describes a case."""

from typing import TypedDict

import torch

# input bf16 [m/W, k], weight bf16 [n/W, k], bias bf16 [n/W] or None; W: world size
input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]
output_t = torch.Tensor  # bf16 [m, n/W]


class TestSpec(TypedDict):
    world_size: int
    m: int
    n: int
    k: int
    has_bias: bool
    seed: int
