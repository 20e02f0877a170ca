"""Run by test_symmetric_heap.py in a prepared process: the symmetric heap over forked ranks.

    heap_ranks.py RANKS PART

A part fails by an exception in any rank.
"""

import ctypes
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

sys.path.insert(0, str(Path(__file__).parents[3]))

from kernels.common.symmetric_heap import HeapError, SymmetricHeap, heap_state, symmetric_heap  # noqa: E402
from lab import heap_kernels as hk  # noqa: E402

WORDS, GROUPS, RANKS = 256, 2, 4
REGION_BYTES = hk.DATA_OFFSET + 2 * GROUPS * RANKS * WORDS * 4


def join(rank: int, ranks: int, port: int) -> SymmetricHeap:
    """As the leaderboard's harness: the GPU is bound to the group, the current one stays 0."""
    torch.set_num_threads(1)
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    if rank:
        time.sleep(0.1)  # torch's store hangs now and then where a rank asks before rank 0 listens on a port just used
    dist.init_process_group(
        "nccl", init_method="env://", rank=rank, world_size=ranks, device_id=torch.device("cuda", rank)
    )
    return symmetric_heap()


def exchange(heap: SymmetricHeap, calls: int, jitter_us: int = 0, wait: bool = True) -> int:
    """Wrong words over all ranks, in `calls` exchanges that nothing separates."""
    region = heap.region("exchange", REGION_BYTES)
    wrong = torch.zeros(1, dtype=torch.int32, device=heap.device)
    for _ in range(calls):
        hk.exchange_kernel[(GROUPS,)](
            region.table, heap.rank, heap.world_size, region.next_epoch(), wrong, jitter_us * 100,
            heap.alarm_address, heap.timeout_ticks, WORDS=WORDS, RANKS=RANKS, WAIT=wait,
        )  # fmt: skip
    dist.all_reduce(wrong)
    return int(wrong.item())


def in_use() -> tuple[int, int]:
    return len(heap_state.runtime.allocated), len(heap_state.runtime.opened)


def message_of(function: Callable[[], object]) -> str:
    try:
        function()
    except HeapError as error:
        return str(error)
    raise AssertionError("no HeapError")


def part_exchange(position: int, ranks: int, port: int, everyone: Any) -> None:
    heap = join(position, ranks, port)
    assert heap.rank == position and torch.cuda.current_device() == position
    region = heap.region("exchange", REGION_BYTES)
    assert heap.region("exchange", REGION_BYTES) is region and symmetric_heap() is heap
    assert region.table.tolist() == list(region.addresses) and region.addresses[heap.rank] % 4096 == 0
    assert exchange(heap, 1000) == 0
    assert exchange(heap, 200, jitter_us=20) == 0
    region.epoch = (1 << 31) - 20  # on every rank
    assert exchange(heap, 40) == 0 and region.epoch < 0, "across the epoch's wrap"
    assert exchange(heap, 40, jitter_us=50, wait=False) > 0, "words that come late go unnoticed"
    dist.destroy_process_group()


def part_hip(position: int, ranks: int, port: int, everyone: Any) -> None:
    """The barrier of symmetric_heap.h, beside Triton's on the same flags."""
    heap = join(position, ranks, port)
    library = ctypes.CDLL(os.environ["HEAP_KERNELS"])
    region = heap.region("timed", 65536)
    took = torch.zeros(1, dtype=torch.int64, device=heap.device)
    how = (heap.alarm_address, heap.timeout_ticks)
    for _ in range(20):
        long = ctypes.c_longlong
        library.run_barriers(
            long(region.table_address), heap.rank, ranks, region.epoch + 1, 5,
            *map(long, how), long(took.data_ptr())
        )  # fmt: skip
        region.epoch += 5
        hk.barriers_kernel[(1,)](region.table, heap.rank, ranks, region.epoch + 1, 5, *how, took, RANKS=RANKS)
        region.epoch += 5
    torch.cuda.synchronize()
    flags = (ctypes.c_int * (16 * ranks)).from_address(region.addresses[heap.rank])
    dist.barrier()
    assert list(flags[::16]) == [200] * ranks, list(flags[::16])
    dist.barrier()
    dist.destroy_process_group()


def part_rounds(position: int, ranks: int, port: int, everyone: Any) -> None:
    """Nothing is left of regions given up and of groups destroyed, their port neither; ranks, and with them GPUs, are
    handed on."""
    for turn in range(5):
        everyone.wait(280)
        heap = join((position + turn) % ranks, ranks, port)
        assert heap.device_index == (position + turn) % ranks == torch.cuda.current_device()
        assert exchange(heap, 3) == 0
        assert in_use() == (1, ranks - 1)
        if turn == 0:
            exported = heap.region("exchange", REGION_BYTES)
            for _ in range(100):
                heap.region("round", 100_000)
                heap.drop_region("round")
            assert in_use() == (1, ranks - 1)
            larger = heap.region("exchange", REGION_BYTES + 1)
            assert larger is not exported and larger.epoch == 0 and in_use() == (1, ranks - 1)
            assert exchange(heap, 3) == 0
            del exported, larger
        del heap
        dist.destroy_process_group()
        assert in_use() == (1, 0), "peers' memory is closed with the group"


def part_refusals(position: int, ranks: int, port: int, everyone: Any) -> None:
    """Every rank learns which rank cannot, and why; the heap goes on."""
    heap = join(position, ranks, port)
    sizes = message_of(lambda: heap.region("odd", 4096 * (1 + (position == 1))))
    assert "same size in bytes, but: rank 0 4096, rank 1 8192" in sizes, sizes
    keys = message_of(lambda: heap.region(("key", position), 4096))
    assert "same key" in keys and "rank 1 ('key', 1)" in keys, keys
    hoard = ctypes.c_void_p()
    if position == 1:
        heap.runtime.call("Malloc", ctypes.byref(hoard), ctypes.c_size_t(190 << 30))
    memory = message_of(lambda: heap.region("large", 8 << 30))
    assert "rank 1: hipExtMallocWithFlags: out of memory" in memory and "rank 0:" not in memory, memory
    if position == 1:
        heap.runtime.call("Free", hoard)
    original = heap.runtime.open
    if position == 1:
        heap.runtime.__dict__["open"] = lambda handle: original(b"nonsense" + handle[8:])
    access = message_of(lambda: heap.region("closed", 4096))
    assert "rank 1: no access to the memory of rank 0: hipIpcOpenMemHandle: invalid argument" in access, access
    heap.runtime.__dict__.pop("open", None)
    if position == 1:
        step = message_of(lambda: heap.region("here", 4096))
    else:
        step = message_of(lambda: heap.drop_region("there"))
    assert "out of step" in step and "rank 1 came to make region 'here'" in step, step
    assert exchange(heap, 3) == 0
    assert in_use() == (1 + len(heap_state.leftovers), ranks - 1) and len(heap_state.leftovers) <= 2
    began = time.monotonic()
    if position != 1:
        absent = message_of(lambda: heap.region("late", 4096))
        assert f"rank {position}: waited 2 s for rank 1 to make region 'late'" in absent, absent
        assert time.monotonic() - began > 2
        everyone.wait(280)
        ended = message_of(lambda: heap.region("later", 4096))
        assert f"rank {position}: the process of rank 1 has ended: it does not come to make region" in ended, ended
    else:
        everyone.wait(280)
    os._exit(0)  # the ranks' counts of steps differ now


def part_absent(position: int, ranks: int, port: int, everyone: Any) -> None:
    """Kernels that wait for a rank that never comes end, naming it on every rank that waits."""
    heap = join(position, ranks, port)
    heap.name_waits({1: "words"})
    region = heap.region("exchange", REGION_BYTES)
    if position == 1:
        everyone.wait(280)
        everyone.wait(280)
        os._exit(0)
    if position == 2:  # when rank 0 has come and gone: slow to compile its kernel, it could be taken for absent too
        everyone.wait(280)
    try:
        if position == 0:
            exchange(heap, 1)
        else:
            library = ctypes.CDLL(os.environ["HEAP_KERNELS"])
            where, *how = map(ctypes.c_longlong, (region.table_address, heap.alarm_address, heap.timeout_ticks))
            library.run_barriers(where, position, ranks, 1, 1, *how, where)
            torch.cuda.synchronize()
    except Exception as error:
        text = str(error)
        said = "symmetric heap, assertion failed: this rank never came: 1"
        assert position == 2 or "exchange_kernel" in text and said in text and "peer_signals" in text, text
    else:
        raise AssertionError("the kernel ended well")
    if position == 0:
        again = message_of(region.next_epoch)
        assert again == "rank 0 waited 0.3 s for rank 1 (words, epoch 1): it never came", again
        everyone.wait(280)
    everyone.wait(280)
    for _ in range(2):  # as at the process's end: only where no call has told of it, and once
        heap_state.alarm.tell()
    os._exit(0)


def part_beyond(position: int, ranks: int, port: int, everyone: Any) -> None:
    """A store past a peer's region is an error that says so."""
    heap = join(position, ranks, port)
    region = heap.region("small", 4096)
    if position == 0:
        x = torch.ones(2048, dtype=torch.int32, device=heap.device)
        try:
            hk.store_kernel[(1,)](x, region.table, 0, ranks, 1, 1, 4096, CHUNK=2048)
        except Exception as error:
            assert "memory access fault" in str(error) and "store_kernel" in str(error), error
        else:
            raise AssertionError("the store went somewhere")
    dist.barrier()
    dist.destroy_process_group()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


if __name__ == "__main__":
    n_ranks, part = int(sys.argv[1]), sys.argv[2]
    barrier = mp.get_context("fork").Barrier(n_ranks)
    arguments = (n_ranks, free_port(), barrier)
    mp.start_processes(globals()[f"part_{part}"], arguments, nprocs=n_ranks, start_method="fork")
