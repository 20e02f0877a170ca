"""The three kernels of Llama 3.1 405B in FP8: references against their formulas in double, verdicts."""

import math
from typing import Any

import pytest
import torch

from tests.support.reference_folders import generate, load_reference

STEMS = ("residual_rmsnorm_fp8", "swiglu_fp8", "skinny_gemm_fp8")
rmsnorm, swiglu, skinny = map(load_reference, STEMS)
utils = rmsnorm.utils

RMSNORM = {"rows": 7, "hidden": 1032, "seed": 5}
SWIGLU = {"rows": 9, "n": 520, "seed": 6}
SKINNY = {"m": 5, "n": 112, "k": 1152, "seed": 7}
EACH = [(rmsnorm, RMSNORM), (swiglu, SWIGLU), (skinny, SKINNY)]

FP8 = torch.float8_e4m3fnuz
# The values of e4m3fnuz from its definition: bias 8, codes 1-7 subnormal, no infinity. Code 0x80 is NaN.
FP8_VALUES = torch.tensor(
    [math.ldexp(c, -10) if c < 8 else math.ldexp(8 + c % 8, c // 8 - 11) for c in range(128)], dtype=torch.float64
)


def quantised(exact: torch.Tensor) -> torch.Tensor:
    """The value of e4m3fnuz nearest to each double, beyond 240 that. Random data has next to no ties."""
    place = torch.bucketize(exact.abs(), (FP8_VALUES[1:] + FP8_VALUES[:-1]) / 2)
    return FP8_VALUES[place] * exact.sign()


def share_unequal(got: torch.Tensor, want: torch.Tensor) -> float:
    return (got.double() != want.double()).double().mean().item()


# ---- inputs ----------------------------------------------------------------------------------------------


def test_the_type_is_fnuz() -> None:
    codes = torch.arange(128, dtype=torch.uint8).view(FP8)
    assert torch.equal(codes.double(), FP8_VALUES) and FP8_VALUES[-1] == rmsnorm.FP8_MAX == 240


def test_inputs() -> None:
    x, residual, weight, scale, eps = generate(rmsnorm, RMSNORM)
    assert [tuple(t.shape) for t in (x, residual, weight, scale)] == [(7, 1032), (7, 1032), (1032,), (1,)]
    assert {x.dtype, residual.dtype, weight.dtype} == {torch.float16} and scale.dtype == torch.float32
    assert eps == 1e-5 and 1 / 96 <= scale.item() <= 1 / 48 and 0.05 < weight.float().std() < 0.15

    gate_up, scale = generate(swiglu, SWIGLU)
    assert gate_up.shape == (9, 1040) and gate_up.dtype == torch.float16 and 1 / 96 <= scale.item() <= 1 / 48

    a, b, scale = generate(skinny, SKINNY)
    assert (a.shape, b.shape, a.dtype, b.dtype) == ((5, 1152), (112, 1152), FP8, FP8)
    assert b.float().std().item() == pytest.approx(32, rel=0.02) and not b.float().isnan().any()
    assert skinny.ref_kernel((a, b, scale)).float().std().item() == pytest.approx(1, abs=0.6)


@pytest.mark.parametrize(("module", "case"), EACH, ids=STEMS)
def test_a_seed_says_all(module: Any, case: dict[str, int]) -> None:
    first, again = generate(module, case), generate(module, case)
    other = generate(module, case | {"seed": 99})
    for one, two, three in zip(first, again, other):
        if isinstance(one, torch.Tensor):
            assert torch.equal(one.view(torch.uint8), two.view(torch.uint8))
            assert not torch.equal(one.view(torch.uint8), three.view(torch.uint8))


# ---- references ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 7, 33])
def test_rmsnorm_rounds_in_the_stated_order(rows: int) -> None:
    data = generate(rmsnorm, RMSNORM | {"rows": rows})
    before = data[1].clone()
    out, residual = rmsnorm.ref_kernel(data)
    assert torch.equal(data[1], before) and residual.dtype == torch.float16 and out.dtype == FP8
    x, old, weight, scale, eps = data
    exact_sum = x.double() + old.double()
    assert torch.equal(residual, exact_sum.half())  # of two fp16 numbers, a double holds the exact sum
    r = 1 / (residual.double().square().mean(-1, keepdim=True) + eps).sqrt()
    y = (residual.double() * r).half().double() * weight.double()
    wanted = quantised(y.half().double() / scale.double())
    assert share_unequal(out, wanted) < 1e-3
    unrounded = quantised(residual.double() * r * weight.double() / scale.double())
    assert 1e-3 < share_unequal(out, unrounded) < 1e-2


def test_swiglu_in_double() -> None:
    gate_up, scale = generate(swiglu, SWIGLU | {"rows": 65})
    g, u = gate_up.double().chunk(2, dim=-1)
    out = swiglu.ref_kernel((gate_up, scale))
    assert out.shape == (65, 520) and out.dtype == FP8
    assert share_unequal(out, quantised(g / (1 + (-g).exp()) * u / scale.double())) < 1e-4
    large = torch.full((1, 8), -60000.0, dtype=torch.float16)  # exp overflows: silu is 0, not NaN
    assert swiglu.ref_kernel((large, scale)).float().tolist() == [[0.0] * 4]


@pytest.mark.parametrize("module", [rmsnorm, swiglu])
def test_some_elements_are_clamped(module: Any) -> None:
    data = generate(module, {"rows": 64, "hidden" if module is rmsnorm else "n": 4096, "seed": 1})
    out = module.ref_kernel(data)
    out = (out[0] if module is rmsnorm else out).float()
    assert 1e-5 < (out.abs() == 240).float().mean() < 0.05 and not out.isnan().any()


def test_skinny_gemm_in_double(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, scale = data = generate(skinny, SKINNY)
    out = skinny.ref_kernel(data)
    wanted = a.double() @ b.double().T * scale.double()
    assert out.dtype == torch.float16 and out.shape == (5, 112)
    assert ((out.double() - wanted).abs() <= wanted.abs() * 2.0**-10 + 1e-6).all()
    monkeypatch.setattr(skinny, "B_ROWS_AT_ONCE", 50)
    torch.testing.assert_close(skinny.ref_kernel(data), out)


# ---- verdicts --------------------------------------------------------------------------------------------


def fp8_of(data: Any, how: str) -> torch.Tensor:
    """What a kernel for rmsnorm or swiglu makes of the data that goes about it in another way."""
    if len(data) == 2:
        g, u = data[0].chunk(2, dim=-1)
        fp32 = torch.nn.functional.silu(g.float()) * u.float()
        value = (torch.nn.functional.silu(g) * u).float() if how == "other order" else fp32
    else:
        x, residual, weight, _, eps = data
        wide = (x + residual).float()
        r = (wide.square().mean(-1, keepdim=True) + eps).rsqrt()
        value = wide * weight * r if how == "other order" else ((wide * r).half() * weight).float()
    if how == "no scale":
        return value.clamp(-240, 240).to(FP8)
    value = value / data[1 if len(data) == 2 else 3]
    if how == "clamped at 448":
        return value.clamp(-448, 448).to(FP8)
    if how == "OCP bytes":
        return value.clamp(-240, 240).to(torch.float8_e4m3fn).view(FP8)
    if how == "truncated":
        places = torch.bucketize(value.abs().clamp(max=240).double(), FP8_VALUES, right=True) - 1
        return (FP8_VALUES[places] * value.sign()).float().to(FP8)
    return value.clamp(-240, 240).to(FP8)


WAYS = {"same": True, "other order": True, "no scale": False, "clamped at 448": False, "OCP bytes": False}
WAYS["truncated"] = False


@pytest.mark.parametrize(("module", "case"), EACH[:2], ids=STEMS[:2])
@pytest.mark.parametrize("how", WAYS)
def test_verdicts_on_fp8_outputs(module: Any, case: dict[str, int], how: str) -> None:
    data = generate(module, case | {"rows": 40})
    out = fp8_of(data, how)
    good, text = module.check_implementation(data, (out, data[0] + data[1]) if module is rmsnorm else out)
    assert good is WAYS[how], text
    if how in ("no scale", "clamped at 448", "OCP bytes"):
        assert "elements differ by more than" in text and "worst at (" in text and "got" in text
    else:
        assert text.endswith("% of the elements are one step off, 1% may be")


def test_rmsnorm_judges_the_residual_exactly() -> None:
    data = generate(rmsnorm, RMSNORM)
    out, residual = rmsnorm.ref_kernel(data)
    assert rmsnorm.check_implementation(data, [out, residual])[0]  # a list is as good
    wrong = residual.clone()
    wrong.view(torch.int16)[3, 5] += 1
    good, text = rmsnorm.check_implementation(data, (out, wrong))
    assert not good and text.startswith("residual: 1 of 7224 elements are not equal; worst at (3, 5): got ")
    assert rmsnorm.check_implementation(data, (out, data[1]))[1].startswith("residual: 72")  # not updated
    assert "dtype mismatch" in rmsnorm.check_implementation(data, (out.float(), residual))[1]
    said = "output is of type Tensor, wanted the two tensors (out, residual)"
    assert rmsnorm.check_implementation(data, out) == (False, said)


@pytest.mark.parametrize(("module", "case"), EACH, ids=STEMS)
def test_zeros_and_wrong_shapes_fail(module: Any, case: dict[str, int]) -> None:
    data = generate(module, case)
    out = module.ref_kernel(data)
    zeros = torch.zeros_like(out[0] if module is rmsnorm else out)
    for wrong, said in ((zeros, "got 0, wanted "), (zeros[:, :8], "shape mismatch: got ")):
        good, text = module.check_implementation(data, (wrong, out[1]) if module is rmsnorm else wrong)
        assert not good and said in text


def test_skinny_gemm_has_room_for_split_k_in_fp16_but_not_for_lost_products() -> None:
    a, b, scale = data = generate(skinny, SKINNY | {"m": 16, "n": 2304, "k": 6656})
    total = torch.zeros((16, 2304), dtype=torch.float16)
    for start in range(0, 6656, 128):
        k = slice(start, start + 128)
        part = ((a[:, k].float() @ b[:, k].float().T) * scale).half()
        total += part
    assert skinny.check_implementation(data, total)[0]
    good, text = skinny.check_implementation(data, total - part)
    assert not good and "elements differ by more than 0.005 + 0.005*|wanted|" in text
