"""Tries the symmetric heap on the GPUs of this machine and says what its parts cost.

    python lab/heap_stress.py --ranks 4

Back-to-back exchanges with late ranks, every word checked; regions made and dropped; groups made and destroyed with
ranks handed on; latency of a flag and of a barrier (Triton, and HIP where nvcc or hipcc is there); store bandwidth; at
the end a rank that never comes. One line a part; exit code 1 where a part is wrong. HEAP_STRESS_IGNORE_MEMORY=1 leaves
free memory out of the judgement: of an emulated GPU it is the host's.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kernels.common.symmetric_heap import HeapError, heap_state, symmetric_heap  # noqa: E402
from lab import heap_kernels as hk  # noqa: E402

RANKS = 8
WORDS = 1024
GROUPS = 16  # workgroups of an exchange
REGION_BYTES = hk.DATA_OFFSET + 2 * GROUPS * RANKS * WORDS * 4
START = time.perf_counter()
TICKS_PER_US = 100 if torch.version.hip else 1000


def lost_memory(lost_bytes: int) -> int:
    """1 where more is gone than the runtime's own pools may have grown by."""
    return int(lost_bytes > 64 << 20 and "HEAP_STRESS_IGNORE_MEMORY" not in os.environ)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def join(rank: int, world_size: int, port: int, backend: str) -> None:
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    torch.cuda.set_device(rank)
    options = {"device_id": torch.device("cuda", rank)} if backend == "nccl" else {}
    if rank:
        time.sleep(0.1)  # torch's store hangs now and then where a rank asks before rank 0 listens on a port just used
    dist.init_process_group(backend, init_method="env://", rank=rank, world_size=world_size, **options)


def say(text: str) -> None:
    if dist.get_rank() == 0:
        print(f"{time.perf_counter() - START:5.1f} s  {text}", flush=True)


def exchanges(calls: int, jitter_us: int) -> int:
    """Wrong words in `calls` exchanges in a row, over all ranks. Ranks are late on the host and on the GPU."""
    heap = symmetric_heap()
    region = heap.region("exchange", REGION_BYTES)
    wrong = torch.zeros(1, dtype=torch.int32, device=heap.device)
    chance = random.Random(heap.rank)

    def call(ticks: int) -> None:
        hk.exchange_kernel[(GROUPS,)](
            region.table,
            heap.rank,
            heap.world_size,
            region.next_epoch(),
            wrong,
            ticks,
            heap.alarm_address,
            heap.timeout_ticks,
            WORDS=WORDS,
            RANKS=RANKS,
        )

    call(0)
    torch.cuda.synchronize()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        if chance.random() < 0.01:
            time.sleep(chance.random() * jitter_us * 1e-6)
        call(jitter_us * TICKS_PER_US if jitter_us else 0)
    torch.cuda.synchronize()
    took_us = (time.perf_counter() - start) / calls * 1e6
    dist.all_reduce(wrong)
    total = int(wrong.item())
    say(f"exchange: {calls} calls in a row, up to {jitter_us} us late: {total} wrong words, {took_us:.1f} us a call")
    return total


def timed(name: str, launch: Callable[[int, int, torch.Tensor], None], parts: int, count: int) -> None:
    """Reports a kernel that takes (epoch, count, int64 [1] for its ticks), and does `parts` things in each turn."""
    heap = symmetric_heap()
    region = heap.region("timed", 65536)
    took = torch.zeros(1, dtype=torch.int64, device=heap.device)
    results = []
    for _ in range(3):
        epoch = region.epoch + 1
        launch(epoch, count, took)
        region.epoch += count
        torch.cuda.synchronize()
        results.append(int(took.item()) / TICKS_PER_US / count / parts)
    say(f"{name}: {min(results):.2f} us (3 times {count} in one kernel: {', '.join(f'{r:.2f}' for r in results)})")


def latencies(library: Any, count: int) -> None:
    heap = symmetric_heap()
    region = heap.region("timed", 65536)
    how = (heap.alarm_address, heap.timeout_ticks)

    def barriers(epoch: int, count: int, took: torch.Tensor) -> None:
        hk.barriers_kernel[(1,)](region.table, heap.rank, heap.world_size, epoch, count, *how, took, RANKS=RANKS)

    def ping_pong(epoch: int, count: int, took: torch.Tensor) -> None:
        if heap.rank < 2:
            hk.ping_pong_kernel[(1,)](region.table, heap.rank, 1 - heap.rank, epoch, count, *how, took)

    def hip_barriers(epoch: int, count: int, took: torch.Tensor) -> None:
        library.run_barriers(
            *numbers(region.table_address, heap.rank, heap.world_size, epoch, count, *how, took.data_ptr())
        )

    def hip_ping_pong(epoch: int, count: int, took: torch.Tensor) -> None:
        if heap.rank < 2:
            library.run_ping_pong(
                *numbers(region.table_address, heap.rank, 1 - heap.rank, epoch, count, *how, took.data_ptr())
            )

    timed("barrier of all ranks, Triton", barriers, 1, count)
    timed("flag, one way, Triton", ping_pong, 2, count)
    if library is not None:
        timed("barrier of all ranks, HIP", hip_barriers, 1, count)
        timed("flag, one way, HIP", hip_ping_pong, 2, count)


def numbers(table: int, rank: int, other: int, epoch: int, count: int, alarm: int, ticks: int, took: int) -> list[Any]:
    long, integer = ctypes.c_longlong, ctypes.c_int
    return [
        long(table),
        integer(rank),
        integer(other),
        integer(epoch),
        integer(count),
        long(alarm),
        long(ticks),
        long(took),
    ]


def bandwidth(size_bytes: int) -> None:
    """Stores into peers' memory, every rank at once."""
    heap = symmetric_heap()
    region = heap.region("stores", size_bytes)
    chunk = 2048
    x = torch.ones(size_bytes // 4, dtype=torch.int32, device=heap.device)
    n_chunks = x.numel() // chunk
    for n_peers in sorted({1, heap.world_size - 1}):
        rates = []
        for groups in (8, 16, 32, 64, 128, 256):

            def run(repeats: int, n_peers: int = n_peers, groups: int = groups) -> None:
                for _ in range(repeats):
                    hk.store_kernel[(groups,)](
                        x, region.table, heap.rank, heap.world_size, n_peers, n_chunks, 0, CHUNK=chunk, num_warps=8
                    )

            run(2)
            torch.cuda.synchronize()
            dist.barrier()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            run(10)
            end.record()
            torch.cuda.synchronize()
            rates.append(f"{groups}: {size_bytes * 10 / max(begin.elapsed_time(end), 1e-3) / 1e6:.0f}")
        say(f"stores to {n_peers} peer(s), GB/s by workgroups: {', '.join(rates)}")


def host_costs() -> None:
    heap = symmetric_heap()
    heap.region("exchange", REGION_BYTES)
    start = time.perf_counter()
    for _ in range(10000):
        symmetric_heap().region("exchange", REGION_BYTES).next_epoch()
    took_us = (time.perf_counter() - start) * 100
    say(f"symmetric_heap().region(...).next_epoch() on the host: {took_us:.2f} us")
    heap.drop_region("exchange")  # the epochs just counted were no calls


def regions(rounds: int, size_bytes: int) -> int:
    """Makes and drops a region; the number of allocations and mappings that stay behind."""
    heap = symmetric_heap()
    before = (len(heap_state.runtime.allocated), len(heap_state.runtime.opened))
    heap.region("round", size_bytes)
    heap.drop_region("round")
    torch.cuda.synchronize()
    dist.barrier()
    free_before = torch.cuda.mem_get_info()[0]
    start = time.perf_counter()
    for _ in range(rounds):
        heap.region("round", size_bytes)
        heap.drop_region("round")
    took_ms = (time.perf_counter() - start) / rounds * 1e3
    dist.barrier()
    lost = free_before - torch.cuda.mem_get_info()[0]
    after = (len(heap_state.runtime.allocated), len(heap_state.runtime.opened))
    say(f"{rounds} regions of {size_bytes} bytes made and dropped: {took_ms:.2f} ms each, {lost} bytes lost")
    return sum(after) - sum(before) + lost_memory(lost)


def groups(position: int, world_size: int, count: int, port: int, backend: str, everyone: Any) -> int:
    """Groups made and destroyed, each with the ranks handed on by one; wrong words and what stays behind. All use one
    port, as the leaderboard's harness does."""
    bad, start, free_first = 0, time.perf_counter(), 0
    for turn in range(count):
        everyone.wait(60)
        join((position + turn) % world_size, world_size, port, backend)
        heap = symmetric_heap()
        region = heap.region("exchange", REGION_BYTES)
        wrong = torch.zeros(1, dtype=torch.int32, device=heap.device)
        for _ in range(3):
            hk.exchange_kernel[(GROUPS,)](
                region.table, heap.rank, heap.world_size, region.next_epoch(), wrong, 0,
                heap.alarm_address, heap.timeout_ticks, WORDS=WORDS, RANKS=RANKS,
            )  # fmt: skip
        bad += int(wrong.item())
        if turn == 2 * world_size:
            free_first = torch.cuda.mem_get_info()[0]
        if turn == count - 1:
            lost = free_first - torch.cuda.mem_get_info()[0] if count > 2 * world_size else 0
            made, opened = len(heap_state.runtime.allocated), len(heap_state.runtime.opened)
            took_ms = (time.perf_counter() - start) / count * 1e3
            say(f"{count} groups ({backend}), ranks handed on: {bad} wrong words, {took_ms:.0f} ms each, "
                f"{made} allocation(s), {opened} mapping(s)")  # fmt: skip
            bad += (made != 1) + (opened != world_size - 1) + lost_memory(lost)
        del region, heap
        dist.destroy_process_group()
    return bad


def main_part(position: int, options: argparse.Namespace, port: int, everyone: Any) -> None:
    faulthandler.dump_traceback_later(options.limit_s, exit=True)  # where it hangs
    n = options.ranks
    library = ctypes.CDLL(options.library) if options.library else None
    join(position, n, port, options.backend)
    host_costs()
    bad = exchanges(options.calls, 0) + exchanges(options.calls, 50)
    latencies(library, options.latency_count)
    bandwidth(options.bandwidth_mib << 20)
    bad += regions(options.rounds, 1 << 20)
    dist.destroy_process_group()
    bad += groups(position, n, options.groups, port, options.backend, everyone)
    bad += groups(position, n, options.gloo_groups, port, "gloo", everyone)
    if bad:
        raise SystemExit(1)
    faulthandler.cancel_dump_traceback_later()


def absent_part(position: int, options: argparse.Namespace, port: int) -> None:
    """Rank 1 never launches; the others' kernels must end, naming it."""
    faulthandler.dump_traceback_later(60, exit=True)
    join(position, options.ranks, port, "gloo")
    heap = symmetric_heap()
    region = heap.region("exchange", REGION_BYTES)
    heap.name_waits({1: "words of the exchange"})
    wrong = torch.zeros(1, dtype=torch.int32, device=heap.device)
    start = time.perf_counter()
    if heap.rank != 1:
        try:
            hk.exchange_kernel[(GROUPS,)](
                region.table, heap.rank, heap.world_size, region.next_epoch(), wrong, 0,
                heap.alarm_address, heap.timeout_ticks, WORDS=WORDS, RANKS=RANKS,
            )  # fmt: skip
            torch.cuda.synchronize()
        except RuntimeError as error:
            first = str(error).strip().splitlines()[0]
            print(f"rank {heap.rank}: ended after {time.perf_counter() - start:.1f} s: {first}", flush=True)
            os._exit(0)
        print(f"rank {heap.rank}: not ended by the rank that never came", flush=True)
        os._exit(1)
    time.sleep(heap.timeout_s + 4)
    os._exit(0)


def disagreeing_part(position: int, options: argparse.Namespace, port: int) -> None:
    join(position, options.ranks, port, "gloo")
    try:
        symmetric_heap().region("odd", 4096 * (1 + (position == 1)))
    except HeapError as error:
        say(f"sizes that differ: {error}")
        dist.destroy_process_group()
    else:
        raise SystemExit(f"rank {position} made a region of sizes that differ")


def build_library(folder: str) -> str:
    """The HIP kernels as a shared library; "" where no compiler is."""
    source, output = ROOT / "lab" / "heap_kernels.hip", Path(folder) / "heap_kernels.so"
    compilers = ("hipcc",) if torch.version.hip else ("nvcc", "/usr/local/cuda/bin/nvcc")
    compiler = next((found for name in compilers if (found := shutil.which(name))), None)
    if compiler is None:
        print(f"no {compilers[0]}: HIP is left out")
        return ""
    arch = ["-Xcompiler", "-fPIC", "-arch=native", "-x", "cu"] if compiler.endswith("nvcc") else ["-fPIC"]
    subprocess.run([compiler, "-O3", "-std=c++17", "-shared", *arch, str(source), "-o", str(output)], check=True)
    return str(output)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=torch.cuda.device_count())
    parser.add_argument("--backend", default="nccl")
    parser.add_argument("--calls", type=int, default=10000)
    parser.add_argument("--latency-count", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=12)
    parser.add_argument("--gloo-groups", type=int, default=100)
    parser.add_argument("--bandwidth-mib", type=int, default=256)
    parser.add_argument("--limit-s", type=float, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        options.library = build_library(folder)
        barrier = mp.get_context("spawn").Barrier(options.ranks)
        mp.spawn(main_part, (options, free_port(), barrier), nprocs=options.ranks)
    mp.spawn(disagreeing_part, (options, free_port()), nprocs=options.ranks)
    os.environ["SYMMETRIC_HEAP_TIMEOUT_S"] = "2"
    mp.spawn(absent_part, (options, free_port()), nprocs=options.ranks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
