"""Tests that both variants of amd-mixed-mla have in common: SMALL is a row of two splits, OTHERS are more rows."""

from typing import Any

import pytest

from tests.support.gfx950_tests import check
from tests.support.mixed_mla_cases import MlaCase, reference
from tests.support.reference_folders import relative_error

__all__ = [
    "test_a_token_left_out_is_noticed",
    "test_one_token_may_take_all_the_weight",
    "test_queries_of_a_request",
    "test_requests_of_different_lengths",
]


@pytest.fixture
def rows(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return [request.module.SMALL, *getattr(request.module, "OTHERS", ())]


def test_requests_of_different_lengths(run: Any, rows: list[dict[str, Any]]) -> None:
    case = MlaCase([70, 1, 0, 33, 5, 401])
    for out in check(run, *((case, row) for row in rows)):
        assert not out[2].any()  # nothing to attend to


def test_queries_of_a_request(run: Any, rows: list[dict[str, Any]]) -> None:
    """Each sees what was there before the next; a request may have fewer than others, whose rows nobody writes."""
    check(run, *((MlaCase([40, 3], q_seq_len=3), row) for row in rows))
    case = MlaCase([40, 20], queries=[1, 3], q_seq_len=3)
    (out,) = run((case, rows[0]))
    assert relative_error(out[:4], case.attention()[:4]) < case.ROUNDING


def test_one_token_may_take_all_the_weight(run: Any, rows: list[dict[str, Any]]) -> None:
    """Wherever it stands: the others' shares vanish, in other waves and splits as well."""
    cases = [MlaCase([300]) for _ in range(4)]
    for case, place in zip(cases, (0, 50, 130, 299)):
        case.kv[place] = 3.0 * case.q[0, 0]  # a score of 72
        case.fp8 = reference.quantize_fp8(case.kv)
    check(run, *((case, rows[0]) for case in cases))


def test_a_token_left_out_is_noticed(run: Any, rows: list[dict[str, Any]]) -> None:
    """The comparison itself: half of the tokens pass the official tolerance."""
    case = MlaCase([64])
    wanted = case.attention()
    case.kv_indptr[1] = 63
    assert relative_error(run((case, rows[0]))[0], wanted) > 5 * case.ROUNDING
