"""Run by test_device_emulated.py in a process prepared for an emulated GPU: torch.cuda.CUDAGraph."""

import ctypes

import pytest
import torch
import triton
import triton.language as tl

from tests.support.checks import main


@triton.jit
def _double(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


def test_torch_and_triton_between() -> None:
    x = torch.zeros(100, device="cuda")
    count = torch.zeros(1, dtype=torch.int64, device="cuda")
    weight = torch.arange(100.0, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        y = x + 1
        _double[(1,)](y, 100, BLOCK=128)
        z = (y * weight).sum()
        filled = torch.full((3,), 4.0, device="cuda")
        filled += z
        count += 1
        x.mul_(2.0)
        view = y.view(10, 10)[2:4]
    assert not torch.cuda.is_current_stream_capturing()
    assert count.item() == 0 and x.sum() == 0  # nothing has run
    for start in (1.0, 5.0):
        x.fill_(start)
        graph.replay()
        assert y.device.type == "cuda" and torch.equal(y, torch.full((100,), 2 * start + 2, device="cuda"))
        assert z.item() == (2 * start + 2) * 4950 and filled.tolist() == [4 + z.item()] * 3
        assert x[0] == 2 * start and view.shape == (2, 10) and (view == y[0]).all()
    assert count.item() == 2


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize(
    "work",
    [
        lambda x: x.to(torch.float16).float(),
        lambda x: x.t().contiguous(),
        lambda x: x.t().reshape(-1),
        lambda x: torch.nn.functional.rms_norm(x, (8,)) @ x.t(),
        lambda x: torch.cat([part * 2 for part in x.chunk(2)]),
    ],
)
def test_operations_made_of_others(work, inference: bool) -> None:
    """torch hands them over whole in inference mode, and some of them may give a view."""
    with torch.inference_mode(inference):
        x = torch.zeros(4, 8, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = work(x)
        x.copy_(torch.randn(4, 8, device="cuda"))
        graph.replay()
        assert y.device.type == "cuda" and y.any() and torch.equal(y, work(x))


def test_hip_calls_between() -> None:
    runtime = ctypes.CDLL("libamdhip64.so")

    def fill(x: torch.Tensor, byte: int) -> None:
        queue = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        assert runtime.hipMemsetAsync(ctypes.c_void_p(x.data_ptr()), byte, ctypes.c_size_t(x.nbytes), queue) == 0

    x = torch.zeros(8, dtype=torch.uint8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fill(x, 3)
        y = x * 2
        fill(x, 5)
        fill(x[:4], 6)
        z = x + y
    assert not x.any()
    for _ in range(2):
        graph.replay()
        assert y.tolist() == [6] * 8 and z.tolist() == [12] * 4 + [11] * 4
        x.zero_()


def test_random_numbers_differ_from_replay_to_replay() -> None:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        noise = torch.randn(10, device="cuda")
    graph.replay()
    first = noise.clone()
    graph.replay()
    assert not torch.equal(first, noise)


def test_a_training_step() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(16, 4, device="cuda"), torch.randn(16, 1, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    losses = []
    for _ in range(5):
        graph.replay()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]


def test_copies_with_pinned_memory() -> None:
    host, back = torch.arange(4.0).pin_memory(), torch.zeros(4).pin_memory()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        there = host.to("cuda", non_blocking=True)
        back.copy_(there + 1, non_blocking=True)
    host.fill_(7)
    graph.replay()
    assert there.tolist() == [7] * 4 and back.tolist() == [8] * 4


@pytest.mark.parametrize(
    "work",
    [
        lambda x: x.sum().item(),
        lambda x: x.cpu(),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x + torch.ones(4).cuda(),
        lambda x: bool(x[0] > 0),
        lambda x: torch.cuda.synchronize(),
        lambda x: torch.cuda.current_stream().synchronize(),
    ],
)
def test_what_a_capture_refuses(work) -> None:
    x = torch.ones(4, device="cuda")
    with pytest.raises(RuntimeError, match="operation not permitted when stream is capturing"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            work(x)
    assert (x + 1).sum().item() == 8  # and life goes on


def test_misuse() -> None:
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    with pytest.raises(RuntimeError, match="non-default stream"):
        graph.capture_begin()
    with torch.cuda.graph(graph):
        pass
    graph.replay()


def test_make_graphed_callables() -> None:
    model = torch.nn.Linear(3, 2).cuda()
    x = torch.randn(5, 3, device="cuda")
    graphed = torch.cuda.make_graphed_callables(torch.nn.Linear(3, 2).cuda(), (x,))
    graphed.load_state_dict(model.state_dict())
    assert torch.allclose(graphed(x), model(x))
    graphed(x).sum().backward()
    model(x).sum().backward()
    assert torch.allclose(graphed.weight.grad, model.weight.grad)


if __name__ == "__main__":
    main(__file__)
