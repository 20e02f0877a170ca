"""Run by gemm_submissions.py in a prepared process: what a submission of amd-gemm-rs or amd-ag-gemm refuses.

    gemm_refusals.py SUBMISSION WORLD_SIZE ARGUMENT ...

ARGUMENT: custom_kernel's, in terms of zeros(*shape). Prints a line for each that a ValueError refuses.
"""

from __future__ import annotations

import importlib.util
import sys

import torch
import torch.distributed as dist
from torch.testing._internal.distributed import fake_pg  # noqa: F401


def zeros(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype, device="cuda:0")


if __name__ == "__main__":
    spec = importlib.util.spec_from_file_location("submission", sys.argv[1])
    assert spec is not None and spec.loader is not None
    submission = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(submission)
    dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=int(sys.argv[2]))
    for data in sys.argv[3:]:
        try:
            submission.custom_kernel(eval(data))
        except ValueError as error:
            print("ValueError:", error)
