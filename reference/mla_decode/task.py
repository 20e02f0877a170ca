"""Types of amd-mla-decode: what a kernel is given, what it returns, what describes a case."""

from typing import Any, TypedDict

import torch

# Config (sizes and weights), x, KVCache: see generate_input in reference.py
input_t = tuple[Any, torch.Tensor, Any]
# y: bf16 [batch, 1, dim]; the whole cache: bf16 [batch, 8192, 576]
output_t = tuple[torch.Tensor, torch.Tensor]


class TestSpec(TypedDict):
    batchsize: int
    dim: int
    dq: int
    prefill: int
    seed: int
