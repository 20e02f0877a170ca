"""What a distributed submission refuses, in a group of ranks that are not there.

    refusals.py SUBMISSION WORLD_SIZE ARGUMENT ...

ARGUMENT: custom_kernel's, in terms of torch, zeros(*shape) and SimpleNamespace. Prints a line for each that raises a
ValueError.
"""

import sys
from pathlib import Path
from types import SimpleNamespace  # noqa: F401

import torch
import torch.distributed as dist


def zeros(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype, device="cuda:0")


def assert_refused(submission: Path, world_size: int, refusals: dict[str, str]) -> None:
    """refusals: by custom_kernel's argument, as above, what must stand in the ValueError's text."""
    from tests.support.prepared import run_submission

    done = run_submission("tests/support/refusals.py", submission, str(submission), str(world_size), *refusals)
    lines = done.stdout.splitlines()
    assert len(lines) == len(refusals), done.stdout + done.stderr
    for line, message in zip(lines, refusals.values(), strict=True):
        assert line.startswith("ValueError:") and message in line, line


if __name__ == "__main__":
    from torch.testing._internal.distributed import fake_pg  # noqa: F401

    from tests.support.gemm_ranks import load

    submission = load(sys.argv[1])
    dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=int(sys.argv[2]))
    for data in sys.argv[3:]:
        try:
            submission.custom_kernel(eval(data))
        except ValueError as error:
            print("ValueError:", error)
