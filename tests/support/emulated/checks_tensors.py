"""Run by test_device_emulated.py in a process prepared for an emulated GPU: where tensors claim to be."""

import copy
import io
import pickle
import resource
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.support.checks import main

GPU = torch.device("cuda", 0)
CPU = torch.device("cpu")
Make = Callable[[torch.Tensor], Any]


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(8, 8, device="cuda")


@pytest.fixture
def host() -> torch.Tensor:
    return torch.randn(8, 8)


ON_GPU: dict[str, Make] = {
    "string": lambda x: torch.empty(3, device="cuda"),
    "string with index": lambda x: torch.empty(3, device="cuda:0"),
    "torch.device": lambda x: torch.empty(3, device=torch.device("cuda", 0)),
    "number": lambda x: torch.empty(3, device=0),
    "device of another": lambda x: torch.empty(3, device=x.device),
    "tensor": lambda x: torch.tensor([1, 2], device="cuda", dtype=torch.float16),
    "as_tensor": lambda x: torch.as_tensor([1, 2], device="cuda"),
    "as_tensor keeps": lambda x: torch.as_tensor(x),
    "from numpy": lambda x: torch.from_numpy(np.ones(3)).cuda(),
    "arange": lambda x: torch.arange(3, device="cuda"),
    "normal of tensors": lambda x: torch.normal(x, 1.0),
    "randperm": lambda x: torch.randperm(8, device="cuda", generator=torch.Generator("cuda")),
    "uniform_": lambda x: torch.empty(3, device="cuda").uniform_(generator=torch.Generator("cuda")),
    "window": lambda x: torch.hann_window(4, device="cuda"),
    "like": torch.rand_like,
    "new": lambda x: x.new_zeros(3),
    "new_tensor": lambda x: x.new_tensor([1, 2]),
    "add": lambda x: x + 1,
    "matmul": lambda x: x @ x.T,
    "einsum": lambda x: torch.einsum("ij,jk->ik", x, x),
    "cat": lambda x: torch.cat([x, x]),
    "out": lambda x: torch.add(x, x, out=torch.empty_like(x)),
    "view": lambda x: x.view(torch.int32)[1:].unbind(0)[2],
    "index by host tensor": lambda x: x[torch.tensor([1, 2])],
    "index by mask": lambda x: x[x > 0],
    "scalar of the host": lambda x: torch.where(x > 0, x, torch.tensor(0.0)),
    "topk": lambda x: torch.topk(x, 2).indices,
    "complex": lambda x: torch.fft.fft(x).real,
    "vmap": lambda x: torch.func.vmap(lambda row: row * 2)(x) + x,
    "aten": lambda x: torch.ops.aten.mm(x, x),
    "aten factory": lambda x: torch.ops.aten.empty.memory_format([3], device=torch.device("cuda")),
    "softmax": lambda x: F.softmax(x, -1, dtype=torch.bfloat16),
    "attention": lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
    "linear": lambda x: nn.Linear(8, 8, device="cuda")(x),
    "moved module": lambda x: nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.SiLU()).to("cuda")(x),
    "moved and cast module": lambda x: nn.Linear(8, 8).to("cuda", torch.float16).weight,
    "batch norm": lambda x: nn.BatchNorm1d(8).cuda()(x),
    "fp8": lambda x: x.to(torch.float8_e4m3fnuz).view(torch.uint8),
    "fp4 pairs": lambda x: torch.empty(4, dtype=torch.uint8, device="cuda").view(torch.float4_e2m1fn_x2),
    "deep copy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "type": lambda x: x.cpu().type("torch.cuda.HalfTensor"),
    "dlpack": torch.from_dlpack,
}
ON_CPU: dict[str, Make] = {
    "default": lambda x: torch.arange(3),
    "cpu()": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu", torch.float16),
    "numpy and back": lambda x: torch.from_numpy(x.cpu().numpy()),
    "like": lambda x: torch.zeros_like(x, device="cpu"),
    "pinned": lambda x: torch.empty(3, pin_memory=True),
    "parameter": lambda x: nn.Linear(2, 2).weight,
    "moved back": lambda x: nn.Linear(8, 8).cuda().cpu().weight @ torch.ones(8),
    "copied from GPU": lambda x: torch.empty(8, 8).copy_(x),
}


@pytest.mark.parametrize("name", ON_GPU)
def test_on_gpu(name: str, x: torch.Tensor) -> None:
    made = ON_GPU[name](x)
    assert made.device == GPU and made.is_cuda and not made.is_cpu and made.get_device() == 0


@pytest.mark.parametrize("name", ON_CPU)
def test_on_cpu(name: str, x: torch.Tensor) -> None:
    made = ON_CPU[name](x)
    assert made.device == CPU and not made.is_cuda


MISMATCHES: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "add": lambda x, host: x + host,
    "in place": lambda x, host: x.add_(host),
    "matmul": lambda x, host: x @ host,
    "einsum": lambda x, host: torch.einsum("ij,jk->ik", x, host),
    "linear": F.linear,
    "module left on the host": lambda x, host: nn.Linear(8, 8)(x),
    "cat": lambda x, host: torch.cat([x, host]),
    "where": lambda x, host: torch.where(x > 0, x, host),
    "allclose": torch.allclose,
    "out": lambda x, host: torch.add(x, x, out=host),
    "mask": lambda x, host: F.scaled_dot_product_attention(x[None], x[None], x[None], attn_mask=host),
    "host indexed by GPU": lambda x, host: host[torch.tensor([1], device="cuda")],
    "generator": lambda x, host: torch.randn(3, device="cuda", generator=torch.Generator()),
    "no such GPU": lambda x, host: torch.zeros(3, device="cuda:7"),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_refuses_as_a_gpu_does(name: str, x: torch.Tensor, host: torch.Tensor) -> None:
    with pytest.raises(RuntimeError, match=r"same device|for generator|invalid device ordinal"):
        MISMATCHES[name](x, host)


def test_moves_copy_and_stays_do_not(x: torch.Tensor, host: torch.Tensor) -> None:
    assert x.cuda() is x and x.to("cuda") is x and x.to(GPU, torch.float32) is x and host.cpu() is host
    before = host.clone()
    host.cuda().add_(1)
    host.to(x.device).add_(1)
    assert torch.equal(host, before)
    kept = x.cpu()
    x.add_(1)
    assert not torch.equal(kept, x.cpu())
    array: np.ndarray = np.ones(3, dtype=np.float32)
    torch.as_tensor(array, device="cuda").add_(1)
    assert array[0] == 1


def test_numpy_needs_a_move(x: torch.Tensor) -> None:
    for convert in (lambda: x.numpy(), lambda: np.asarray(x)):
        with pytest.raises(TypeError, match=r"Use Tensor.cpu\(\)"):
            convert()


def test_text(x: torch.Tensor, host: torch.Tensor) -> None:
    assert repr(x[0, :1]).endswith("device='cuda:0')")
    assert "device" not in repr(host)
    assert x.type() == "torch.cuda.FloatTensor" and host.type() == "torch.FloatTensor"
    assert f"{x[0, 0]:.3f}" == f"{x[0, 0].item():.3f}"


def test_files(x: torch.Tensor, host: torch.Tensor) -> None:
    file = io.BytesIO()
    torch.save({"x": x, "host": [host]}, file)

    def loaded(**options: Any) -> dict[str, Any]:
        return torch.load(io.BytesIO(file.getvalue()), **options)

    assert loaded()["x"].is_cuda and not loaded()["host"][0].is_cuda
    assert loaded(map_location="cuda")["host"][0].is_cuda
    assert not loaded(map_location=CPU)["x"].is_cuda
    assert torch.equal(loaded()["x"], x)


def test_default_device() -> None:
    with torch.device("cuda"):
        assert torch.zeros(3).is_cuda and torch.tensor(3).is_cuda and nn.Linear(2, 2).weight.is_cuda
        assert not torch.zeros(3, device="cpu").is_cuda
    assert not torch.zeros(3).is_cuda
    torch.set_default_device("cuda")
    try:
        assert torch.zeros(3).is_cuda and torch.get_default_device().type == "cuda"
    finally:
        torch.set_default_device(None)
    assert not torch.zeros(3).is_cuda
    with torch.device("meta"):
        assert torch.zeros(3).is_meta and torch.zeros(3).device.type == "meta"


def test_training(x: torch.Tensor) -> None:
    model = nn.Linear(8, 8).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    model(x).square().mean().backward()
    gradient = model.weight.grad
    assert gradient is not None and (gradient + model.weight + x).is_cuda
    optimizer.step()


def test_threads() -> None:
    def both() -> bool:
        return (torch.zeros(3) + 1).device == CPU and (torch.zeros(3, device="cuda") + 1).device == GPU

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(both).result()
    seen: list[bool] = []
    left: list[int] = []  # on the thread's stack of modes, as each of its frames returns
    threading.setprofile(lambda *_: left.append(torch._C._len_torch_function_stack()))
    thread = threading.Thread(target=lambda: seen.append(both()))
    thread.start()
    thread.join()
    threading.setprofile(None)
    assert seen == [True] and left[-1] == 0


def test_a_tensor_larger_than_the_hosts_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    nothing = torch.empty(128, 128, 6145, 192, dtype=torch.bfloat16, device="cuda")  # 36 GiB
    nothing[100, 7, :3] = 2
    assert nothing.device == GPU and nothing.is_contiguous() and nothing[100, 7, :3].float().sum() == 3 * 192 * 2
    zeros = torch.zeros_like(nothing.permute(1, 0, 3, 2))
    assert zeros.shape == (128, 128, 192, 6145) and zeros.stride() == nothing.permute(1, 0, 3, 2).stride()
    assert zeros.dtype == torch.bfloat16 and zeros.is_cuda and not zeros[3, 127].any()
    trained = zeros.new_zeros((3, 1 << 28), dtype=torch.float32, requires_grad=True)
    assert trained.requires_grad and trained.is_leaf and trained.device == GPU
    with pytest.raises(torch.OutOfMemoryError, match="256.00 GiB is larger than the GPU's memory"):
        nothing.new_empty((128, 1 << 28), dtype=torch.int64)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


@pytest.mark.parametrize("largest", [True, False])
def test_topk_chooses_the_first_of_equals_as_a_gpu_does(largest: bool) -> None:
    sign = 1 if largest else -1
    scores = sign * torch.tensor([[3, 5, 5, 9, 5, 5, 5, 1, 8, 5] * 4, [7] * 40], dtype=torch.float16, device="cuda")
    values, indices = torch.topk(scores, 10, largest=largest)
    assert (sign * values).tolist() == [[9] * 4 + [8] * 4 + [5] * 2, [7] * 10] and values.is_cuda and indices.is_cuda
    assert indices.tolist() == [[3, 13, 23, 33, 8, 18, 28, 38, 1, 2], [*range(10)]]
    unsorted = scores.topk(k=10, dim=1, largest=largest, sorted=False)
    assert unsorted.indices.tolist() == [[3, 8, 13, 18, 23, 28, 33, 38, 1, 2], [*range(10)]]
    assert torch.equal(unsorted.values, scores.gather(1, unsorted.indices))
    out = (torch.empty(0, dtype=torch.float16, device="cuda"), torch.empty(0, dtype=torch.long, device="cuda"))
    torch.topk(scores.t(), 3, 0, largest, out=out)
    assert out[1].t().tolist() == [[3, 13, 23], [0, 1, 2]]
    with pytest.raises(RuntimeError):
        scores.topk(41)


def test_histc_counts_integers_as_a_gpu_does() -> None:
    """PyTorch's SummaryOps.cu, whose bounds are integers too; the CPU's refuses them."""
    for dtype in (torch.uint8, torch.int16, torch.int64):
        x = torch.tensor([[1, 2, 2], [5, 7, 9]], device="cuda", dtype=dtype)
        assert torch.histc(x, 8, 0, 7).tolist() == [0, 1, 2, 0, 0, 1, 0, 1]
        assert x.histc(bins=4).tolist() == [3, 0, 1, 2]  # between the least and the largest
        counts = x.histc(3, min=1.9, max=3)
        assert counts.tolist() == [1, 2, 0] and counts.dtype is dtype and counts.is_cuda
    assert torch.histc(torch.full((3,), 4, device="cuda"), 3).tolist() == [0, 3, 0]  # from 3 to 5
    out = torch.empty(0, dtype=torch.int32, device="cuda")
    assert torch.histc(torch.arange(-3, 3, device="cuda").int(), 3, out=out) is out
    assert out.tolist() == [2, 2, 2]
    assert torch.histc(torch.zeros(0, device="cuda").int(), 2).tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="max must be larger than min"):
        torch.histc(x, 4, 3, 1)
    with pytest.raises(RuntimeError, match="bins must be > 0"):
        torch.histc(x, 0)
    with pytest.raises(NotImplementedError):
        torch.histc(torch.tensor([1, 2]), 2)  # of the host's
    assert torch.histc(x.float(), 8, 0, 7).tolist() == [0, 1, 2, 0, 0, 1, 0, 1]


def test_numbers_may_lie_on_another_device() -> None:
    two, a, b = torch.tensor(2.0, device="cuda"), torch.ones(3, 4), torch.ones(4)
    assert torch.equal(torch.addr(a, a[:, 0], b, alpha=two, beta=two), 4 * a)
    assert not torch.addr(a, a[:, 0], b, alpha=two, beta=two).is_cuda and not torch.sub(5, 3).is_cuda


def test_random_numbers() -> None:
    torch.manual_seed(5)
    first = torch.randn(4, device="cuda")
    torch.cuda.manual_seed_all(5)
    assert torch.equal(first, torch.randn(4, device="cuda"))
    generator = torch.Generator(device="cuda:0").manual_seed(5)
    assert generator.device == GPU and isinstance(generator, torch.Generator)
    assert torch.equal(first, torch.randn(4, device="cuda", generator=generator))
    assert torch.rand(3, device="cuda", generator=torch.default_generator).is_cuda
    again = pickle.loads(pickle.dumps(generator))
    draws = [torch.rand(3, device=GPU, generator=each) for each in (again, generator)]
    assert torch.equal(*draws)


def test_assert_close_sees_devices(x: torch.Tensor) -> None:
    torch.testing.assert_close(x, x.clone())
    with pytest.raises(AssertionError, match="device"):
        torch.testing.assert_close(x, x.cpu())


@pytest.mark.parametrize("out_dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("scales", ["one", "rows"])
def test_scaled_mm(out_dtype: torch.dtype, scales: str) -> None:
    a = torch.randn(24, 64, device="cuda").to(torch.float8_e4m3fnuz)
    b = torch.randn(32, 64, device="cuda").to(torch.float8_e4m3fnuz)
    scale_a = torch.rand(24, 1, device="cuda") if scales == "rows" else torch.tensor(0.5, device="cuda")
    scale_b = torch.rand(1, 32, device="cuda") if scales == "rows" else torch.tensor(3.0, device="cuda")
    got = torch._scaled_mm(a, b.t(), scale_a, scale_b, out_dtype=out_dtype)
    wanted = (a.double() @ b.double().t() * scale_a * scale_b).to(out_dtype)
    assert got.dtype == out_dtype and got.is_cuda
    torch.testing.assert_close(got, wanted)
    with pytest.raises(RuntimeError, match="gfx942 multiplies"):
        other = b.view(torch.uint8).view(torch.float8_e4m3fn)
        torch._scaled_mm(other, other.t(), scale_a, scale_b)
    with pytest.raises(RuntimeError, match="column-major"):
        torch._scaled_mm(a, b.t().contiguous(), scale_a, scale_b)


@pytest.mark.parametrize("operator", ["mm", "bmm", "addmm", "baddbmm"])
def test_products_with_another_dtype(operator: str) -> None:
    """torch has these overloads for GPUs only. Sums of 64 exact terms: fp32 holds them, bf16 does not."""
    a, b = (torch.randint(-9, 9, shape, device="cuda").bfloat16() for shape in ((2, 16, 64), (2, 64, 8)))
    a, b = (a, b) if operator.startswith("b") else (a[0], b[0])
    bias = torch.randint(-9, 9, (*a.shape[:-1], 8), device="cuda").float()
    adds = "add" in operator
    wanted = a.double() @ b.double() + (2 * bias if adds else 0)
    call, scales = getattr(torch, operator), {"beta": 2} if adds else {}
    got = call(*([bias] if adds else []), a, b, out_dtype=torch.float32, **scales)
    assert got.dtype == torch.float32 and got.is_cuda and torch.equal(got.double(), wanted)
    out = bias if adds else torch.empty_like(bias)  # what it is added to, as it may be
    assert call(*([bias] if adds else []), a, b, out_dtype=torch.float32, out=out, **scales) is out
    assert torch.equal(out.double(), wanted)
    with pytest.raises(RuntimeError, match="out_dtype must be"):
        call(*([bias] if adds else []), a, b, out_dtype=torch.float64)


def test_cost_of_a_call(x: torch.Tensor) -> None:
    """A few us of a core an operation, or small ones add up. Generous: machines differ."""
    for operation in (lambda: x + x, lambda: x.shape, lambda: x.to("cuda"), lambda: x.device):
        best_us = float("inf")
        for _ in range(5):
            start = time.thread_time()
            for _ in range(1000):
                operation()
            best_us = min(best_us, (time.thread_time() - start) * 1e3)
        assert best_us < 20


if __name__ == "__main__":
    main(__file__)
