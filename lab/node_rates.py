"""What this machine's GPUs give any submission of the distributed problems: the harness's clock with nothing or only
the input's copy in it, all-to-all by NCCL, and cuBLAS and NCCL alone on the benchmarks' shapes of a rank.

    python lab/node_rates.py --ranks 8

us, medians; back to back: events around 20 calls, the slowest rank.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from forge.judge.ranks import largest  # noqa: E402
from lab.rank_shapes import rank_shapes  # noqa: E402

MIB = 1 << 20
CALLS, ROUNDS, HARNESS_CALLS = 20, 7, 60
FLUSH_BYTES = 256 * MIB
# Of a rank of eight, whatever the number of ranks here.
GEMM_RS, AG_GEMM = rank_shapes("amd-gemm-rs"), rank_shapes("amd-ag-gemm")


def back_to_back_us(call: Callable[[], Any]) -> float:
    for _ in range(5):
        call()
    rounds = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(CALLS):
            call()
        end.record()
        end.synchronize()
        rounds.append(largest(begin.elapsed_time(end) / CALLS * 1e3, "cuda"))
    return statistics.median(rounds)


def harness_us(call: Callable[[], Any]) -> str:
    """This rank's clock from barrier to barrier, as the harness takes it, caches flushed before."""
    flushed = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    times = []
    for _ in range(HARNESS_CALLS):
        flushed.zero_()
        torch.cuda.synchronize()
        dist.barrier()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        dist.barrier()
        times.append((time.perf_counter() - begin) * 1e6)
    return f"{statistics.median(times):.0f} (mean {statistics.mean(times):.0f}, best {min(times):.0f})"


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cuda").bfloat16()


def measure(rank: int, ranks: int, folder: str) -> None:
    torch.cuda.set_device(rank)
    where = {"init_method": f"file://{folder}/store", "device_id": torch.device("cuda", rank)}
    dist.init_process_group("nccl", rank=rank, world_size=ranks, **where)

    def say(text: str) -> None:
        if rank == 0:
            print(text, flush=True)

    say(f"{ranks} x {torch.cuda.get_device_name()}, torch {torch.__version__}, NCCL {torch.cuda.nccl.version()}")
    say(f"harness clock, nothing called: {harness_us(lambda: None)}")
    for m, n, k in (AG_GEMM[0], AG_GEMM[-2], AG_GEMM[-1]):
        inputs = [normal(m // ranks, k), normal(n, k), normal(n)]
        copied = harness_us(lambda: [x.clone() for x in inputs])  # noqa: B023
        say(f"harness clock, copy of ag-gemm's input of m, n, k {m}, {n}, {k}: {copied}")
    small = torch.zeros(8, device="cuda")
    say(f"harness clock, all-reduce of 32 bytes: {harness_us(lambda: dist.all_reduce(small))}")
    for mib in (1, 4, 16, 64):
        sent = normal(ranks * mib * MIB // 2)
        got = torch.empty_like(sent)
        us = back_to_back_us(lambda: dist.all_to_all_single(got, sent))  # noqa: B023
        out_gb_s = (ranks - 1) * mib * MIB / us / 1e3
        say(f"b2b, all-to-all of {mib} MiB a pair: {us:.1f}, {out_gb_s:.1f} GB/s out of a GPU")
    for name, shapes in (("gemm-rs", GEMM_RS), ("ag-gemm", AG_GEMM)):
        for m, n, k in shapes:
            a, w = normal(m, k), normal(n, k)
            product_us = back_to_back_us(lambda: torch.matmul(a, w.T))  # noqa: B023
            if name == "gemm-rs":
                partial, own = normal(m, n), normal(m // ranks, n)
                exchange_us = back_to_back_us(lambda: dist.reduce_scatter_tensor(own, partial))  # noqa: B023
                exchange = "reduce-scatter"
            else:
                own = normal(m // ranks, k)
                exchange_us = back_to_back_us(lambda: dist.all_gather_into_tensor(a, own))  # noqa: B023
                exchange = "all-gather"
            say(f"b2b, {name} {m}, {n}, {k}: cuBLAS alone {product_us:.1f}, {exchange} alone {exchange_us:.1f}")
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=torch.cuda.device_count())
    ranks = parser.parse_args().ranks
    if not 2 <= ranks <= torch.cuda.device_count():
        parser.error(f"--ranks {ranks}: from 2 to the number of GPUs, here {torch.cuda.device_count()}")
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # multicast would hide what a submission's own stores can reach
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(measure, (ranks, folder), nprocs=ranks)


if __name__ == "__main__":
    main()
