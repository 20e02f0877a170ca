"""Run by test_device_emulated.py in a prepared process: collectives, over forked ranks."""

import os
import socket
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

DTYPES = (
    torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fnuz, torch.float8_e4m3fn,
    torch.int32, torch.int64, torch.int16, torch.uint8, torch.bool,
)  # fmt: skip


def same(got: torch.Tensor, wanted: torch.Tensor) -> None:
    assert got.is_cuda and got.dtype == wanted.dtype, (got, wanted)
    assert got.shape == wanted.shape and torch.equal(got.float().cpu(), wanted.float()), (got, wanted)


def fails(function: Callable[[], Any], error: type[Exception], words: str) -> None:
    try:
        function()
    except error as raised:
        assert words in str(raised), raised
    else:
        raise AssertionError(f"no {error.__name__} about {words!r}")


def check_dtype(rank: int, ranks: int, dtype: torch.dtype) -> None:
    total = ranks * (ranks + 1) // 2
    numbers = torch.arange(1, ranks + 1)

    def full(value: int, *shape: int) -> torch.Tensor:
        return torch.full(shape, value).to(dtype)

    def stacked(*shape: int) -> torch.Tensor:
        """Row i holds i + 1: what rank i contributes."""
        return numbers.view(ranks, *[1] * len(shape)).expand(ranks, *shape).to(dtype)

    def empty(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=f"cuda:{rank}")

    x = full(rank + 1, 2 * ranks, 3).cuda(rank)
    y = x.clone()
    dist.all_reduce(y)
    same(y, full(total, 2 * ranks, 3))
    y = x.clone()
    dist.all_reduce(y, op=dist.ReduceOp.MAX, async_op=True).wait()
    same(y, full(ranks, 2 * ranks, 3))
    y = x.clone()
    dist.reduce(y, 0)
    if rank == 0:
        same(y, full(total, 2 * ranks, 3))
    y = empty(2, 3)
    dist.reduce_scatter_tensor(y, x)
    same(y, full(total, 2, 3))
    y = empty(2, 3)
    dist.reduce_scatter(y, list(x.chunk(ranks)))
    same(y, full(total, 2, 3))
    y = empty(ranks * 2 * ranks, 3)  # one after the other ...
    dist.all_gather_into_tensor(y, x)
    same(y.view(ranks, 2 * ranks, 3), stacked(2 * ranks, 3))
    y = empty(ranks, 2 * ranks, 3)  # ... and stacked
    dist.all_gather_into_tensor(y, x)
    same(y, stacked(2 * ranks, 3))
    parts = [torch.empty_like(x) for _ in range(ranks)]
    dist.all_gather(parts, x)
    same(torch.stack(parts), stacked(2 * ranks, 3))
    y = torch.empty_like(x)
    dist.all_to_all_single(y, x)
    same(y.view(ranks, 2, 3), stacked(2, 3))
    send, receive = ([(rank + other) % 3 for other in range(ranks)] for _ in range(2))
    y = empty(sum(receive), 5)
    dist.all_to_all_single(y, full(rank + 1, sum(send), 5).cuda(rank), receive, send)
    same(y, torch.cat([full(other + 1, count, 5) for other, count in enumerate(receive)]))
    parts = [empty(1) for _ in range(ranks)]
    dist.all_to_all(parts, [full(rank + 1, 1).cuda(rank) for _ in range(ranks)])
    same(torch.stack(parts), stacked(1))
    for y in (x.clone(), x[0, 0].clone()):
        dist.broadcast(y, 1)
        same(y, full(2, *y.shape))
    parts = [torch.empty_like(x) for _ in range(ranks)]
    dist.gather(x, parts if rank == 0 else None)
    if rank == 0:
        same(torch.stack(parts), stacked(2 * ranks, 3))
    y = empty(2, 3)
    dist.scatter(y, list(x.chunk(ranks)) if rank == 0 else None)
    same(y, full(1, 2, 3))
    y = torch.empty_like(x)
    before = (rank - 1) % ranks
    sends = [dist.P2POp(dist.isend, x, (rank + 1) % ranks), dist.P2POp(dist.irecv, y, before)]
    for work in dist.batch_isend_irecv(sends):
        work.wait()
    same(y, full(before + 1, 2 * ranks, 3))


def check_the_rest(rank: int, ranks: int) -> None:
    device = torch.device("cuda", rank)
    y = torch.tensor([1.5 * (rank + 1)], dtype=torch.bfloat16, device=device)
    dist.all_reduce(y, op=dist.ReduceOp.AVG)
    same(y, torch.tensor([0.75 * (ranks + 1)], dtype=torch.bfloat16))
    dist.barrier(device_ids=[rank])
    everyone: list[Any] = [None] * ranks
    dist.all_gather_object(everyone, {"rank": rank})
    assert everyone[1] == {"rank": 1}
    pair = dist.new_group([0, 1])
    if rank < 2:
        assert dist.get_backend(pair) == "nccl"
        y = torch.tensor([rank + 1.0], device=device).to(torch.float8_e4m3fnuz)
        dist.all_reduce(y, group=pair)
        same(y, torch.tensor([3.0]).to(torch.float8_e4m3fnuz))
    on_host = dist.new_group(backend="gloo")
    y = torch.ones(1)
    dist.all_reduce(y, group=on_host)
    assert y.item() == ranks and dist.get_backend(on_host) == "gloo"
    # What RCCL refuses.
    fails(lambda: dist.all_reduce(torch.ones(2)), RuntimeError, "device type cpu")
    fails(lambda: dist.all_reduce(torch.ones(4, 4, device=device)[:, ::2]), ValueError, "contiguous")
    gathered = torch.ones(2 * ranks, device=device)
    half = torch.ones(2, dtype=torch.float16, device=device)
    fails(lambda: dist.all_gather_into_tensor(gathered, half), TypeError, "dtypes")


def main(rank: int, ranks: int, port: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    device = torch.device("cuda", rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=device)
    assert dist.get_backend() == "nccl"
    for dtype in DTYPES:
        check_dtype(rank, ranks, dtype)
    check_the_rest(rank, ranks)
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.start_processes(main, (int(sys.argv[1]), port), nprocs=int(sys.argv[1]), start_method="fork")
