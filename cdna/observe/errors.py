"""How far a modelled time may be off: what the lab's validation found, by card, bound and length.

errors.csv is written by `python -m lab.time_model errors` from published times; nobody edits it. A line holds for
times from `from_us` to `to_us` with one bound, or with any: nine of ten published times lie between `low` and `high`
times the modelled one. Two lines are of ratios of two kernels, whose errors are alike and so cancel in part: of two
on one shape with one bound, and of two with different bounds.
"""

import csv
import functools
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from ..results import ModelledTime

FILE = Path(__file__).with_name("errors.csv")
ANY, ONE_SHAPE, TWO_BOUNDS = "any", "one shape", "two bounds"


@dataclass(frozen=True)
class Spread:
    """A line of the file."""

    card: str
    bound: str
    from_us: float
    to_us: float
    rows: int
    low: float
    high: float


@functools.cache
def of_file() -> tuple[Spread, ...]:
    with FILE.open(newline="", encoding="utf-8") as lines:
        rows = csv.reader(line for line in lines if line[0] != "#")
        return tuple(
            Spread(card, bound, float(from_us), float(to_us), int(n), float(low), float(high))
            for card, bound, from_us, to_us, n, low, high in rows
        )


def with_interval(time: ModelledTime, card: str, spreads: tuple[Spread, ...] | None = None) -> ModelledTime:
    """The time with its interval, and with what speaks against that: `unsure`. spreads: of the file, unless given."""
    spreads = of_file() if spreads is None else spreads
    pair = tuple(next(s.high - 1 for s in spreads if s.bound == bound) for bound in (ONE_SHAPE, TWO_BOUNDS))
    spreads = tuple(s for s in spreads if s.bound not in (ONE_SHAPE, TWO_BOUNDS))
    of = card if any(s.card == card for s in spreads) else ANY
    mine = [s for s in spreads if s.card == of]
    first_us, last_us = min(s.from_us for s in mine), max(s.to_us for s in mine)
    within_us = min(max(time.us, first_us), last_us * (1 - 1e-9))
    at = {s.bound: s for s in mine if s.from_us <= within_us < s.to_us}
    own = at.get(time.bound, at[ANY])
    doubts = {
        f"no published time of an {card}: other cards' interval": of == ANY,
        f"too few published times are bound by {time.bound}": all(s.bound != time.bound for s in spreads),
        f"no published time is shorter than {first_us:.3g} us": time.us < first_us,
        f"no published time is longer than {last_us:.5g} us": time.us >= last_us,
    }
    high_us = 0.0 if time.unrecorded else time.us * own.high  # it is too short by nobody knows how much
    unsure = "; ".join(text for text, holds in doubts.items() if holds)
    return replace(time, low_us=time.us * own.low, high_us=high_us, unsure=unsure, pair=pair)
