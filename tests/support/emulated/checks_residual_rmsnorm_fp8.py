"""Run by tests/kernels/test_residual_rmsnorm_fp8_triton.py in a process prepared for an emulated GPU."""

import random
from typing import Any

import pytest
import torch

from tests.support import checks as support
from tests.support.spills import no_spills

STEM = "residual_rmsnorm_fp8"
submission = support.load_submission()
FP8 = support.checked_fp8()
EPS = 1e-5


def inputs(rows: int, hidden: int, scale: float = 1 / 64, seed: int = 1) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).half()

    x, residual, weight = normal(rows, hidden), normal(rows, hidden), (1 + normal(hidden) / 10).half()
    tensors = {"x": x, "residual": residual, "weight": weight, "scale": torch.tensor([scale])}
    return {**{name: tensor.cuda() for name, tensor in tensors.items()}, "eps": EPS}


def exact(x: Any, residual: Any, weight: Any, scale: Any, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """(out before it is quantised, fp64; the new residual): doubles but for the roundings that the problem states."""
    summed = (x.cpu().double() + residual.cpu().double()).half()
    wide = summed.double()
    r = 1 / (wide.square().mean(-1, keepdim=True) + eps).sqrt()
    y = ((wide * r).half().double() * weight.cpu().double()).half()
    return y.double() * (1 / scale.cpu()).double(), summed


def assert_right(data: dict[str, Any]) -> torch.Tensor:
    """Runs with guards around what is written; x, weight and scale must stay as they are."""
    wanted, summed = exact(**data)
    before = {name: data[name].clone() for name in ("x", "weight", "scale")}
    with support.guarded() as guards:
        residual = guards.holding(data["residual"])
        out = submission.residual_rmsnorm_fp8(**{**data, "residual": residual}, fp8=FP8)
    assert torch.equal(residual.cpu().view(torch.int16), summed.view(torch.int16)) or summed.isnan().any()
    assert torch.equal(residual.cpu().isnan(), summed.isnan())
    assert all(torch.equal(data[name].nan_to_num(), x.nan_to_num()) for name, x in before.items())
    support.assert_same_fp8(out.cpu(), wanted, unequal_share=3e-4)
    return out


@pytest.mark.parametrize(
    ("rows", "hidden"),
    [(1, 16384), (3, 1032), (77, 520), (2047, 64), (5, 8), (3, 24), (2, 5128), (2, 17408), (1, 32768)],
)
def test_shapes(rows: int, hidden: int) -> None:
    assert_right(inputs(rows, hidden))


@pytest.mark.parametrize("seed", support.random_seeds())
def test_random_shapes(seed: int) -> None:
    draw = random.Random(seed)
    hidden = 8 * support.random_size(draw, 4096)
    rows = support.random_size(draw, max(1, 2**18 // hidden))
    assert_right(inputs(rows, hidden, 10 ** draw.uniform(-3, 1), seed))


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scales(scale: float) -> None:
    out = assert_right(inputs(3, 1032, scale))
    assert (out.float().abs() == (torch.finfo(FP8).max if scale < 1 else 0)).float().mean() > 0.99


def test_extreme_rows() -> None:
    data = inputs(7, 1032)
    x, residual = data["x"], data["residual"]
    x[1], residual[1] = 0, 0
    x[2, 5], data["weight"][5] = 65504, 60000  # one huge value, whose product in fp16 is infinite
    x[3, 7], residual[3, 7] = 65504, 65504  # the sum is infinite: NaN there, zeros elsewhere
    x[4, 9] = float("nan")
    residual[5] = -x[5]  # zeros by cancellation
    x[6] *= 1000
    out = assert_right(data).float()
    assert (out[1] == 0).all() and out[4].isnan().all() and not out[[0, 1, 2, 5, 6]].isnan().any()
    assert out[2, 5] == torch.finfo(FP8).max and out[3, 7].isnan() and out[3].isnan().sum() == 1


def test_a_nan_of_the_weight_stays_in_its_column() -> None:
    data = inputs(3, 264)
    data["weight"][200] = float("nan")
    out = assert_right(data).float()
    assert out[:, 200].isnan().all() and out.isnan().sum() == 3


@pytest.mark.parametrize(("rows", "size", "dtype"), [(1, 1, "float16"), (3, 5003, "float16"), (9, 77, "int32")])
def test_clears_a_buffer_on_the_way(rows: int, size: int, dtype: str) -> None:
    data = inputs(rows, 64)
    with support.guarded() as guards:
        clear = guards.empty(size, getattr(torch, dtype))
        submission.residual_rmsnorm_fp8(**data, clear=clear, fp8=FP8)
    assert not clear.any()


@pytest.mark.parametrize("row", sorted({tuple(row.items()) for row in submission.TUNING.values()}))
def test_rows_of_the_table(row: Any) -> None:
    with support.table_row(submission, dict(row)), no_spills(f"{STEM}_kernel"):
        for hidden in (520, 4096):
            assert_right(inputs(2, hidden))


def test_every_benchmark_has_a_row() -> None:
    assert all((case["rows"], case["hidden"]) in submission.TUNING for case in support.benchmarks(STEM))


def test_refusals() -> None:
    data = inputs(4, 64)
    half, wide = data["x"], data["x"].repeat(1, 2)
    support.assert_refused(submission.residual_rmsnorm_fp8, data, {
        "x: x must have the shape [rows, hidden] with hidden a multiple of 8 up to 32768, got [4, 60]": half[:, :60],
        "x: multiple of 8 up to 32768, got [1, 32776]": half.new_empty(1, 32776),
        "x: multiple of 8 up to 32768, got [64]": half[0],
        "x: multiple of 8 up to 32768, got [0, 64]": half[:0],
        "x: x must be torch.float16, got torch.bfloat16": half.bfloat16(),
        "x: x must begin at a multiple of 16 bytes": data["x"].flatten()[4:196].view(3, 64),
        "x: x must be contiguous, got strides (128, 1)": wide[:, :64],
        "x: x must be on a GPU, got cpu": half.cpu(),
        "residual: residual must have the shape (4, 64), got (3, 64)": half[:3],
        "residual: residual must be contiguous, got strides (1, 4)": half.t().contiguous().t(),
        "residual: residual must be torch.float16, got torch.float32": half.float(),
        "weight: weight must have the shape (64,), got (1, 64)": half[:1],
        "weight: weight must be on cuda:0, where the other tensors are, got cpu": data["weight"].cpu(),
        "scale: scale must be torch.float32, got torch.float64": data["scale"].double(),
        "scale: scale must have the shape (1,), got ()": data["scale"][0],
        "scale: scale must be on cuda:0, where the other tensors are, got cpu": data["scale"].cpu(),
        "clear: clear must be contiguous": wide[:, ::2],
        "clear: clear must be on cuda:0, where the other tensors are, got cpu": half.cpu(),
        "fp8: fp8 must be torch.float8_e4m3fnuz": torch.float8_e5m2,
    })  # fmt: skip


def test_operator() -> None:
    data = inputs(3, 264)
    wanted = submission.residual_rmsnorm_fp8(**{**data, "residual": data["residual"].clone()})
    support.assert_operator(submission, STEM, tuple(data.values()), wanted)
    residual, clear = data["residual"].clone(), torch.ones(9, device="cuda")
    torch.ops.cdna_forge.residual_rmsnorm_fp8(*{**data, "residual": residual}.values(), clear, FP8)
    assert torch.equal(residual, data["x"] + data["residual"]) and not clear.any()


if __name__ == "__main__":
    support.main(__file__)
