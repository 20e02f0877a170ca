"""What the evaluator and its workers tell each other: one frozen struct per message, checked where it arrives.

On the channel a message is MessagePack: its class's name and its fields. What is none of those that are listened for,
with its own fields alone, each of its type, is none."""

import functools
import signal
from collections.abc import Callable
from typing import Any, Union

import msgspec
from msgspec import Struct

from forge.device.base import Fingerprint
from forge.device.report import DeviceReport, Finding, TimesUs
from forge.judge.output import Output
from forge.judge.results import Accuracy, Fault, Status, TorchWork
from forge.task.problem import Case, Precision

WHERE = signal.SIGRTMIN + 5  # asks a worker where its threads are: faulthandler answers, and it goes on


class Malformed(Exception):
    """Data that makes none of the messages expected. One line."""


class Message(Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Told by its class's name."""


class Journal(Message, frozen=True):
    """What the output of a call follows from, as a worker tells it."""

    entries: bytes = b""  # the engine's (cdna/engine/run/journal.h)
    operations: bytes = b""  # that it notes
    inputs: tuple[int, ...] = ()  # addresses: of the input's storages
    outputs: tuple[int, ...] = ()  # and of the output's tensors
    missing: str = ""  # why there is none


# ---------------------------------------------------------------- evaluator to worker


class Setup(Message, frozen=True):
    """The first: what the worker is for. Whatever comes after is a command."""

    folder: str  # the run folder
    device: str  # device, arch: as forge.device.resolve takes them
    arch: str
    harness: str  # a row's name
    seed: int | None
    timed: bool  # False on an emulated device
    precision: Precision = Precision()  # for a referee
    imports_nothing: bool = False  # whose problem's check is known not to, so that a referee need not do it ahead
    multiplies: bool = False  # for a referee: whether the problem's floors have products of matrices
    kept: str = ""  # for a referee: where it keeps what cases take long to make; "": nowhere
    made_of: str = ""  # for a referee: what all of that follows from beside the case
    replayed: bool = False  # for a worker and its referee: what the calls did is made anew by a third process
    known_as: str = ""  # for a referee: the folder whose reference.py has settle and the like, beside the problem's own


class BeginCase(Message, frozen=True):
    """Answer: CaseBegun. Its process group stays until EndCase."""

    world_size: int | None = None
    rank: int | None = None  # None: a single-GPU case, without a process group
    port: int = 0
    exchange: int = 0  # of those that the process has, the one through which this rank's tensors pass


class Call(Message, frozen=True):
    """Answer: Called."""

    layout: bytes | None  # of the input that lies in the exchange (forge/judge/exchange.py); None: the one before
    where: str = "elsewhere"  # than any input before; "same": in the memory of the one before; "fresh": anywhere
    slot: int | None = 0  # of the exchange's outputs; None: nobody looks at it
    how: str = "test"  # test: synchronized; checked: not; timed: on the harness's clock; profile
    watched: bool = False  # tell what torch did in it
    checks: str = "all"  # on an emulated device, of those that the run asked for: all, none, or that one
    count: bool = False  # on an emulated device: for a modelled time
    journal: bool = False  # tell what the call's output was made by
    sample: str = ""  # and some of it stands for all: what is computed is of no use; forge.device.base.SAMPLES


class FetchOutput(Message, frozen=True):
    """Answer: Fetched."""

    first: bool = False  # the case's first output, as it is now; or the last one's
    slot: int = 0


class CallBackToBack(Message, frozen=True):
    """Answer: CalledBackToBack."""

    layout: bytes  # of the input


class EndCase(Message, frozen=True):
    """Answer: CaseEnded."""


COMMANDS = (Setup, BeginCase, Call, FetchOutput, CallBackToBack, EndCase)


# ---------------------------------------------------------------- evaluator to referee


class MakeInput(Message, frozen=True):
    """Answer: InputMade. It stays with the referee, under the number of its draw."""

    draw: int
    args: Case
    seed: int | None  # of torch's global generators
    probe: bool = False  # changed as the problem's task.yml says: no official case
    settle: bool = False  # as reference.py makes data that rounding decides nothing of: drawn by us


class HandOver(Message, frozen=True):
    """Answer: HandedOver. Puts a draw's input into the exchange."""

    draw: int
    anew: bool = False  # into the exchange of who makes the output anew


class JudgeOutput(Message, frozen=True):
    """Answer: Judged."""

    draw: int
    output: Output  # as a worker told it
    slot: int  # where its bytes are
    official: bool  # the problem's own check decides; else, how far the output is off
    accuracy: bool
    last: bool  # the draw is not needed any more
    best: bool = False  # against the reference as exact as can be; else, what the check has had of it
    made_anew: bool = False  # the same output lies, made anew, in the exchange of who did that
    share: bool = False  # look whether the output holds what the input adds to it


class LookAgain(Message, frozen=True):
    """Answer: Looked."""

    output: Output
    slot: int


REFEREE_COMMANDS = (Setup, BeginCase, MakeInput, HandOver, JudgeOutput, LookAgain, EndCase)


# ---------------------------------------------------------------- evaluator to replayer


class Replay(Message, frozen=True):
    """Answer: Replayed. Makes a call's output anew of what a worker says of it, and puts it into the exchange."""

    first: bool  # of a case
    journal: Journal
    layout: bytes  # of the input, which the referee has put there
    output: Output
    slot: int
    count: bool = False  # for a modelled time
    checks: str = "none"  # as Call has them


REPLAY_COMMANDS = (Setup, BeginCase, Replay, EndCase)

# ---------------------------------------------------------------- worker to evaluator


class Pid(Message, frozen=True):
    pid: int


class Phase(Message, frozen=True):
    """What the worker is doing from now on: import submission, custom_kernel, ..."""

    phase: str


class TaskBroken(Message, frozen=True):
    """The problem's own files do not load."""

    message: str


class DeviceBroken(Message, frozen=True):
    """The device cannot be had here, whatever is submitted."""

    message: str


class Answer(Message, frozen=True):
    """To a command (Ready: to Setup). What was asked for follows in the subclass; it has no meaning after an error."""

    status: Status = Status.PASS
    message: str = ""  # one line
    trace: str = ""  # of an exception
    last_line: str = ""  # of an exception's text of several lines
    phase: str = ""
    fault: Fault = ""
    lost: bool = False  # the worker is of no more use
    replaced: tuple[str, ...] = ()  # clocks that the submission has exchanged


class Ready(Answer, frozen=True):
    fingerprint: Fingerprint = Fingerprint()


class CaseBegun(Answer, frozen=True):
    pass


class Called(Answer, frozen=True):
    output: Output = Output()  # not if timed
    ns: float = 0.0  # of a timed call
    late_ns: float = 0.0  # that the GPU worked on after its last event
    call_s: float = 0.0  # on the worker's clock
    profile: str = ""
    device_report: DeviceReport = DeviceReport()
    torch_work: TorchWork = TorchWork()  # of a watched call
    written: dict[str, int] = {}  # the output's bytes by who wrote them: see cdna.memory
    unaccounted: str = ""  # why that is not known
    journal: Journal = Journal()
    host: tuple[str, ...] = ()  # what the call did on the host that may have made them


class Fetched(Answer, frozen=True):
    output: Output = Output()


class CalledBackToBack(Answer, frozen=True):
    rounds_us: tuple[float, ...] = ()  # of each round, its time per call
    host_rounds_us: tuple[float, ...] = ()  # the same, until the calls had returned
    calls: int = 0  # in a round


class CaseEnded(Answer, frozen=True):
    pass


EVENTS = (Pid, Phase, TaskBroken, DeviceBroken, Ready, CaseBegun, Called, Fetched, CalledBackToBack, CaseEnded)


# ---------------------------------------------------------------- referee to evaluator


class InputMade(Answer, frozen=True):
    large: bool = False  # two of its kind may not fit into the host's memory
    bytes: int = 0  # of its storages


class HandedOver(Answer, frozen=True):
    layout: bytes = b""


class Judged(Answer, frozen=True):
    check_s: float = 0.0  # how long the check took: about one run of the reference
    check_bytes: int = 0  # of memory that judging took beside the input
    accuracy: Accuracy | None = None
    share: float | None = None  # of what the input adds to it the output holds this much; None: all, or not looked at
    part: str = ""  # that was judged, of a call with other data; "": all of it
    touched: bool = False  # the kernel wrote to its input
    changed: tuple[str, ...] = ()  # inputs that it changed, though neither the reference does nor it returns them
    unlike: bool = False  # the output that was made anew
    officially: bool | None = None  # the verdict over the inputs so changed, where official evaluators look at these


class Looked(Answer, frozen=True):
    changed: bool = False  # the output is no longer what was judged


REFEREE_EVENTS = (
    *(Pid, Phase, TaskBroken, DeviceBroken, Ready, CaseBegun, CaseEnded),
    *(InputMade, HandedOver, Judged, Looked),
)


# ---------------------------------------------------------------- replayer to evaluator


class Replayed(Answer, frozen=True):
    why: str = ""  # it could not be made anew
    written: dict[str, int] = {}  # as Called has them, of the output that was
    flops: int = 0  # of its launches, at most
    torch_flops: int = 0
    findings: tuple[Finding, ...] = ()
    us: TimesUs | None = None  # modelled of these and of torch's operations, where that was asked for


REPLAY_EVENTS = (Pid, Phase, DeviceBroken, Ready, CaseBegun, CaseEnded, Replayed)

# ---------------------------------------------------------------- on the channel


@functools.cache
def decoder(kinds: tuple[type[Message], ...]) -> Callable[[bytes], Any]:
    """What makes one of these messages of bytes; Malformed of any others. Made before it is needed: it imports."""
    decode = msgspec.msgpack.Decoder(Union[kinds]).decode  # noqa: UP007 - of a tuple

    def decoded(data: bytes) -> Any:
        try:
            return decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Malformed(f"{error}") from None

    return decoded


def encoder() -> Callable[[Any], bytes]:
    """What makes bytes of a message; it looks nothing up that somebody could exchange later. What cannot be written in
    UTF-8 is replaced, and a number of more bits than others read is told by its digits."""
    encode, kind_of = msgspec.msgpack.Encoder().encode, type
    plain = functools.partial(msgspec.to_builtins, builtin_types=(bytes,))

    def writable(value: Any) -> Any:
        if kind_of(value) is dict:
            return {writable(key): writable(part) for key, part in value.items()}
        if kind_of(value) in (list, tuple):
            return [writable(part) for part in value]
        if kind_of(value) is str:
            return value.encode(errors="replace").decode()
        return hex(value) if kind_of(value) is int and value.bit_length() >= 64 else value

    def encoded(message: Any) -> bytes:
        try:
            return encode(message)
        except (UnicodeEncodeError, OverflowError):
            return encode(writable(plain(message)))

    return encoded
