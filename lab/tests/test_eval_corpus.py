"""The corpus of lab/verdicts.py: what deceives is caught or doubted, what is honest passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import forge
from lab.verdicts import DEVICE, PROBLEM, Entry, corpus
from tests.support.evaltools import prepared_slots

pytestmark = pytest.mark.long

CORPUS = corpus()
# Each takes seconds, and what it tries another one tries in another way.
LIKE_OTHERS = set(
    "at_the_end poisoned_values parameter_replaced rows_missing two_processes input_restored terminal result_file "
    "deferred decoy_process decoy_uncounted h_output_over_input h_split_sum h_raises_inside h_many_words h_pool "
    "h_inference_mode probe_told probe_served pipe_in_folder report_nonsense decoy_whole emulation_told "
    "one_term_at_a_time h_part_of_a_method h_view_of_a_buffer later_bias decoy_distances decoy_library_operator "
    "decoy_blas decoy_pipes decoy_interpreter decoy_loop_in_c decoy_launch_in_child "
    "decoy_added decoy_whole_host h_custom_operator first_call_told torch_rank_one torch_lists torch_fourier "
    "accounting_given accounting_symbols h_random h_weak h_trace h_pipeline h_dtype_views".split()
)
SLOW = pytest.mark.slow(reason="one of many alike")


@pytest.fixture(scope="module")
def judge() -> Iterator[forge.Judge]:
    yield from warm_judge()


@pytest.fixture(scope="module")
def replaying_judge() -> Iterator[forge.Judge]:
    yield from warm_judge("--replay")


def warm_judge(*more: str) -> Iterator[forge.Judge]:
    options = ["--timeout", "60", "--trust", *more]
    with prepared_slots(), forge.Judge(problem=PROBLEM, device=DEVICE, options=options) as warm:
        yield warm


@pytest.mark.parametrize(
    "entry", [pytest.param(one, id=one.name, marks=[SLOW] * (one.name in LIKE_OTHERS)) for one in CORPUS]
)
def test_a_submission_is_judged_for_what_it_is(entry: Entry, request: pytest.FixtureRequest) -> None:
    judge: forge.Judge = request.getfixturevalue("replaying_judge" if entry.replayed else "judge")
    verdict = judge.judge(entry.source, mode=entry.mode)
    said = {"passed": "pass", "doubtful": "but"}.get(verdict.status, "caught")
    assert said == entry.expected, verdict.message


@pytest.mark.parametrize("name", ["h_atomics", "h_constants", "h_slice", "h_prepared", "h_sorted_rows", "h_graph"])
def test_an_honest_output_is_made_anew(name: str, replaying_judge: forge.Judge) -> None:
    verdict = replaying_judge.judge(next(one.source for one in CORPUS if one.name == name))
    assert verdict.status == "passed", verdict.message


def test_all_three_kinds_are_there() -> None:
    assert {entry.name for entry in CORPUS} >= LIKE_OTHERS
    assert {entry.expected for entry in CORPUS} == {"caught", "but", "pass"}
