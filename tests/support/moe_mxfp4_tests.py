"""Tests that both variants of amd-moe-mxfp4 have in common; SMALL is a row, or None for what the variant chooses."""

from typing import Any

import pytest
import torch

from tests.support.gfx950_tests import Row, check
from tests.support.moe_mxfp4_cases import MoeCase, routed
from tests.support.mxfp4_values import TIES
from tests.support.reference_folders import relative_error

__all__ = [
    "test_numbers_of_tokens",
    "test_routing",
    "test_scales_at_the_ends_of_e8m0",
    "test_the_padding_of_the_weights_takes_no_part",
    "test_ties_of_hidden_states_go_away_from_zero",
]


@pytest.fixture
def small(request: pytest.FixtureRequest) -> Row:
    return request.module.SMALL


def test_numbers_of_tokens(run: Any, small: Row) -> None:
    check(run, *((MoeCase(routed(tokens, 6, 3), 6), small) for tokens in (1, 2, 15, 16, 17, 40)))


def test_routing(run: Any, small: Row) -> None:
    cases = [
        MoeCase([[2]] * 35, 5),  # all to one
        MoeCase([[1, 3], [3, 2]], 6),  # neither the first expert nor the last
        MoeCase([[0]] * 3, 1),
        MoeCase([[1, 1], [0, 1]], 2),  # an expert twice
    ]
    check(run, *((case, small) for case in cases))


def test_the_padding_of_the_weights_takes_no_part(run: Any, small: Row) -> None:
    widths = ((224, 256), (256, 96), (32, 32))
    check(run, *((MoeCase(routed(5, 4, 2), 4, hidden, inner), small) for hidden, inner in widths))


def test_ties_of_hidden_states_go_away_from_zero(run: Any, small: Row) -> None:
    cases = [MoeCase([[0]], 1) for _ in TIES]
    for case, tie in zip(cases, TIES):
        case.hidden[:] = torch.tensor([tie, -tie]).repeat(128).bfloat16()
        case.hidden[:, ::32] = 4.0  # makes the scale 1
    check(run, *((case, small) for case in cases))


def test_scales_at_the_ends_of_e8m0(run: Any, small: Row) -> None:
    """The smallest hidden states meet the largest weights, and a row of zeros the same."""
    case = MoeCase([[0], [0]], 1)
    case.hidden[0] = (case.hidden[0].float() * 2.0**-126).bfloat16()
    case.hidden[1] = 0.0
    case.gate_up[1][:] = 254
    case.down[1][0, :, ::2] = 0
    (out,) = run((case, small))
    assert relative_error(out[0], case.wanted()[0]) < case.ROUNDING and not out[1].any()
