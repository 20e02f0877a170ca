"""What is asked of a bulk run, and what it says of each submission: a word of a closed list, why, the whole report.

Both are lines of JSON. No torch."""

import json
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from forge.bulk.reward import Reward, reward_of
from forge.commands.outcome import Blame, Outcome, cause_of
from forge.generate.submission import SubmissionError
from forge.history.document import Document, Mode, finite


class ForgeError(Exception):
    """What `forge.judge` raises where it has no verdict. One line."""


class BadRequest(ForgeError):
    """Whoever asked has to mend it: a problem, a case, an option or a file that there is not."""


class MachineError(ForgeError):
    """The machine, or this code: nothing is said of the submission."""


class Request(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A submission to judge: its text, or a file that holds it."""

    id: Annotated[str, Meta(min_length=1, max_length=1000)]
    source: str | None = None
    file: str | None = None
    problem: str = ""  # a leaderboard's name or a folder; empty: what the submission's header names
    mode: Mode = "test"
    cases: str = "all"  # as eval.py's --cases
    device: str = "auto"


class Verdict(Struct, frozen=True, kw_only=True):
    """Of one submission."""

    id: str
    status: Outcome
    blame: Blame = ""  # whose fault it is, where it is not `passed`
    message: str = ""  # why: the first cause, with its line in the submission where it has one; or the doubts
    case: str = ""  # in which it showed
    problem: str = ""
    mode: str = ""
    device: str = ""
    key: str = ""  # the same for what is judged alike
    elapsed_s: float = 0.0
    reward: Reward | None = None  # in steps; None where nothing was judged, as the report
    report: Document | None = None

    @property
    def passed(self) -> bool:
        """Without a doubt."""
        return self.status == "passed"

    @property
    def total_reward(self) -> float:
        """What docs/reward.md recommends to make of the steps."""
        return self.reward.total(self.status) if self.reward else 0.0


def verdict_of(request: Request, report: Document, key: str, checked: bool) -> Verdict:
    """report: with the exit code of a strict run; checked: whether the device looked for faults."""
    cause = cause_of(report)
    return Verdict(
        id=request.id,
        status=cause.status,
        blame=cause.blame,
        message=cause.message,
        case=cause.case.spec if cause.case else "",
        problem=report.problem.name,
        mode=report.mode,
        device=report.device.name,
        key=key,
        elapsed_s=report.elapsed_s,
        reward=reward_of(report, cause.status, checked),
        report=report,
    )


def refused(request: Request, error: BaseException, key: str = "", elapsed_s: float = 0.0) -> Verdict:
    """Of a submission that could not be judged."""
    from forge.commands.jsonfile import error_text
    from forge.device import DeviceError
    from forge.judge.plan import BAD_INPUT
    from forge.judge.worker_pool import TaskError

    status: Outcome = "machine_error"
    blame: Blame = "machine"
    if isinstance(error, SubmissionError):
        status, blame = "invalid", "submission"
    elif isinstance(error, (BadRequest, *BAD_INPUT)) and not isinstance(error, (DeviceError, TaskError)):
        status, blame = "invalid", "request"
    text = error_text(error)
    if not isinstance(error, (OSError, SubmissionError, ForgeError, *BAD_INPUT)):
        text = f"{type(error).__name__}: {text}"
    return Verdict(
        id=request.id, status=status, blame=blame, message=text, problem=request.problem, mode=request.mode,
        device=request.device, key=key, elapsed_s=elapsed_s,
    )  # fmt: skip


def to_line(verdict: Verdict) -> bytes:
    return json.dumps(finite(msgspec.to_builtins(verdict))).encode() + b"\n"


def read_verdict(line: bytes | str) -> Verdict:
    """What `to_line` wrote. Raises ValueError."""
    return msgspec.convert(json.loads(line), Verdict, strict=False)  # infinities are words
