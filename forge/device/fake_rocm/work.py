"""What kernels did in a case, Triton's and HIP's: executed instructions and, where they are counted, where the work
goes and a modelled time. Never a measurement."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import convert
from msgspec.structs import asdict, replace

import cdna
from cdna.binary import compiler_notes
from cdna.binary.kernel_names import short_names
from cdna.observe import counters
from cdna.observe.model import modelled_case_us
from cdna.observe.records import LaunchRecord, benchmarks, launches, take_records
from cdna.profile import KernelProfile, advice_for, profiles, section, text_lines
from cdna.profile.text import wait_text
from cdna.profile.words import reason_text
from forge.device import report as told

LEAST = 0.002  # of the waves' time: what is less is not told
HOTTEST = 10  # lines of a kernel that a report names


_seen = 0  # launches at the last report


def report(counted: bool) -> told.DeviceReport:
    """The kernels launched since the last call, by name, with what they executed in all launches together; findings.

    Where work is counted, also what it says; the next case then starts with the modelled caches cold. An autotuner's
    trials are told apart: they are no work of a call, as a later one finds their outcome.
    """
    global _seen
    records = take_records("judge")
    made, _seen = launches() - _seen, launches()
    counters.clear_caches()
    launched = {record.kernel for record in records if not record.trial}
    own = [record for record in records if not (record.trial and record.kernel in launched)]
    kernels, timelines = profiled(records)
    uncounted = made - len(records) + counted * sum(record.counters is None for record in own)
    return told.DeviceReport(
        kernels=kernels,
        timelines=timelines,
        modelled=None if uncounted else modelled(own),
        uncounted=uncounted,
        trials=len(records) - len(own),
        timed_itself=benchmarks(),
        flops=sum(map(whole, own, [record.flops for record in own])),
        autotuned=tuple(str(choice) for choice in cdna.autotuned()),
        findings=(*(told.Finding(**asdict(one), text=str(one)) for one in cdna.findings()), *compiler_findings()),
    )


def profiled(records: Sequence[LaunchRecord]) -> tuple[dict[str, told.KernelReport], dict[str, told.Timeline]]:
    """Kernels, by the names that their sources have, and timelines where they are asked for."""
    names, by_name = names_of(records), dict[str, list[LaunchRecord]]()
    for record in records:
        by_name.setdefault(names[record.kernel], []).append(record)
    found = {name: launches_report(of_kernel) for name, of_kernel in by_name.items()}
    cold, warm = ({names[one.records[0].kernel]: one for one in profiles(records, of)} for of in (False, True))
    for name, profile in warm.items():
        texts = {"cold": tuple(text_lines(cold[name])), "warm": tuple(text_lines(profile))}
        parts = {"cold": spent(cold[name]), "warm": spent(profile)}
        found[name] = replace(found[name], work=kernel_work(profile), profile=texts, spent=parts)
    asked = {"cold": cold, "warm": warm}.get(os.environ.get("CDNA_TIMELINES", ""), {})
    return found, {name: timeline(profile) for name, profile in asked.items()}


def timeline(profile: KernelProfile) -> told.Timeline:
    return told.Timeline(section(profile), convert(profile.events(), tuple[told.TraceEvent, ...]))


def launches_report(records: Sequence[LaunchRecord]) -> told.KernelReport:
    """Of one kernel, without what counters say."""
    last, by_unit = records[-1], Counter[str]()
    for record in records:
        by_unit.update({unit: whole(record, count) for unit, count in record.by_unit.items()})
    groups, groups_run = (sum(of) for of in zip(*map(groups_of, records)))
    executed = [record.wave_instructions for record in records]
    return told.KernelReport(
        len(records), sum(map(whole, records, executed)), dict(by_unit),
        last.grid, last.block, last.lds_bytes, groups, groups_run, sum(executed),
    )  # fmt: skip


def names_of(records: Sequence[LaunchRecord]) -> dict[str, str]:
    """Kernels' names as their sources have them, by those of their code."""
    kernels = list(dict.fromkeys(record.kernel for record in records))
    return dict(zip(kernels, short_names(kernels)))


def groups_of(record: LaunchRecord) -> tuple[int, int]:
    """(Workgroups of a launch, those that were executed): fewer in a sample."""
    counted = record.counters
    return (counted.groups, counted.groups_run) if counted is not None and counted.groups_run else (1, 1)


def whole(record: LaunchRecord, count: int) -> int:
    """What a count of a launch's executed workgroups is of all of them."""
    groups, run = groups_of(record)
    return count * groups // run


def spent(kernel: KernelProfile) -> tuple[told.Spent, ...]:
    """The kernel's modelled time by line and reason, in the shares of its longest launch's waves; most first."""
    total = sum(line.spent_cycles for line in kernel.lines)
    launch_us = kernel.time.parts_us["launch"]
    rows = [
        told.Spent(
            line.place,
            reason_text(reason),
            wait_text(kernel, line, reason),
            round(cycles / total * (kernel.time.us - launch_us), 4),
        )
        for line in kernel.lines
        for reason, cycles in line.spent.items()
        if cycles > LEAST * total
    ]
    rows.append(told.Spent("", "launch", "launch", round(launch_us, 4)))
    return tuple(sorted(rows, key=lambda row: -row.us))


def compiler_findings() -> list[told.Finding]:
    """What is known of the compilers that made the kernels."""
    return [
        told.Finding("compiler", note.subject, note.arch, note.text, text=str(note), certainty=cdna.results.UNDECIDED)
        for note in compiler_notes.take()
    ]


def sampled(call: Callable[[], Any], run_whole: Sequence[str] = ()) -> tuple[told.ModelledTimes | None, str]:
    """modelled() of a call's launches, of which only a sample runs and nothing is computed, but for kernels with one of
    these parts in their names; and which launches use scratch, "" if none."""
    cdna.stats()
    counters.clear_caches()
    with cdna.counting(lambda kernel: not any(part in kernel for part in run_whole)):
        call()
    records = [record for record in cdna.stats() if not record.trial]
    names = names_of(records)
    scratch = {names[r.kernel]: r.counters.scratch_bytes for r in records if r.counters and r.counters.scratch_bytes}
    return modelled(records), ", ".join(f"{kernel}: {n} bytes of scratch a lane" for kernel, n in scratch.items())


def modelled(records: Sequence[LaunchRecord]) -> told.ModelledTimes | None:
    """The case's modelled time with caches cold, and with inputs in the memory-side cache; None if none was counted.

    What torch runs itself is added to it by roofline.with_torch.
    """
    counted = [r.counters for r in records if r.counters is not None]
    if not counted:
        return None
    cold, warm = (modelled_case_us(counted, warm).rounded() for warm in (False, True))
    what = "modelled, not measured: kernels alone, without torch's own operations (docs/time-model.md)"
    return told.ModelledTimes(cold, warm, what)


def kernel_work(kernel: KernelProfile) -> told.KernelWork:
    """Counters of one kernel's launches together, with the costliest lines of its longest launch and what to change."""
    counted = [record.counters for record in kernel.records if record.counters is not None]

    def total(name: str) -> int:
        return sum(getattr(c, name) for c in counted)

    def share(part: float, whole: float) -> float | None:
        return round(part / whole, 4) if whole else None

    last = counted[-1]
    vector = total("vector_instructions")
    return told.KernelWork(
        waves_per_simd=last.waves_per_simd,
        cycles={unit: sum(c.unit_cycles[unit] for c in counted) for unit in ("matrix", "vector", "lds", "memory")},
        barriers=total("barriers"),
        waits=total("waits"),
        active_lanes=share(total("vector_lanes"), 64 * vector),
        lds_conflict_cycles=total("lds_conflict_cycles"),
        coalescing=share(total("ideal_segments"), total("segments")),
        l1_hit_rate=share(total("l1_hits"), total("l1_reads")),
        l2_hit_rate=share(total("l2_read_bytes") - total("fabric_read_bytes"), total("l2_read_bytes")),
        **{
            f"{level}_{way}_bytes": total(f"{level}_{way}_bytes")
            for level in ("l2", "fabric", "hbm", "link")
            for way in ("read", "write")
        },
        lines=tuple(
            told.HotLine(line.place, line.executed, line.cycles, line.conflict_cycles)
            for line in kernel.lines[:HOTTEST]
        ),
        gains=tuple(replace(gain, us=round(gain.us, 4)) for gain in kernel.gains),
        advice=tuple(advice_for(kernel)),
    )
