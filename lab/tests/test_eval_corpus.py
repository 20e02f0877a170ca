"""The corpus of lab/verdicts.py: what deceives is caught or doubted, what is honest passes."""

from __future__ import annotations

import pytest

from lab.verdicts import Entry, corpus, judged
from tests.support.evaltools import run_command

pytestmark = pytest.mark.long

CORPUS = corpus()
# Each takes seconds, and what it tries another one tries in another way.
LIKE_OTHERS = set(
    "at_the_end poisoned_values parameter_replaced rows_missing two_processes input_restored terminal result_file "
    "deferred decoy_process decoy_uncounted h_output_over_input h_split_sum h_raises_inside h_many_words h_pool "
    "h_inference_mode probe_told probe_served pipe_in_folder report_nonsense decoy_whole emulation_told "
    "one_term_at_a_time h_part_of_a_method h_view_of_a_buffer later_bias decoy_distances decoy_library_operator "
    "decoy_blas decoy_pipes decoy_interpreter decoy_loop_in_c decoy_launch_in_child "
    "decoy_added decoy_whole_host h_custom_operator first_call_told".split()
)
SLOW = pytest.mark.slow(reason="one of many alike")


@pytest.mark.parametrize(
    "entry", [pytest.param(one, id=one.name, marks=[SLOW] * (one.name in LIKE_OTHERS)) for one in CORPUS]
)
def test_a_submission_is_judged_for_what_it_is(entry: Entry) -> None:
    said, words = judged(entry, run_command)
    assert said == entry.expected, words


def test_all_three_kinds_are_there() -> None:
    assert {entry.name for entry in CORPUS} >= LIKE_OTHERS
    assert {entry.expected for entry in CORPUS} == {"caught", "but", "pass"}
