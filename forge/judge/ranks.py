"""The ranks of one case as one of them sees them: one alone, or several in a process group. Runs in the worker.

What runs a case is written once, for W ranks. With W = 1 a barrier is nothing, and what one says all say.
"""

import os
from typing import Any

import torch
import torch.distributed as dist

from forge.judge.compare import copy_data
from forge.task.problem import Case


class Ranks:
    """One rank alone, on the current GPU: a case without a world_size."""

    rank: int | None = None  # also the number of its GPU; None: whichever is current
    decides = True  # whether this one says when a measurement ends

    def args_of(self, args: Case) -> Case:
        """A case's arguments as this rank's generate_input takes them; a new dict."""
        return dict(args)

    def copy(self, data: Any, kind: str) -> Any:
        """What one side gets of data that both the kernel and the check use. kind: as forge.judge.compare.copy_data."""
        return copy_data(data, kind)

    def call_input(self, data: Any) -> Any:
        """What a timed call is given; making it counts."""
        return data

    def synchronize(self) -> None:
        """Waits for this rank's GPU."""
        if torch.cuda.is_available():
            torch.cuda.synchronize(self.rank)

    def barrier(self) -> None:
        """Waits for the other ranks."""

    def together(self) -> None:
        """Waits until all ranks are here, their GPUs idle."""
        self.synchronize()

    def any(self, *flags: bool) -> list[bool]:
        """Each flag, true if it is on any rank: so all leave a loop together, and none waits in a barrier."""
        return list(flags)

    def largest(self, value: float) -> float:
        """The largest of all ranks' values, the same on each."""
        return value

    def leave(self) -> None:
        """Ends the process group."""


class Group(Ranks):
    """One of several ranks, each on the GPU of its number."""

    def __init__(self, rank: int, world_size: int, port: int, backend: str) -> None:
        """Makes the process group, as the official evaluator does before each case."""
        self.rank, self.decides = rank, rank == 0
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        options = {"device_id": torch.device(f"cuda:{rank}")} if backend == "nccl" else {}
        dist.init_process_group(backend, init_method="env://", rank=rank, world_size=world_size, **options)

    def args_of(self, args: Case) -> Case:
        return {**args, "rank": self.rank}

    def copy(self, data: Any, kind: str) -> Any:
        return copy_data(data, kind, f"cuda:{self.rank}")

    def call_input(self, data: Any) -> Any:
        return self.copy(data, "tensors")

    def barrier(self) -> None:
        dist.barrier()

    def together(self) -> None:
        self.synchronize()
        dist.barrier()
        self.synchronize()

    def any(self, *flags: bool) -> list[bool]:
        tensor = torch.tensor([int(flag) for flag in flags], device=f"cuda:{self.rank}")
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        return [bool(flag) for flag in tensor.tolist()]

    def largest(self, value: float) -> float:
        return largest(value, f"cuda:{self.rank}")

    def leave(self) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()


def largest(value: float, device: str) -> float:
    """The largest value of a process group's ranks, the same on each; device: this rank's."""
    tensor = torch.tensor([value], dtype=torch.float64, device=device)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return float(tensor.item())
