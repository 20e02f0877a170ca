"""What a kernel would gain if one of its lines did not cost something: its longest launch replayed without that.

Modelled, as the time itself is: everything else stays as it was, so gains of several lines do not add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from ..observe.counters import Counters, InstructionCount
from ..observe.model import modelled_time_us
from ..observe.replay import Change, Left
from ..results import Gain
from .lines import Line, is_scratch

# Beside counters' REASONS: causes that lie at the line itself, where others wait for it.
CONFLICTS, WASTE, SPILLS, ATOMICS, FENCES = "bank conflicts", "uncoalesced", "spills", "atomics", "fences"
CAUSES = (CONFLICTS, WASTE, SPILLS, ATOMICS, FENCES)
LINES = 8  # whose reasons are looked at
WORTH = 0.03  # share of the waves' time, from which on a reason is looked at
KEEPS_ORDER = ("wait", "barrier", "end")  # units of instructions that are not left out


def gains_of(counters: Counters, lines: Sequence[Line], warm: bool) -> list[Gain]:
    """Of the lines that cost most, largest first. Empty where the launch's steps are gone."""
    asked = [(line, reason, gain_without(counters, lines, line, reason, warm)) for line, reason in _candidates(lines)]
    found = [Gain(line.place, reason, max(0.0, us)) for line, reason, us in asked if us is not None]
    return sorted(found, key=lambda gain: -gain.us)


def gain_without(c: Counters, lines: Sequence[Line], line: Line, reason: str, warm: bool) -> float | None:
    """What the launch would gain without a reason at a line; None where its steps are gone."""
    # A spilled register is stored at one line and loaded at another: all of them go, or none.
    at = lines if reason == SPILLS else [line]
    left = _without(c, line, [one for each in at for one in each.instructions], reason, warm)
    return None if left is None else modelled_time_us(c, warm).us - modelled_time_us(left, warm).us


def _candidates(lines: Sequence[Line]) -> Iterator[tuple[Line, str]]:
    total = sum(line.spent_cycles for line in lines) or 1.0
    for line in sorted(lines, key=lambda line: -line.spent_cycles)[:LINES]:
        for reason, cycles in sorted(line.spent.items(), key=lambda item: -item[1])[:2]:
            if cycles > WORTH * total:
                yield line, reason
    causes: tuple[tuple[str, int, Callable[[Line], float]], ...] = (
        (CONFLICTS, 3, lambda line: line.conflict_cycles),
        (WASTE, 3, lambda line: sum(a.wasted for kind, a in line.accesses.items() if kind in ("loads", "stores"))),
        (SPILLS, 1, lambda line: line.accesses["scratch"].executed if "scratch" in line.accesses else 0),
        (ATOMICS, 1, lambda line: line.accesses["atomics"].lanes if "atomics" in line.accesses else 0),
        (FENCES, 2, lambda line: line.fences),
    )
    for reason, most, size in causes:
        for line in sorted(filter(size, lines), key=size, reverse=True)[:most]:
            yield line, reason


def _without(
    c: Counters, line: Line, instructions: Sequence[InstructionCount], reason: str, warm: bool
) -> Counters | None:
    """The launch's counters without a reason at a line."""
    if reason == ATOMICS:
        return replace(c, atomics_on_line=0)
    if reason == FENCES:
        return replace(c, cache_maintenance=c.cache_maintenance - line.fences)
    name, leave, saved = _left_out(line, instructions, reason)
    return _with(c, Change({one.index: name for one in leave}), saved, warm) if leave else None


def changed_us(c: Counters, change: Change, warm: bool) -> float | None:
    """The launch's modelled time with a change; None where its steps are gone."""
    gone = {"it": 1.0, "narrow": 1 - 1 / change.wider}
    saved = Saved()
    for one in c.instructions:
        cycles = one.cycles * gone.get(change.left_out.get(one.index, ""), 0.0)
        saved[one.unit] = saved.get(one.unit, 0) + round(cycles)
    left = _with(c, change, saved, warm)
    return None if left is None else modelled_time_us(left, warm).us


def _with(c: Counters, change: Change, saved: Saved, warm: bool) -> Counters | None:
    left = c.replay.changed(change, warm) if c.replay is not None else None
    return None if left is None else _scaled(c, change, left, saved, warm)


Saved = dict[str, int]  # cycles by unit


def _left_out(
    line: Line, instructions: Sequence[InstructionCount], reason: str
) -> tuple[str, Sequence[InstructionCount], Saved]:
    """The replay's word for it, the instructions, and what their units no longer do."""
    if reason == CONFLICTS:
        return "conflicts", [one for one in instructions if one.conflict_cycles], {"lds": line.conflict_cycles}
    if reason == WASTE:
        wasteful = [one for one in instructions if one.unit == "memory" and one.segments > one.ideal_segments]
        return "waste", wasteful, {"memory": sum(_wasted_cycles(one) for one in wasteful)}
    if reason == SPILLS:
        return "it", *_all_of(one for one in instructions if is_scratch(one))
    if reason == "issue":
        return "it", *_all_of(one for one in instructions if one.unit not in KEEPS_ORDER)
    return reason, instructions, {}


def _all_of(instructions: Iterable[InstructionCount]) -> tuple[list[InstructionCount], Saved]:
    all_of, saved = list(instructions), Saved()
    for one in all_of:
        saved[one.unit] = saved.get(one.unit, 0) + one.cycles
    return all_of, saved


def _wasted_cycles(one: InstructionCount) -> int:
    return round(one.cycles * (1 - max(one.ideal_segments, 4 * one.executed) / one.segments)) if one.segments else 0


def _scaled(c: Counters, change: Change, left: Left, saved: Saved, warm: bool) -> Counters:
    work = change.groups * change.steps
    cycles = {unit: max(0, round(work * (total - saved.get(unit, 0)))) for unit, total in c.unit_cycles.items()}
    cycles["memory"] = round(cycles.get("memory", 0) * change.loads)
    shares = {
        "l2_read": left.l2_read,
        "l2_write": left.write,
        "fabric_read": left.fabric_read,
        "fabric_write": left.write,
    }
    changed = replace(
        c,
        groups=max(1, round(c.groups * change.groups)),
        unit_cycles=cycles,
        busiest_xcd={name: round(bytes * shares[name]) for name, bytes in c.busiest_xcd.items()},
        hbm_read_bytes=round(c.hbm_read_bytes * left.hbm_read),
        hbm_write_bytes=round(c.hbm_write_bytes * left.write),
        left_dirty_bytes=round(c.left_dirty_bytes * left.write),
        link_read_bytes=round(c.link_read_bytes * left.links),
        link_write_bytes=round(c.link_write_bytes * left.links),
        busiest_link={name: round(bytes * left.links) for name, bytes in c.busiest_link.items()},
    )
    return replace(changed, warm=left.time) if warm else replace(changed, cold=left.time)
