"""Calls a submission of amd-gemm-rs or amd-ag-gemm from several ranks, without any barrier between calls.

    python gemm_ranks.py PROBLEM SUBMISSION WORLD_SIZE CASES

CASES: JSON, a list of {m, n, k, bias, calls, jitter_ms, row}, shapes as in the problem's cases; row: columns of the
tuning table to change. Rank 0 prints a JSON list: the worst relative L2 error of each case over calls and ranks, beside
fp32. Every rank makes all ranks' inputs from the seed, so nothing but the kernel itself ever waits for a peer. Outputs
and the places in the heap that peers write to are NaN before they are written.
"""

import ctypes
import importlib.util
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from forge.device import hook  # noqa: E402
from tests.support.spills import no_spills  # noqa: E402

NAN_BYTE = 0xFF
DISTINCT_CALLS = 50  # whose inputs differ


def errors_of(problem: str, submission: Path, world_size: int, cases: list[dict[str, Any]]) -> list[float]:
    """Runs this file on emulated ranks."""
    from tests.support.prepared import run_submission

    words = [problem, str(submission), str(world_size), json.dumps(cases)]
    done = run_submission("tests/support/gemm_ranks.py", submission, *words, POPCORN_GPUS=str(world_size))
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def load(path: str) -> Any:
    """The submission, once a process and those forked from it."""
    if "submission" in sys.modules:
        return sys.modules["submission"]
    spec = importlib.util.spec_from_file_location("submission", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules["submission"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def uniform(seed: int, *shape: int) -> torch.Tensor:
    generator = torch.Generator()
    generator.manual_seed(seed)
    return ((torch.rand(shape, generator=generator) * 2 - 1) * 0.01).to(torch.bfloat16)


def gemm_rs_call(case: dict[str, Any], rank: int, world_size: int, seed: int) -> tuple[Any, torch.Tensor]:
    """This rank's input, and its output in fp32."""
    m, n, k = case["m"], case["n"], case["k"] // world_size
    a = [uniform(seed + r, m, k) for r in range(world_size)]
    w = [uniform(seed + 50 + r, n, k) for r in range(world_size)]
    bias = uniform(seed + 100, n) if case["bias"] else None
    rows = slice(rank * m // world_size, (rank + 1) * m // world_size)
    want = sum(a[r][rows].float() @ w[r].float().T for r in range(world_size))
    assert isinstance(want, torch.Tensor)
    return (a[rank], w[rank], bias), want if bias is None else want + world_size * bias.float()


def ag_gemm_call(case: dict[str, Any], rank: int, world_size: int, seed: int) -> tuple[Any, torch.Tensor]:
    m, n, k = case["m"], case["n"] // world_size, case["k"]
    whole, w = uniform(seed, m, k), uniform(seed + 50 + rank, n, k)
    bias = uniform(seed + 100 + rank, n) if case["bias"] else None
    own = whole[rank * m // world_size : (rank + 1) * m // world_size]
    want = whole.float() @ w.float().T
    return (own, w, bias), want if bias is None else want + bias.float()


def poisoned(make: Any) -> Any:
    def make_poisoned(*args: Any, **kwargs: Any) -> torch.Tensor:
        tensor = make(*args, **kwargs)
        return tensor.fill_(float("nan")) if tensor.is_floating_point() else tensor

    return make_poisoned


def poison_regions(module: Any, rank: int) -> None:
    """Both calls' places, which end where their region ends."""
    for plan in module._plans.values():
        first = plan.places[0]
        begin, size = plan.region.addresses[rank] + first, plan.region.size_bytes - first
        module.heap_state.runtime.call("Memset", ctypes.c_void_p(begin), NAN_BYTE, ctypes.c_size_t(size))
    torch.cuda.synchronize()


def exchange_row(module: Any, key: Any, row: dict[str, Any]) -> None:
    """As forge.tune does: another dict in TUNING's place, with a row of its own."""
    module.TUNING = {**module.TUNING, key: dict(row)}


def run_case(problem: str, module: Any, case: dict[str, Any], rank: int, world_size: int) -> float:
    make_call = gemm_rs_call if problem == "amd-gemm-rs" else ag_gemm_call
    waits = random.Random(1000 * rank + case["m"])
    calls: list[tuple[Any, Any]] = []
    worst = 0.0
    for call in range(case["calls"]):
        if call < DISTINCT_CALLS:
            data, want = make_call(case, rank, world_size, 1000 * call + case["k"])
            calls.append((tuple(x if x is None else x.to(f"cuda:{rank}") for x in data), want))
        data, want = calls[call % DISTINCT_CALLS]
        table_key = (case["m"], data[1].shape[0], data[1].shape[1])
        if call == 0 and "row" in case:
            row = {**module.DEFAULT, **case["row"]}
            if hasattr(module, "extension"):  # HIP has nothing to compile for it: a plan that is to be replaced
                exchange_row(module, table_key, row)
                module.custom_kernel(data)
            exchange_row(module, table_key, row)
        if waits.random() < 0.2:
            time.sleep(waits.random() * case.get("jitter_ms", 0) / 1000)
        out = module.custom_kernel(data)
        if out.shape != want.shape or out.dtype != torch.bfloat16 or not out.is_contiguous():
            raise AssertionError(f"got {out.shape} {out.dtype}")
        if "row" in case and not any(plan.table_row is module.TUNING[table_key] for plan in module._plans.values()):
            raise AssertionError(f"{case}: its row is not used")
        torch.cuda.synchronize()
        error = ((out.cpu().float() - want).norm() / want.norm()).item()
        worst = max(worst, error if error == error else float("inf"))
        if call == 0:  # the region is there now
            dist.barrier()
            poison_regions(module, rank)
            dist.barrier()
    module.TUNING = {key: row for key, row in module.TUNING.items() if key != table_key}
    return worst


def worker(rank: int, problem: str, path: str, world_size: int, cases: list[dict[str, Any]], store: str) -> None:
    torch.cuda.set_device(rank)
    torch.set_num_threads(2)  # each rank its own few: comparing is most of the work on a GPU
    dist.init_process_group("nccl", init_method=f"file://{store}", rank=rank, world_size=world_size)
    module = load(path)
    torch.empty = poisoned(torch.empty)
    torch.Tensor.new_empty = poisoned(torch.Tensor.new_empty)
    with no_spills(f"{problem[len('amd-') :].replace('-', '_')}_kernel"):
        errors = torch.tensor([run_case(problem, module, case, rank, world_size) for case in cases])
    gathered = [torch.zeros_like(errors).to(f"cuda:{rank}") for _ in range(world_size)]
    dist.all_gather(gathered, errors.to(f"cuda:{rank}"))
    if rank == 0:
        print(json.dumps(torch.stack([part.cpu() for part in gathered]).amax(0).tolist()), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    problem, path, size, cases = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
    store = f"/tmp/gemm_ranks.{os.getpid()}"
    start_method = "spawn"  # a process that has called a driver must not fork
    if hook.emulating():
        start_method = "fork"
        if hasattr(load(path), "extension"):
            load(path).extension()  # builds the HIP source and calls nothing of it
    try:
        mp.start_processes(worker, (problem, path, size, cases, store), nprocs=size, start_method=start_method)
    finally:
        if os.path.exists(store):
            os.unlink(store)
