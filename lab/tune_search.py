#!/usr/bin/env python3
"""Searches of a tuner in spaces that were tried whole: how near they come to the best in so few trials.

    python lab/tune_search.py --snektron CHECKOUT --logs LOG... [--starts N] [--write]
    python lab/tune_search.py --whole swiglu-fp8 --variant triton --device gfx942 --cases 0 --part 0/4 --trials-log LOG

A search is told the time of the row that it asks for, and nothing is run. Snektron's file has a measured time of each
of 396 instances of one template (380 that differ), for each of 18 shapes; a row that is none of them is said to fail,
and is not counted. --whole tries all rows of a variant's space, or each Nth of them, with forge tune's words and into
its log: `--logs` reads these. `together` is forge/tune/search.py's; `by columns` moves one column at a time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from forge.generate.tuning import Table  # noqa: E402 - from this checkout
from forge.tune import command, search  # noqa: E402
from forge.tune.search import Row, Search, beats  # noqa: E402
from forge.tune.trials_log import lines_of  # noqa: E402
from lab.time_model.rows import problem  # noqa: E402
from lab.time_model.runner import rows_of  # noqa: E402

TABLE = ROOT / "lab" / "results" / "tune_search.json"
COLUMNS = ("block_m", "block_n", "block_k", "warp_m", "pipeline", "fused", "block")
SHARE, NEAR = 0.08, 1.02  # of the trials that all take; of the best time
HEADER = "of|spaces|search|searches|within 2 %|found / best, median|nine in ten|worst|tried, median"
LEAST = 8  # trials, however small the space

Key = tuple[Any, ...]
Ask = Callable[[Row], float | None]


@dataclass(frozen=True)
class Whole:
    """A space of which each row was tried: its times, None of a row that failed."""

    name: str
    columns: Sequence[str]
    times: dict[Key, float | None]

    @property
    def choices(self) -> dict[str, list[Any]]:
        return {name: sorted({key[at] for key in self.times}) for at, name in enumerate(self.columns)}


class Enough(Exception):
    """All trials are used up."""


def by_columns(start: Row, space: dict[str, list[Any]], ask: Ask) -> None:
    """Each column of the best row in turn, its values outwards, until a round over all finds nothing better."""
    best, best_us = start, ask(start)
    while True:
        before = best
        for column, choices in space.items():
            here, base = choices.index(best[column]), best
            for at in sorted(range(len(choices)), key=lambda at: (abs(at - here), at)):
                row = {**base, column: choices[at]}
                us = ask(row)
                if us is not None and beats(us, best_us):
                    best, best_us = row, us
        if best == before:
            return


def together(start: Row, space: dict[str, list[Any]], ask: Ask) -> None:
    tuner = Search(space, start)
    while rows := tuner.ask():
        tuner.tell(rows[0], ask(rows[0]))


SEARCHES = {"by columns": by_columns, "together": together}


def searched(whole: Whole, how: Callable[..., None], seed: int) -> tuple[float, float]:
    """(best found over best of all, share of all that was tried), from a row drawn of those that work."""
    times = whole.times
    works = {key: us for key, us in times.items() if us is not None}
    start = random.Random(seed).choice(sorted(works))
    known: set[Key] = set()

    def ask(row: Row) -> float | None:
        key = tuple(row[name] for name in whole.columns)
        if key in times and key not in known:
            if len(known) >= max(LEAST, int(SHARE * len(times))):
                raise Enough
            known.add(key)
        return times.get(key)

    try:
        how(dict(zip(whole.columns, start)), whole.choices, ask)
    except Enough:
        pass
    return min(works.get(key, math.inf) for key in known) / min(works.values()), len(known) / len(times)


def of_snektron(checkout: Path) -> Iterator[Whole]:
    """A shape each: instance -> the shorter of its times."""
    found: dict[str, dict[Key, float | None]] = {}
    for row in rows_of({"snektron": checkout}):
        of = found.setdefault(problem(row.shape_text), {})
        key = tuple(row.number(name) for name in COLUMNS)
        of[key] = min(row.us, of.get(key) or math.inf)
    for name, times in found.items():
        yield Whole(name, COLUMNS, times)


def of_logs(paths: Sequence[Path]) -> Iterator[Whole]:
    """A case each, of all logs together, by the modelled time."""
    found: dict[tuple[str, str, str], dict[Key, float | None]] = {}
    columns: dict[tuple[str, str, str], tuple[str, ...]] = {}
    for path in paths:
        for line in lines_of(path):
            if line.trial is None or line.trial.row is None:
                continue
            case = (line.setting.problem, line.setting.variant, line.trial.case)
            columns.setdefault(case, tuple(line.trial.row))
            found.setdefault(case, {})[tuple(line.trial.row.values())] = line.trial.us("modelled")
    for case, times in found.items():
        yield Whole(" ".join(case), columns[case], times)


def try_whole(words: list[str], part: str) -> int:
    """All rows of the table's space, or each Nth from the Ith (I/N), and nothing that the search would ask for."""
    first, _, step = part.partition("/")

    def rows(path: Path, table: Table) -> list[Row]:
        every = itertools.product(*table.space.values())
        return [{**table.default, **dict(zip(table.space, row))} for row in every][int(first) :: int(step)]

    search.DRAWN, search.PATIENCE, search.WHOLE = 0, 0, 0
    command.rows_of = rows
    return command.main([*words, "--rows-from", "-"])


def row_of(of: str, name: str, spaces: Sequence[Whole], starts: int) -> list[str]:
    done = [searched(whole, SEARCHES[name], seed) for whole in spaces for seed in range(starts)]
    over = sorted(ratio for ratio, _ in done)
    near = sum(ratio <= NEAR for ratio in over) / len(over)
    nine, tried = over[math.ceil(0.9 * len(over)) - 1], statistics.median(share for _, share in done)
    sizes = [len(whole.times) for whole in spaces]
    figures = f"{len(done)}|{100 * near:.0f} %|{statistics.median(over):.3f}|{nine:.3f}|{over[-1]:.3f}"
    return [
        of,
        f"{len(spaces)} of {min(sizes)} to {max(sizes)} rows",
        name,
        *figures.split("|"),
        f"{100 * tried:.1f} %",
    ]


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--snektron", type=Path, metavar="CHECKOUT", help="047abe1 of Snektron/gpumode-amd-fp8-mm")
    parser.add_argument("--logs", type=Path, nargs="*", default=[], metavar="LOG", help="of --whole")
    parser.add_argument("--starts", type=int, default=3, metavar="N", help="rows to begin at (default: 3)")
    parser.add_argument("--whole", metavar="PROBLEM", help="try a variant's space whole; then forge tune's options")
    parser.add_argument("--part", default="0/1", metavar="I/N", help="with --whole: each Nth row")
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.relative_to(ROOT)}")
    options, words = parser.parse_known_args(argv)
    if options.whole:
        return try_whole([options.whole, *words], options.part)
    sets = {"measured by Snektron, MI300X": list(of_snektron(options.snektron)) if options.snektron else []}
    sets["modelled, this repository's variants"] = list(of_logs(options.logs))
    rows = []
    for (of, spaces), name in itertools.product(sets.items(), SEARCHES):
        if spaces:
            rows.append(row_of(of, name, spaces, options.starts))
            print(" | ".join(rows[-1]), flush=True)
    if options.write:
        document = {
            "title": "Searches of a space that was tried whole",
            "kind": "modelled",
            "machine": "an MI300X, by Snektron: his published times; an emulated card for the others",
            "versions": {"times": "Snektron/gpumode-amd-fp8-mm 047abe1"},
            "command": f"python lab/tune_search.py --snektron CHECKOUT --logs LOG... --starts {options.starts} --write",
            "notes": [
                f"At most {100 * SHARE:.0f} % of the rows are asked for, or {LEAST}, from rows drawn by lot. Together "
                "is what the tuner does; its constants were chosen on Snektron's spaces, so the others are the test.",
                *[f"{whole.name}: {len(whole.times)} rows" for whole in sets["modelled, this repository's variants"]],
            ],
            "columns": HEADER.split("|"),
            "rows": rows,
        }
        TABLE.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
