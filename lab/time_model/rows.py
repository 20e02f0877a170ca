"""The rows that the model is held against: published times, each with its code, shape and card. Data in sets/."""

from __future__ import annotations

import csv
import hashlib
import math
import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SETS = Path(__file__).parent / "sets"
HOLDOUT_SHARE = 3  # one row in so many is kept aside
OF_A_KERNEL = frozenset(
    "split block_m groups_per_cu block_n block_k warp_m warp_n warp_k pipeline fused block tile threads vector".split()
)  # names in a shape that are no part of the problem


class RowError(ValueError):
    """A set or a row that cannot be used; says which and why."""


@dataclass(frozen=True)
class Row:
    """One published time. `shape`: name -> value, as the family's launch recipe wants it."""

    set: str
    card: str
    family: str
    code: str  # path in the set's repository
    blob: str  # git's hash of that file
    shape: dict[str, str]
    us: float
    source: str  # commit that published it

    @property
    def key(self) -> str:
        """What names the row in files of results; independent of its place in the file."""
        text = "|".join([self.set, self.card, self.blob, self.shape_text, f"{self.us:g}", self.source])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def part(self) -> str:
        """`calibrate` or `holdout`. Constants are fitted to rows of the first alone. Rows of the same code and shape
        are in the same part, whatever was published of them."""
        text = "|".join([self.card, self.blob, self.shape_text])
        drawn = int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)
        return "calibrate" if drawn % HOLDOUT_SHARE else "holdout"

    @property
    def shape_text(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.shape.items())

    def number(self, name: str) -> int:
        """A number of the shape; RowError names the row that lacks it."""
        try:
            return int(self.shape[name])
        except (KeyError, ValueError):
            raise RowError(f"{self.code}: shape {self.shape_text!r} has no number {name!r}") from None


def sets() -> dict[str, dict[str, Any]]:
    """Name of a set -> what is known of all its rows."""
    return tomllib.loads((SETS / "sets.toml").read_text(encoding="utf-8"))


def read(name: str) -> list[Row]:
    """The rows of a set; RowError names the file and line that cannot be read."""
    file = SETS / f"{name}.csv"
    rows = []
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            for number, line in enumerate(csv.DictReader(lines), start=2):
                try:
                    shape = dict(pair.split("=", 1) for pair in line["shape"].split())
                    card, family, code = line["card"], line["family"], line["code"]
                    rows.append(Row(name, card, family, code, line["blob"], shape, float(line["us"]), line["source"]))
                except (KeyError, ValueError, AttributeError) as error:
                    raise RowError(f"{file.name}, line {number}: {error}") from None
    except FileNotFoundError:
        raise RowError(f"no set {name!r}: there are {', '.join(sets())}") from None
    return rows


def problem(shape_text: str) -> str:
    """A shape without what a kernel makes of it: kernels of one problem can be chosen between."""
    return " ".join(pair for pair in shape_text.split() if pair.partition("=")[0] not in OF_A_KERNEL)


def of_problems(rows: Sequence[Row], n: int, seed: int, most_us: float = math.inf, kernels: int = 0) -> list[Row]:
    """The rows of n problems, drawn at random of those whose slowest published kernel takes most_us at most. kernels:
    so many of each, the same ones of all problems; a draw, too."""

    def lot(row: Row) -> str:
        own = set(row.shape_text.split()) - set(problem(row.shape_text).split())
        return hashlib.sha256(f"{seed}|{row.code}|{sorted(own)}".encode()).hexdigest()

    by: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in rows:
        by.setdefault((row.set, row.card, row.family, problem(row.shape_text)), []).append(row)
    fit = [mine for mine in by.values() if max(row.us for row in mine) <= most_us]
    drawn = random.Random(seed).sample(fit, min(n, len(fit))) if n else fit
    if not kernels:
        return [row for mine in drawn for row in mine]
    return sorted((row for mine in drawn for row in sorted(mine, key=lot)[:kernels]), key=lot)  # each compiled once


def choose(rows: Sequence[Row], families: Sequence[str] = (), part: str = "", n: int = 0, seed: int = 0) -> list[Row]:
    """Rows of some families and one part; n of them drawn at random, or all in their order."""
    known = sorted({row.family for row in rows})
    if unknown := set(families) - set(known):
        raise RowError(f"no family {min(unknown)!r}: there are {', '.join(known)}")
    chosen = [row for row in rows if (not families or row.family in families) and part in ("", row.part)]
    return random.Random(seed).sample(chosen, n) if 0 < n < len(chosen) else chosen
