"""Types of trimul: what a kernel is given, what it returns, what describes a case."""

from typing import Any, TypedDict

import torch

# x, mask, weights by name, config: see generate_input in reference.py
input_t = tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor], dict[str, Any]]
output_t = torch.Tensor  # fp32 [bs, seqlen, seqlen, dim]


class TestSpec(TypedDict):
    seqlen: int
    bs: int
    dim: int
    hiddendim: int
    seed: int
    nomask: bool
    distribution: str
