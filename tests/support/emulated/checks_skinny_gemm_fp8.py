"""Run by tests/kernels/test_skinny_gemm_fp8_triton.py in a process prepared for an emulated GPU."""

import random
from typing import Any

import pytest
import torch

from tests.support import checks as support
from tests.support.spills import no_spills
from tests.support.table_rows import some_rows

STEM = "skinny_gemm_fp8"
submission = support.load_submission()
FP8 = support.checked_fp8()
HIP = hasattr(submission, "HIP_SOURCE")
TRITON_SMALL = {"BLOCK_N": 32, "BLOCK_K": 128, "SPLIT_K": 0, "num_warps": 2, "num_stages": 2}
SMALL = {"BLOCKS": 2, "WAVES": 2, "SPLIT_K": 0} if HIP else TRITON_SMALL


def inputs(m: int, n: int, k: int, scale: float | None = None, seed: int = 1) -> dict[str, Any]:
    """Operands whose largest values fill the type; by default c has a standard deviation of 1."""
    generator = torch.Generator().manual_seed(seed)
    largest = torch.finfo(FP8).max

    def normal(*shape: int) -> torch.Tensor:
        return (torch.randn(shape, generator=generator) * 32).clamp(-largest, largest).to(FP8).cuda()

    scale = 1 / (32**2 * k**0.5) if scale is None else scale
    return {"a": normal(m, k), "b": normal(n, k), "scale": torch.tensor([scale]).cuda()}


def assert_right(data: dict[str, Any]) -> torch.Tensor:
    """Runs with guards around what is written, and with NaN where partial sums will be."""
    a, b, scale = (x.cpu().double() for x in data.values())
    wanted = ((a @ b.T) * scale).clamp(-1e5, 1e5)
    submission._split_k_workspace.clear()
    with support.guarded():
        c = submission.skinny_gemm_fp8(**data)
    got = c.cpu().double().clamp(-1e5, 1e5)  # infinite beyond 65504
    for _, arrived in submission._split_k_workspace.values():
        assert not arrived.any()
    wanted = torch.where(wanted.abs() >= 65520, wanted.sign() * 1e5, wanted)
    assert torch.equal(got.isnan(), wanted.isnan()), "NaN is not where it belongs"
    # Half a step of fp16, and what fp32 sums of k products of this size lose.
    room = wanted.abs() * 2.0**-11 + 2.0**-25 + 1e-5 * scale * 32**2 * a.shape[1] ** 0.5
    assert not ((got - wanted).abs() > room).any(), ((got - wanted).abs() / room).nan_to_num().max()
    return c


@pytest.mark.parametrize("m", support.differ(1, 9, 16, 31, alike=[3, 5, 17, 32]))
def test_rows(m: int) -> None:
    with support.table_row(submission, SMALL):
        assert_right(inputs(m, 80, 448))


SHAPES = support.differ((1, 64), (33, 576), (31, 4096), alike=[(7, 192), (336, 1152), (100, 4160)])


@pytest.mark.parametrize(("n", "k"), SHAPES)
def test_shapes(n: int, k: int) -> None:
    assert_right(inputs(5, n, k))


@pytest.mark.parametrize("slices", support.differ(1, 3, 9, alike=[2, 5]))
def test_slices(slices: int) -> None:
    """Of unequal length, also without a block of k; the last one takes the rest."""
    with support.table_row(submission, {**SMALL, "SPLIT_K": slices}):
        data = inputs(17, 40, 960)
        first = assert_right(data)
        assert all(torch.equal(submission.skinny_gemm_fp8(**data), first) for _ in range(3))


@pytest.mark.parametrize("seed", support.random_seeds())
def test_random_shapes(seed: int) -> None:
    draw = random.Random(seed)
    k = 64 * support.random_size(draw, 256)
    n = support.random_size(draw, max(1, 2**20 // k))
    assert_right(inputs(draw.randint(1, 32), n, k, seed=seed))


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scales(scale: float) -> None:
    assert_right(inputs(3, 40, 320, scale))


@pytest.mark.parametrize("slices", [1, 2])
def test_zero_rows_huge_values_and_nan(slices: int) -> None:
    data = inputs(9, 72, 256)
    data["a"].view(torch.uint8)[4] = 0
    data["a"][4, 100] = data["a"][5] = data["b"][6] = torch.finfo(FP8).max
    data["a"].view(torch.uint8)[2] = 0
    data["b"].view(torch.uint8)[70] = 0
    data["a"][8, 200] = float("nan")
    data["b"][71, 3] = float("nan")
    with support.table_row(submission, {**SMALL, "SPLIT_K": slices}):
        c = assert_right(data)
    assert not c[2, :71].any() and not c[:8, 70].any() and c[8].isnan().all() and c[:, 71].isnan().all()


SOME = some_rows(submission)
OF_CASES = {(tuple(row.items()), rows) for (rows, *_), row in submission.TUNING.items() if row in SOME}
OTHERS = {(tuple(row.items()), m) for row in submission.TUNING.values() for m in (16, 32)} - OF_CASES


@pytest.mark.parametrize(("row", "m"), support.differ(*sorted(OF_CASES), alike=sorted(OTHERS)))
def test_rows_of_the_table(row: Any, m: int) -> None:
    of = dict(row)
    with support.table_row(submission, of), no_spills(f"{STEM}_kernel"):
        block_k = submission.STEP_K * of["WAVES"] if HIP else of["BLOCK_K"]
        assert_right(inputs(m, 40, 64 + 2 * block_k * of["SPLIT_K"]))


def test_every_benchmark_has_a_row() -> None:
    for case in support.benchmarks(STEM):
        assert (16 if case["m"] <= 16 else 32, case["n"], case["k"]) in submission.TUNING


def test_slices_fill_the_card() -> None:
    for n, k in ((2304, 16384), (16, 16384), (16384, 6656), (1, 64), (128256, 16384)):
        n_tiles = -(-n // 32)
        slices = submission.split_k(n_tiles, k, 512)
        assert slices == 1 or (n_tiles * slices <= 608 and slices * 2 * 512 <= k)
        assert (n_tiles * (slices + 1) > 608) or ((slices + 1) * 2 * 512 > k)


def test_refusals() -> None:
    data = inputs(4, 32, 128)
    a, b, scale = data.values()
    support.assert_refused(submission.skinny_gemm_fp8, data, {
        "a: a must have the shape [m, k] with m at most 32 and k a multiple of 64, got [33, 128]": a.repeat(9, 1)[:33],
        "a: k a multiple of 64, got [4, 96]": a[:, :96],
        "a: k a multiple of 64, got [128]": a[0],
        "a: k a multiple of 64, got [0, 128]": a[:0],
        "a: a must be torch.float8_e4m3fnuz": a.half(),
        "a: a must be contiguous, got strides (256, 1) for the shape (4, 128)": a.repeat(1, 2)[:, :128],
        "a: a must be on a GPU, got cpu": a.cpu(),
        "b: b must have the shape [n, 128] with n at least 1, got [0, 128]": b[:0],
        "b: b must have the shape (32, 128), got (32, 64)": b[:, :64].contiguous(),
        "b: b must have the shape [n, 128] with n at least 1, got [128]": b[0],
        "b: b must be contiguous, got strides (1, 32) for the shape (32, 128)": b.t().contiguous().t(),
        f"b: b must be {FP8}, got torch.float8_e5m2": b.view(torch.float8_e5m2),
        "b: b must be on cuda:0, where the other tensors are, got cpu": b.cpu(),
        "scale: scale must be torch.float32, got torch.float64": scale.double(),
        "scale: scale must have the shape (1,), got (32,)": scale.repeat(32),
        "scale: scale must be on cuda:0, where the other tensors are, got cpu": scale.cpu(),
    })  # fmt: skip


def test_operator() -> None:
    data = inputs(3, 40, 192)
    support.assert_operator(submission, STEM, tuple(data.values()), submission.skinny_gemm_fp8(**data))


if __name__ == "__main__":
    support.main(__file__)
