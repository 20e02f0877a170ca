"""What the evaluator and its workers tell each other: one frozen dataclass per message, checked where it arrives.

On the channel a message is its class's name and a dict of its fields, in which nested dataclasses are dicts as well.
The evaluator takes nothing for a message that is not one of those it listens for, with every field, each of its type.
"""

from __future__ import annotations

import dataclasses
import functools
import signal
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypedDict, get_args, get_origin, get_type_hints, is_typeddict

from forge.judge.results import Accuracy, Status

WHERE = signal.SIGRTMIN + 5  # asks a worker where its threads are: faulthandler answers, and it goes on
MOST_DEPTH, INT_BITS = 40, 64  # of what JSON-like fields hold


class Malformed(Exception):
    """Data that makes none of the messages expected. One line."""


# ---------------------------------------------------------------- what a device says of its kernels


class ModelledTime(TypedDict):
    us: float
    bound: str


class ModelledTimes(TypedDict):
    cold: ModelledTime
    warm: ModelledTime


class _KernelParts(TypedDict, total=False):
    work: dict[str, Any]
    profile: dict[str, list[str]]
    spent: dict[str, list[dict[str, Any]]]
    timeline: dict[str, Any]


class KernelReport(_KernelParts):
    launches: int
    wave_instructions: int
    by_unit: dict[str, int]


class Finding(TypedDict):
    text: str


class DeviceReport(TypedDict, total=False):
    """Of an emulated device; empty of a GPU. What else the parts say is for whoever reads the JSON file."""

    kernels: dict[str, KernelReport]
    modelled: ModelledTimes
    autotuned: list[str]
    findings: list[Finding]
    uncounted: int  # launches of which nothing is known
    trials: int  # of an autotuner, which are no work
    timed_itself: int
    flops: int  # of the launches but for trials, at most
    torch: list[dict[str, Any]]


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
    precision: dict[str, Any] = field(default_factory=dict)  # of forge.task.problem.Precision, for a referee
    imports_nothing: bool = False  # whose problem's check is known not to, so that a referee need not do it ahead
    multiplies: bool = False  # for a referee: whether the problem's floors have products of matrices
    known_as: str = ""  # for a referee: the folder whose reference.py has settle and probe, beside the problem's own


@dataclass(frozen=True)
class BeginCase:
    """Answer: CaseBegun. Its process group stays until EndCase."""

    world_size: int | None = None
    rank: int | None = None  # None: a single-GPU case, without a process group
    port: int = 0
    exchange: int = 0  # of those that the process has, the one through which this rank's tensors pass


@dataclass(frozen=True)
class Call:
    """Answer: Called."""

    layout: bytes | None  # of the input that lies in the exchange (forge/judge/exchange.py); None: the one before
    where: str = "elsewhere"  # than any input before; "same": in the memory of the one before; "fresh": anywhere
    slot: int = 0  # of the exchange's outputs
    how: str = "test"  # test: synchronized; checked: not; timed: on the harness's clock; profile
    watched: bool = False  # tell what torch did in it
    checks: str = "all"  # on an emulated device, of those that the run asked for: all, none, or that one
    count: bool = False  # on an emulated device: for a modelled time
    sample: str = ""  # and some of it stands for all: what is computed is of no use; forge.device.base.SAMPLES


@dataclass(frozen=True)
class FetchOutput:
    """Answer: Fetched."""

    first: bool = False  # the case's first output, as it is now; or the last one's
    slot: int = 0


@dataclass(frozen=True)
class CallBackToBack:
    """Answer: CalledBackToBack."""

    layout: bytes  # of the input


@dataclass(frozen=True)
class EndCase:
    """Answer: CaseEnded."""


COMMANDS = (Setup, BeginCase, Call, FetchOutput, CallBackToBack, EndCase)


# ---------------------------------------------------------------- evaluator to referee


@dataclass(frozen=True)
class MakeInput:
    """Answer: InputMade. It stays with the referee, under the number of its draw."""

    draw: int
    args: dict[str, Any]
    seed: int | None  # of torch's global generators
    probe: bool = False  # changed as the problem's task.yml says: no official case
    settle: bool = False  # as reference.py makes data that rounding decides nothing of: drawn by us


@dataclass(frozen=True)
class HandOver:
    """Answer: HandedOver. Puts a draw's input into the exchange."""

    draw: int


@dataclass(frozen=True)
class JudgeOutput:
    """Answer: Judged."""

    draw: int
    output: dict[str, Any]  # as a worker told it
    slot: int  # where its bytes are
    official: bool  # the problem's own check decides; else, how far the output is off
    accuracy: bool
    last: bool  # the draw is not needed any more
    best: bool = False  # against the reference as exact as can be; else, what the check has had of it
    share: bool = False  # look whether the output holds what the input adds to it


@dataclass(frozen=True)
class LookAgain:
    """Answer: Looked."""

    output: dict[str, Any]
    slot: int


REFEREE_COMMANDS = (Setup, BeginCase, MakeInput, HandOver, JudgeOutput, LookAgain, EndCase)


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
    replaced: tuple[str, ...] = ()  # clocks that the submission has exchanged


@dataclass(frozen=True)
class Ready(Answer):
    fingerprint: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CaseBegun(Answer):
    pass


@dataclass(frozen=True)
class Called(Answer):
    output: dict[str, Any] = field(default_factory=dict)  # as forge.judge.exchange.write_output tells it; not if timed
    ns: float = 0.0  # of a timed call
    late_ns: float = 0.0  # that the GPU worked on after its last event
    call_s: float = 0.0  # on the worker's clock
    profile: str = ""
    device_report: DeviceReport = field(default_factory=DeviceReport)
    torch_work: dict[str, Any] = field(default_factory=dict)  # of a watched call: see forge.judge.operations
    written: dict[str, int] = field(default_factory=dict)  # the output's bytes by who wrote them: see cdna.memory
    unaccounted: str = ""  # why that is not known
    host: tuple[str, ...] = ()  # what the call did on the host that may have made them


@dataclass(frozen=True)
class Fetched(Answer):
    output: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CalledBackToBack(Answer):
    rounds_us: tuple[float, ...] = ()  # of each round, its time per call
    host_rounds_us: tuple[float, ...] = ()  # the same, until the calls had returned
    calls: int = 0  # in a round


@dataclass(frozen=True)
class CaseEnded(Answer):
    pass


EVENTS = (Pid, Phase, TaskBroken, DeviceBroken, Ready, CaseBegun, Called, Fetched, CalledBackToBack, CaseEnded)


# ---------------------------------------------------------------- referee to evaluator


@dataclass(frozen=True)
class InputMade(Answer):
    large: bool = False  # two of its kind may not fit into the host's memory
    bytes: int = 0  # of its storages


@dataclass(frozen=True)
class HandedOver(Answer):
    layout: bytes = b""


@dataclass(frozen=True)
class Judged(Answer):
    check_s: float = 0.0  # how long the check took: about one run of the reference
    check_bytes: int = 0  # of memory that judging took beside the input
    accuracy: Accuracy | None = None
    share: float | None = None  # of what the input adds to it the output holds this much; None: all, or not looked at
    touched: bool = False  # the kernel wrote to its input
    changed: tuple[str, ...] = ()  # inputs that it changed, though neither the reference does nor it returns them
    officially: bool | None = None  # the verdict over the inputs so changed, where official evaluators look at these


@dataclass(frozen=True)
class Looked(Answer):
    changed: bool = False  # the output is no longer what was judged


REFEREE_EVENTS = (
    *(Pid, Phase, TaskBroken, DeviceBroken, Ready, CaseBegun, CaseEnded),
    *(InputMade, HandedOver, Judged, Looked),
)


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
    if kind is Any or origin is None and value.__class__ in (str, int):
        value = _json(value, where)
    if kind is Any:
        return value
    if origin is types.UnionType:  # X | None
        return None if value is None else _checked(parts[0], value, where)
    if is_typeddict(kind):
        return _checked_keys(kind, value, where)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = _hints(kind)
        if type(value) is dict and value.keys() == hints.keys():
            return kind(**{name: _checked(hint, value[name], f"{where}.{name}") for name, hint in hints.items()})
    elif origin is tuple and type(value) in (tuple, list):  # tuple[X, ...]
        return tuple(_checked(parts[0], part, where) for part in value)
    elif origin is list and type(value) is list:
        return [_checked(parts[0], part, where) for part in value]
    elif origin is dict and type(value) is dict and all(type(key) is str for key in value):
        return {_json(key, where): _checked(parts[1], part, f"{where}.{key}") for key, part in value.items()}
    elif origin is None and issubclass(kind, Enum):
        if value in [member.value for member in kind]:
            return kind(value)
    elif type(value) is kind or (kind is float and type(value) is int):
        return value
    raise Malformed(f"{where} is {value!r:.60}")


def _checked_keys(kind: Any, value: Any, where: str) -> dict[str, Any]:
    """As a TypedDict has them: all that it requires; others too, as JSON, unless it is one of optional keys alone."""
    hints, required = _hints(kind), kind.__required_keys__
    words = type(value) is dict and all(type(key) is str for key in value)
    if not words or not required <= value.keys() or not (required or value.keys() <= hints.keys()):
        raise Malformed(f"{where} is {value!r:.60}")
    return {name: _checked(hints.get(name, Any), part, f"{where}.{name}") for name, part in value.items()}


def _json(value: Any, where: str, depth: int = 0) -> Any:
    """A value that JSON knows, as it is: no number or nesting that who reads it later could not take, and what cannot
    be written in UTF-8 replaced."""
    if depth > MOST_DEPTH:
        raise Malformed(f"{where:.60} nests deeper than {MOST_DEPTH}")
    if type(value) is dict and all(type(key) is str for key in value):
        return {_json(key, where): _json(part, f"{where}.{key}", depth + 1) for key, part in value.items()}
    if type(value) is list:
        return [_json(part, where, depth + 1) for part in value]
    if type(value) is str:
        return value if value.isascii() else value.encode(errors="replace").decode()
    if value is None or type(value) in (float, bool) or type(value) is int and value.bit_length() < INT_BITS:
        return value
    raise Malformed(f"{where:.60} is {value!r:.60}" if type(value) is not int else f"{where:.60} is too large a number")
