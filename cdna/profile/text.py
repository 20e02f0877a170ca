"""A kernel's profile for a terminal: aligned lines, the advice last."""

from __future__ import annotations

from collections.abc import Sequence

from ..counters import Counters
from .advice import advice_for
from .kernel import KernelProfile
from .lines import Line

LINES = 5  # of a kernel's source that are shown
WORDS = {  # for counters.REASONS, where the name alone does not say it
    "issue": "its own instructions",
    "operands": "waits for results",
    "vector": "vector unit taken",
    "matrix": "matrix unit taken",
    "L1": "L1's queue full",
    "memory": "waits for memory",
    "LDS": "waits for LDS",
    "scalar": "waits for scalar loads",
    "code": "instruction fetch",
}


def text_lines(kernel: KernelProfile) -> list[str]:
    """Without indentation."""
    launches, c, time = kernel.records, kernel.counters, kernel.longest_time
    grid, block = ("x".join(map(str, sizes)) for sizes in (kernel.longest.grid, kernel.longest.block))
    several = f"{len(launches)} launches, the longest " if len(launches) > 1 else ""
    parts = sorted(time.parts_us.items(), key=lambda part: -part[1])
    each = ", ".join(f"{name} {us:.3g}" for name, us in parts if us >= 0.01)
    return [
        f"{kernel.full_name}: {several}{grid} workgroups of {block}",
        f"  takes      {c.vgprs} VGPRs, {c.sgprs} SGPRs, {c.lds_bytes_per_group:,} bytes of LDS: "
        f"{c.groups_per_cu} workgroups a CU, {c.waves_per_simd:g} waves a SIMD",
        f"  executed   {sum(record.wave_instructions for record in launches):,} wave instructions",
        f"  modelled   {kernel.time.us:.2f} us, bound by {time.bound} (alone, us: {each}); not measured",
        f"  replay     {time.cycles:,.0f} cycles at {time.mhz:.0f} MHz, {time.clock}",
        *_work(launches_counters(kernel)),
        *_hot_lines(kernel),
        *(f"  advice     {advice}" for advice in advice_for(kernel)),
    ]


def launches_counters(kernel: KernelProfile) -> list[Counters]:
    return [record.counters for record in kernel.records if record.counters is not None]


def _work(counted: Sequence[Counters]) -> list[str]:
    def total(what: str) -> int:
        return sum(getattr(c, what) for c in counted)

    def share(part: float, whole: float) -> str:
        return f"{100 * part / whole:.1f} %" if whole else "-"

    cycles = {unit: sum(c.unit_cycles[unit] for c in counted) for unit in ("matrix", "vector", "lds", "memory")}
    levels = (("L2", "l2"), ("fabric", "fabric"), ("HBM", "hbm"))
    moved = (f"{label} {total(f'{level}_read_bytes'):,}/{total(f'{level}_write_bytes'):,}" for label, level in levels)
    l2_hits = total("l2_read_bytes") - total("fabric_read_bytes")
    return [
        f"  unit cycles  {', '.join(f'{unit} {n:,}' for unit, n in cycles.items())}; LDS bank conflicts "
        f"{total('lds_conflict_cycles'):,}; barriers {total('barriers'):,}, waits {total('waits'):,}",
        f"  lanes active {share(total('vector_lanes'), 64 * total('vector_instructions'))}; coalescing "
        f"{share(total('ideal_segments'), total('segments'))}; hits: L1 {share(total('l1_hits'), total('l1_reads'))}, "
        f"L2 {share(l2_hits, total('l2_read_bytes'))}",
        f"  bytes read/written {', '.join(moved)}",
    ]


def _hot_lines(kernel: KernelProfile) -> list[str]:
    """The lines that waves spend most of their time at, and on what."""
    total = sum(line.spent_cycles for line in kernel.lines)
    return [
        f"  {line.spent_cycles / total:6.1%}  {line.place}  {_reasons(line, total)}"
        for line in kernel.lines[:LINES]
        if line.spent_cycles
    ]


def _reasons(line: Line, total: float) -> str:
    """What the line's time goes to, in shares of the kernel's."""
    most = sorted(line.spent.items(), key=lambda item: -item[1])[:3]
    text = ", ".join(f"{WORDS.get(reason, reason)} {cycles / total:.1%}" for reason, cycles in most if cycles)
    if line.conflict_ways >= 1.5:
        text += f"; bank conflicts, {line.conflict_ways:.0f}-way"
    return text
