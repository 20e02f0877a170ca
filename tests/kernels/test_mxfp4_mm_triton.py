"""The Triton variant of amd-mxfp4-mm, executed instruction by instruction, against float64 products."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernels.mxfp4_mm import triton_gfx950 as variant
from kernels.mxfp4_mm import triton_gfx950_tuning
from tests.support.emulated_triton import card
from tests.support.mxfp4_values import REFUSED, TIES, Product
from tests.support.reference_folders import relative_error
from tests.support.table_rows import row_parameters
from tests.support.variant_tests import test_checks_find_nothing  # noqa: F401

PROBLEM, VARIANT, ARCH = "amd-mxfp4-mm", "triton", "gfx950"
# Half a bf16 step is at most 2^-8 of a value; over many values the root of its mean square is 1.7e-3.
ROUNDING = 2.5e-3
SMALL = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 256, "SPLIT_K": 1, "num_warps": 2, "num_stages": 2}


class Case(Product):
    def run(self, row: dict[str, Any] | None = None, order_seed: int = 0) -> torch.Tensor:
        a, _, _, b, b_scale = data = self.data()
        with card(order_seed=order_seed):
            if row is None:
                return variant.custom_kernel(data)
            c = torch.empty((len(a), len(b)), dtype=torch.bfloat16)
            return variant.mxfp4_mm(a, b, b_scale, c, row)


@pytest.mark.parametrize("shape", [(1, 16, 64), (5, 48, 192), (16, 32, 256), (33, 80, 320), (40, 272, 576)], ids=str)
@pytest.mark.parametrize("split_k", [1, 3])
def test_shapes_that_fit_no_tile(shape: tuple[int, int, int], split_k: int) -> None:
    case = Case(*shape)
    assert relative_error(case.run({**SMALL, "SPLIT_K": split_k}), case.product()) < ROUNDING


def test_a_shape_outside_the_table() -> None:
    case = Case(7, 96, 512)
    assert relative_error(case.run(), case.product()) < ROUNDING


@pytest.mark.parametrize("row", row_parameters(triton_gfx950_tuning))
def test_rows_of_the_table(row: dict[str, Any]) -> None:
    """With a row more than a tile has, columns of a second tile, and as many blocks of k as slices, or one more."""
    blocks = max(2, row["SPLIT_K"])
    case = Case(row["BLOCK_M"] + 1, row["BLOCK_N"] + 16, row["BLOCK_K"] * blocks)
    assert relative_error(case.run(row), case.product()) < ROUNDING


@pytest.mark.parametrize("ties", TIES)
def test_ties_go_to_the_even_code(ties: float) -> None:
    case = Case(2, 16, 64)
    case.a[:, :] = torch.tensor([ties, -ties]).bfloat16()[:, None]
    case.a[:, ::32] = 4.0  # makes the scale 1
    assert torch.equal(case.run(SMALL), case.product().bfloat16())


def test_blocks_bump_their_scale_at_1_75() -> None:
    case = Case(4, 16, 64)
    case.a[:, :32] = torch.tensor([6.96875, 7.0, 0.0, 2.0**-133]).bfloat16()[:, None]  # the last is denormal
    assert relative_error(case.run(SMALL), case.product()) < ROUNDING


def test_scales_at_the_ends_of_e8m0() -> None:
    """Largest activations meet smallest weights, the reverse, and zeros the largest weights."""
    case = Case(3, 16, 128)
    case.a[:2] = 0.0
    case.a[0, :32] = 3.0 * 2.0**126
    case.a[1, 32:64] = 3.0 * 2.0**-126
    case.a[2, 64:96] = 0.0
    case.scales[0], case.scales[1], case.scales[2, 2] = 0, 254, 254
    got, wanted = case.run(SMALL).diagonal(), case.product().diagonal()
    assert wanted.all() and torch.allclose(got.double(), wanted, rtol=2.0**-8, atol=0.0)


@pytest.mark.parametrize("split_k", [1, 2])
def test_a_scale_of_nan_stays_in_its_column(split_k: int) -> None:
    case = Case(20, 48, 576)  # the last block of k begins with 64 columns and ends with padding
    case.scales[37, 3] = 255
    c = case.run({**SMALL, "SPLIT_K": split_k})
    wanted = torch.zeros(c.shape, dtype=torch.bool)
    wanted[:, 37] = True
    assert torch.equal(c.isnan(), wanted)


def test_an_infinite_activation_is_the_largest_code() -> None:
    case = Case(3, 16, 64)
    case.scales[:] = 100  # 6 * 2^126 in a block of 2^-27 stays within fp32
    case.a[1, 40] = float("-inf")
    assert relative_error(case.run(SMALL)[1], case.product()[1]) < ROUNDING


def test_sums_of_slices_do_not_depend_on_the_order_of_workgroups() -> None:
    case = Case(17, 64, 1024)
    row = {**SMALL, "SPLIT_K": 4}
    first = case.run(row)
    for order_seed in range(1, 5):
        assert torch.equal(case.run(row, order_seed), first)


def test_slices_that_have_no_block_of_k_are_not_launched() -> None:
    case = Case(3, 32, 256)
    assert relative_error(case.run({**SMALL, "SPLIT_K": 14}), case.product()) < ROUNDING


@pytest.mark.parametrize("what", REFUSED)
def test_refused_before_anything_is_launched(what: str) -> None:
    place, change, message = REFUSED[what]
    data = list(Case(4, 32, 128).data())
    data[place] = change(data[place])
    with pytest.raises(ValueError) as caught:  # no device is there to launch anything on
        variant.custom_kernel(tuple(data))
    assert message in str(caught.value)
