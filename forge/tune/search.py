"""The order in which a tuner tries rows: from the one in force outwards, a column at a time."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

Row = dict[str, Any]
T = TypeVar("T")
WORTH = 0.01  # a row must be this much faster to be taken: less is noise


def outwards(value: Any, choices: list[Any]) -> list[Any]:
    """The choices but `value`, its neighbours first."""
    if value not in choices:
        return list(choices)
    here = choices.index(value)
    return [choices[i] for i in sorted(range(len(choices)), key=lambda i: (abs(i - here), i)) if i != here]


def beats(us: float, best_us: float | None) -> bool:
    """Whether a row is taken for another."""
    return best_us is None or us < best_us * (1 - WORTH)


def leader(timed: Sequence[tuple[float, T]]) -> tuple[float, T]:
    """What a search ends at: of rows that differ by noise the one tried first, so that no later call tries on."""
    best = timed[0]
    for one in timed[1:]:
        if beats(one[0], best[0]):
            best = one
    return best


def coordinate_search(
    start: Row,
    start_us: float | None,
    others: Iterable[Row],
    space: dict[str, list[Any]],
    time_of: Callable[[Row], float | None],
) -> tuple[Row, float | None]:
    """The best row found, and its time; None for a time where a row does not work.

    First the rows `others`, as whole rows. Then each column of the best one so far in turn, its values outwards from
    the present one, until a round over all columns finds nothing better.
    """
    best, best_us = start, start_us

    def take(row: Row) -> None:
        nonlocal best, best_us
        us = time_of(row)
        if us is not None and beats(us, best_us):
            best, best_us = row, us

    for row in others:
        take(row)
    while True:
        before = best
        for column, choices in space.items():
            base = best
            for value in outwards(base[column], choices):
                take({**base, column: value})
        if best == before:
            return best, best_us
