"""Launches that the HIP runtime made, and what checks found in them: the engine logs both (engine/launch_log.cpp), this
fetches them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from .checks import Finding, FindingRecord
from .counters import Shape, collect


class _LoggedLaunch(ctypes.Structure):
    """LoggedLaunch of engine/launch_log.h."""

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
    ]


class _LoggedFinding(ctypes.Structure):
    """LoggedFinding of engine/launch_log.h."""

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


def take(lib: ctypes.CDLL, class_of: Callable[[str], str]) -> list[dict[str, Any]]:
    """The fields of a LaunchRecord for each launch since the last call. class_of: the class of a mnemonic."""
    lib.cdna_log_take.restype = ctypes.c_void_p
    launches = _each(lib.cdna_log_take(), _LoggedLaunch, lib.cdna_log_free)
    return [_record(lib, logged, class_of) for logged in launches]


def _record(lib: ctypes.CDLL, logged: _LoggedLaunch, class_of: Callable[[str], str]) -> dict[str, Any]:
    executed = logged.executed[: logged.n_inst]
    by_class: dict[str, int] = {}

    def where(i: int) -> str:
        return (logged.where[i] or b"").decode(errors="replace")

    for i, n in enumerate(executed):
        if n:
            name = class_of(where(i)[1:].split()[0].rstrip("`"))
            by_class[name] = by_class.get(name, 0) + n
    block = tuple(logged.block)
    counters = None
    if logged.counters:
        waves = -(-block[0] * block[1] * block[2] // 64)
        shape = Shape(logged.card.decode(), waves, logged.lds_bytes)
        counters = collect(lib, logged.counters, shape, executed, where)
    return {
        "kernel": logged.kernel.decode(errors="replace"),
        "grid": tuple(logged.groups),
        "block": block,
        "lds_bytes": logged.lds_bytes,
        "wave_instructions": sum(by_class.values()),
        "by_class": by_class,
        "counters": counters,
    }


def take_findings(lib: ctypes.CDLL) -> list[Finding]:
    """What the checks found in the runtime's launches since the last call, in order."""
    lib.cdna_log_take_findings.restype = ctypes.c_void_p
    findings = _each(lib.cdna_log_take_findings(), _LoggedFinding, lib.cdna_log_free_finding)
    return [_finding(logged) for logged in findings]


def _finding(logged: _LoggedFinding) -> Finding:
    kernel, arch, where, other = (
        (text or b"").decode(errors="replace") for text in (logged.kernel, logged.arch, logged.where, logged.other)
    )
    instruction, _, source = where.removeprefix("`").removesuffix(")").rpartition("` (")
    return logged.finding.as_finding(kernel, arch, instruction, source, other)
