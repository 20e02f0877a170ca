"""Types of amd-mixed-mla: what a kernel is given, what it returns, what describes a case."""

from typing import Any, TypedDict

import torch

# q, kv_data, qo_indptr, kv_indptr, config: see generate_input in reference.py
input_t = tuple[torch.Tensor, dict[str, Any], torch.Tensor, torch.Tensor, dict[str, Any]]
output_t = torch.Tensor  # bf16 [batchsize * qseqlen, 16, 512]


class TestSpec(TypedDict):
    batchsize: int
    qseqlen: int
    kvseqlen: int
    seed: int
