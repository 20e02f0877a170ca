"""The Triton variant of amd-mxfp4-mm, executed instruction by instruction, against float64 products."""

from typing import Any

import pytest
import torch

from kernels.mxfp4_mm import triton_gfx950 as variant
from kernels.mxfp4_mm import triton_gfx950_tuning
from tests.support.gfx950_tests import check
from tests.support.mxfp4_mm_tests import *  # noqa: F403
from tests.support.mxfp4_mm_tests import small  # noqa: F401
from tests.support.mxfp4_values import REFUSED, Product
from tests.support.table_rows import row_parameters
from tests.support.variant_tests import test_checks_find_nothing  # noqa: F401

PROBLEM, VARIANT, ARCH = "amd-mxfp4-mm", "triton", "gfx950"
SMALL = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 256, "SPLIT_K": 1, "num_warps": 2, "num_stages": 2}


def launch(data: tuple[Any, ...], row: dict[str, Any] | None) -> torch.Tensor:
    a, _, _, b, b_scale = data
    if row is None:
        return variant.custom_kernel(data)
    return variant.mxfp4_mm(a, b, b_scale, torch.empty((len(a), len(b)), dtype=torch.bfloat16), row)


@pytest.mark.parametrize("shape", [(1, 16, 64), (5, 48, 192), (16, 32, 256), (33, 80, 320), (40, 272, 576)], ids=str)
@pytest.mark.parametrize("split_k", [1, 3])
def test_shapes_that_fit_no_tile(run: Any, shape: tuple[int, int, int], split_k: int) -> None:
    check(run, (Product(*shape), {**SMALL, "SPLIT_K": split_k}))


def test_a_shape_outside_the_table(run: Any) -> None:
    check(run, (Product(7, 96, 512), None))


@pytest.mark.parametrize("row", row_parameters(triton_gfx950_tuning))
def test_rows_of_the_table(run: Any, row: dict[str, Any]) -> None:
    """With a row more than a tile has, columns of a second tile, and as many blocks of k as slices, or one more."""
    blocks = max(2, row["SPLIT_K"])
    check(run, (Product(row["BLOCK_M"] + 1, row["BLOCK_N"] + 16, row["BLOCK_K"] * blocks), row))


def test_slices_that_have_no_block_of_k_are_not_launched(run: Any) -> None:
    check(run, (Product(3, 32, 256), {**SMALL, "SPLIT_K": 14}))


@pytest.mark.parametrize("what", REFUSED)
def test_refused_before_anything_is_launched(what: str) -> None:
    place, change, message = REFUSED[what]
    data = list(Product(4, 32, 128).data())
    data[place] = change(data[place])
    with pytest.raises(ValueError) as caught:  # no device is there to launch anything on
        variant.custom_kernel(tuple(data))
    assert message in str(caught.value)
