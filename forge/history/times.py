"""The times of a results document: what was measured, or, on an emulated device, what was modelled. Never both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from forge.judge.results import modelled_time, us_of
from forge.task.harness import HARNESSES
from forge.task.score import rank_score


@dataclass(frozen=True)
class Times:
    kind: str  # measured | modelled | none
    us: dict[str, float]  # by the case's spec line, of cases that passed
    whole: bool  # every case has one


def times_of(document: dict[str, Any]) -> Times:
    emulated = document["device"]["emulated"]
    found: dict[str, float] = {}
    for case in document["cases"]:
        us = case_us(document, case)
        if us is not None:
            found[case["spec"]] = us
    kind = "none" if not found else "modelled" if emulated else "measured"
    return Times(kind, found, bool(found) and found.keys() == {case["spec"] for case in document["cases"]})


def case_us(document: dict[str, Any], case: dict[str, Any]) -> float | None:
    """A passed case's modelled time on an emulated device, elsewhere the harness's mean; None if it has none."""
    if case["status"] not in ("pass", "sampled"):
        return None
    if document["device"]["emulated"]:
        model = modelled(document, case)
        return model["us"] if model else None
    return us_of(case["stats_ns"]["mean"]) if case.get("stats_ns") else None


def modelled(document: dict[str, Any], case: dict[str, Any]) -> dict[str, Any] | None:
    """What the model says of a case, with the caches as the harness leaves them: {"us", "bound", "parts_us", ...}."""
    harness = HARNESSES.get(document["harness"])
    return modelled_time(case["report"], "cold" if harness is None or harness.l2_flush_bytes else "warm")


def score_of(times: Times, ranking_by: str) -> float | None:
    """What the leaderboard's rule makes of the times; None unless every case has one."""
    return rank_score(list(times.us.values()), ranking_by) if times.whole else None
