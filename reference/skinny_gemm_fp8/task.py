"""Types of skinny-gemm-fp8: what a kernel is given, what it returns, what describes a case."""

from typing import TypedDict

import torch

# a, b, scale: see generate_input in reference.py
input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
output_t = torch.Tensor  # c: fp16 [m, n]


class TestSpec(TypedDict):
    m: int
    n: int
    k: int
    seed: int
