"""Rows that are thread traces: a kernel's whole machine code as text, and what each of its instructions waited for on
an MI350X. The text is assembled here and launched with the traced grid; what the model says is held against the trace.

A row's code is the trace's code.json; occupancy.json and realtime.json lie beside it. Its shape: grid and block, `lds`
bytes of a workgroup, and `kernarg`, offset:value pairs of which a value with an @ is memory of so many bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from cdna.cards import Card
from cdna.launch.program import Kernel, Program
from cdna.observe.counters import Counters
from cdna.profile.kernel import with_warm_caches
from cdna.results import ModelledTime

from .launches import LAUNCHES, Launch, Memory, PlacedLaunch, Slot
from .ranks import spearman
from .rows import Row, RowError

HOT = 0.01  # of all stalls, traced or modelled: with more of them an instruction is a hot one
WORST = 8  # instructions that a result tells of
_REALTIME_MHZ = 100
_REGISTERS = re.compile(r"\b([va])(?:(\d+)\b|\[(?:\d+):(\d+)\])")
_BRANCH = re.compile(r"(s_c?branch\w*) (\d+)$")
_SPAN_OF_BRANCH = 1 << 16
KERNARG_BYTES = 512  # more than any kernel takes
_ISSUE_CYCLES = 4  # of a kernel's first instruction, a scalar one
_SGPRS = 32  # as the trace's own table of launches has it, of every kernel

FILES = ("occupancy.json", "realtime.json")  # beside a trace's code.json


@dataclass(frozen=True)
class Instruction:
    """Sums over the traced waves, in cycles. line: of the source. latency: until the next one issues."""

    text: str
    line: str
    address: int
    hits: int
    latency: int
    stall: int

    @property
    def waited(self) -> int:
        """The trace counts the stores that a wave's end waits for as its latency."""
        return self.latency if self.text == "s_endpgm" else self.stall


@dataclass(frozen=True)
class Trace:
    """code: of one kernel. events: by shader engine, (cycle, CU, SIMD, slot, 1 for a start and 0 for an end)."""

    name: str
    code: tuple[Instruction, ...]
    events: dict[str, list[list[int]]]
    clocks: dict[str, list[list[int]]]  # pairs of (cycle, tick of a clock of 100 MHz), by shader engine

    @property
    def waves(self) -> int:
        """Whose instructions were traced."""
        return self.code[0].hits

    @property
    def mhz(self) -> float:
        """The clock that the card had: it stands in the trace as two points."""
        (cycle, tick), (last_cycle, last_tick) = next(iter(self.clocks.values()))[:2]
        return (last_cycle - cycle) / (last_tick - tick) * _REALTIME_MHZ

    @cached_property
    def span_cycles(self) -> int:
        """From the first wave's start to the last one's end, of the traced XCD."""
        zero = {engine: points[0][0] for engine, points in self.clocks.items()}
        times = [event[0] - zero[engine] for engine, events in self.events.items() for event in events]
        return max(times) - min(times)

    @cached_property
    def waves_on_cu(self) -> int:
        """At most at the same time."""
        most = 0
        for events in self.events.values():
            here: dict[int, int] = {}
            for _, cu, _, _, starts, *_ in sorted(events, key=lambda event: (event[0], event[4])):
                here[cu] = here.get(cu, 0) + (1 if starts else -1)
                most = max(most, here[cu])
        return most


def read_trace(files: Mapping[str, bytes]) -> Trace:
    """RowError where a file is missing or is not one of a trace."""
    try:
        contents = {PurePosixPath(name).name: json.loads(content) for name, content in files.items()}
        first, *lines = contents["code.json"]["code"]
        code = tuple(Instruction(line[0], line[3], *line[5:9]) for line in lines)
        events = {engine: found for engine, found in contents["occupancy.json"].items() if engine.isdigit() and found}
        clocks = {engine: contents["realtime.json"][f"SE{engine}"] for engine in events}
        return Trace(first[0].removeprefix("; "), code, events, clocks)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise RowError(f"no thread trace: {type(error).__name__}: {error}") from None


def assembly(trace: Trace, arch: str, lds_bytes: int) -> str:
    """The kernel as a file of assembly: targets of branches become labels, and its registers are counted."""
    lines, targets = [], set()
    for one in trace.code:
        text = one.text
        if found := _BRANCH.match(text):
            offset = int(found[2])
            offset -= _SPAN_OF_BRANCH if offset >= _SPAN_OF_BRANCH // 2 else 0
            target = one.address + 4 + 4 * offset
            targets.add(target)
            text = f"{found[1]} at_{target}"
        lines.append((one.address, text))
    if missing := targets - {address for address, _ in lines}:
        raise RowError(f"{trace.name}: the trace has no instruction at {min(missing)}, where a branch goes to")
    body = "\n".join(f"at_{address}:\n{text}" if address in targets else text for address, text in lines)
    used = {"v": 0, "a": 0}
    for kind, alone, last in _REGISTERS.findall(body):
        used[kind] = max(used[kind], int(alone or last) + 1)
    offset = -(-used["v"] // 4) * 4
    registers = offset + used["a"] if used["a"] else used["v"]
    return f"""
.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
.text
{trace.name}:
{body}
.section .rodata
.amdhsa_kernel {trace.name}
.amdhsa_group_segment_fixed_size {lds_bytes}
.amdhsa_user_sgpr_kernarg_segment_ptr 1
.amdhsa_user_sgpr_count 2
.amdhsa_system_sgpr_workgroup_id_y 1
.amdhsa_system_sgpr_workgroup_id_z 1
.amdhsa_next_free_vgpr {registers}
.amdhsa_accum_offset {offset}
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.kernels:
  - .name: {trace.name}
    .symbol: {trace.name}.kd
    .kernarg_segment_size: {KERNARG_BYTES}
    .group_segment_fixed_size: {lds_bytes}
    .private_segment_fixed_size: 0
    .max_flat_workgroup_size: 1024
    .vgpr_count: {registers}
    .sgpr_count: {_SGPRS}
    .args: []
...
.end_amdgpu_metadata
"""


def _three(row: Row, name: str) -> tuple[int, int, int]:
    try:
        x, y, z = ([int(n) for n in row.shape[name].split(",")] + [1, 1])[:3]
    except (KeyError, ValueError):
        raise RowError(f"{row.code}: shape {row.shape_text!r} has no {name!r} of up to three numbers") from None
    return x, y, z


def trace_launch(row: Row, card: Card) -> Launch:
    """As it was traced."""
    offsets: list[int] = []
    slots: list[Slot] = []
    for pair in row.shape["kernarg"].split(","):
        offset, _, value = pair.partition(":")
        offsets.append(int(offset))
        slots.append(Memory(int(value[1:])) if value.startswith("@") else int(value))
    launch = PlacedLaunch(_three(row, "grid"), slots, block=_three(row, "block"))
    launch.offsets, launch.kernarg_bytes = offsets, KERNARG_BYTES
    return launch


LAUNCHES["trace"] = trace_launch


def traced_kernel(row: Row, trace: Trace, arch: str) -> Kernel:
    """The kernel, assembled."""
    program = Program(assembly(trace, arch, row.number("lds")))
    return program.kernels[trace.name]


def _modelled_stalls(trace: Trace, counters: Counters) -> list[float]:
    """Cycles that a wave waits at each instruction of the trace, on average."""
    stalls = [0.0] * len(trace.code)
    waves = counters.instructions[0].spent["issue"] / _ISSUE_CYCLES
    for one in counters.instructions:
        stalls[one.index] = sum(cycles for reason, cycles in one.spent.items() if reason != "issue") / waves
    return stalls


def _hot(traced: Sequence[float], modelled: Sequence[float]) -> tuple[list[int], float]:
    """(the hot ones, most first, the rank correlation of their stalls)."""
    least = [HOT * sum(values) for values in (traced, modelled)]
    hot = [i for i in range(len(traced)) if traced[i] > least[0] or modelled[i] > least[1]]
    hot.sort(key=lambda i: -max(traced[i], modelled[i]))
    return hot, round(spearman([traced[i] for i in hot], [modelled[i] for i in hot]), 3)


def _by_line(trace: Trace, stalls: Sequence[float]) -> list[float]:
    """Of each line of the source, in the order in which the code first names them."""
    sums = {one.line: 0.0 for one in trace.code}
    for one, cycles in zip(trace.code, stalls, strict=True):
        sums[one.line] += cycles
    return list(sums.values())


def against_trace(trace: Trace, counters: Counters, time: ModelledTime, warm: bool) -> dict[str, Any]:
    """What is held against each other: spans in microseconds, each at its own clock, and a wave's stalls in cycles. The
    traced waves are those of four CUs."""
    modelled = _modelled_stalls(trace, with_warm_caches(counters) if warm else counters)
    traced = [one.waited / trace.waves for one in trace.code]
    hot, ranks = _hot(traced, modelled)
    hot_lines, line_ranks = _hot(_by_line(trace, traced), _by_line(trace, modelled))
    traced_us = trace.span_cycles / trace.mhz
    return {
        "span_us": round(traced_us, 3),
        "span_ratio": round(time.cycles / time.mhz / traced_us, 4),
        "traced_mhz": round(trace.mhz),
        "waves_on_cu": trace.waves_on_cu,
        "stall_cycles": [round(sum(traced)), round(sum(modelled))],
        "hot": len(hot),
        "stall_ranks": ranks,
        "hot_lines": len(hot_lines),
        "line_ranks": line_ranks,
        "hottest": [[trace.code[i].text, round(traced[i]), round(modelled[i])] for i in hot[:WORST]],
    }
