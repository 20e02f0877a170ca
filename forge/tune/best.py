"""What a tuner's trials say: the best row of each key, and which rows are still to try for that."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from forge.console import number
from forge.task.cases import CaseSpec, case_text
from forge.task.score import geometric_mean
from forge.tune.search import Row, leader
from forge.tune.trials_log import Setting, TrialsLog

CLOCK_TEXTS = {"b2b": "back to back", "harness": "on the harness's clock", "modelled": "modelled, not measured"}


def to_tune(cases: Sequence[CaseSpec], log: TrialsLog, clock: str) -> Iterator[tuple[CaseSpec, list[Row]]]:
    """Each case; then those that share a key once more, to try the rows alone that each other's search ended at."""
    yield from ((case, []) for case in cases)
    for alike in by_key(log, [case.spec for case in cases]):
        found = [best_of(log, [spec], clock) for spec in alike] if len(alike) > 1 else []
        if rows := [best.row for best in found if best is not None and best.row is not None]:
            yield from ((case, rows) for case in cases if case.spec in alike)


def key_of(text: str | None) -> Any:
    """A key from its spelling; None if it is no literal."""
    try:
        return None if text is None else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None


@dataclass(frozen=True)
class Best:
    cases: tuple[str, ...]  # that look the key up
    key: Any
    row: Row | None  # None: nothing is better than the submission as it is
    us: float
    before_us: float | None  # as it was
    tried: int
    failed: dict[str, int]  # status -> rows


def by_key(log: TrialsLog, cases: Sequence[str]) -> list[list[str]]:
    """The cases, those together that look up the same key and so have the same row."""
    keys = {trial.case: trial.key for trial in log.trials.values() if trial.row is None}
    groups: dict[str, list[str]] = {}
    for case in cases:
        groups.setdefault(keys.get(case) or case, []).append(case)
    return list(groups.values())


def best_of(log: TrialsLog, cases: Sequence[str], clock: str) -> Best | None:
    """Of cases with one key: by the geometric mean of their times, of the rows that were tried in all of them."""
    trials = [trial for trial in log.trials.values() if trial.case in cases]
    times: dict[str, list[float]] = {}
    for trial in trials:
        if (us := trial.us(clock)) is not None:
            times.setdefault(repr(trial.row), []).append(us)
    means = {row: geometric_mean(each) for row, each in times.items() if len(each) == len(cases)}
    timed = [(means[repr(trial.row)], trial) for trial in trials if repr(trial.row) in means]
    key = next((trial.key for trial in trials if trial.key is not None), None)
    if key is None or not timed:
        return None
    us, best = leader(timed)
    failed: dict[str, int] = {}
    for trial in trials:
        if trial.status != "pass":
            failed[trial.status] = failed.get(trial.status, 0) + 1
    return Best(tuple(cases), key_of(key), best.row, us, means.get("None"), len(trials), failed)


def cases_text(cases: Sequence[str]) -> str:
    return case_text(cases[0]) + (f" and {len(cases) - 1} more with its key" if len(cases) > 1 else "")


def note_of(best: Best, setting: Setting, clock: str) -> str:
    was = f", before {number(best.before_us, 4)}" if best.before_us is not None else ""
    ranks = f"{_ranks(best.cases[0])} ranks, " if _ranks(best.cases[0]) else ""
    return f"{number(best.us, 4)} us{was}, {CLOCK_TEXTS[clock]}: {ranks}{setting.device}, {setting.versions}"


def _ranks(spec: str) -> str:
    return next((part.partition(":")[2].strip() for part in spec.split(";") if "world_size" in part), "")
