"""Rank correlation."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

RANKED_ROWS = 3  # fewer have no rank correlation worth the name


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 0; equal values have the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for place in order[start:end]:
            ranks[place] = (start + end - 1) / 2
        start = end
    return ranks


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Rank correlation; NaN where there are too few values, or all are equal."""
    a, b = _ranks(x), _ranks(y)
    if len(a) < RANKED_ROWS or len(set(a)) == 1 or len(set(b)) == 1:
        return math.nan
    return statistics.correlation(a, b)
