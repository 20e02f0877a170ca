"""What a device says of the kernels of a call: filled in the worker, checked where it arrives, and read by whoever
judges, shows, writes or compares."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

import cdna.results
from cdna import sarif
from cdna.results import Advice, Gain, ModelledTime, added, ratio_error

__all__ = ["ModelledTime", "added", "ratio_error"]
Caches = Literal["cold", "warm"]  # before a call
Kind = Literal["products", "links", "memory"]  # what one of torch's operations takes beside its launch
Count = Annotated[int, Meta(ge=0)]


class Finding(cdna.results.Finding, frozen=True, kw_only=True):
    """What a check found, or what is known of the compilers that made a kernel."""

    text: str  # all of it, in words
    call: Count = 0  # of the case, from 1: in which it was found


class HotLine(Struct, frozen=True):
    """One of the lines of a kernel's longest launch that cost most."""

    place: str  # file:line
    executed: Count  # wave instructions
    cycles: dict[str, Count]  # by unit
    conflict_cycles: Count  # of the LDS's, lost to bank conflicts


class KernelWork(Struct, frozen=True):
    """Counters of a kernel's launches together, with the costliest lines of the longest and what to change there."""

    waves_per_simd: float = 0.0  # that fit, by registers, LDS and workgroup size
    cycles: dict[str, Count] = {}  # by unit, of all waves
    barriers: Count = 0  # that waves came to
    waits: Count = 0  # s_waitcnt, executed
    active_lanes: float | None = None  # share of the lanes of vector instructions; None where there are none
    lds_conflict_cycles: Count = 0  # of the LDS's, lost to bank conflicts
    coalescing: float | None = None  # share of the 64-byte pieces touched that the bytes need; None of no access
    l1_hit_rate: float | None = None  # share of its reads; None of no read
    l2_hit_rate: float | None = None  # share of the bytes read; likewise
    l2_read_bytes: Count = 0  # between the L1s and the L2s
    l2_write_bytes: Count = 0
    fabric_read_bytes: Count = 0  # between the L2s and the memory side
    fabric_write_bytes: Count = 0
    hbm_read_bytes: Count = 0  # past the memory-side cache
    hbm_write_bytes: Count = 0
    link_read_bytes: Count = 0  # from peers' memory
    link_write_bytes: Count = 0
    lines: tuple[HotLine, ...] = ()  # those that cost most first
    gains: tuple[Gain, ...] = ()  # likewise
    advice: tuple[Advice, ...] = ()  # what gains most first


class Spent(Struct, frozen=True):
    """What of a kernel's modelled time goes to one reason at one line."""

    place: str  # file:line; empty of a launch
    reason: str  # as people read it
    text: str  # the reason in full: what the line waits for
    us: float  # modelled, of the longest launch


class TraceEvent(Struct, frozen=True, omit_defaults=True):
    """As the trace event format has them; times in us."""

    ph: str
    name: str
    pid: int
    tid: int | None = None
    cat: str | None = None
    ts: float | None = None
    dur: float | None = None
    args: dict[str, str | float] = {}


class Timeline(Struct, frozen=True):
    """What one CU's waves do over time."""

    page: str  # the kernel's section of a page, in HTML
    events: tuple[TraceEvent, ...]


class KernelReport(Struct, frozen=True):
    """A kernel's launches together. Of a sample, counts are of all that it stands for. What is unset is in no file."""

    launches: Count = 0
    wave_instructions: Count = 0  # executed: one for all lanes of a wave
    by_unit: dict[str, Count] = {}  # of them
    grid: tuple[int, ...] = ()  # of the last launch, as the next three
    block: tuple[int, ...] = ()
    lds_bytes: Count = 0
    workgroups: Count = 0  # of all launches
    workgroups_run: Count = 0  # fewer in a sample
    wave_instructions_run: Count = 0
    work: KernelWork | UnsetType = UNSET  # where it was counted, as the next two
    profile: dict[Caches, tuple[str, ...]] | UnsetType = UNSET  # in lines
    spent: dict[Caches, tuple[Spent, ...]] | UnsetType = UNSET


class ModelledTimes(Struct, frozen=True):
    """A call's modelled time, with caches cold before it and warm."""

    cold: ModelledTime
    warm: ModelledTime
    what: str = ""  # what is modelled, in words

    def of(self, caches: Caches) -> ModelledTime:
        return self.cold if caches == "cold" else self.warm


class TimesUs(Struct):
    """Durations in us."""

    cold: float = 0.0  # caches cold before the call
    warm: float = 0.0  # its inputs in the memory-side cache

    def of(self, caches: Caches) -> float:
        return self.cold if caches == "cold" else self.warm


class TorchOperation(Struct):
    """What one of torch's own operations at one line cannot take less than, in all its calls."""

    place: str  # of the submission: submission.py:12
    name: str  # of the operation
    kind: Kind
    calls: Count = 0
    flops: Count = 0  # of products and sums
    read_bytes: Count = 0  # of its tensors, each once a call
    written_bytes: Count = 0
    again_bytes: Count = 0  # of what is read: parts of the call's input that an operation before has read as well
    us: TimesUs = msgspec.field(default_factory=TimesUs)


class DeviceReport(Struct, frozen=True, omit_defaults=True):
    """Of the launches of a call in a process; empty of a GPU."""

    kernels: dict[str, KernelReport] = {}
    modelled: ModelledTimes | None = None
    uncounted: Count = 0  # launches of which nothing is known
    trials: Count = 0  # of an autotuner, which are no work
    timed_itself: Count = 0  # benchmarks that the submission made of its kernels
    flops: Count = 0  # of the launches but for trials, at most
    autotuned: tuple[str, ...] = ()  # what @triton.autotune chose
    findings: tuple[Finding, ...] = ()
    torch: tuple[TorchOperation, ...] = ()
    timelines: dict[str, Timeline] = {}  # by kernel, where they were asked for; in no file

    @property
    def by_rank(self) -> tuple[DeviceReport, ...]:
        return (self,)

    @property
    def empty(self) -> bool:
        return self == type(self)()

    def total(self, counter: str) -> int:
        """Of all kernels, of all ranks; counter: one of KernelReport's."""
        return sum(getattr(kernel, counter) for part in self.by_rank for kernel in part.kernels.values())

    def all_findings(self) -> list[Finding]:
        return [one for part in self.by_rank for one in part.findings]


class CaseReport(DeviceReport, frozen=True, omit_defaults=True):
    """Of a case: of its one process, or of each rank's and nothing beside."""

    ranks: tuple[DeviceReport, ...] = ()

    @property
    def by_rank(self) -> tuple[DeviceReport, ...]:
        """Each rank's; itself alone where there are none."""
        return self.ranks or (self,)

    def of_rank(self, rank: int) -> DeviceReport:
        """One's of several; empty where nothing is known of it."""
        return self.ranks[rank] if rank < len(self.ranks) else DeviceReport()

    def slowest(self, caches: Caches) -> int:
        """Of several ranks the number of the one whose modelled time is longest; 0 where there is one."""
        times = [part.modelled.of(caches).us if part.modelled else 0.0 for part in self.by_rank]
        return times.index(max(times))

    def modelled_time(self, caches: Caches) -> ModelledTime | None:
        """Of the slowest rank."""
        modelled = self.by_rank[self.slowest(caches)].modelled
        return modelled.of(caches) if modelled else None


def write_sarif(path: Path, submission: Path, findings: Iterable[Finding]) -> None:
    """For code scanning, each once. They name the copy that was judged, submission.py."""

    def placed(text: str, before: str) -> str:
        return text.replace(f"{before}submission.py:", f"{before}{submission}:")

    once = {one.text: one for one in findings}
    sarif.write(
        path,
        (
            (str(submission), replace(one, source=placed(f" {one.source}", " ")[1:], other_instruction=other))
            for one in once.values()
            for other in [placed(one.other_instruction, "(")]
        ),
    )
