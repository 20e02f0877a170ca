"""Products of 16-bit matrices on an emulated GPU: fp32 inside, rounded once, and torch's own errors."""

import unittest.mock
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from forge.device.fake_rocm import products
from forge.device.fake_rocm.topk import topk


@pytest.fixture(autouse=True)
def replaced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a CPU whose oneDNN has no 16-bit products, whatever this one has."""
    monkeypatch.setattr(products, "_library", None)
    monkeypatch.setattr(products, "SLICE_ELEMENTS", 70 * 16)  # some slices of columns, one matrix at a time
    torch.manual_seed(0)
    products.apply(frozenset({torch.bfloat16, torch.float16}))
    yield
    assert products._library is not None
    products._library._destroy()


FORMS: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "matmul": lambda a, b, row, c: a @ b,
    "transposed": lambda a, b, row, c: a @ b.t().contiguous().t(),
    "into": lambda a, b, row, c: torch.mm(a, b, out=torch.full_like(c, 9)),
    "linear": lambda a, b, row, c: torch.nn.functional.linear(a, b.t(), row),
    "linear of three dimensions": lambda a, b, row, c: torch.nn.functional.linear(a[None], b.t(), row),
    "addmm": lambda a, b, row, c: torch.addmm(c, a, b, beta=0.5, alpha=2),
    "addmm of a row": lambda a, b, row, c: torch.addmm(row, a, b),
    "addmm, nothing of c": lambda a, b, row, c: torch.addmm(c * float("nan"), a, b, beta=0),
    "addmm_": lambda a, b, row, c: c.clone().addmm_(a, b),
    "addmm into": lambda a, b, row, c: torch.addmm(c, a, b, out=torch.full_like(c, 9)),
    "bmm": lambda a, b, row, c: torch.bmm(torch.stack([a, 2 * a]), torch.stack([b, b])),
    "einsum": lambda a, b, row, c: torch.einsum("hik,hkj->hij", torch.stack([a, a]), torch.stack([b, -b])),
    "baddbmm": lambda a, b, row, c: torch.baddbmm(c, torch.stack([a, a]), torch.stack([b, b]), beta=2),
    "nothing to sum": lambda a, b, row, c: a[:, :0] @ b[:0],
    "no columns": lambda a, b, row, c: a @ b[:, :0],
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
@pytest.mark.parametrize("form", FORMS)
def test_a_product_is_rounded_once(form: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = unittest.mock.Mock(side_effect=products.multiply_add)
    monkeypatch.setattr(products, "multiply_add", ours)
    operands = [torch.randn(size).to(dtype) for size in ((33, 70), (70, 45), (45,), (33, 45))]
    got = FORMS[form](*operands)
    exact = FORMS[form](*[x.double() for x in operands])
    assert ours.called
    assert got.dtype is dtype
    assert got.shape == exact.shape
    # Half a unit in the last place, and the error of fp32 sums of 70 products.
    half_unit = exact.abs().clamp(min=2**-14) * torch.finfo(dtype).eps / 2
    assert bool(((got.double() - exact).abs() <= half_unit + 1e-4).all())


def test_zeros_are_not_multiplied_by_what_is_finite() -> None:
    zeros, b = torch.zeros(8, 16).bfloat16(), torch.randn(16, 4).bfloat16()
    with unittest.mock.patch.object(torch, "matmul") as multiplied:
        assert torch.equal(zeros.mm(b), torch.zeros(8, 4).bfloat16())
    assert not multiplied.called
    b[3, 2] = float("inf")
    assert zeros.mm(b).isnan().tolist() == [[False, False, True, False]] * 8


@pytest.mark.parametrize("dim", [0, 1])
def test_the_largest_lie_one_behind_the_other(dim: int) -> None:
    """As torch's own do: a view of a part of the sorted ones takes no view(-1)."""
    x = torch.randn(6, 7)
    for ours, torchs in zip(topk(x, 3, dim), torch.topk(x, 3, dim), strict=True):
        assert torch.equal(ours, torchs)
        assert ours.stride() == torchs.stride() == (torchs.shape[1], 1)


def test_gradients_come_through() -> None:
    a, b = torch.randn(8, 16).bfloat16().requires_grad_(), torch.randn(16, 4).bfloat16().requires_grad_()
    (a @ b).sum().backward()
    assert a.grad is not None
    torch.testing.assert_close(a.grad, b.detach().float().sum(1).bfloat16().expand(8, 16))


def test_other_types_are_torchs() -> None:
    a = torch.randn(5, 7, dtype=torch.float64)
    torch.testing.assert_close(a @ a.t(), (a[:, None] * a[None]).sum(-1))
    assert (torch.ones(2, 3, dtype=torch.int64) @ torch.ones(3, 2, dtype=torch.int64)).tolist() == [[3, 3], [3, 3]]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda a: a @ a, "cannot be multiplied"),
        (lambda a: torch.mm(a, a.t().half()), "same dtype"),
        (lambda a: torch.mm(a, a.t(), out=torch.empty(4, 4)), "out"),
        (lambda a: torch.bmm(a, a.t()), "3D"),
        (lambda a: torch.addmm(torch.empty(3).bfloat16(), a, a.t()), "expand|size"),
    ],
)
def test_errors_are_torchs(wrong: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        wrong(torch.randn(4, 6).bfloat16())
