"""A run as one HTML page: no script, no file beside it, nothing from the network. Plots are SVG in the page."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
import msgspec

from forge.console import number
from forge.device.cards import peaks_of
from forge.device.report import KernelWork
from forge.files import write_whole
from forge.history.compare import counters_of, findings_of
from forge.history.document import Document
from forge.history.store import Entry
from forge.judge.results import CaseResult
from forge.task.cases import case_text
from forge.task.score import Peaks, Work

KINDS = {"measured": "#1f77b4", "modelled": "#ff7f0e", "leaderboard": "#2ca02c"}
GREY = "#888888"
MOST_OF_A_LABEL = 44  # characters of a case


class PageError(Exception):
    """The page cannot be made. One line."""


@dataclass(frozen=True)
class Row:
    """A case in the page's table."""

    index: int
    case: str
    status: str
    said: list[str]  # what is wrong, why a pass is to be doubted
    us: float | None
    error: str
    bound: str
    light_us: float | None
    rel_l2: float | None
    points: tuple[float, float] | None  # FLOP a byte, TFLOP/s

    @property
    def fraction(self) -> float | None:
        return self.light_us / self.us if self.light_us and self.us else None


def page_of(
    document: Document,
    matrix: str,
    history: Sequence[Entry] = (),
    submission: bytes | None = None,
    sections: Sequence[tuple[str, str]] = (),
) -> str:
    """matrix: what the problem's floors count, fp8 | f16 | fp4 | none; history: of the same problem and cases, oldest
    first; sections: (case, HTML) of each kernel's profile."""
    rows = [_row(document, case) for case in document.cases]
    kind = document.kind
    peaks = peaks_of(document.device.arch)
    plots = {
        "speed of light": _light_plot(rows),
        "roofline": _roofline(rows, peaks, matrix, kind),
        "what the model sums up": _parts_plot(document),
        "history": _history_plot(history),
    }
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["us"] = lambda value: number(value, 5)
    return environment.get_template("page.html.jinja").render(
        document=document,
        colours={"pass": "pass", "pass, but": "but", "sampled": "but", "unjudged": "but"},
        rows=rows,
        kind=kind,
        sections=sections,
        plots={name: svg for name, svg in plots.items() if svg},
        kernels=[(row.case, _kernels(case)) for row, case in zip(rows, document.cases) if _kernels(case)],
        made_with=msgspec.to_builtins(document.fingerprint),
        lines=[(case, kernel, line) for case, kernel, work in _works(document) for line in work.lines],
        advice=[(case, kernel, one) for case, kernel, work in _works(document) for one in work.advice],
        findings=findings_of(document),
        history=list(reversed(history)),
        submission=None if submission is None else submission.decode("utf-8", "replace"),
    )


def _row(document: Document, case: CaseResult) -> Row:
    us, floor, stats = document.us_of(case), case.floor or Work(), case.stats
    error = f"± {number(stats.err_us, 2)}" if us and stats and not document.device.emulated else ""
    model = document.modelled(case)
    if us and model and document.device.emulated:
        error = f"({model.interval})" * bool(model.interval)
    points = None
    if us and floor.flops and floor.hbm_bytes:
        points = (floor.flops / floor.hbm_bytes, floor.flops / us * 1e-6)
    return Row(
        case.index,
        case_text(case.spec),
        case.status.value,
        _said(case),
        us,
        error,
        model.bound if document.device.emulated and model else floor.bound,
        floor.light_us,
        case.accuracy.rel_l2 if case.accuracy else None,
        points,
    )


def _said(case: CaseResult) -> list[str]:
    pattern = case.accuracy.pattern if case.accuracy else ""
    lines = [case.message, f"pattern: {pattern}" if pattern else ""]
    return [*filter(None, lines), *(f"but {text}" for text in case.buts), *case.remarks]


def _kernels(case: CaseResult) -> dict[str, dict[str, str]]:
    """kernel -> counter -> value, as text."""
    found: dict[str, dict[str, str]] = {}
    for (kernel, counter), value in counters_of(case).items():
        text = f"{value:,}" if isinstance(value, int | float) else " x ".join(map(str, value))
        found.setdefault(kernel, {})[counter] = text
    return found


def _works(document: Document) -> Iterator[tuple[str, str, KernelWork]]:
    """(case, kernel, its counters); of the first rank, where there are several."""
    for case in document.cases:
        for kernel, known in case.device_report.by_rank[0].kernels.items():
            if known.work:
                yield case_text(case.spec), kernel, known.work


# ---------------------------------------------------------------- plots


def _axes(height: float, width: float = 7.5) -> Any:
    """A figure's axes."""
    try:
        import matplotlib
    except ImportError:
        raise PageError("report: needs matplotlib: pip install matplotlib") from None
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "cdna-forge", "svg.fonttype": "none", "font.size": 9})
    from matplotlib.figure import Figure

    axes = Figure(figsize=(width, height), layout="constrained").add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _svg(axes: Any) -> str:
    out = io.StringIO()
    axes.figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    text = out.getvalue()
    return text[text.index("<svg") :]


def _label(index: int, case: str) -> str:
    """Beside a plot, which a long case would push aside."""
    return f"{index}: {case if len(case) <= MOST_OF_A_LABEL else case[: MOST_OF_A_LABEL - 1] + '…'}"


def _light_plot(rows: Sequence[Row]) -> str:
    known = [(_label(row.index, row.case), row.fraction) for row in rows if row.fraction]
    if not known:
        return ""
    axes = _axes(0.9 + 0.28 * len(known))
    labels, fractions = zip(*reversed(known))
    bars = axes.barh(range(len(labels)), [100 * value for value in fractions], color=KINDS["measured"])
    axes.bar_label(bars, [f"{value:.1%}" for value in fractions], padding=3)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_xlim(0, max(100, 115 * max(fractions)))
    axes.set_xlabel("% of the speed of light")
    return _svg(axes)


def _roofline(rows: Sequence[Row], peaks: Peaks | None, matrix: str, kind: str) -> str:
    points = [(row.index, *row.points) for row in rows if row.points]
    if not points or peaks is None or not peaks.tflops.get(matrix):
        return ""
    top, slope = peaks.tflops[matrix], peaks.hbm_gb_s / 1e3
    axes = _axes(3.6)
    low, high = min(p[1] for p in points), max(p[1] for p in points)
    ends = (min(low, top / slope) / 4, max(high, top / slope) * 4)
    axes.loglog([ends[0], top / slope, ends[1]], [ends[0] * slope, top, top], color=GREY)
    axes.annotate(f"{matrix} {top:g} TFLOP/s", (ends[1], top), ha="right", va="bottom", color=GREY)
    axes.annotate(f"HBM {peaks.hbm_gb_s:g} GB/s", (ends[0], ends[0] * slope), va="bottom", color=GREY)
    axes.scatter([p[1] for p in points], [p[2] for p in points], color=KINDS.get(kind, GREY))
    for index, x, y in points:
        axes.annotate(str(index), (x, y), textcoords="offset points", xytext=(4, 4))
    axes.set_xlabel("FLOP a byte of HBM (the least that the case needs)")
    axes.set_ylabel(f"TFLOP/s, {kind}")
    return _svg(axes)


def _parts_plot(document: Document) -> str:
    """What each unit would take alone; the longest is the bound."""
    models = [(_label(case.index, case_text(case.spec)), document.modelled(case)) for case in document.cases]
    known = [(name, model.parts_us) for name, model in models if model and model.parts_us]
    if not known:
        return ""
    parts = list(dict.fromkeys(part for _, by_part in known for part, us in by_part.items() if us))
    axes = _axes(1.4 + 0.3 * len(known), 9.5)
    shares = [[by_part.get(part, 0.0) / max(by_part.values()) for part in parts] for _, by_part in known]
    axes.imshow(shares, aspect="auto", cmap="Oranges", vmin=0, vmax=1)
    axes.set_xticks(range(len(parts)), parts, rotation=30, ha="right")
    axes.set_yticks(range(len(known)), [name for name, _ in known])
    for y, (_, by_part) in enumerate(known):
        for x, part in enumerate(parts):
            if by_part.get(part):
                axes.text(x, y, number(by_part[part], 3), ha="center", va="center", fontsize=8)
    axes.set_title("us of each part; colour: its share of the longest", fontsize=9)
    return _svg(axes)


def _history_plot(history: Sequence[Entry]) -> str:
    """Scores by time; one line a device and kind of time, since only those can be compared."""
    scored = [entry for entry in history if entry.score_us]
    if len(scored) < 2:
        return ""
    axes = _axes(3.2)
    for name in dict.fromkeys((entry.times, entry.device, entry.mode) for entry in scored):
        line = [entry for entry in scored if (entry.times, entry.device, entry.mode) == name]
        numbers = [str(entry.id) for entry in line]
        at = [datetime.fromisoformat(entry.time) for entry in line]
        scores = [entry.score_us for entry in line]
        axes.plot(at, scores, marker="o", color=KINDS.get(name[0], GREY), label=f"{name[0]}, {name[2]}, {name[1]}")
        for x, y, text in zip(at, scores, numbers):
            axes.annotate(text, (x, y), textcoords="offset points", xytext=(4, 4), fontsize=7)
    axes.set_ylabel("score, us")
    axes.set_ylim(0, 1.15 * max(entry.score_us or 0.0 for entry in scored))
    axes.figure.autofmt_xdate()
    axes.legend(fontsize=8)
    return _svg(axes)


def write_page(path: Path, text: str) -> None:
    try:
        write_whole(path, text)
    except OSError as error:
        raise PageError(f"report: {path}: cannot be written: {error.strerror or error}") from None
