"""One kernel's launches together: what it takes of the card, its modelled time, and the lines of its longest launch."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ..binary.kernel_names import demangled, short_names
from ..cards import Card, cards
from ..observe.counters import Counters
from ..observe.model import modelled_case_us, modelled_time_us
from ..observe.records import LaunchRecord
from ..results import Gain, ModelledTime
from .gains import gains_of
from .lines import Line, lines_of
from .timeline import LineSpan, WaitsFor, causes_of, timeline_of, trace_events


@dataclass(frozen=True)
class KernelProfile:
    """A kernel's counted launches."""

    kernel: str  # its own name
    full_name: str  # with template arguments and parameters, for C++
    records: tuple[LaunchRecord, ...]
    time: ModelledTime  # of all launches
    longest: LaunchRecord
    longest_time: ModelledTime
    lines: tuple[Line, ...]  # of the longest launch, those that its waves spend most time at first
    warm: bool = False  # the time is that of warm caches

    @property
    def counters(self) -> Counters:
        """Of the longest launch."""
        assert self.longest.counters is not None
        return self.longest.counters

    @cached_property
    def gains(self) -> list[Gain]:
        """What the longest launch would gain without a reason at a line, most first."""
        return gains_of(self.counters, self.lines, self.warm)

    @cached_property
    def timeline(self) -> list[LineSpan]:
        """What the waves of one CU do in the longest launch."""
        return timeline_of(self.counters, self.warm)

    @cached_property
    def waits_for(self) -> dict[tuple[str, str], WaitsFor]:
        """By line and reason: what the line's waits wait for."""
        return causes_of(self.timeline)

    def events(self, process: int = 0) -> list[dict[str, Any]]:
        """The timeline in the trace event format."""
        return trace_events(self.kernel, self.timeline, self.longest_time.mhz, process)

    @property
    def card(self) -> Card:
        return cards()[self.counters.card]


def profiles(records: Iterable[LaunchRecord], warm: bool = False) -> list[KernelProfile]:
    """A profile for each kernel that was launched with counting on, in the order of their first launch; an autotuner's
    trials are left out.

    warm: with inputs in the memory-side cache, as in model.modelled_time_us.
    """
    by_kernel: dict[str, list[LaunchRecord]] = {}
    for record in records:
        if record.counters is not None and not record.trial:
            by_kernel.setdefault(record.kernel, []).append(record)
    names = short_names(list(by_kernel))
    return [_profile(name, full, of_kernel, warm) for name, (full, of_kernel) in zip(names, by_kernel.items())]


def _profile(name: str, mangled: str, records: list[LaunchRecord], warm: bool) -> KernelProfile:
    times = [modelled_time_us(record, warm) for record in records]
    number = max(range(len(records)), key=lambda i: times[i].us)
    counters = records[number].counters
    assert counters is not None
    if warm:
        counters = with_warm_caches(counters)
    lines = lines_of(counters.instructions)
    lines.sort(key=lambda line: -line.spent_cycles)
    return KernelProfile(
        name,
        demangled(mangled),
        tuple(records),
        modelled_case_us(records, warm),
        replace(records[number], counters=counters),
        modelled_time_us(counters, warm),
        tuple(lines),
        warm,
    )


def with_warm_caches(counters: Counters) -> Counters:
    """What the waves' time goes to as the memory-side cache answers them; counters have it of cold caches."""
    spent = counters.replay.spent(warm=True) if counters.replay is not None else []
    if not spent:
        return counters
    instructions = [replace(one, spent=spent[one.index]) for one in counters.instructions]
    return replace(counters, instructions=instructions)
