"""Tests that both variants of amd-mxfp4-mm have in common; SMALL is the row of a small tile, of one slice of k."""

from typing import Any

import pytest
import torch

from tests.support.gfx950_tests import check, check_order
from tests.support.mxfp4_values import TIES, Product
from tests.support.reference_folders import relative_error

__all__ = [
    "test_a_scale_of_nan_stays_in_its_column",
    "test_an_infinite_activation_is_the_largest_code",
    "test_blocks_bump_their_scale_at_1_75",
    "test_scales_at_the_ends_of_e8m0",
    "test_sums_of_slices_do_not_depend_on_the_order_of_workgroups",
    "test_ties_go_to_the_even_code",
]


@pytest.fixture
def small(request: pytest.FixtureRequest) -> dict[str, Any]:
    return request.module.SMALL


def test_ties_go_to_the_even_code(run: Any, small: dict[str, Any]) -> None:
    cases = [Product(2, 16, 64) for _ in TIES]
    for case, tie in zip(cases, TIES):
        case.a[:, :] = torch.tensor([tie, -tie]).bfloat16()[:, None]
        case.a[:, ::32] = 4.0  # makes the scale 1
    for case, tie, out in zip(cases, TIES, run(*((case, small) for case in cases))):
        assert torch.equal(out, case.wanted().bfloat16()), tie


def test_blocks_bump_their_scale_at_1_75(run: Any, small: dict[str, Any]) -> None:
    case = Product(4, 16, 64)
    case.a[:, :32] = torch.tensor([6.96875, 7.0, 0.0, 2.0**-133]).bfloat16()[:, None]  # the last is denormal
    check(run, (case, small))


def test_scales_at_the_ends_of_e8m0(run: Any, small: dict[str, Any]) -> None:
    """Largest activations meet smallest weights, the reverse, and zeros the largest weights."""
    case = Product(3, 16, 128)
    case.a[:2] = 0.0
    case.a[0, :32] = 3.0 * 2.0**126
    case.a[1, 32:64] = 3.0 * 2.0**-126
    case.a[2, 64:96] = 0.0
    case.scales[0], case.scales[1], case.scales[2, 2] = 0, 254, 254
    got, wanted = run((case, small))[0].diagonal(), case.wanted().diagonal()
    assert wanted.all() and torch.allclose(got.double(), wanted, rtol=2.0**-8, atol=0.0)


def test_a_scale_of_nan_stays_in_its_column(run: Any, small: dict[str, Any]) -> None:
    case = Product(20, 48, 576)  # the last chunk of k begins with 64 columns and ends with padding
    case.scales[37, 3] = 255
    wanted = torch.zeros((20, 48), dtype=torch.bool)
    wanted[:, 37] = True
    for c in run((case, None), (case, small), (case, {**small, "SPLIT_K": 2})):
        assert torch.equal(c.isnan(), wanted)


def test_an_infinite_activation_is_the_largest_code(run: Any, small: dict[str, Any]) -> None:
    case = Product(3, 16, 64)
    case.scales[:] = 100  # 6 * 2^126 in a block of 2^-27 stays within fp32
    case.a[1, 40] = float("-inf")
    (c,) = run((case, small))
    assert relative_error(c[1], case.wanted()[1]) < case.ROUNDING


def test_sums_of_slices_do_not_depend_on_the_order_of_workgroups(run: Any, small: dict[str, Any]) -> None:
    check_order(run, (Product(17, 64, 2048), {**small, "SPLIT_K": 4}))
