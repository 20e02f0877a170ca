"""The Triton variant of amd-moe-mxfp4, executed instruction by instruction, against float64 experts."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernels.moe_mxfp4 import triton_gfx950 as variant
from kernels.moe_mxfp4 import triton_gfx950_tuning
from kernels.moe_mxfp4.triton_gfx950_tuning import DEFAULT
from tests.support.checks import differ
from tests.support.emulated_triton import card
from tests.support.moe_mxfp4_cases import REFUSED, MoeCase, routed
from tests.support.mxfp4_values import TIES
from tests.support.reference_folders import relative_error
from tests.support.table_rows import row_parameters
from tests.support.variant_tests import test_checks_find_nothing  # noqa: F401

PROBLEM, VARIANT, ARCH = "amd-moe-mxfp4", "triton", "gfx950"
# Terms are rounded to bf16, and their sum; a sum in fp32 now and then rounds to another code than one in float64.
ROUNDING = 5e-3
SMALL = {"BLOCK_M": 16, "GATE_UP_N": 32, "DOWN_N": 64, "BLOCK_K": 256, "num_warps": 2, "num_stages": 2}


class Case(MoeCase):
    def run(self, row: dict[str, Any] | None = SMALL, order_seed: int = 0) -> torch.Tensor:
        with card(order_seed=order_seed):
            if row is None:
                return variant.custom_kernel(self.data())
            return variant.moe(self.data(), row)


@pytest.mark.parametrize("tokens", differ(1, 16, 17, 40, alike=[2, 15]))
def test_numbers_of_tokens(tokens: int) -> None:
    case = Case(routed(tokens, 6, 3), 6)
    assert relative_error(case.run(), case.output()) < ROUNDING


def test_all_tokens_to_one_expert() -> None:
    case = Case([[2]] * 35, 5)
    assert relative_error(case.run(), case.output()) < ROUNDING


def test_the_first_and_the_last_expert_without_tokens() -> None:
    case = Case([[1, 3], [3, 2]], 6)
    assert relative_error(case.run(), case.output()) < ROUNDING


def test_a_single_expert() -> None:
    case = Case([[0]] * 3, 1)
    assert relative_error(case.run(), case.output()) < ROUNDING


def test_a_token_may_name_an_expert_twice() -> None:
    case = Case([[1, 1], [0, 1]], 2)
    assert relative_error(case.run(), case.output()) < ROUNDING


@pytest.mark.parametrize("hidden,inner", [(224, 256), (256, 96), (32, 32)])
def test_the_padding_of_the_weights_takes_no_part(hidden: int, inner: int) -> None:
    case = Case(routed(5, 4, 2), 4, hidden, inner)
    assert relative_error(case.run(), case.output()) < ROUNDING


def test_more_pairs_than_are_sorted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant, "IDS_AT_ONCE", 16)
    case = Case(routed(25, 6, 3), 6)  # 75 pairs
    assert relative_error(case.run(), case.output()) < ROUNDING


def test_more_columns_than_are_quantised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant, "QUANTISED_AT_ONCE", 128)
    case = Case(routed(3, 4, 2), 4)
    assert relative_error(case.run(), case.output()) < ROUNDING


@pytest.mark.parametrize("row", row_parameters(triton_gfx950_tuning))
def test_rows_of_the_table(row: dict[str, Any]) -> None:
    """With a row more than a block has for the shared expert."""
    case = Case(routed(row["BLOCK_M"] + 1, 4, 2), 4)
    assert relative_error(case.run(row), case.output()) < ROUNDING


def test_the_default_has_blocks_for_as_many_rows_as_an_expert() -> None:
    case = Case(routed(6, 4, 2), 4)
    assert variant.tuning_row(case.data()) == DEFAULT
    assert relative_error(case.run(None), case.output()) < ROUNDING
    rows = {tokens: variant.tuning_row(Case([[0]] * tokens, 1).data())["BLOCK_M"] for tokens in (16, 17, 64, 65)}
    assert rows == {16: 16, 17: 32, 64: 32, 65: 64}


@pytest.mark.parametrize("tie", TIES)
def test_ties_of_hidden_states_go_away_from_zero(tie: float) -> None:
    case = Case([[0]], 1)
    case.hidden[:] = torch.tensor([tie, -tie]).repeat(128).bfloat16()
    case.hidden[:, ::32] = 4.0  # makes the scale 1
    assert relative_error(case.run(), case.output()) < ROUNDING


def test_scales_at_the_ends_of_e8m0() -> None:
    """The smallest hidden states meet the largest weights, and a row of zeros the same."""
    case = Case([[0], [0]], 1)
    case.hidden[0] = (case.hidden[0].float() * 2.0**-126).bfloat16()
    case.hidden[1] = 0.0
    case.gate_up[1][:] = 254
    case.down[1][0, :, ::2] = 0
    out = case.run()
    assert relative_error(out[0], case.output()[0]) < ROUNDING
    assert not out[1].any()


def test_the_order_of_workgroups_changes_nothing() -> None:
    case = Case(routed(20, 5, 3), 5)
    first = case.run()
    for order_seed in range(1, 5):
        assert torch.equal(case.run(order_seed=order_seed), first)


@pytest.mark.parametrize("what", REFUSED)
def test_refused_before_anything_is_launched(what: str) -> None:
    place, change, message = REFUSED[what]
    data = list(Case([[0, 3], [1, 2]], 4).data())
    data[place] = change(data[place])
    with pytest.raises(ValueError) as caught:  # no device is there to launch anything on
        variant.custom_kernel(tuple(data))
    assert message in str(caught.value)
