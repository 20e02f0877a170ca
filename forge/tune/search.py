"""The order in which a tuner tries rows: the next is the one of which a Gaussian process hopes for the most."""

import bisect
import itertools
import math
import random
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

Row = dict[str, Any]
Place = tuple[float, ...]  # of a row in its space: of each column, which of the choices
T = TypeVar("T")
WORTH = 0.01  # a row must be this much faster to be taken: less is noise
# Chosen on spaces that were measured whole, and tried on others: lab/tune_search.py.
DRAWN = 8  # rows drawn by lot before any is chosen, of few rows one of 16
ALIKE = 0.5  # of two rows that differ by a step in one column; by more than FAR steps no two differ
FAR = 2
NOISE = 0.01  # of a time, beside the spread of all
DOUBT = 0.5  # deviations that a row is hoped to be faster than is expected of it
PATIENCE = 24  # rows in turn without gain that end a search
FAILED = 0.25  # of such a row, one that does not work: it costs little and says little
WHOLE = 12  # rows of a space that is tried whole, as one with a single column is
MOST_ROWS = 3_000  # of a larger space so many are drawn, and those within two columns of the best are added


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


class Search:
    """Which row of a space to try next, by the times that it is told; the same for the same times.

    First `start` and `others`, as whole rows; then some by lot; then, until PATIENCE of them bring nothing, the row
    that is hoped to be fastest. How near two rows are is a product over their columns, so columns move together.
    """

    def __init__(self, space: dict[str, list[Any]], start: Row, others: Iterable[Row] = ()) -> None:
        self.space = space
        self.best = start
        self.best_us: float | None = None
        self.since_gain = 0.0
        self.told: dict[Place, float | None] = {}
        self.asked: dict[Place, None] = {}
        self.tried: list[Row] = []
        self.sizes = [len(choices) for choices in space.values()]
        self.is_sampled = math.prod(self.sizes) > MOST_ROWS
        draw = random.Random(0)
        if self.is_sampled:
            self.rows = [tuple(map(draw.randrange, self.sizes)) for _ in range(MOST_ROWS)]
        else:
            self.rows = list(itertools.product(*map(range, self.sizes)))
        by_lot = [self._row(place) for place in draw.sample(self.rows, min(DRAWN, 1 + len(self.rows) // 16))]
        self.waiting = [start, *others, *by_lot]

    def ask(self, count: int = 1) -> list[Row]:
        """So many rows to try, fewer where the search ends; none once it has ended."""
        found: list[Row] = []
        while len(found) < count and (row := self._next()) is not None:
            self.tried.append(row)
            self.asked[self._place(row)] = None
            found.append(row)
        return found

    def tell(self, row: Row, us: float | None) -> None:
        """The time of a row; None where it does not work."""
        place = self._place(row)
        self.tried.append(row)
        self.asked[place] = None
        self.told[place] = us
        self.since_gain += FAILED if us is None else 1
        if us is not None and beats(us, self.best_us):
            self.best, self.best_us, self.since_gain = row, us, 0

    def _next(self) -> Row | None:
        while self.waiting:
            row = self.waiting.pop(0)
            if row not in self.tried:  # whole: it may differ where the space has no column
                return row
        whole = len(self.space) == 1 or len(self.rows) <= WHOLE
        if self.since_gain >= PATIENCE and not whole:
            return None
        rows = dict.fromkeys([*self.rows, *self._around_best()] if self.is_sampled else self.rows)
        left = [place for place in rows if place not in self.asked]
        return self._row(left[int(np.argmin(self._hopes(left)))]) if left else None

    def _hopes(self, left: list[Place]) -> np.ndarray:
        """Of each place the logarithm of its time that is hoped for. A place without a time, since it failed or was
        not told yet, counts as known to be what is expected of it: that one fails says little of how fast others are.
        """
        timed = {place: math.log(us) for place, us in self.told.items() if us is not None}
        places, logs = list(timed), np.array(list(timed.values()) or [0.0])
        known = (logs - np.median(logs)) / (logs.std() + 1e-3)
        if not places:
            places, known = [self._place(self.best)], np.zeros(1)
        untimed = [place for place in self.asked if place not in timed and place not in places]
        if untimed:
            expected = _alike(untimed, places) @ np.linalg.solve(_noisy(_alike(places, places)), known)
            places, known = places + untimed, np.append(known, expected)
        near = _alike(left, places)
        solved = np.linalg.solve(_noisy(_alike(places, places)), np.column_stack([known, near.T]))
        doubt = np.sqrt(np.maximum(1 - np.einsum("ij,ji->i", near, solved[:, 1:]), 0))
        return near @ solved[:, 0] - DOUBT * doubt

    def _around_best(self) -> list[Place]:
        """What differs from the best row in one column or two."""
        best, found = self._place(self.best), []
        for a, b in itertools.combinations(range(len(self.sizes)), 2):
            for moved in itertools.product(range(self.sizes[a]), range(self.sizes[b])):
                place = list(best)
                place[a], place[b] = moved
                found.append(tuple(place))
        return found

    def _row(self, place: Place) -> Row:
        moved = zip(self.space.items(), place)
        return {**self.best, **{name: choices[int(at)] for (name, choices), at in moved if at == int(at)}}

    def _place(self, row: Row) -> Place:
        """A value that is none of the choices lies between two, if it is a number, else before all."""

        def at(value: Any, choices: list[Any]) -> float:
            if value in choices:
                return choices.index(value)
            ordered = all(isinstance(one, int | float) for one in [value, *choices])
            return bisect.bisect(sorted(choices), value) - 0.5 if ordered else -0.5

        return tuple(at(row.get(name), choices) for name, choices in self.space.items())


def _alike(rows: list[Place], others: list[Place]) -> np.ndarray:
    """How alike each of the rows is to each of the others, 0 to 1."""
    alike = np.ones((len(rows), len(others)))
    for one, other in zip(np.array(rows).T, np.array(others).T):
        alike *= ALIKE ** np.minimum(np.abs(one[:, None] - other[None, :]), FAR)
    return alike


def _noisy(alike: np.ndarray) -> np.ndarray:
    return alike + NOISE * np.eye(len(alike))
