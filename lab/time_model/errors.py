"""How far modelled times lie from published ones: the file that cdna takes its intervals from (cdna/observe/errors.py).

Lines are made of rows of the part `calibrate` alone; what share of the others lies within is told beside them. Ratios
are those of two kernels of one problem, as `compare` has them: two of three problems make them, the others judge them.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence

from cdna.observe.errors import ANY, FILE, ONE_SHAPE, TWO_BOUNDS, Spread, with_interval
from cdna.results import ModelledTime, ratio_error

from .rows import RowError, problem
from .runner import Result
from .sources import TEMPLATES

LEAST, LEAST_PAIRS = 30, 20  # that a line is made of
EDGES_US = (8.0, 40.0, 200.0)
SHARE = 0.9
TWICE = 2.0  # as long as the fastest: a kernel that nobody would keep
NEAR = 1.5  # times as long: pairs of kernels that somebody would compare
MOST_PAIRS = 20000

Rows = Sequence[Result]


def _log_error(row: Result) -> float:
    return math.log(row["published_us"] / row["modelled_us"])


def _quantile(values: Sequence[float], share: float) -> float:
    """Such that of other rows that share lies below: of n rows the n + 1st may lie anywhere between them."""
    ordered = sorted(values)
    return ordered[min(max(math.ceil((len(ordered) + 1) * share), 1), len(ordered)) - 1]


def _lengths(rows: Rows) -> Iterator[tuple[float, float, Rows]]:
    """Lengths that have LEAST rows each, from the shortest to the longest; none where all of them have fewer."""
    first, last = (of((row["modelled_us"] for row in rows), default=0.0) for of in (min, max))
    edges = [first, *(edge for edge in EDGES_US if first < edge < last), last * (1 + 1e-6)]
    start: float = first
    for number, end in enumerate(edges[1:], start=1):
        mine = [row for row in rows if start <= row["modelled_us"] < end]
        behind = [row for row in rows if row["modelled_us"] >= end]
        if len(mine) >= LEAST and (len(behind) >= LEAST or number == len(edges) - 1):
            yield start, end, mine
            start = end


def pairs(rows: Rows, alike: Callable[[Result, Result], bool]) -> list[tuple[Result, Result]]:
    """Of kernels of about one length on one card; MOST_PAIRS of them, spread over all."""
    ordered = sorted(rows, key=lambda row: (row["card"], row["modelled_us"]))
    found = []
    for at, one in enumerate(ordered):
        for other in ordered[at + 1 :]:
            if other["card"] != one["card"] or other["modelled_us"] > NEAR * one["modelled_us"]:
                break
            if alike(one, other):
                found.append((one, other))
    return found[:: len(found) // MOST_PAIRS + 1]


def _of_one_shape(a: Result, b: Result) -> bool:
    two = (a["code"], a["shape"]) != (b["code"], b["shape"])
    return two and a["family"] == b["family"] and problem(a["shape"]) == problem(b["shape"])


def one_shape(a: Result, b: Result) -> bool:
    return a["bound"] == b["bound"] and _of_one_shape(a, b)


def two_bounds(a: Result, b: Result) -> bool:
    return a["bound"] != b["bound"] and _of_one_shape(a, b)


def _pairs_part(row: Result) -> str:
    """Of a problem's pairs; a row's own part would part them."""
    return (
        "calibrate" if zlib.crc32(f"{row['card']}|{row['family']}|{problem(row['shape'])}".encode()) % 3 else "holdout"
    )


def kept_by_somebody(rows: Rows) -> list[Result]:
    """Without kernels that take more than TWICE the fastest published one of their problem."""
    least: dict[tuple[str, str, str], float] = {}
    keys = [(row["card"], row["family"], problem(row["shape"])) for row in rows]
    for key, row in zip(keys, rows):
        least[key] = min(least.get(key, math.inf), row["published_us"])
    return [row for key, row in zip(keys, rows) if row["published_us"] <= TWICE * least[key]]


def spreads_of(rows: Rows, paired: Rows) -> list[Spread]:
    """The lines of the file: intervals of `rows`, ratios of `paired`."""
    made = []
    for card in [*sorted({row["card"] for row in rows}), ANY]:
        of_card = [row for row in rows if card in (ANY, row["card"])]
        if len(of_card) < LEAST:
            continue
        for bound in [*sorted({row["bound"] for row in of_card}), ANY]:
            for start, end, mine in _lengths([row for row in of_card if bound in (ANY, row["bound"])]):
                low, high = (
                    math.exp(_quantile([_log_error(row) for row in mine], share))
                    for share in ((1 - SHARE) / 2, (1 + SHARE) / 2)
                )
                made.append(Spread(card, bound, start, end, len(mine), low, high))
    first_us, last_us = (of(row["modelled_us"] for row in rows) for of in (min, max))
    for bound, alike in ((ONE_SHAPE, one_shape), (TWO_BOUNDS, two_bounds)):
        off = [abs(_log_error(one) - _log_error(other)) for one, other in pairs(paired, alike)]
        if len(off) < LEAST_PAIRS:
            raise RowError(f"{len(off)} pairs of kernels ({bound}): too few")
        most = math.exp(_quantile(off, SHARE))
        made.append(Spread(ANY, bound, first_us, last_us, len(off), 1 / most, most))
    return made


def _file_text(spreads: Sequence[Spread], rows: int, model: str) -> str:
    lines = [
        "# Written by `python -m lab.time_model errors --write`; errors.py beside this file says what it means.",
        f"# Made of {rows} rows of the part calibrate, modelled by {model}.",
        "# card,bound,from_us,to_us,rows or pairs,low,high",
    ]
    for s in spreads:
        cells = [s.card, s.bound, f"{s.from_us:.5g}", f"{s.to_us:.5g}", str(s.rows)]
        lines.append(",".join([*cells, *(f"{share:.3f}" for share in (s.low, s.high))]))
    return "\n".join(lines) + "\n"


def _interval(spreads: Sequence[Spread], row: Result) -> ModelledTime:
    return with_interval(ModelledTime(row["modelled_us"], row["bound"]), row["card"], tuple(spreads))


def _within(spreads: Sequence[Spread], rows: Rows) -> str:
    times = [(_interval(spreads, row), row["published_us"]) for row in rows]
    inside = sum(time.low_us <= us <= time.high_us for time, us in times)
    return f"{inside} of {len(rows)} within ({inside / len(rows):.0%})"


def _pairs_within(spreads: Sequence[Spread], rows: Rows, alike: Callable[[Result, Result], bool]) -> str:
    """Of pairs: whether the ratio's error is no more than is said of it."""
    found = pairs(rows, alike)
    kept = 0
    for one, other in found:
        said = ratio_error(_interval(spreads, one), _interval(spreads, other)) or math.inf
        kept += abs(_log_error(one) - _log_error(other)) <= math.log1p(said)
    return f"{kept} of {len(found)} pairs ({kept / max(len(found), 1):.0%})"


def tell(results: Rows, write: bool) -> str:
    """How many of the rows held out lie within what the others say; and the file, where it is to be written."""
    whole = kept_by_somebody([row for row in results if "modelled_us" in row and not row.get("unrecorded")])
    fitted, kept = ([row for row in whole if row["part"] == part] for part in ("calibrate", "holdout"))
    as_published = [row for row in whole if row["family"] not in TEMPLATES]  # else compilers differ as well
    paired, pairs_kept = ([row for row in as_published if _pairs_part(row) == p] for p in ("calibrate", "holdout"))
    spreads = spreads_of(fitted, paired)
    told = [f"{SHARE:.0%} intervals of {len(fitted)} rows; of those held out {_within(spreads, kept)}"]
    for name in ("card", "family", "bound"):
        for value in sorted({row[name] for row in kept}):
            mine = [row for row in kept if row[name] == value]
            told.append(f"  {name} {value}: {_within(spreads, mine)}")
    for words, alike in ((ONE_SHAPE, one_shape), (TWO_BOUNDS, two_bounds)):
        told.append(f"ratios of two kernels, {words}: {_pairs_within(spreads, pairs_kept, alike)}")
    if write:
        versions = sorted({row["model"] for row in fitted})
        FILE.write_text(_file_text(spreads, len(fitted), ", ".join(versions)), encoding="utf-8")
        told.append(f"written: {FILE}")
    return "\n".join(told)
