"""amd-fp8-mm's Triton kernel, executed instruction by instruction, against float64 products: every row of its table."""

from typing import Any

import pytest
import torch

import cdna
from cdna import checks
from kernels.fp8_mm import triton_gfx942, triton_gfx942_tuning
from tests.support.fp8_mm_hip import Inputs, make_inputs
from tests.support.reference_folders import relative_error
from tests.support.spills import no_spills
from tests.support.table_rows import row_parameters

# Half a bf16 step is 2^-9 of a value, 1.95e-3; evenly spread over the step, the root of its mean square is less.
TOLERANCE = 2e-3
SMALL = {**triton_gfx942_tuning.DEFAULT, "BLOCK_M": 64, "BLOCK_N": 64}


def product(inputs: Inputs, monkeypatch: pytest.MonkeyPatch, row: dict[str, Any] | None = None) -> torch.Tensor:
    """custom_kernel's result bf16 [m, n], by that row of the table (None: whatever it chooses). It starts as NaN, and
    so does what surrounds it, which must not change."""
    m, n, k = inputs.shape
    monkeypatch.setattr(triton_gfx942, "TUNING", {} if row is None else {(m, n, k): row})
    around = torch.full((m * n + 512,), float("nan"), dtype=torch.bfloat16)
    c = around[256:-256].view(m, n)
    columns = [x.T for x in (inputs.a, inputs.b, inputs.a_scale, inputs.b_scale)]
    with cdna.device("gfx942"):
        out = triton_gfx942.custom_kernel((*columns, c))
    assert out is c and around[:256].isnan().all() and around[-256:].isnan().all()
    return c


@pytest.mark.parametrize("row", row_parameters(triton_gfx942_tuning))
def test_rows_of_the_table(row: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile and a part of one in either direction, and no slice of k without a block."""
    m, n, k = row["BLOCK_M"] + 8, row["BLOCK_N"] + 8, 128 * max(2, row["SPLIT_K"])
    inputs = make_inputs(m, n, k)
    with no_spills("fp8_mm_kernel"):
        c = product(inputs, monkeypatch, row)
    assert relative_error(c, inputs.product()) < TOLERANCE


@pytest.mark.parametrize("shape", [(64, 64, 128), (96, 576, 256), (160, 200, 384), (12, 136, 256)], ids=str)
def test_shapes_outside_the_table(shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = make_inputs(*shape, seed=2)
    assert relative_error(product(inputs, monkeypatch), inputs.product()) < TOLERANCE


def test_slices_of_unequal_length_and_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = make_inputs(72, 72, 640, seed=3)
    for slices in (2, 3, 8):
        assert relative_error(product(inputs, monkeypatch, {**SMALL, "SPLIT_K": slices}), inputs.product()) < TOLERANCE


@pytest.mark.parametrize("shape", [(64, 64, 128), (12, 136, 256), (260, 4, 384)], ids=str)
@pytest.mark.parametrize("slices", [1, 3])
def test_turned_operands_give_the_same_bits(
    shape: tuple[int, int, int], slices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = make_inputs(*shape, seed=4)
    as_they_lie, turned = (product(inputs, monkeypatch, {**SMALL, "SPLIT_K": slices, "TURN": turn}) for turn in (0, 1))
    assert torch.equal(as_they_lie.view(torch.int16), turned.view(torch.int16))


def test_sums_of_slices_are_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = make_inputs(64, 128, 1024)
    first = product(inputs, monkeypatch, {**SMALL, "SPLIT_K": 4})
    for _ in range(3):
        again = product(inputs, monkeypatch, {**SMALL, "SPLIT_K": 4})
        assert torch.equal(again.view(torch.int16), first.view(torch.int16))


def test_elements_of_one_scale_block_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every scale reaches its own elements: with one block of k at a time switched on, by a scale of 1."""
    m, n, k = 72, 264, 384
    inputs = make_inputs(m, n, k)
    for block in range(k // 128):
        inputs.a_scale.zero_()
        inputs.b_scale.zero_()
        inputs.a_scale[block] = torch.arange(1, m + 1)
        inputs.b_scale[block, block] = -1.0
        c, exact = product(inputs, monkeypatch), inputs.product()
        assert relative_error(c, exact) < TOLERANCE
        assert torch.equal(c == 0, exact == 0), f"{block=}"


def test_checks_find_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with checks.use(checks.ALL_KINDS):
        product(make_inputs(72, 136, 256), monkeypatch, {**SMALL, "SPLIT_K": 2})


def test_a_k_that_scales_do_not_divide_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, scale = torch.zeros(8, 192), torch.zeros(8, 192), torch.zeros(8, 1)
    with pytest.raises(ValueError, match=r"K must be a multiple of 128, got k=192"):
        triton_gfx942.custom_kernel((a, b, scale, scale, torch.zeros(8, 8)))
