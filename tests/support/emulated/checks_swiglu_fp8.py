"""Run by tests/kernels/test_swiglu_fp8_triton.py in a process prepared for an emulated GPU."""

import random
from typing import Any

import pytest
import torch

from tests.support import checks as support
from tests.support.spills import no_spills

STEM = "swiglu_fp8"
submission = support.load_submission()
FP8 = support.checked_fp8()


def inputs(rows: int, n: int, scale: float = 1 / 64, seed: int = 1) -> dict[str, Any]:
    gate_up = torch.randn((rows, 2 * n), generator=torch.Generator().manual_seed(seed)).half()
    return {"gate_up": gate_up.cuda(), "scale": torch.tensor([scale]).cuda()}


def assert_right(data: dict[str, Any]) -> torch.Tensor:
    """Runs with guards around what is written; the input must stay as it is."""
    gate, up = data["gate_up"].cpu().double().chunk(2, dim=-1)
    wanted = gate / (1 + (-gate).exp()) * up / data["scale"].cpu().double()
    before = data["gate_up"].clone()
    with support.guarded():
        out = submission.swiglu_fp8(**data, fp8=FP8)
    assert torch.equal(data["gate_up"].nan_to_num(), before.nan_to_num())
    support.assert_same_fp8(out.cpu(), wanted, unequal_share=1e-4)
    return out


@pytest.mark.parametrize(
    ("rows", "n"), [(1, 6656), (3, 1000), (77, 520), (2047, 64), (5, 8), (3, 24), (2, 17416), (1, 32768), (300, 16)]
)
def test_shapes(rows: int, n: int) -> None:
    assert_right(inputs(rows, n))


@pytest.mark.parametrize("seed", support.random_seeds())
def test_random_shapes(seed: int) -> None:
    draw = random.Random(seed)
    n = 8 * support.random_size(draw, 4096)
    rows = support.random_size(draw, max(1, 2**18 // n))
    assert_right(inputs(rows, n, 10 ** draw.uniform(-3, 1), seed))


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scales(scale: float) -> None:
    out = assert_right(inputs(3, 1000, scale))
    assert (out.float().abs() == (torch.finfo(FP8).max if scale < 1 else 0)).float().mean() > 0.99


def test_extreme_values() -> None:
    """Every pair of these as gate and up: infinite products are clamped, NaN goes where IEEE arithmetic has it."""
    infinity, nan = float("inf"), float("nan")
    values = [0, -0.0, 1, -1, 6e-8, -6e-8, 20, -20, 65504, -65504, infinity, -infinity, nan]
    gate, up = torch.cartesian_prod(torch.tensor(values), torch.tensor(values)).T
    gate = torch.cat([gate, torch.tensor([88.0, -88, -90, -110])])  # whose exp is near fp32's largest value, or beyond
    up = torch.cat([up, torch.full((4,), 65504.0)])
    row = torch.zeros(2 * 176)
    row[: len(gate)], row[176 : 176 + len(up)] = gate, up
    out = assert_right({**inputs(1, 176), "gate_up": row.half()[None].cuda()}).float().cpu()[0]
    assert torch.equal(out[: len(gate)].isnan(), (gate / (1 + (-gate).exp()) * up).isnan())
    assert not out[len(gate) :].any()


def test_a_zero_row_and_a_nan() -> None:
    data = inputs(3, 72)
    data["gate_up"][1] = 0
    data["gate_up"][2, 5] = float("nan")
    out = assert_right(data).float()
    assert not out[1].any() and out[2, 5].isnan() and out.isnan().sum() == 1


@pytest.mark.parametrize(("rows", "size", "dtype"), [(1, 1, "float16"), (3, 5003, "float16"), (9, 77, "int32")])
def test_clears_a_buffer_on_the_way(rows: int, size: int, dtype: str) -> None:
    with support.guarded() as guards:
        clear = guards.empty(size, getattr(torch, dtype))
        submission.swiglu_fp8(**inputs(rows, 1000), clear=clear, fp8=FP8)
    assert not clear.any()


HIP_ROWS = [(("LANE", lane), ("WAVES", waves)) for lane in (2, 4, 8, 16) for waves in (1, 3, 16)]
ROWS = HIP_ROWS if hasattr(submission, "HIP_SOURCE") else []


@pytest.mark.parametrize("row", sorted({*ROWS, *(tuple(row.items()) for row in submission.TUNING.values())}))
def test_rows_of_the_table(row: Any) -> None:
    with support.table_row(submission, dict(row)), no_spills(f"{STEM}_kernel"):
        for n in (520, 4096):
            assert_right(inputs(3, n))


def test_every_benchmark_has_a_row() -> None:
    assert all((case["rows"], case["n"]) in submission.TUNING for case in support.benchmarks(STEM))


def test_refusals() -> None:
    data = inputs(4, 32)
    half, scale = data["gate_up"], data["scale"]
    support.assert_refused(submission.swiglu_fp8, data, {
        "gate_up: gate_up must have the shape [rows, 2 * n] with n a multiple of 8 up to 32768, got [4": half[:, :56],
        "gate_up: multiple of 8 up to 32768, got [1, 65552]": half.new_empty(1, 65552),
        "gate_up: multiple of 8 up to 32768, got [64]": half[0],
        "gate_up: multiple of 8 up to 32768, got [0, 64]": half[:0],
        "gate_up: gate_up must be torch.float16, got torch.float32": half.float(),
        "gate_up: gate_up must be contiguous, got strides (64, 1) for the shape (4, 32)": half[:, :32],
        "gate_up: gate_up must be on a GPU, got cpu": half.cpu(),
        "scale: scale must be torch.float32, got torch.float16": scale.half(),
        "scale: scale must have the shape (1,), got (2,)": scale.repeat(2),
        "scale: scale must be on cuda:0, where the other tensors are, got cpu": scale.cpu(),
        "clear: clear must be contiguous": half[:, ::2],
        "clear: clear must be on cuda:0, where the other tensors are, got cpu": half.cpu(),
        "fp8: fp8 must be torch.float8_e4m3fnuz": torch.float16,
    })  # fmt: skip


def test_operator() -> None:
    data = inputs(3, 264)
    support.assert_operator(submission, STEM, tuple(data.values()), submission.swiglu_fp8(**data))
    clear = torch.ones(9, device="cuda")
    torch.ops.cdna_forge.swiglu_fp8(*data.values(), clear, FP8)
    assert not clear.any()


if __name__ == "__main__":
    support.main(__file__)
