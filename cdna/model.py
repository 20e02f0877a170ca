"""Modelled time of counted launches: arithmetic on counters and what the card reaches, never measurements.

A launch takes `launch_us` and the longest of these, whose name is its bound:

    matrix   cycles of a SIMD's matrix core, on the SIMD with most waves
    vector   cycles of a SIMD's lanes, likewise
    LDS      cycles of a CU's LDS, bank conflicts included, on the CU with most workgroups
    L1       cycles of a CU's vector L1 (64 bytes a cycle), likewise
    L2       bytes between CUs and the busiest XCD's L2, over its share of the measured L2 bandwidth
    fabric   bytes between the busiest XCD's L2 and the memory side, likewise
    HBM      bytes of the memory-side cache's misses and of write-backs, over the measured HBM bandwidth
    latency  rounds of workgroups, times how long those of one CU take from start to end: with waits for memory
             and barriers, and with waves in each other's way; where one of the CU's units is busy for most of
             that time (80%), the bound goes by that unit's name

and `launch` where `launch_us` is longer than all of them. docs/time-model.md has the formulas, and how far
the results lie from published measurements.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .cards import Card, cards
from .counters import Counters
from .records import LaunchRecord

BUSY = 0.8  # a unit that is busy so much of the time is the reason for it


@dataclass(frozen=True)
class ModelledTime:
    """A modelled duration. `parts_us`: what each bound alone would take, by name."""

    us: float
    bound: str
    parts_us: dict[str, float] = field(default_factory=dict)


def modelled_time_us(launch: LaunchRecord | Counters, warm: bool = False) -> ModelledTime:
    """The modelled time of one counted launch.

    warm: as if the memory-side cache held everything that the launch touches, where that fits: what a
    benchmark without a cache flush finds. ValueError if the launch was not counted.
    """
    c = launch.counters if isinstance(launch, LaunchRecord) else launch
    if c is None:
        raise ValueError("this launch was not counted: launch it within `with cdna.counting():`")
    card = cards()[c.card]
    parts = {"launch": card.launch_us}
    if c.groups:
        cycles_us = 1 / card.clock_mhz
        groups_on_cu = -(-c.groups // card.compute_units)
        waves_on_simd = -(-groups_on_cu * c.waves_per_group // card.simds_per_cu)
        waves = c.groups * c.waves_per_group
        parts["matrix"] = c.unit_cycles["matrix"] / waves * waves_on_simd * cycles_us
        parts["vector"] = c.unit_cycles["vector"] / waves * waves_on_simd * cycles_us
        parts["LDS"] = c.unit_cycles["lds"] / c.groups * groups_on_cu * cycles_us
        parts["L1"] = c.unit_cycles["memory"] / c.groups * groups_on_cu * cycles_us
        busiest = {name: bytes * card.xcds for name, bytes in c.busiest_xcd.items()}
        parts["L2"] = 1e-3 * max(busiest["l2_read"] / card.l2_read_gb_s, busiest["l2_write"] / card.l2_write_gb_s)
        parts["fabric"] = 1e-3 * max(
            busiest["fabric_read"] / card.fabric_read_gb_s, busiest["fabric_write"] / card.fabric_write_gb_s
        )
        held = warm and c.hbm_read_bytes + c.hbm_write_bytes <= card.memory_side_bytes
        hbm_read = 0 if held else c.hbm_read_bytes
        hbm_write = 0 if held else c.hbm_write_bytes
        parts["HBM"] = 1e-3 * (hbm_read / card.hbm_read_gb_s + hbm_write / card.hbm_write_gb_s)
        parts["latency"] = (c.warm if held else c.cold).us
    longest = max(parts, key=lambda name: parts[name])
    if longest == "latency":
        busiest_unit = max(("matrix", "vector", "LDS", "L1"), key=lambda name: parts[name])
        longest = busiest_unit if parts[busiest_unit] >= BUSY * parts["latency"] else longest
    body = max((us for name, us in parts.items() if name != "launch"), default=0.0)
    return ModelledTime(card.launch_us + body, longest, parts)


def modelled_case_us(launches: Iterable[LaunchRecord | Counters], warm: bool = False) -> ModelledTime:
    """Launches one after the other: times add up, and the bound is the one that most of the time goes to."""
    total, parts, by_bound = 0.0, dict[str, float](), dict[str, float]()
    for launch in launches:
        one = modelled_time_us(launch, warm)
        total += one.us
        by_bound[one.bound] = by_bound.get(one.bound, 0.0) + one.us
        for name, us in one.parts_us.items():
            parts[name] = parts.get(name, 0.0) + us
    bound = max(by_bound, key=lambda name: by_bound[name]) if by_bound else ""
    return ModelledTime(total, bound, parts)
