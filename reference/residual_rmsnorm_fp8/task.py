"""Types of residual-rmsnorm-fp8: what a kernel is given, what it returns, what describes a case."""

from typing import TypedDict

import torch

# x, residual, weight, scale, eps: see generate_input in reference.py
input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, float]
output_t = tuple[torch.Tensor, torch.Tensor]  # out: e4m3fnuz [rows, hidden]; residual: fp16 [rows, hidden]


class TestSpec(TypedDict):
    rows: int
    hidden: int
    seed: int
