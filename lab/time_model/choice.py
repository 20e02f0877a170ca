"""Whether the model chooses right: of each problem with several published kernels, the measured time of the one that it
takes for the fastest over the time of the fastest. Beside it AMD's analytical model, and a choice by lot.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .origami import COVERED, cycles, question
from .rows import Row, RowError, problem
from .runner import Result

TABLE = Path(__file__).resolve().parents[1] / "results" / "time_model_choice.json"
COLUMNS = [
    "set", "card, family", "problems", "kernels of each", "slowest / fastest", "by lot", "model: right", "median",
    "nine in ten", "worst", "origami: right", "median", "nine in ten", "worst",
]  # fmt: skip
RIGHT = 1.01  # a tie by what one kernel's published times differ


@dataclass(frozen=True)
class Problem:
    """Kernels of one shape; `origami` is empty where that model covers none of them."""

    set: str
    card: str
    family: str
    kernels: tuple[Result, ...]
    origami: tuple[float, ...] = ()

    @property
    def best_us(self) -> float:
        return min(kernel["published_us"] for kernel in self.kernels)

    def chosen(self, costs: Sequence[float]) -> float:
        """Published time of the cheapest, over the best; of equal ones their mean."""
        least = min(costs)
        taken = [kernel["published_us"] for kernel, cost in zip(self.kernels, costs) if cost == least]
        return statistics.fmean(taken) / self.best_us

    @property
    def by_model(self) -> float:
        return self.chosen([kernel["modelled_us"] for kernel in self.kernels])

    @property
    def by_origami(self) -> float:
        return self.chosen(self.origami) if self.origami else math.nan

    @property
    def by_lot(self) -> float:
        return self.chosen([0.0] * len(self.kernels))


def _as_row(result: Result) -> Row:
    shape = dict(pair.split("=", 1) for pair in result["shape"].split())
    return Row(result["set"], result["card"], result["family"], result["code"], "", shape, result["published_us"], "")


def problems_of(results: Sequence[Result], package: Path | None) -> list[Problem]:
    """Those with two kernels or more. package: an unpacked rocm-origami."""
    by: dict[tuple[str, str, str, str], list[Result]] = {}
    for result in results:
        if "modelled_us" in result and not result.get("unrecorded"):
            key = result["set"], result["card"], result["family"], problem(result["shape"])
            by.setdefault(key, []).append(result)
    found = [Problem(*key[:3], tuple(mine)) for key, mine in by.items() if len(mine) > 1]
    if package is None:
        return found
    covered = [one for one in found if one.family in COVERED]
    asked = [question(_as_row(k), k["counters"]["groups_per_cu"]) for one in covered for k in one.kernels]
    said = iter(cycles(package, asked))
    told = {id(one): tuple(next(said) for _ in one.kernels) for one in covered}
    return [Problem(one.set, one.card, one.family, one.kernels, told.get(id(one), ())) for one in found]


def _cells(ratios: Sequence[float]) -> list[str]:
    """How often it is right, the median, what nine of ten lie below, the worst."""
    known = sorted(ratio for ratio in ratios if not math.isnan(ratio))
    if not known:
        return ["-"] * 4
    right = sum(ratio <= RIGHT for ratio in known) / len(known)
    nine = known[math.ceil(0.9 * len(known)) - 1]
    return [f"{100 * right:.0f} %", *(f"{ratio:.3f}" for ratio in (statistics.median(known), nine, known[-1]))]


def table(problems: Sequence[Problem]) -> list[list[str]]:
    """A row for each set, card and family, and one over all."""
    kinds = sorted({(p.set, p.card, p.family) for p in problems})
    parts = [
        ([name, f"{card} {family}"], [p for p in problems if (p.set, p.card, p.family) == (name, card, family)])
        for name, card, family in kinds
    ]
    parts += [(["all", ""], list(problems)), (["all", "that origami covers"], [p for p in problems if p.origami])]
    rows = []
    for heads, mine in parts:
        if not mine:
            continue
        sizes = sorted(len(one.kernels) for one in mine)
        spread = statistics.median(max(k["published_us"] for k in one.kernels) / one.best_us for one in mine)
        lot = statistics.median(one.by_lot for one in mine)
        size = f"{sizes[0]}" if sizes[0] == sizes[-1] else f"{sizes[0]} to {sizes[-1]}"
        rows.append([*heads, f"{len(mine)}", size, f"{spread:.2f}", f"{lot:.3f}"])
        rows[-1] += _cells([one.by_model for one in mine]) + _cells([one.by_origami for one in mine])
    return rows


def worst(problems: Sequence[Problem], n: int = 5) -> list[str]:
    """The model's dearest choices, in words."""
    told = []
    for one in sorted(problems, key=lambda p: -p.by_model)[:n]:
        taken = min(one.kernels, key=lambda kernel: kernel["modelled_us"])
        best = min(one.kernels, key=lambda kernel: kernel["published_us"])
        told.append(
            f"{one.card} {one.family} {problem(taken['shape'])}: {_name(taken)} {taken['published_us']:.4g} us "
            f"published ({taken['modelled_us']:.4g} modelled), best {_name(best)} {best['published_us']:.4g} "
            f"({best['modelled_us']:.4g} modelled)"
        )
    return told


def _name(kernel: Result) -> str:
    """What tells a kernel from others of its problem."""
    mine = set(kernel["shape"].split()) - set(problem(kernel["shape"]).split())
    return " ".join([kernel["code"].removesuffix(".co"), *sorted(mine)])


def tell(results: Sequence[Result], package: Path | None, write: bool) -> str:
    """The table, and the results' file of it, where it is to be written."""
    found = problems_of(results, package)
    if not found:
        raise RowError("no problem has two kernels among these results")
    rows = table(found)
    lines = [" | ".join(row) for row in [COLUMNS, *rows]] + worst(found)
    if write:
        models = sorted({kernel["model"] for one in found for kernel in one.kernels})
        document = {
            "title": "The model's choice between published kernels",
            "kind": "modelled",
            "machine": "emulated cards as named; nothing ran on one",
            "versions": {"model": ", ".join(models), "origami": package.name if package else "not asked"},
            "command": "python -m lab.time_model choice --origami FOLDER --write",
            "notes": [*NOTES, "Dearest choices: " + "; ".join(worst(found)) + "."],
            "columns": COLUMNS,
            "rows": rows,
        }  # fmt: skip
        TABLE.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        lines.append(f"written: {TABLE}")
    return "\n".join(lines)


NOTES = [
    "Of each problem: the published time of the kernel that a model takes for the fastest, over that of the fastest; "
    f"right is up to {RIGHT:g}. By lot: the mean of all. The set candidates has the kernels that AITER's tuned tables "
    "had for one shape at different commits, so machines and ROCm versions between them differ: one kernel's time "
    "itself differs between commits by 0.3 to 2.6 % at the median, and by 4 to 24 % in one case of ten.",
    "Origami is asked for the tile, split and workgroups a CU that the kernel has; for AITER's the matrix instruction "
    "is the one it recommends. It was made for hipBLASLt's kernels, not for these, and is told nothing of their loops.",
]
