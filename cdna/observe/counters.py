"""Counters of launches: cost of each instruction, bank conflicts, coalescing, bytes at each level of memory.

    with cdna.counting():
        kernel[grid](...)
    for record in cdna.stats():
        print(record.counters.unit_cycles, record.counters.hbm_read_bytes)

$CDNA_COUNT=1 counts all launches of a process. Off unless asked for: counting takes two and a half times the
emulation's processor time, a sample less than twice. engine/time/counters.cpp does the work.
"""

import ctypes
import enum
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from ..cards import cards
from ..engine import abi
from ..engine.library import LOG_COUNTERS, LOG_EXECUTED, engine, is_loaded, log_launches, sample_launches
from ..isa import UNITS, facts_of
from ..memory.torch_memory import align_torch
from .replay import REASONS, Replay, ReplayedTime, hold, replayed

SEGMENT_BYTES, LINE_BYTES = 64, 128
# Of the engine's totals and of Counters, by one name.
AS_COUNTED = "groups_per_cu vgprs sgprs scratch_bytes sleeps groups_on_cu atomics_on_line".split()


@dataclass(frozen=True)
class InstructionCount:
    """One instruction of a kernel, over a whole launch."""

    index: int
    mnemonic: str
    where: str  # "`text` (source line)"
    unit: str
    executed: int  # by waves
    polls: int  # of them, while the wave asked again whether something has come: in nothing that follows
    lanes: int  # active ones, summed
    cycles: int  # that its unit was busy
    conflict_cycles: int  # of them, lost to LDS bank conflicts
    bytes: int  # asked for by active lanes
    segments: int  # 64-byte pieces of memory touched, counted per execution
    lines: int  # 128-byte lines likewise
    same_set_lines: int  # of accesses of 16 lines or more that all fall in one set of the L1
    spent: dict[str, float] = field(default_factory=dict)  # cycles of replayed waves, by reason

    @property
    def ideal_segments(self) -> int:
        """Segments that the same bytes take when they lie together."""
        return -(-self.bytes // SEGMENT_BYTES)

    @property
    def text(self) -> str:
        return self.where.partition("` (")[0].strip("` ")

    @property
    def place(self) -> str:
        """`file:line`, or the line of the assembly. A file's name may have any character."""
        return self.where.partition("` (")[2].removesuffix(")")


@dataclass
class Counters:
    """A launch, counted. Bytes and cycles are sums over the card unless a name says otherwise."""

    card: str  # its model
    groups: int  # of the grid; in a sample without those that ask for nothing
    groups_run: int  # fewer than that in a sample
    waves_per_group: int
    groups_per_cu: int  # that fit at the same time
    waves_per_simd: float
    vgprs: int  # of a wave, accumulation registers included
    sgprs: int
    scratch_bytes: int  # of a lane
    lds_bytes_per_group: int
    unit_cycles: dict[str, int]
    barriers: int  # of workgroups
    waits: int  # s_waitcnt executed by waves
    vector_lanes: int  # active lanes of vector instructions, summed
    vector_instructions: int
    lds_conflict_cycles: int
    segments: int  # 64-byte pieces that vector memory instructions touched
    ideal_segments: int
    l1_reads: int  # lines
    l1_hits: int
    l2_read_bytes: int
    l2_write_bytes: int
    fabric_read_bytes: int  # between the XCDs' L2s and the memory side
    fabric_write_bytes: int
    hbm_read_bytes: int
    hbm_write_bytes: int
    left_dirty_bytes: int  # of them, that the L2s still had when the last wave ended
    link_read_bytes: int  # from peers' memory
    link_write_bytes: int  # and to it
    busiest_link: dict[str, int]  # the largest share of one peer: link_read, link_write
    sleeps: int  # instructions of the kernel that let a wave sleep: with them it waits for others
    busiest_xcd: dict[str, int]  # the largest share of one XCD: l2_read, l2_write, fabric_read, fabric_write
    groups_on_cu: int  # that share a CU: as many as fit and as there are
    longest_group: int  # the workgroup that executes much more than others do, where there is one
    longest_times: float  # as much as the most of others; 0 where there is none
    most_times: float  # as much as the mean the longest executes; 0 of a sample, and where workgroups wait for others
    cold: ReplayedTime  # of the launch: waves replayed on a CU
    warm: ReplayedTime  # and as if the memory-side cache held everything
    atomics_on_line: int  # on the line with most of them: an instruction's lanes on one dword come one after the other
    cache_maintenance: int  # instructions that write back or invalidate the L2
    unrecorded_lines: int  # left out of the cache model for want of memory
    instructions: list[InstructionCount] = field(repr=False, default_factory=list)
    replay: Replay | None = field(repr=False, compare=False, default=None)  # of its recorded steps

    @property
    def active_lanes(self) -> float:
        """Share of lanes that are on in vector instructions: 1 without divergence."""
        return self.vector_lanes / (64 * self.vector_instructions) if self.vector_instructions else 1.0

    @property
    def l2_hit_rate(self) -> float:
        return 1 - self.fabric_read_bytes / self.l2_read_bytes if self.l2_read_bytes else 1.0

    @property
    def spent(self) -> dict[str, float]:
        """What the replayed waves' time went to: REASONS and their shares, most first."""
        total: dict[str, float] = {}
        for instruction in self.instructions:
            for reason, cycles in instruction.spent.items():
                total[reason] = total.get(reason, 0.0) + cycles
        whole = sum(total.values()) or 1.0
        return {reason: cycles / whole for reason, cycles in sorted(total.items(), key=lambda item: -item[1])}

    def summary(self) -> dict[str, Any]:
        """The counters without the instructions, for reports and JSON."""
        shown = {k: v for k, v in vars(self).items() if k not in ("instructions", "replay")}
        times = {"cold": asdict(self.cold), "warm": asdict(self.warm), "spent": self.spent}
        return shown | times | {"active_lanes": self.active_lanes, "l2_hit_rate": self.l2_hit_rate}


def maintains_l2(instruction: InstructionCount) -> bool:
    """buffer_wbl2 and buffer_inv that reach beyond the XCD; without sc1 they concern the CU's own cache."""
    return facts_of(instruction.mnemonic).does in ("acquire", "release") and " sc1" in instruction.where


@dataclass(frozen=True)
class Shape:
    """What the host knows of a launch."""

    card: str  # its model
    waves_per_group: int
    lds_bytes_per_group: int


def _scaled(count: int, per: float) -> int:
    return count if per == 1 else round(count * per)


def _instruction(
    index: int, where: str, executed: int, raw: Any, stalls: Any, per_run: float, per_observed: float
) -> InstructionCount:
    """raw: the engine's InstructionCounters; stalls: of all instructions. per_run, per_observed: what counts of the
    workgroups that ran, and of those that were observed, are multiplied by."""
    unit = UNITS[raw.unit]
    asks = unit in ("memory", "lds")
    cycles = raw.cycles if asks else raw.unit_cycles * (executed - raw.polls)
    reasons = zip(REASONS, stalls[index * len(REASONS) : (index + 1) * len(REASONS)])
    return InstructionCount(
        index=index,
        mnemonic=where[1:].split()[0].rstrip("`"),
        where=where,
        unit=unit,
        executed=_scaled(executed, per_run),
        polls=raw.polls,
        lanes=_scaled(raw.lanes, per_observed),
        cycles=_scaled(cycles, per_observed if asks else per_run),
        conflict_cycles=_scaled(raw.conflict_cycles, per_observed),
        bytes=_scaled(raw.bytes, per_observed),
        segments=_scaled(raw.segments, per_observed),
        lines=_scaled(raw.lines, per_observed),
        same_set_lines=_scaled(raw.same_set_lines, per_observed),
        spent={name: lost for name, lost in reasons if lost},
    )


def collect(
    lib: ctypes.CDLL, source: int, shape: Shape, executed: Iterable[int], where: Callable[[int], str]
) -> Counters:
    """What a finished launch's source has; the source belongs to the counters' replay from now on. executed: wave
    instructions by index; where: "`text` (file:line)"."""
    handle = ctypes.c_void_p(source)
    t = lib.cdna_counters_totals(handle).contents
    raw = lib.cdna_counters_instructions(handle)
    stalls = lib.cdna_counters_stalls(handle)
    executed = list(executed)
    # Both 1 without a sample.
    per_run = t.groups / max(t.run, 1) * t.run_work
    per_observed = t.groups / max(t.observed, 1) * t.observed_work
    instructions = [
        _instruction(i, where(i), n, raw[i], stalls, per_run, per_observed) for i, n in enumerate(executed) if n
    ]
    unit_cycles = dict.fromkeys(UNITS, 0)
    for instruction in instructions:
        unit_cycles[instruction.unit] += instruction.cycles
    vector = [i for i in instructions if i.unit in ("vector", "matrix", "memory", "lds")]
    memory = [i for i in instructions if i.unit == "memory"]
    levels = ("l2_read", "l2_write", "fabric_read", "fabric_write")
    traffic, longest = t.traffic, t.longest
    totals = {name: sum(getattr(traffic, name)) for name in levels}
    return Counters(
        **vars(shape),
        **{name: getattr(t, name) for name in AS_COUNTED},
        groups=t.groups,
        groups_run=t.run,
        waves_per_simd=t.groups_per_cu * shape.waves_per_group / cards()[shape.card].simds_per_cu,
        unit_cycles=unit_cycles,
        barriers=_scaled(t.barriers, per_run),
        waits=sum(i.executed - i.polls for i in instructions if i.unit == "wait"),
        vector_lanes=sum(i.lanes for i in vector),
        vector_instructions=sum(i.executed - i.polls for i in vector),
        lds_conflict_cycles=sum(i.conflict_cycles for i in instructions),
        segments=sum(i.segments for i in memory),
        ideal_segments=sum(i.ideal_segments for i in memory),
        l1_reads=_scaled(t.l1_reads, per_run),
        l1_hits=_scaled(t.l1_hits, per_run),
        l2_read_bytes=totals["l2_read"],
        l2_write_bytes=totals["l2_write"],
        fabric_read_bytes=totals["fabric_read"],
        fabric_write_bytes=totals["fabric_write"],
        hbm_read_bytes=traffic.hbm_read,
        hbm_write_bytes=traffic.hbm_write,
        left_dirty_bytes=traffic.left_dirty,
        link_read_bytes=sum(traffic.link_read),
        link_write_bytes=sum(traffic.link_write),
        busiest_link={name: max(getattr(traffic, name)) for name in ("link_read", "link_write")},
        busiest_xcd={name: max(getattr(traffic, name)) for name in levels},
        longest_group=longest.group,
        longest_times=longest.n_steps / max(longest.of_others, 1),
        most_times=max(longest.n_steps, longest.of_others) / longest.mean if longest.mean else 0.0,
        cold=replayed(t.time[0]),
        warm=replayed(t.time[1]),
        cache_maintenance=sum(i.executed - i.polls for i in memory if maintains_l2(i)),
        unrecorded_lines=t.unrecorded,
        instructions=instructions,
        replay=hold(Replay(lib, source, len(executed))),
    )


_active = False


class Sample(enum.IntEnum):
    """What of a counted launch runs."""

    NONE = abi.constant("NO_SAMPLE")  # all of it
    ROUNDS = abi.constant("SAMPLE_ROUNDS")  # three rounds of a larger grid
    # Of 13 rounds or more seven or nine, if the kernel has matrix instructions; other kernels whole.
    PRODUCTS = abi.constant("SAMPLE_PRODUCTS")


Sampled = Callable[[str], int]  # of a kernel's name: a Sample; True is ROUNDS
_sampled: Sampled | None = None


def count(on: bool) -> None:
    """Count every launch of this process from now on, or no more."""
    global _active
    if on == _active:
        return
    _active = on
    log_launches(LOG_COUNTERS if on else LOG_EXECUTED)
    if not on and is_loaded():
        engine().lib.cdna_caches_free()


def clear_caches() -> None:
    """Forget what the modelled caches hold: the next launch starts cold, as after a cache flush."""
    if _active and is_loaded():
        engine().lib.cdna_caches_clear()


@contextmanager
def counting(sample: Sample | bool | Sampled = False) -> Iterator[None]:
    """Within the block, launches are counted: their records have `counters`.

    sample: for the counters alone; of all kernels, or as it says of a kernel's name. True: Matrix instructions compute
    nothing, so that results are of no use; of a grid of more than three rounds only three run, and their counts are
    scaled to the grid (engine/time/counters.cpp). For kernels whose control flow does not depend on what they compute,
    whose workgroups do not wait for each other, and whose results decide nothing in the kernels after them.
    Sample.PRODUCTS leaves the kernels whole that route and sort.
    """
    global _sampled
    before, sampled_before = _active, _sampled
    if "torch" in sys.modules:
        align_torch()
    count(True)
    _sample(sample if callable(sample) else (lambda name: int(sample)) if sample else None)
    try:
        yield
    finally:
        _sample(sampled_before)
        count(before)


def _sample(of: Sampled | None) -> None:
    global _sampled
    if of is not _sampled:
        _sampled = of
        sample_launches(of)


def sample_all(kind: int) -> None:
    """Of every launch that is counted from now on take a Sample: see `counting`."""
    _sample((lambda name: kind) if kind else None)


class LaunchCount:
    """Counters of one launch under way: `source` goes to the engine; then `result`, then `close`."""

    def __init__(self, kernel: str) -> None:
        self.lib = engine().lib
        self.source = self.lib.cdna_counters_create(0 if _sampled is None else int(_sampled(kernel)))

    def result(
        self,
        card: str,
        where: Callable[[int], str],
        block: tuple[int, int, int],
        lds_bytes: int,
        executed: Iterable[int],
    ) -> Counters:
        """card: its model. where: text and source line of an instruction. block: work-items of a workgroup.
        executed: wave instructions by index."""
        waves = -(-block[0] * block[1] * block[2] // 64)
        counters = collect(self.lib, self.source, Shape(card, waves, lds_bytes), executed, where)
        self.source = 0
        return counters

    def close(self) -> None:
        if self.source:
            self.lib.cdna_counters_destroy(self.source)


def begin(kernel: str) -> LaunchCount | None:
    """What a launch of the kernel hands to the engine; None while counting is off."""
    return LaunchCount(kernel) if _active else None


count(os.environ.get("CDNA_COUNT") == "1")
