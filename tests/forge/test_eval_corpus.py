"""The corpus of benchmarks/verdicts.py: what deceives is caught or doubted, what is honest passes."""

from __future__ import annotations

import pytest

from benchmarks.verdicts import Entry, corpus, judged
from tests.support.evaltools import run_command

pytestmark = pytest.mark.long

CORPUS = corpus()


@pytest.mark.parametrize("entry", CORPUS, ids=lambda entry: entry.name)
def test_a_submission_is_judged_for_what_it_is(entry: Entry) -> None:
    said, words = judged(entry, run_command)
    assert said == entry.expected, words


def test_all_three_kinds_are_there() -> None:
    assert {entry.expected for entry in CORPUS} == {"caught", "but", "pass"}
