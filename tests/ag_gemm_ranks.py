"""Calls an ag-gemm submission from several ranks, without any barrier between calls, and compares every result.

    python ag_gemm_ranks.py SUBMISSION WORLD_SIZE CASES

CASES: JSON, a list of {m, n, k, bias, calls, jitter_ms, row}; n: columns of all ranks; row: columns of the tuning
table to change. Rank 0 prints a JSON list: the worst relative L2 error of each case over calls and ranks, beside fp32.
Every rank makes all ranks' inputs from the seed, so nothing but the kernel itself ever waits for a peer. Outputs and
the places in the heap that peers write to are NaN before they are written.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import random
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

NAN_BYTE = 0xFF


def load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("submission", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules["submission"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def uniform(seed: int, *shape: int) -> torch.Tensor:
    generator = torch.Generator()
    generator.manual_seed(seed)
    return ((torch.rand(shape, generator=generator) * 2 - 1) * 0.01).to(torch.bfloat16)


def inputs(case: dict[str, Any], world_size: int, seed: int) -> tuple[torch.Tensor, list[torch.Tensor], Any]:
    """The whole input [m, k]; each rank's weight; each rank's bias or None."""
    local_n = case["n"] // world_size
    whole = uniform(seed, case["m"], case["k"])
    weights = [uniform(seed + 1 + rank, local_n, case["k"]) for rank in range(world_size)]
    biases = [uniform(seed + 101 + rank, local_n) if case["bias"] else None for rank in range(world_size)]
    return whole, weights, biases


def poisoned_empty(empty: Any) -> Any:
    def make(*args: Any, **kwargs: Any) -> torch.Tensor:
        tensor = empty(*args, **kwargs)
        return tensor.fill_(float("nan")) if tensor.is_floating_point() else tensor

    return make


def poison_region(module: Any, plan: Any) -> None:
    """Both places for the gathered rows, which end where the region ends."""
    begin = ctypes.c_void_p(plan.own + plan.first_slot)
    size = ctypes.c_size_t(plan.region.size_bytes - plan.first_slot)
    module.heap_state.runtime.call("Memset", begin, NAN_BYTE, size)
    torch.cuda.synchronize()


def run_case(module: Any, case: dict[str, Any], rank: int, world_size: int) -> float:
    rows, device = case["m"] // world_size, torch.device("cuda", rank)
    arch = "gfx942" if module.GFX942 else "sm_90"
    table_key = (arch, case["m"], case["n"] // world_size, case["k"])
    if case.get("row"):
        module.TUNING[table_key] = {**module.DEFAULT, **case["row"]}
    waits = random.Random(1000 * rank + case["m"])
    worst = 0.0
    results, wanted = [], []
    for call in range(case["calls"]):
        seed = 1000 * (call % 50) + case["k"]
        if call < 50:
            whole, weights, biases = inputs(case, world_size, seed)
            want = whole.float() @ weights[rank].float().T
            wanted.append(want if biases[rank] is None else want + biases[rank].float())
            own = whole[rank * rows : (rank + 1) * rows].contiguous().to(device)
            bias = None if biases[rank] is None else biases[rank].to(device)
            results.append((own, weights[rank].to(device), bias))
        if waits.random() < 0.2:
            time.sleep(waits.random() * case.get("jitter_ms", 0) / 1000)
        out = module.custom_kernel(results[call % 50])
        if out.shape != (case["m"], case["n"] // world_size) or out.dtype != torch.bfloat16:
            raise AssertionError(f"got {out.shape} {out.dtype}")
        torch.cuda.synchronize()
        want = wanted[call % 50]
        error = ((out.cpu().float() - want).norm() / want.norm()).item()
        worst = max(worst, error if error == error else float("inf"))
        if call == 0:  # the region is there now
            dist.barrier()
            for plan in module._plans.values():
                poison_region(module, plan)
            dist.barrier()
    module.TUNING.pop(table_key, None)
    return worst


def worker(rank: int, path: str, world_size: int, cases: list[dict[str, Any]], store: str) -> None:
    torch.cuda.set_device(rank)
    torch.set_num_threads(2)  # each rank its own few: comparing is most of the work on a GPU
    dist.init_process_group("nccl", init_method=f"file://{store}", rank=rank, world_size=world_size)
    module = load(path)
    torch.empty = poisoned_empty(torch.empty)
    errors = torch.tensor([run_case(module, case, rank, world_size) for case in cases])
    gathered = [torch.zeros_like(errors).to(f"cuda:{rank}") for _ in range(world_size)]
    dist.all_gather(gathered, errors.to(f"cuda:{rank}"))
    if rank == 0:
        print(json.dumps(torch.stack([part.cpu() for part in gathered]).amax(0).tolist()), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    store = f"/tmp/ag_gemm_ranks.{os.getpid()}"
    try:
        mp.spawn(worker, (sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]), store), nprocs=int(sys.argv[2]))
    finally:
        if os.path.exists(store):
            os.unlink(store)
