"""The Triton variant of amd-mixed-mla, executed instruction by instruction, against float64 attention."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernels.mixed_mla import triton_gfx950 as variant
from kernels.mixed_mla import triton_gfx950_tuning
from kernels.mixed_mla.triton_gfx950_tuning import DEFAULT
from tests.support.emulated_triton import card, in_a_process_of_its_own
from tests.support.mixed_mla_cases import REFUSED, MlaCase, reference
from tests.support.reference_folders import relative_error
from tests.support.table_rows import row_parameters
from tests.support.variant_tests import test_checks_find_nothing  # noqa: F401

PROBLEM, VARIANT, ARCH = "amd-mixed-mla", "triton", "gfx950"
# The output's and the probabilities' rounding to bf16. Of the official tolerance zeros would pass at 8192 tokens.
ROUNDING = 4e-3
SMALL = {"KV": "fp8", "BLOCK_KV": 32, "SPLITS": 2, "num_warps": 2, "num_stages": 2}


class Case(MlaCase):
    def run(self, row: dict[str, Any] | None = None, order_seed: int = 0) -> torch.Tensor:
        with card(order_seed=order_seed):
            if row is None:
                return variant.custom_kernel(self.data())
            return variant.mla_decode(*(*self.data(), row))


@pytest.mark.sampled
@pytest.mark.parametrize("tokens", [1, 2, 31, 32, 33, 64, 100])
@pytest.mark.parametrize("splits", [1, 3])
def test_lengths_that_fit_no_tile(tokens: int, splits: int) -> None:
    """With 3 splits some have no token at all."""
    case = Case([tokens])
    assert relative_error(case.run({**SMALL, "SPLITS": splits}), case.attention()) < ROUNDING


def test_requests_of_different_lengths() -> None:
    case = Case([70, 1, 0, 33, 5])
    out = case.run(SMALL)
    assert not out[2].any()  # nothing to attend to
    assert relative_error(out, case.attention()) < ROUNDING


@pytest.mark.parametrize("row", row_parameters(triton_gfx950_tuning))
def test_rows_of_the_table(row: dict[str, Any]) -> None:
    """Blocks for all splits but the last, which begins within the last block."""
    case = Case([max(2, min(row["SPLITS"], 8)) * row["BLOCK_KV"] - 5])
    assert relative_error(case.run(row), case.attention(row["KV"])) < ROUNDING


def test_the_bf16_cache() -> None:
    case = Case([45])
    case.fp8 = (case.fp8[0], torch.full((1,), torch.nan))  # not looked at
    assert relative_error(case.run({**SMALL, "KV": "bf16"}), case.attention("bf16")) < ROUNDING


def test_several_queries_see_what_was_there_before_the_next() -> None:
    case = Case([40, 3], q_seq_len=3)
    assert relative_error(case.run(SMALL), case.attention()) < ROUNDING


def test_a_request_with_fewer_queries_than_others() -> None:
    """The rows of queries that nobody asked are not written."""
    case = Case([40, 20], queries=[1, 3], q_seq_len=3)
    out = case.run(SMALL)
    assert relative_error(out[:4], case.attention()[:4]) < ROUNDING


def test_one_token_may_take_all_the_weight() -> None:
    """Wherever it stands: the others' shares vanish, in other splits as well."""
    for place in (0, 50, 99):
        case = Case([100])
        case.kv[place] = 3.0 * case.q[0, 0]  # a score of 72
        case.fp8 = reference.quantize_fp8(case.kv)
        assert relative_error(case.run(SMALL), case.attention()) < ROUNDING


def test_what_the_default_chooses() -> None:
    case = Case([300, 200])
    row = variant.tuning_row(case.data())
    assert row == {**DEFAULT, "SPLITS": 3}  # as many as there are blocks
    assert relative_error(case.run(), case.attention()) < ROUNDING
    case.config |= {"batch_size": 100, "kv_seq_len": 5000}
    assert variant.tuning_row(case.data())["SPLITS"] == 3  # 300 workgroups for 256 CUs
    case.config |= {"batch_size": 1000}
    assert variant.tuning_row(case.data())["SPLITS"] == 1
    case.config |= {"batch_size": 1, "kv_seq_len": 100000}
    assert variant.tuning_row(case.data())["SPLITS"] == 64


def nan_in_a_token() -> None:
    case = Case([40, 40])
    case.fp8[0].view(torch.uint8)[60, 0, 3] = 0x7F
    out = case.run(SMALL)
    assert out[0].isfinite().all() and out[1].isnan().all()


def test_nan_in_a_token_reaches_its_request_alone() -> None:
    in_a_process_of_its_own(nan_in_a_token)


def test_the_order_of_workgroups_changes_nothing() -> None:
    case = Case([90, 40])
    first = case.run(SMALL)
    for order_seed in range(1, 5):
        assert torch.equal(case.run(SMALL, order_seed), first)


def test_a_token_left_out_is_noticed() -> None:
    """The comparison itself: half of the tokens pass the official tolerance."""
    case = Case([64])
    wanted = case.attention()
    case.kv_indptr[1] = 63
    assert relative_error(case.run(SMALL), wanted) > 5 * ROUNDING


@pytest.mark.parametrize("what", REFUSED)
def test_refused_before_anything_is_launched(what: str) -> None:
    place, change, message = REFUSED[what]
    data = list(Case([10, 10]).data())
    data[place] = change(data[place])
    with pytest.raises(ValueError) as caught:  # no device is there to launch anything on
        variant.custom_kernel(tuple(data))
    assert message in str(caught.value)
