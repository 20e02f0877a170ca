"""Types of amd-mixture-of-experts: what a kernel is given, what it returns, what describes a case."""

from typing import TypedDict

import torch

# x, weights by name, config: see generate_input in reference.py
input_t = tuple[torch.Tensor, dict[str, torch.Tensor], dict[str, int]]
output_t = torch.Tensor  # fp16 [batch_size, seq_len, d_hidden]


class TestSpec(TypedDict):
    dhidden: int
    dexpert: int
    nroutedexperts: int
    nsharedexperts: int
    nexpertspertoken: int
    bs: int
    seqlen: int
    seed: int
