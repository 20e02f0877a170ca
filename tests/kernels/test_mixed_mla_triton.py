"""The Triton variant of amd-mixed-mla, executed instruction by instruction, against float64 attention."""

from typing import Any

import pytest
import torch

from kernels.mixed_mla import triton_gfx950 as variant
from kernels.mixed_mla import triton_gfx950_tuning
from kernels.mixed_mla.triton_gfx950_tuning import DEFAULT
from tests.support.emulated_triton import card, in_a_process_of_its_own
from tests.support.gfx950_tests import check, check_order
from tests.support.mixed_mla_cases import REFUSED, MlaCase
from tests.support.mixed_mla_tests import *  # noqa: F403
from tests.support.mixed_mla_tests import rows  # noqa: F401
from tests.support.table_rows import row_parameters
from tests.support.variant_tests import test_checks_find_nothing  # noqa: F401

PROBLEM, VARIANT, ARCH = "amd-mixed-mla", "triton", "gfx950"
SMALL = {"KV": "fp8", "BLOCK_KV": 32, "SPLITS": 2, "num_warps": 2, "num_stages": 2}


def launch(data: tuple[Any, ...], row: dict[str, Any] | None) -> torch.Tensor:
    return variant.custom_kernel(data) if row is None else variant.mla_decode(*(*data, row))


@pytest.mark.sampled
@pytest.mark.parametrize("tokens", [1, 2, 31, 32, 33, 64, 100])
@pytest.mark.parametrize("splits", [1, 3])
def test_lengths_that_fit_no_tile(run: Any, tokens: int, splits: int) -> None:
    """With 3 splits some have no token at all."""
    check(run, (MlaCase([tokens]), {**SMALL, "SPLITS": splits}))


@pytest.mark.parametrize("row", row_parameters(triton_gfx950_tuning))
def test_rows_of_the_table(run: Any, row: dict[str, Any]) -> None:
    """Blocks for all splits but the last, which begins within the last block."""
    check(run, (MlaCase([max(2, min(row["SPLITS"], 8)) * row["BLOCK_KV"] - 5]), row))


def test_the_bf16_cache(run: Any) -> None:
    case = MlaCase([45])
    case.fp8 = (case.fp8[0], torch.full((1,), torch.nan))  # not looked at
    check(run, (case, {**SMALL, "KV": "bf16"}))


def test_what_the_default_chooses(run: Any) -> None:
    case = MlaCase([300, 200])
    row = variant.tuning_row(case.data())
    assert row == {**DEFAULT, "SPLITS": 3}  # as many as there are blocks
    check(run, (case, None))
    case.config |= {"batch_size": 100, "kv_seq_len": 5000}
    assert variant.tuning_row(case.data())["SPLITS"] == 3  # 300 workgroups for 256 CUs
    case.config |= {"batch_size": 1000}
    assert variant.tuning_row(case.data())["SPLITS"] == 1
    case.config |= {"batch_size": 1, "kv_seq_len": 100000}
    assert variant.tuning_row(case.data())["SPLITS"] == 64


def nan_in_a_token() -> None:
    case = MlaCase([40, 40])
    case.fp8[0].view(torch.uint8)[60, 0, 3] = 0x7F
    with card():
        out = launch(case.data(), SMALL)
    assert out[0].isfinite().all() and out[1].isnan().all()


def test_nan_in_a_token_reaches_its_request_alone() -> None:
    in_a_process_of_its_own(nan_in_a_token)


def test_the_order_of_workgroups_changes_nothing(run: Any) -> None:
    check_order(run, (MlaCase([90, 40]), SMALL))


@pytest.mark.parametrize("what", REFUSED)
def test_refused_before_anything_is_launched(what: str) -> None:
    place, change, message = REFUSED[what]
    data = list(MlaCase([10, 10]).data())
    data[place] = change(data[place])
    with pytest.raises(ValueError) as caught:  # no device is there to launch anything on
        variant.custom_kernel(tuple(data))
    assert message in str(caught.value)
