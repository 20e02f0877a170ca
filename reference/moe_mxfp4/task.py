"""Types of amd-moe-mxfp4: what a kernel is given, what it returns, what describes a case."""

from typing import Any, TypedDict

import torch

# hidden_states, then gate_up and down (codes, scales, shuffled codes, shuffled scales), routing, config:
# see generate_input in reference.py
input_t = tuple[
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    dict[str, Any],
]
output_t = torch.Tensor  # bf16 [bs, dhidden]


class TestSpec(TypedDict):
    dhidden: int
    dexpert: int
    nroutedexperts: int
    nexpertspertoken: int
    nsharedexperts: int
    bs: int
    seed: int
