"""What is computed from times (in ns): statistics, the rule that ends a measurement, the score."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from forge.task.harness import Harness, Repeats

MIN_RUNS = 3


@dataclass(frozen=True)
class Stats:
    """Times of a case's calls; all but `runs` in nanoseconds."""

    runs: int
    mean: float
    std: float  # of the sample (n - 1)
    err: float  # standard error of the mean
    best: float
    worst: float
    median: float | None = None  # ours, not the leaderboard's; None where another evaluator has told its own keys only


LEADERBOARD_KEYS = ("runs", "mean", "std", "err", "best", "worst")  # in its order


def summarize(durations_ns: Sequence[float]) -> Stats:
    runs = len(durations_ns)
    if runs == 0:
        raise ValueError("no timed run to summarize")
    mean = sum(durations_ns) / runs
    # The official formula divides by zero for a single run; it never makes fewer than three.
    std = math.sqrt(sum((t - mean) ** 2 for t in durations_ns) / (runs - 1)) if runs > 1 else 0.0
    best, worst, median = float(min(durations_ns)), float(max(durations_ns)), float(statistics.median(durations_ns))
    return Stats(runs, mean, std, std / math.sqrt(runs), best, worst, median)


def should_stop(durations_ns: Sequence[float], wall_s: float, harness: Harness, repeats: Repeats) -> bool:
    """After a run: are these enough? Never before the third, always at the upper bound."""
    runs = len(durations_ns)
    if runs >= repeats.runs:
        return True
    if runs < MIN_RUNS:
        return False
    stats = summarize(durations_ns)
    return (
        stats.err < harness.err_target * stats.mean
        or stats.mean * runs > repeats.budget_s * 1e9
        or (harness.wall_limit_s is not None and wall_s > harness.wall_limit_s)
    )


def geometric_mean(values: Sequence[float]) -> float:
    if not values or min(values) <= 0:
        raise ValueError("a geometric mean needs values above 0")
    return math.exp(sum(math.log(v) for v in values) / len(values))


def score(means_ns: Sequence[float], ranking_by: str) -> float:
    """The number the leaderboard ranks by, in the unit of the means."""
    if ranking_by == "geom":
        return geometric_mean(means_ns)
    return means_ns[-1] if ranking_by == "last" else sum(means_ns) / len(means_ns)
