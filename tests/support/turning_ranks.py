"""Runs a distributed submission as the official evaluator may: processes stay, and get another rank and GPU a case.

    python turning_ranks.py PROBLEM SUBMISSION

The first smoke case of the problem, three times, a process group each: rank and GPU of a process are one on each time,
and the current GPU is left alone, as there. A wrong result is an AssertionError in that rank.
"""

import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from forge.task.problem import Problem, find_problem  # noqa: E402
from tests.support.gemm_ranks import load  # noqa: E402
from tests.support.reference_folders import load_reference  # noqa: E402

TURNS = 3


def case_of(problem: Problem) -> dict[str, Any]:
    return problem.smoke[0]


def worker(position: int, name: str, path: str, world_size: int, store: str) -> None:
    torch.set_num_threads(1)
    problem = find_problem(name)
    reference, submission = load_reference(problem.stem), load(path)
    for turn in range(TURNS):
        rank = (position + turn) % world_size
        device = torch.device("cuda", rank)
        method = f"file://{store}.{turn}"
        dist.init_process_group("nccl", init_method=method, rank=rank, world_size=world_size, device_id=device)
        for _ in range(2):
            data = reference.generate_input(**case_of(problem), rank=rank)
            out = submission.custom_kernel(data)
            torch.cuda.synchronize(device)
            data = reference.generate_input(**case_of(problem), rank=rank)
            good, message = reference.check_implementation(data, out)
            assert good and out.device == device, f"turn {turn}, rank {rank}: {message} on {out.device}"
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    world_size = case_of(find_problem(sys.argv[1]))["world_size"]
    if hasattr(load(sys.argv[2]), "extension"):
        load(sys.argv[2]).extension()  # builds the HIP source before the ranks are forked, and calls nothing of it
    store = f"/tmp/turning_ranks.{os.getpid()}"
    try:
        mp.start_processes(worker, (*sys.argv[1:3], world_size, store), nprocs=world_size, start_method="fork")
    finally:
        for turn in range(TURNS):
            Path(f"{store}.{turn}").unlink(missing_ok=True)
