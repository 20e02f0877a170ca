"""Types of amd-all2all: what a kernel is given on each rank, what it returns, what describes a case."""

from typing import Any, TypedDict

import torch

# MoEConfig, RankTestData, rank, world size: see generate_input in reference.py
input_t = tuple[Any, Any, int, int]
output_t = torch.Tensor  # fp16 [num_tokens, hidden_dim]


class TestSpec(TypedDict):
    num_experts: int
    experts_per_token: int
    hidden_dim: int
    max_num_tokens: int
    seed: int
    world_size: int
