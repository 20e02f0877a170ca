"""One CU's waves over time, as the model replays them: what each wait waits for, and a trace file for Chrome's tracing
or Perfetto (ui.perfetto.dev)."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import CdnaError
from ..observe.counters import Counters
from .words import reason_text

SIMDS = 4
MOST_EVENTS = 50_000  # of a kernel: viewers grow slow
STORE = "store"


@dataclass(frozen=True)
class LineSpan:
    """A wave's time at one line for one reason."""

    wave: int
    start: float  # cycles
    end: float
    place: str
    reason: str  # counters.REASONS
    cause: str  # the line whose load, store or LDS access a wait waits for, else ""
    level: str  # where what it waits for was: L1, L2, memory side, HBM; "" for what is no load


def timeline_of(counters: Counters, warm: bool) -> list[LineSpan]:
    """Empty where the launch's steps are gone."""
    if counters.replay is None:
        return []
    places = {one.index: one.place for one in counters.instructions}
    numbers = {place: number for number, place in enumerate(dict.fromkeys(places.values()))}
    line_of = [numbers.get(places.get(i, ""), 0) for i in range(counters.replay.n_instructions)]
    waits = ("memory", "LDS", "scalar")
    return [
        LineSpan(
            s.wave,
            s.start,
            s.end,
            places[s.instruction],
            s.reason,
            places[s.cause] if s.reason in waits else "",
            s.level,
        )
        for s in counters.replay.timeline(line_of, warm)
    ]


@dataclass(frozen=True)
class WaitsFor:
    """What a line's waits for one reason waited for longest."""

    place: str  # of the load, store or LDS access
    level: str


def causes_of(spans: Iterable[LineSpan]) -> dict[tuple[str, str], WaitsFor]:
    """By line and reason."""
    cycles: dict[tuple[str, str], dict[WaitsFor, float]] = {}
    for span in spans:
        if span.cause:
            of_line = cycles.setdefault((span.place, span.reason), {})
            cause = WaitsFor(span.cause, span.level)
            of_line[cause] = of_line.get(cause, 0.0) + span.end - span.start
    return {key: max(of_line, key=lambda cause: of_line[cause]) for key, of_line in cycles.items()}


def trace_events(name: str, spans: Iterable[LineSpan], mhz: float, process: int) -> list[dict[str, Any]]:
    """The trace event format's: a process is a kernel's CU, a thread a wave's place on it. Times in us."""
    in_order = sorted(spans, key=lambda span: span.start)
    told = in_order[:MOST_EVENTS]
    label = f"{name}: one CU, modelled"
    if len(told) < len(in_order):
        label += f"; the first {told[-1].start / mhz:.1f} us of it"
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": process, "args": {"name": label}}]
    seen: set[int] = set()
    for span in told:
        if span.wave not in seen:
            seen.add(span.wave)
            label = f"SIMD {span.wave % SIMDS}, wave slot {span.wave // SIMDS}"
            place = {"pid": process, "tid": span.wave}
            events.append({"ph": "M", "name": "thread_name", **place, "args": {"name": label}})
            order = span.wave % SIMDS * 64 + span.wave // SIMDS
            events.append({"ph": "M", "name": "thread_sort_index", **place, "args": {"sort_index": order}})
        events.append(
            {
                "ph": "X",
                "name": f"{reason_text(span.reason)}, {span.place.rpartition('/')[2]}",
                "cat": span.reason,
                "pid": process,
                "tid": span.wave,
                "ts": span.start / mhz,
                "dur": (span.end - span.start) / mhz,
                "args": {"line": span.place, "cycles": span.end - span.start}
                | ({"waits for": span.cause, "at": span.level} if span.cause else {}),
            }
        )
    return events


def write_trace(path: Path, events: list[dict[str, Any]]) -> None:
    """CdnaError where the file cannot be written."""
    note = "times are modelled, not measured"
    try:
        path.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"note": note}}))
    except OSError as error:
        raise CdnaError(f"cannot write {path}: {error.strerror}") from None
