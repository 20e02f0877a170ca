"""What kernels did in a case, Triton's and HIP's: executed instructions and, where they are counted, where the work
goes and a modelled time. Never a measurement."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import cdna
from cdna.binary import compiler_notes
from cdna.binary.kernel_names import short_names
from cdna.observe import counters
from cdna.observe.model import ModelledTime, modelled_case_us, unrecorded_text
from cdna.observe.records import LaunchRecord, benchmarks, launches, take_records
from cdna.profile import KernelProfile, advice_for, profiles, section, text_lines
from cdna.profile.text import wait_text
from cdna.profile.words import reason_text

LEAST = 0.002  # of the waves' time: what is less is not told
HOTTEST = 10  # lines of a kernel that a report names


_seen = 0  # launches at the last report


def report(counted: bool) -> dict[str, Any]:
    """The kernels launched since the last call, by name, with what they executed in all launches together; findings.

    Where work is counted, also what it says; the next case then starts with the modelled caches cold. An autotuner's
    trials are told apart: they are no work of a call, as a later one finds their outcome.
    """
    global _seen
    kernels: dict[str, dict[str, Any]] = {}
    records = take_records("judge")
    made, _seen = launches() - _seen, launches()
    counters.clear_caches()
    names = names_of(records)
    launched = {record.kernel for record in records if not record.trial}
    own = [record for record in records if not (record.trial and record.kernel in launched)]
    for record in records:
        known = kernels.setdefault(names[record.kernel], {"launches": 0, "wave_instructions": 0, "by_unit": {}})
        known["launches"] += 1
        known |= {
            "grid": record.grid,
            "block": record.block,
            "lds_bytes": record.lds_bytes,
        }  # of the last one
        groups, run = groups_of(record)  # fewer in a sample
        known["workgroups"] = known.get("workgroups", 0) + groups
        known["workgroups_run"] = known.get("workgroups_run", 0) + run
        known["wave_instructions_run"] = known.get("wave_instructions_run", 0) + record.wave_instructions
        known["wave_instructions"] += whole(record, record.wave_instructions)
        for name, count in record.by_unit.items():
            known["by_unit"][name] = known["by_unit"].get(name, 0) + whole(record, count)
    for caches in ("cold", "warm"):
        for profile in profiles(records, caches == "warm"):
            known = kernels[names[profile.records[0].kernel]]
            known["work"] = kernel_work(profile)
            known.setdefault("profile", {})[caches] = text_lines(profile)
            known.setdefault("spent", {})[caches] = spent(profile)
            if os.environ.get("CDNA_TIMELINES") == caches:
                known["timeline"] = {"page": section(profile), "events": profile.events()}
    uncounted = made - len(records) + counted * sum(record.counters is None for record in own)
    parts = {
        "kernels": kernels,
        "modelled": {} if uncounted else modelled(own),
        "uncounted": uncounted,
        "trials": len(records) - len(own),
        "timed_itself": benchmarks(),
        "flops": sum(map(whole, own, [record.flops for record in own])),
        "autotuned": [str(choice) for choice in cdna.autotuned()],
        "findings": [{"text": str(f), **dataclasses.asdict(f)} for f in cdna.findings()] + compiler_findings(),
    }
    return {name: part for name, part in parts.items() if part}


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


def spent(kernel: KernelProfile) -> list[dict[str, Any]]:
    """The kernel's modelled time by line and reason, in the shares of its longest launch's waves; most first."""
    total = sum(line.spent_cycles for line in kernel.lines)
    launch_us = kernel.time.parts_us["launch"]
    rows = [
        {
            "place": line.place,
            "reason": reason_text(reason),
            "text": wait_text(kernel, line, reason),
            "us": round(cycles / total * (kernel.time.us - launch_us), 4),
        }
        for line in kernel.lines
        for reason, cycles in line.spent.items()
        if cycles > LEAST * total
    ]
    rows.append({"place": "", "reason": "launch", "text": "launch", "us": round(launch_us, 4)})
    return sorted(rows, key=lambda row: -row["us"])


def compiler_findings() -> list[dict[str, Any]]:
    """What is known of the compilers that made the kernels."""
    notes = compiler_notes.take()
    return [{"text": str(n), "kind": "compiler", "kernel": n.subject, "arch": n.arch} for n in notes]


def sampled(call: Callable[[], Any], run_whole: Sequence[str] = ()) -> tuple[dict[str, Any], str]:
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


def modelled(records: Sequence[LaunchRecord]) -> dict[str, Any]:
    """The case's modelled time with caches cold, and with inputs in the memory-side cache; {} if none was counted.

    What torch runs itself is added to it by roofline.with_torch.
    """
    counted = [r.counters for r in records if r.counters is not None]
    if not counted:
        return {}
    return {
        "what": "modelled, not measured: kernels alone, without torch's own operations (docs/time-model.md)",
        "cold": _time(modelled_case_us(counted)),
        "warm": _time(modelled_case_us(counted, warm=True)),
    }


def _time(time: ModelledTime) -> dict[str, Any]:
    parts = {name: round(us, 3) for name, us in time.parts_us.items()}
    clock = {"cycles": round(time.cycles), "mhz": round(time.mhz), "clock": time.clock}
    lacking = {"unrecorded": unrecorded_text(time.unrecorded)} if time.unrecorded else {}
    return {"us": round(time.us, 3), "bound": time.bound, "parts_us": parts, **clock, **lacking}


def kernel_work(kernel: KernelProfile) -> dict[str, Any]:
    """Counters of one kernel's launches together, with the costliest lines of its longest launch and what to change."""
    counted = [record.counters for record in kernel.records if record.counters is not None]

    def total(name: str) -> int:
        return sum(getattr(c, name) for c in counted)

    def share(part: float, whole: float) -> float | None:
        return round(part / whole, 4) if whole else None

    last = counted[-1]
    vector = total("vector_instructions")
    return {
        "waves_per_simd": last.waves_per_simd,
        "cycles": {unit: sum(c.unit_cycles[unit] for c in counted) for unit in ("matrix", "vector", "lds", "memory")},
        "barriers": total("barriers"),
        "waits": total("waits"),
        "active_lanes": share(total("vector_lanes"), 64 * vector),
        "lds_conflict_cycles": total("lds_conflict_cycles"),
        "coalescing": share(total("ideal_segments"), total("segments")),
        "l1_hit_rate": share(total("l1_hits"), total("l1_reads")),
        "l2_hit_rate": share(total("l2_read_bytes") - total("fabric_read_bytes"), total("l2_read_bytes")),
        **{
            f"{level}_{way}_bytes": total(f"{level}_{way}_bytes")
            for level in ("l2", "fabric", "hbm", "link")
            for way in ("read", "write")
        },
        "lines": [
            {
                "place": line.place,
                "executed": line.executed,
                "cycles": line.cycles,
                "conflict_cycles": line.conflict_cycles,
            }
            for line in kernel.lines[:HOTTEST]
        ],
        "gains": [{**dataclasses.asdict(gain), "us": round(gain.us, 4)} for gain in kernel.gains],
        "advice": [dataclasses.asdict(advice) for advice in advice_for(kernel)],
    }
