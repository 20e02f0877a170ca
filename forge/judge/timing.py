"""Statistics of a case's times, and the rule that ends its measurement."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from forge.judge import messages
from forge.judge.results import BackToBack, Stats
from forge.judge.worker_pool import RankAnswer
from forge.task.harness import Harness, Repeats

MIN_RUNS = 3
CLOCK_RATIO, CLOCK_SLACK_S = 3.0, 0.1  # how much longer the evaluator may wait for calls than they say they take


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


def back_to_back_of(
    answers: Sequence[RankAnswer[messages.CalledBackToBack]], problem: RankAnswer[Any] | None, waited_s: float
) -> BackToBack:
    """All ranks' rounds as one: a round lasts as long as on the slowest rank. waited_s: on the evaluator's clock."""
    if problem is not None:
        return BackToBack(None, problem=problem.text())
    told = [one.answer for one in answers]
    rounds_us, host_rounds_us = (
        tuple(max(times) for times in zip(*rounds))
        for rounds in ([one.rounds_us for one in told], [one.host_rounds_us for one in told])
    )
    calls, said_s = told[0].calls, sum(rounds_us) * told[0].calls / 1e6
    text = ""
    if waited_s > CLOCK_RATIO * said_s + CLOCK_SLACK_S:
        text = f"calls say that they took {said_s:.3g} s, and the evaluator waited {waited_s:.3g} s for them"
    return BackToBack(
        statistics.median(rounds_us) if rounds_us else None,
        statistics.median(host_rounds_us) if host_rounds_us else None,
        calls,
        rounds_us,
        text,
    )
