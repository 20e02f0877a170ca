"""A kernel's profile for a terminal: aligned lines, the advice last."""

from collections.abc import Sequence

from ..observe.counters import Counters
from ..observe.records import LaunchRecord
from ..results import Gain
from .advice import advice_for
from .gains import ATOMICS, CAUSES, CONFLICTS, FENCES, SPILLS
from .kernel import KernelProfile
from .lines import Line
from .words import reason_text

LINES = 5  # of a kernel's source that are shown
_UNIT_OF_BOUND = {"LDS": "lds", "LDS latency": "lds", "L1": "memory", "matrix": "matrix", "vector": "vector"}
ROOFS, NEAR_A_ROOF = ("HBM", "links"), 0.85  # bounds that are bytes; their share of the time without the launch
WORTH = 0.02  # share of the modelled time, from which on a gain is shown


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
        f"  executed   {sum(map(executed, launches)):,} wave instructions{sample_text(kernel)}",
        f"  modelled   {kernel.time.us:.2f} us ({kernel.time.interval}), bound by {time.bound} (alone, us: {each}); "
        "not measured",
        *([f"  unsure     {kernel.time.unsure}"] if kernel.time.unsure else []),
        *([f"  lacking    {kernel.time.lacking}"] if kernel.time.lacking else []),
        f"  replay     {time.cycles:,.0f} cycles at {time.mhz:.0f} MHz, {time.clock}",
        *_work(launches_counters(kernel)),
        *_hot_lines(kernel),
        *_roof(kernel),
        *(f"  advice     {advice}" for advice in advice_for(kernel)),
    ]


def _roof(kernel: KernelProfile) -> list[str]:
    """Where the card's bandwidth is nearly all that a launch takes: no change but of what it moves can help."""
    time = kernel.longest_time
    body = time.us - time.parts_us["launch"]
    name = max(ROOFS, key=lambda name: time.parts_us.get(name, 0.0))
    us = time.parts_us.get(name, 0.0)
    if us < NEAR_A_ROOF * body:
        return []
    return [f"  near its roof: {name} alone takes {us:.4g} us of {time.us:.4g}; only fewer bytes make it faster"]


def executed(record: LaunchRecord) -> int:
    """Wave instructions of a launch, of which a sample may have run."""
    c = record.counters
    return record.wave_instructions * c.groups // c.groups_run if c and c.groups_run else record.wave_instructions


def sample_text(kernel: KernelProfile) -> str:
    c = kernel.counters
    return f", as {c.groups_run:,} of {c.groups:,} workgroups say" if c.groups_run < c.groups else ""


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
    """The lines that waves spend most of their time at, on what, and what the kernel would gain without the first of
    that; then causes that lie at lines others wait for."""
    total = sum(line.spent_cycles for line in kernel.lines)
    if not total:
        return []
    gains = {(gain.place, gain.reason): gain for gain in kernel.gains}
    rows = []
    for line in hot_lines(kernel):
        if line.spent_cycles:
            gain = gains.get((line.place, max(line.spent, key=lambda reason: line.spent[reason])))
            rows.append(
                f"  {line.spent_cycles / total:6.1%} {_gain_text(kernel, gain):>16}  {line.place}  "
                f"{_reasons(kernel, line, total)}"
            )
    causes = [gain for gain in kernel.gains if gain.reason in CAUSES]
    for gain in causes:
        if gain.us >= WORTH * kernel.longest_time.us:
            rows.append(f"  {'':6} {_gain_text(kernel, gain):>16}  {gain.place}  without {cause_text(kernel, gain)}")
    head = "  share             gain  line: what its waves' time goes to; gain: of a replay without the first of that"
    return [head, *rows]


def hot_lines(kernel: KernelProfile) -> list[Line]:
    """The lines that waves spend most of their time at; and where the bound is a unit that none of these occupies, the
    line that does so most: a wave waits for a unit's result at another line than it asks for it."""
    shown = list(kernel.lines[:LINES])
    unit = _UNIT_OF_BOUND.get(kernel.longest_time.bound, "")
    occupied = sorted(kernel.lines, key=lambda line: -line.cycles.get(unit, 0))
    if unit and occupied and not any(line.cycles.get(unit) for line in shown) and occupied[0].cycles.get(unit):
        shown.append(occupied[0])
    return shown


def _gain_text(kernel: KernelProfile, gain: Gain | None) -> str:
    """Of the longest launch's modelled time."""
    if gain is None:
        return ""
    return f"{gain.us:.2f} us ({gain.us / kernel.longest_time.us:.0%})"


def cause_text(kernel: KernelProfile, gain: Gain) -> str:
    line = next(line for line in kernel.lines if line.place == gain.place)
    if gain.reason == CONFLICTS:
        return f"its LDS bank conflicts, {line.conflict_ways:.0f}-way"
    if gain.reason == SPILLS:
        executed = sum(one.accesses["scratch"].executed for one in kernel.lines if "scratch" in one.accesses)
        return f"the {executed:,} loads and stores of scratch, most of them here"
    if gain.reason == ATOMICS:
        return f"atomics on one line of memory, {kernel.counters.atomics_on_line:,} one after the other"
    if gain.reason == FENCES:
        return f"its {line.fences:,} fences beyond the XCD, one after the other"
    each = (f"{kind} {a.coalesced:.0%}" for kind, a in line.accesses.items() if kind in ("loads", "stores"))
    stride = "; a power-of-two stride" if any(a.in_one_set for a in line.accesses.values()) else ""
    return f"what its accesses touch beyond their bytes (coalesced: {', '.join(each)}{stride})"


def _reasons(kernel: KernelProfile, line: Line, total: float) -> str:
    """What the line's time goes to, in shares of the kernel's."""
    most = sorted(line.spent.items(), key=lambda item: -item[1])[:3]
    text = ", ".join(f"{wait_text(kernel, line, reason)} {cycles / total:.1%}" for reason, cycles in most if cycles)
    if line.conflict_ways >= 1.5:
        text += f"; bank conflicts, {line.conflict_ways:.0f}-way"
    return text


def wait_text(kernel: KernelProfile, line: Line, reason: str) -> str:
    """The reason, and what the line waits for: `waits for memory (HBM, line 88)`."""
    cause = kernel.waits_for.get((line.place, reason))
    if cause is None:
        return reason_text(reason)
    what = [cause.level or ("its stores" if reason == "memory" else "")]
    file, _, number = cause.place.rpartition(":")
    if cause.place != line.place:
        what.append(f"line {number}" if file and file == line.place.rpartition(":")[0] else cause.place)
    told = ", ".join(filter(None, what))
    return reason_text(reason) + (f" ({told})" if told else "")
