"""Modelled time of counted launches: what the engine's replay of their waves says, and what the card reaches at most.
Never measurements.

A launch takes `launch_us` and the longest of these, whose name is its bound:

    replay   from the first instruction to the last: waves replayed on a CU that has its share of the card, at the clock
             that power leaves it (engine/time/launch_time.cpp)
    matrix   cycles of a SIMD's matrix core, on the SIMD with most waves, and so on: what the replay cannot be below
    vector   cycles of a SIMD's lanes
    LDS      cycles of a CU's LDS, bank conflicts included, on the CU with most workgroups
    L1       cycles of a CU's vector L1 (64 bytes a cycle)
    L2       bytes between CUs and the busiest XCD's L2, over its share of the measured L2 bandwidth
    fabric   bytes between the busiest XCD's L2 and the memory side, likewise
    HBM      bytes of the memory-side cache's misses and of write-backs, over the measured HBM bandwidth
    atomics  those on one line, one after the other; lanes of an instruction on different dwords come together
    links    bytes to and from peers' memory, over what all links reach together, or the busiest alone
    fences   instructions that write back or invalidate the L2, one after the other on the whole card

and then `write-back`: what the L2s still have to write when the last wave has ended, at the rate of the memory side.
The bound is `launch` where `launch_us` is longer than all of them. One that stores to peers and has a loop to wait in
takes `signals` besides: what a round of signals between ranks takes. Where it is the replay, the bound is the unit that
is busy for most of it (BUSY); where none is, what its waves wait for: `L1` for a place in its queue, `latency` for
memory, `barrier` and so on. docs/time-model.md has the mechanisms, and how far the results lie from published
measurements.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from ..cards import Card, cards
from ..results import ModelledTime, added
from .counters import LINE_BYTES, Counters, ReplayedTime
from .errors import with_interval
from .records import LaunchRecord

BUSY = 0.7  # a unit that is busy so much of the time is the reason for it

# What a clock sees of launches beside the time from the first instruction to the last.
CLOCKS = {
    "alone": "a call on its own: all of the first launch, and of each other one what does not pass while the kernel "
    "before it runs, `queued_launch_us` at least",
    "queue": "calls back to back in a stream: of the first launch too, for another call is before it",
    "graph": "calls back to back in a replayed graph, which has prepared all launches: `next_launch_us` of each",
}

# What a bound is called where waves spend their time on it. Not here: `vector` and `matrix`, whose names are the same.
_BOUND_OF_WAIT = {
    "issue": "issue",
    "operands": "dependent instructions",
    "memory": "latency",
    "LDS": "LDS latency",
    "scalar": "latency",
    "code": "instruction fetch",
}


def modelled_time_us(launch: LaunchRecord | Counters, warm: bool = False) -> ModelledTime:
    """The modelled time of one counted launch.

    warm: as if the memory-side cache held everything that the launch touches, where that fits: what a
    benchmark without a cache flush finds. ValueError if the launch was not counted.
    """
    c = launch.counters if isinstance(launch, LaunchRecord) else launch
    if c is None:
        raise ValueError("this launch was not counted: launch it within `with cdna.counting():`")
    card = cards()[c.card]
    held = warm and c.hbm_read_bytes + c.hbm_write_bytes <= card.memory_side_bytes
    replay = c.warm if held else c.cold
    parts = {"launch": card.launch_us}
    if c.groups:
        parts |= _parts_us(c, card, replay, held)
    signals = card.signals_us if c.link_write_bytes and c.sleeps else 0.0
    body = max((us for name, us in parts.items() if name != "launch"), default=0.0)
    longest = max(parts, key=lambda name: parts[name])
    parts["write-back"] = 1e-3 * c.left_dirty_bytes / card.fabric_write_gb_s
    bound = _bound(c, parts) if longest == "replay" else longest
    if signals:
        parts["signals"] = signals
    us = card.launch_us + body + parts["write-back"] + signals
    asked = c.unrecorded_lines + (c.l2_read_bytes + c.l2_write_bytes) // LINE_BYTES
    unrecorded = c.unrecorded_lines / asked if asked else 0.0
    clock = "sustained" if replay.mhz < card.clock_mhz else "boost"
    time = ModelledTime(us, bound, parts, replay.cycles, replay.mhz, clock, unrecorded, replay.others_cycles)
    return with_interval(time, c.card)


def _parts_us(c: Counters, card: Card, replay: ReplayedTime, held: bool) -> dict[str, float]:
    cycle_us = 1 / replay.mhz if replay.mhz else 1 / card.clock_mhz
    groups_on_cu = -(-c.groups // card.compute_units)
    waves_on_simd = -(-groups_on_cu * c.waves_per_group // card.simds_per_cu)
    waves = c.groups * c.waves_per_group
    busiest = {name: bytes * card.xcds for name, bytes in c.busiest_xcd.items()}
    l2_read, l2_write = (
        gb_s * 1e3 / card.clock_mhz for gb_s in (card.l2_read_gb_s, card.l2_write_gb_s)
    )  # bytes a cycle
    return {
        "matrix": c.unit_cycles["matrix"] / waves * waves_on_simd * cycle_us,
        "vector": c.unit_cycles["vector"] / waves * waves_on_simd * cycle_us,
        "LDS": c.unit_cycles["lds"] / c.groups * groups_on_cu * cycle_us,
        "L1": c.unit_cycles["memory"] / c.groups * groups_on_cu * cycle_us,
        "L2": max(busiest["l2_read"] / l2_read, busiest["l2_write"] / l2_write) * cycle_us,
        "fabric": 1e-3
        * max(
            busiest["fabric_read"] / card.fabric_read_gb_s,
            (busiest["fabric_write"] - c.left_dirty_bytes) / card.fabric_write_gb_s,
        ),
        "HBM": 0.0
        if held
        else 1e-3
        * (_hbm_read_ns(c, card, replay.non_temporal) + (c.hbm_write_bytes - c.left_dirty_bytes) / card.hbm_write_gb_s),
        "atomics": 1e-3 * c.atomics_on_line * card.atomic_line_ns,
        "links": 1e-3 * _links_ns(c, card),
        "fences": 1e-3 * c.cache_maintenance * card.cache_maintenance_ns,
        "replay": replay.us,
    }


def _hbm_read_ns(c: Counters, card: Card, non_temporal: float) -> float:
    return c.hbm_read_bytes * ((1 - non_temporal) / card.hbm_read_gb_s + non_temporal / card.hbm_nt_read_gb_s)


def _links_ns(c: Counters, card: Card) -> float:
    """GB/s are bytes a nanosecond."""
    return max(
        c.link_read_bytes / card.links_read_gb_s,
        c.link_write_bytes / card.links_write_gb_s,
        *(most / card.link_alone_gb_s for most in c.busiest_link.values()),
    )


def _bound(c: Counters, parts_us: dict[str, float]) -> str:
    """What the replay's time goes to."""
    units = {name: us for name, us in parts_us.items() if name not in ("launch", "replay", "write-back")}
    busiest = max(units, key=lambda name: units[name])
    if units[busiest] >= BUSY * parts_us["replay"]:
        return busiest
    waits = {reason: share for reason, share in c.spent.items() if reason != "issue"} or c.spent
    longest = max(waits, key=lambda reason: waits[reason], default="issue")
    return _BOUND_OF_WAIT.get(longest, longest)


def _launched(one: ModelledTime, card: Card, left_us: float) -> ModelledTime:
    """A launch of which the clock sees `left_us` instead of all that it takes beside its waves."""
    saved = one.parts_us["launch"] - left_us
    bound = one.bound if one.bound != "launch" or saved <= 0 else _longest(one.parts_us | {"launch": left_us})
    left = replace(one, us=one.us - saved, bound=bound, parts_us=one.parts_us | {"launch": left_us})
    return with_interval(left, card.model)


def _longest(parts_us: dict[str, float]) -> str:
    name = max(parts_us, key=lambda name: parts_us[name])
    return "latency" if name == "replay" else name


def modelled_case_us(
    launches: Iterable[LaunchRecord | Counters], warm: bool = False, clock: str = "alone"
) -> ModelledTime:
    """Launches of one queue, one after the other: times add up, and the bound is the one that most of the time goes to.

    The host is taken to be ahead of the queue. clock: see CLOCKS; ValueError for another one.
    """
    if clock not in CLOCKS:
        raise ValueError(f"no clock {clock!r}: there are {', '.join(CLOCKS)}")
    timed = [(modelled_time_us(launch, warm), _card_of(launch)) for launch in launches]
    bodies = [one.us - one.parts_us["launch"] for one, _ in timed]
    seen = []
    for number, (one, card) in enumerate(timed):
        if clock == "graph":
            one = _launched(one, card, card.next_launch_us)
        elif number or clock == "queue":
            one = _launched(one, card, max(card.queued_launch_us, card.launch_us - bodies[number - 1]))
        seen.append(one)
    return replace(added(seen), seen_by=clock)


def _card_of(launch: LaunchRecord | Counters) -> Card:
    counters = launch.counters if isinstance(launch, LaunchRecord) else launch
    assert counters is not None
    return cards()[counters.card]
