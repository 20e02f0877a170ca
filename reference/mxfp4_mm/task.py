"""Types of amd-mxfp4-mm: what a kernel is given, what it returns, what describes a case."""

from typing import TypedDict

import torch

# a, b, b_q, b_shuffle, b_scale_sh: see generate_input in reference.py
input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
output_t = torch.Tensor  # c: bf16 [m, n]


class TestSpec(TypedDict):
    m: int
    n: int
    k: int
    seed: int
