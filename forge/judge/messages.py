"""What the evaluator and its workers tell each other: one frozen dataclass per message, checked where it arrives.

On the channel a message is its class's name and a dict of its fields, in which nested dataclasses are dicts as well.
The evaluator takes nothing for a message that is not one of those it listens for, with every field, each of its type.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, get_args, get_origin, get_type_hints

from forge.judge.results import Accuracy, Stats, Status


class Malformed(Exception):
    """Data that makes none of the messages expected. One line."""


# ---------------------------------------------------------------- evaluator to worker


@dataclass(frozen=True)
class Setup:
    """The first: what the worker is for. Whatever comes after is a command."""

    folder: str  # the run folder
    device: str  # device, arch: as forge.device.resolve takes them
    arch: str
    harness: str  # a row's name
    seed: int | None
    timed: bool  # False on an emulated device


@dataclass(frozen=True)
class RunCase:
    """Answer: CaseRun. The process group stays until EndCase."""

    mode: str  # test | benchmark | leaderboard | profile
    warm_up: bool
    args: dict[str, Any]
    rank: int | None  # None: a single-GPU case, without a process group
    port: int


@dataclass(frozen=True)
class CompareOutput:
    """Answer: Compared."""


@dataclass(frozen=True)
class CallBackToBack:
    """Answer: CalledBackToBack."""

    args: dict[str, Any]


@dataclass(frozen=True)
class EndCase:
    """Answer: CaseEnded."""


COMMANDS = (Setup, RunCase, CompareOutput, CallBackToBack, EndCase)


# ---------------------------------------------------------------- worker to evaluator


@dataclass(frozen=True)
class Pid:
    pid: int


@dataclass(frozen=True)
class Phase:
    """What the worker is doing from now on: import submission, custom_kernel, ..."""

    phase: str


@dataclass(frozen=True)
class TaskBroken:
    """The problem's own files do not load."""

    message: str


@dataclass(frozen=True)
class DeviceBroken:
    """The device cannot be had here, whatever is submitted."""

    message: str


@dataclass(frozen=True)
class Answer:
    """To a command (Ready: to Setup). What was asked for follows in the subclass; it has no meaning after an error."""

    status: Status = Status.PASS
    message: str = ""  # one line
    trace: str = ""  # of an exception
    last_line: str = ""  # of an exception's text of several lines
    phase: str = ""
    lost: bool = False  # the worker is of no more use
    replaced: tuple[str, ...] = ()  # functions that the submission has exchanged, and with which it is judged


@dataclass(frozen=True)
class Ready(Answer):
    fingerprint: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CaseRun(Answer):
    check_s: float = 0.0  # how long the last check took: about one run of the reference
    stats: Stats | None = None
    profile: str = ""
    device_report: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Compared(Answer):
    accuracy: Accuracy | None = None


@dataclass(frozen=True)
class CalledBackToBack(Answer):
    rounds_us: tuple[float, ...] = ()  # of each round, its time per call
    host_rounds_us: tuple[float, ...] = ()  # the same, until the calls had returned
    calls: int = 0  # in a round
    problem: str = ""  # what is wrong with the last call's output


@dataclass(frozen=True)
class CaseEnded(Answer):
    pass


EVENTS = (Pid, Phase, TaskBroken, DeviceBroken, Ready, CaseRun, Compared, CalledBackToBack, CaseEnded)


# ---------------------------------------------------------------- on the channel


def packer() -> Callable[[Any], tuple[str, Any]]:
    """What turns a message into plain data; it looks nothing up that somebody could exchange later."""
    kind_of, fields_of, is_dataclass, is_instance, words = type, vars, dataclasses.is_dataclass, isinstance, Enum

    def plain(value: Any) -> Any:
        if is_dataclass(value):
            return {name: plain(part) for name, part in fields_of(value).items()}
        return value.value if is_instance(value, words) else value

    return lambda message: (kind_of(message).__name__, plain(message))


def unpack(data: Any, kinds: Mapping[str, type]) -> Any:
    """The message that plain data states, one of `kinds` by name; Malformed if it is none."""
    match data:
        case (str(name), fields) if name in kinds:
            return _checked(kinds[name], fields, name)
    raise Malformed(f"{data!r:.60} is none of {', '.join(kinds)}")


def by_name(kinds: tuple[type, ...]) -> dict[str, type]:
    return {kind.__name__: kind for kind in kinds}


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _checked(kind: Any, value: Any, where: str) -> Any:
    """The value as one of this type; Malformed, naming the place, if it cannot be."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return _json(value, where)
    if origin is types.UnionType:  # X | None
        return None if value is None else _checked(parts[0], value, where)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = _hints(kind)
        if type(value) is dict and value.keys() == hints.keys():
            return kind(**{name: _checked(hint, value[name], f"{where}.{name}") for name, hint in hints.items()})
    elif origin is tuple and type(value) in (tuple, list):  # tuple[X, ...]
        return tuple(_checked(parts[0], part, where) for part in value)
    elif origin is dict and type(value) is dict and all(type(key) is str for key in value):
        return {key: _checked(parts[1], part, f"{where}.{key}") for key, part in value.items()}
    elif origin is None and issubclass(kind, Enum):
        if value in [member.value for member in kind]:
            return kind(value)
    elif type(value) is kind or (kind is float and type(value) is int):
        return value
    raise Malformed(f"{where} is {value!r:.60}")


def _json(value: Any, where: str) -> Any:
    """A value that JSON knows, as it is."""
    if type(value) is dict and all(type(key) is str for key in value):
        return {key: _json(part, f"{where}.{key}") for key, part in value.items()}
    if type(value) is list:
        return [_json(part, where) for part in value]
    if value is None or type(value) in (str, int, float, bool):
        return value
    raise Malformed(f"{where} is {value!r:.60}")
