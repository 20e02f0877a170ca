"""Statistics of a case's times, and the rule that ends its measurement."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from forge.judge.results import Stats
from forge.task.harness import Harness, Repeats

MIN_RUNS = 3


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
        stats.err_ns < harness.err_target * stats.mean_ns
        or stats.mean_ns * runs > repeats.budget_s * 1e9
        or (harness.wall_limit_s is not None and wall_s > harness.wall_limit_s)
    )
