"""The Triton variant of amd-moe-mxfp4, executed instruction by instruction, against float64 experts."""

from typing import Any

import pytest
import torch

from kernels.moe_mxfp4 import triton_gfx950 as variant
from kernels.moe_mxfp4 import triton_gfx950_tuning
from kernels.moe_mxfp4.triton_gfx950_tuning import DEFAULT
from tests.support.gfx950_tests import check, check_order
from tests.support.moe_mxfp4_cases import REFUSED, MoeCase, routed
from tests.support.moe_mxfp4_tests import *  # noqa: F403
from tests.support.moe_mxfp4_tests import small  # noqa: F401
from tests.support.table_rows import row_parameters
from tests.support.variant_tests import test_checks_find_nothing  # noqa: F401

PROBLEM, VARIANT, ARCH = "amd-moe-mxfp4", "triton", "gfx950"
SMALL = {"BLOCK_M": 16, "GATE_UP_N": 32, "DOWN_N": 64, "BLOCK_K": 256, "num_warps": 2, "num_stages": 2}


def launch(data: tuple[Any, ...], row: dict[str, Any] | None) -> torch.Tensor:
    return variant.custom_kernel(data) if row is None else variant.moe(data, row)


def test_more_pairs_than_are_sorted_at_once(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant, "IDS_AT_ONCE", 16)
    check(run, (MoeCase(routed(25, 6, 3), 6), SMALL))  # 75 pairs


def test_more_columns_than_are_quantised_at_once(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant, "QUANTISED_AT_ONCE", 128)
    check(run, (MoeCase(routed(3, 4, 2), 4), SMALL))


@pytest.mark.parametrize("row", row_parameters(triton_gfx950_tuning))
def test_rows_of_the_table(run: Any, row: dict[str, Any]) -> None:
    """With a row more than a block has for the shared expert."""
    check(run, (MoeCase(routed(row["BLOCK_M"] + 1, 4, 2), 4), row))


def test_the_default_has_blocks_for_as_many_rows_as_an_expert(run: Any) -> None:
    case = MoeCase(routed(6, 4, 2), 4)
    assert variant.tuning_row(case.data()) == DEFAULT
    check(run, (case, None))
    rows = {tokens: variant.tuning_row(MoeCase([[0]] * tokens, 1).data())["BLOCK_M"] for tokens in (16, 17, 64, 65)}
    assert rows == {16: 16, 17: 32, 64: 32, 65: 64}


def test_the_order_of_workgroups_changes_nothing(run: Any) -> None:
    check_order(run, (MoeCase(routed(20, 5, 3), 5), SMALL))


@pytest.mark.parametrize("what", REFUSED)
def test_refused_before_anything_is_launched(what: str) -> None:
    place, change, message = REFUSED[what]
    data = list(MoeCase([[0, 3], [1, 2]], 4).data())
    data[place] = change(data[place])
    with pytest.raises(ValueError) as caught:  # no device is there to launch anything on
        variant.custom_kernel(tuple(data))
    assert message in str(caught.value)
