"""Launches that the HIP runtime made, and what checks found in them: the engine logs both
(engine/run/launch_log.cpp), this fetches them."""

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from ..checks import as_finding
from ..isa import UNITS
from ..results import Finding
from .counters import Shape, collect


def executed_fields(sums: Any) -> dict[str, Any]:
    """The engine's Executed as fields of a LaunchRecord."""
    by_unit = {unit: count for unit, count in zip(UNITS, sums.by_unit) if count}
    instructions = sum(by_unit.values())
    return {"wave_instructions": instructions, "by_unit": by_unit, "cycles": sums.cycles, "flops": sums.flops}


def _each(logged: Any, free: Callable[[Any], None]) -> Iterator[Any]:
    """What a list of the engine's holds, in order; freed as it is left behind."""
    while logged:
        yield logged.contents
        following = ctypes.cast(logged.contents.next, type(logged))
        free(logged)
        logged = following


def take(lib: ctypes.CDLL) -> list[dict[str, Any]]:
    """The fields of a LaunchRecord for each launch since the last call."""
    launches = _each(lib.cdna_log_take(), lib.cdna_log_free)
    return [_record(lib, logged) for logged in launches]


def _record(lib: ctypes.CDLL, logged: Any) -> dict[str, Any]:
    executed = logged.executed[: logged.n_inst]

    def where(i: int) -> str:
        return (logged.where[i] or b"").decode(errors="replace")

    block = tuple(logged.block)
    counters = None
    if logged.counters:
        waves = -(-block[0] * block[1] * block[2] // 64)
        shape = Shape(logged.card.decode(), waves, logged.lds_bytes)
        counters = collect(lib, logged.counters, shape, executed, where)
        logged.counters = None  # they are its own now
    return {
        "kernel": logged.kernel.decode(errors="replace"),
        "grid": tuple(logged.groups),
        "block": block,
        "lds_bytes": logged.lds_bytes,
        **executed_fields(logged.sums),
        "counters": counters,
    }


def take_findings(lib: ctypes.CDLL) -> list[Finding]:
    """What the checks found in the runtime's launches since the last call, in order."""
    findings = _each(lib.cdna_log_take_findings(), lib.cdna_log_free_finding)
    return [_finding(logged) for logged in findings]


def _finding(logged: Any) -> Finding:
    kernel, arch, where, other = (
        (text or b"").decode(errors="replace") for text in (logged.kernel, logged.arch, logged.where, logged.other)
    )
    instruction, _, source = where.removeprefix("`").removesuffix(")").rpartition("` (")
    return as_finding(logged.finding, kernel, arch, instruction, source, other)
