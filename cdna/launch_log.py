"""Launches that the HIP runtime made, and what checks found in them: the engine logs both
(engine/run/launch_log.cpp), this fetches them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from .checks import Finding, FindingRecord
from .counters import Shape, collect
from .isa import UNITS


class Executed(ctypes.Structure):
    """Executed of engine/time/costs.h."""

    _fields_ = [("by_unit", ctypes.c_uint64 * len(UNITS)), ("cycles", ctypes.c_uint64)]

    def fields(self) -> dict[str, Any]:
        """Those of a LaunchRecord."""
        by_unit = {unit: count for unit, count in zip(UNITS, self.by_unit) if count}
        return {"wave_instructions": sum(by_unit.values()), "by_unit": by_unit, "cycles": self.cycles}


class _LoggedLaunch(ctypes.Structure):
    """LoggedLaunch of engine/run/launch_log.h."""

    _fields_ = [
        ("next", ctypes.c_void_p),
        ("counters", ctypes.c_void_p),
        ("kernel", ctypes.c_char_p),
        ("executed", ctypes.POINTER(ctypes.c_uint64)),
        ("where", ctypes.POINTER(ctypes.c_char_p)),
        ("card", ctypes.c_char_p),
        ("n_inst", ctypes.c_uint32),
        ("groups", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("lds_bytes", ctypes.c_uint32),
        ("sums", Executed),
    ]


class _LoggedFinding(ctypes.Structure):
    """LoggedFinding of engine/run/launch_log.h."""

    _fields_ = [
        ("next", ctypes.c_void_p),
        ("kernel", ctypes.c_char_p),
        ("arch", ctypes.c_char_p),
        ("where", ctypes.c_char_p),
        ("other", ctypes.c_char_p),
        ("finding", FindingRecord),
    ]


Logged = TypeVar("Logged", _LoggedLaunch, _LoggedFinding)


def _each(address: int | None, kind: type[Logged], free: Callable[[ctypes.c_void_p], None]) -> Iterator[Logged]:
    """What a list of the engine's holds, in order; freed as it is left behind."""
    while address:
        logged = kind.from_address(address)
        yield logged
        following = logged.next
        free(ctypes.c_void_p(address))
        address = following


def take(lib: ctypes.CDLL) -> list[dict[str, Any]]:
    """The fields of a LaunchRecord for each launch since the last call."""
    launches = _each(lib.cdna_log_take(), _LoggedLaunch, lib.cdna_log_free)
    return [_record(lib, logged) for logged in launches]


def _record(lib: ctypes.CDLL, logged: _LoggedLaunch) -> dict[str, Any]:
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
        **logged.sums.fields(),
        "counters": counters,
    }


def take_findings(lib: ctypes.CDLL) -> list[Finding]:
    """What the checks found in the runtime's launches since the last call, in order."""
    findings = _each(lib.cdna_log_take_findings(), _LoggedFinding, lib.cdna_log_free_finding)
    return [_finding(logged) for logged in findings]


def _finding(logged: _LoggedFinding) -> Finding:
    kernel, arch, where, other = (
        (text or b"").decode(errors="replace") for text in (logged.kernel, logged.arch, logged.where, logged.other)
    )
    instruction, _, source = where.removeprefix("`").removesuffix(")").rpartition("` (")
    return logged.finding.as_finding(kernel, arch, instruction, source, other)
