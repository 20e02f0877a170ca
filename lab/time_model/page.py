"""What a file of results says: statistics for each family and card, scatter plots, and the page that shows them."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .ranks import spearman
from .rows import sets
from .runner import Result

WITHIN = 0.25
WORST = 10


@dataclass(frozen=True)
class Statistics:
    """Of the rows of one family on one card. `ratios`: modelled over published."""

    card: str
    family: str
    results: list[Result]
    failed: int

    @property
    def ratios(self) -> list[float]:
        return [result["modelled_us"] / result["published_us"] for result in self.results]

    @property
    def median_ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def error(self) -> float:
        """Mean absolute percentage error, as a fraction."""
        return statistics.fmean(abs(ratio - 1) for ratio in self.ratios)

    @property
    def within(self) -> float:
        """Share of the rows within 25 %."""
        return sum(abs(ratio - 1) <= WITHIN for ratio in self.ratios) / len(self.ratios)

    @property
    def rank_correlation(self) -> float:
        """Spearman's; NaN for too few rows."""
        return spearman(
            [result["published_us"] for result in self.results], [result["modelled_us"] for result in self.results]
        )

    def cells(self) -> list[str]:
        bounds = Counter(result["bound"] for result in self.results).most_common(2)
        return [
            self.card,
            self.family,
            f"{len(self.results)}" + (f" (+ {self.failed} failed)" if self.failed else ""),
            f"{self.median_ratio:.2f}",
            f"{100 * self.error:.0f} %",
            f"{100 * self.within:.0f} %",
            f"{self.rank_correlation:.3f}",
            ", ".join(f"{name} {count}" for name, count in bounds),
        ]

    def line(self) -> str:
        card, family, rows, ratio, error, within, rank, bounds = self.cells()
        return (
            f"{card:7} {family:20} {rows:>5} rows  median ratio {ratio}  error {error:>5}  within 25 % {within:>5}  "
            f"Spearman {rank}  {bounds}"
        )


def statistics_of(results: Sequence[Result]) -> list[Statistics]:
    """One for each card and family, and one over all."""
    groups = sorted({(result["card"], result["family"]) for result in results})
    made = [
        Statistics(card, family, [r for r in mine if "error" not in r], sum("error" in r for r in mine))
        for card, family in groups
        if (mine := [r for r in results if (r["card"], r["family"]) == (card, family)])
    ]
    whole = [r for r in results if "error" not in r]
    made.append(Statistics("all", "", whole, len(results) - len(whole)))
    return [one for one in made if one.results]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [heads, ["---"] * len(heads), *rows])


SPAN_WITHIN, RANKS = 0.15, 0.8  # what a trace is held to
_TRACE_HEADS = [
    "kernel",
    "traced span us",
    "modelled / traced",
    "MHz traced",
    "modelled",
    "stalls of a wave, cycles traced",
]
_TRACE_HEADS += ["modelled", "hot instructions", "rank correlation of their stalls", "hot lines", "of theirs"]


def trace_rows(results: Sequence[Result]) -> list[list[str]]:
    """Of each trace: its span and its instructions' stalls beside the modelled ones."""
    return [
        [r["code"], f"{r['span_us']:.4g}", f"{r['span_ratio']:.2f}", f"{r['traced_mhz']:.0f}", f"{r['mhz']:.0f}"]
        + [f"{cycles}" for cycles in r["stall_cycles"]]
        + [f"{r['hot']}", f"{r['stall_ranks']:.2f}", f"{r['hot_lines']}", f"{r['line_ranks']:.2f}"]
        for r in results
        if "span_ratio" in r
    ]


def trace_line(results: Sequence[Result]) -> str:
    """All traces in one line; "" without any."""
    traces = [r for r in results if "span_ratio" in r]
    if not traces:
        return ""
    within = sum(abs(r["span_ratio"] - 1) <= SPAN_WITHIN for r in traces)
    ranked = sum(r["stall_ranks"] >= RANKS for r in traces)
    lines = [r["line_ranks"] for r in traces if not math.isnan(r["line_ranks"])]
    told = [
        f"{len(traces)} traces: spans modelled / traced {statistics.median(r['span_ratio'] for r in traces):.2f} at "
        f"the median, {within} within {100 * SPAN_WITHIN:.0f} %",
        "rank correlation of stalls "
        f"{statistics.median(r['stall_ranks'] for r in traces):.2f} at the median, {ranked} of {RANKS} or more",
    ]
    if lines:
        told.append(f"by lines of the source {statistics.median(lines):.2f}, {sum(one >= RANKS for one in lines)}")
    return "; ".join(told)


def _plot(one: Statistics, file: Path) -> None:
    """Modelled over published time, both axes logarithmic, with lines at equality and at 25 % off."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(4.2, 4.2), layout="constrained")
    for part, colour in (("calibrate", "tab:blue"), ("holdout", "tab:orange")):
        mine = [result for result in one.results if result["part"] == part]
        axes.scatter([r["published_us"] for r in mine], [r["modelled_us"] for r in mine], s=6, c=colour, label=part)
    ends = [min(r["published_us"] for r in one.results) / 2, max(r["published_us"] for r in one.results) * 2]
    for factor, style in ((1.0, "-"), (1 + WITHIN, ":"), (1 - WITHIN, ":")):
        axes.plot(ends, [factor * end for end in ends], style, c="grey", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="published us", ylabel="modelled us", title=f"{one.card} {one.family}")
    axes.legend(fontsize="small")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=70, metadata={"Software": None})
    pyplot.close(figure)


def write_page(results: Sequence[Result], page: Path) -> None:
    """Writes the page and, in a folder of its name beside it, the plots."""
    heads = ["card", "family", "rows", "median ratio", "mean abs. error", "within 25 %", "Spearman", "bounds"]
    every = statistics_of(results)
    lines = [
        "# Modelled beside published times",
        "Written by `python -m lab.time_model page`. *Modelled*, not measured: the ratio is modelled over "
        "published time. How rows are run, and what is left out: [validation](validation.md).",
    ]
    for name, about in sets().items():
        if any(result["set"] == name for result in results):
            lines.append(f"**{name}**: {about['repository']}; {about['code']}. Clock: {about['clock']}.")
    versions = sorted({result["model"] for result in results})
    lines += [f"Version of the model: {', '.join(versions)}.", _table(heads, [one.cells() for one in every])]
    for part in ("calibrate", "holdout"):
        mine = [result for result in results if result["part"] == part]
        if mine:
            lines += [f"Rows of the part *{part}* alone:", _table(heads, [one.cells() for one in statistics_of(mine)])]
    for one in every:
        if not one.family:
            continue
        plot = Path(page.stem) / f"{one.card}_{one.family}.png"
        _plot(one, page.parent / plot)
        worst = sorted(one.results, key=lambda r: -abs(math.log(r["modelled_us"] / r["published_us"])))[:WORST]
        rows = [
            [r["code"], r["shape"], f"{r['published_us']:.4g}", f"{r['modelled_us']:.4g}"]
            + [f"{r['modelled_us'] / r['published_us']:.2f}", r["bound"]]
            for r in worst
        ]
        lines += [f"## {one.family} on {one.card}", f"![modelled over published]({plot.as_posix()})"]
        lines += ["The rows furthest off:"]
        lines += [_table(["code", "shape", "published us", "modelled us", "ratio", "bound"], rows)]
    if told := trace_line(results):
        lines += ["## Thread traces", told + ".", _table(_TRACE_HEADS, trace_rows(results))]
    failed = Counter((r["family"], r["error"]) for r in results if "error" in r)
    if failed:
        lines += [
            "## Not modelled",
            _table(["family", "rows", "why"], [[f, str(n), e] for (f, e), n in failed.items()]),
        ]
    page.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
