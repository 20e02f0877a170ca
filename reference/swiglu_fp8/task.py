"""Types of swiglu-fp8: what a kernel is given, what it returns, what describes a case."""

from typing import TypedDict

import torch

# gate_up, scale: see generate_input in reference.py
input_t = tuple[torch.Tensor, torch.Tensor]
output_t = torch.Tensor  # out: e4m3fnuz [rows, n]


class TestSpec(TypedDict):
    rows: int
    n: int
    seed: int
