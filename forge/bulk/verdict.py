"""What is asked of a bulk run, and what it says of each submission: a word of a closed list, why, the whole report.

Both are lines of JSON. No torch."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from forge.commands.texts import finding_texts
from forge.console import EXIT_PASS
from forge.generate.submission import SubmissionError
from forge.history.document import Document, Mode, finite
from forge.judge.results import CaseResult, Fault, Status

Outcome = Literal[
    "passed",
    "doubtful",  # every case passed, with a doubt, a finding of the checks, or a confinement that lacks something
    "wrong",
    "crashed",  # an exception, or the process died
    "compile_error",
    "invalid",  # it cannot be judged: no valid Python, no custom_kernel; a request that cannot be met
    "timeout",
    "out_of_memory",
    "tampered",
    "machine_error",  # says nothing of the submission: the same command judges it again
]
Blame = Literal["", "submission", "request", "machine"]
OF_FAULT: dict[Fault, Outcome] = {"compiler": "compile_error", "memory": "out_of_memory"}
OF_STATUS: dict[Status, Outcome] = {
    Status.FAIL: "wrong",
    Status.ERROR: "crashed",
    Status.CRASH: "crashed",
    Status.TIMEOUT: "timeout",
    Status.TAMPERED: "tampered",
    Status.NOT_RUN: "machine_error",
}
MOST_DOUBTS = 5  # in a message; the report has them all


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
    report: Document | None = None  # None where nothing was judged

    @property
    def passed(self) -> bool:
        """Without a doubt."""
        return self.status == "passed"


def verdict_of(request: Request, report: Document, key: str) -> Verdict:
    """report: with the exit code of a strict run."""
    plain = Verdict(
        id=request.id,
        status="passed",
        problem=report.problem.name,
        mode=report.mode,
        device=report.device.name,
        key=key,
        elapsed_s=report.elapsed_s,
        report=report,
    )
    failing = report.broken or next((case for case in report.cases if not case.passed), None)
    if failing is not None:
        status, machine = OF_FAULT.get(failing.fault, OF_STATUS[failing.status]), failing.status is Status.NOT_RUN
        blame: Blame = "machine" if machine else "submission"
        return replace(plain, status=status, blame=blame, message=failing.message, case=failing.spec)
    if report.exit_code == EXIT_PASS:
        return plain
    if report.verdict == "incomplete" or not report.cases:
        return replace(plain, status="machine_error", blame="machine", message="not all cases were judged")
    doubts = list(dict.fromkeys([*report.buts, *(text for case in report.cases for text in doubts_of(case))]))
    blame = "submission" if doubts else "machine"
    doubts += [f"not confined: {text}" for text in report.unconfined]
    more = [f"and {len(doubts) - MOST_DOUBTS} more"] if len(doubts) > MOST_DOUBTS else []
    return replace(plain, status="doubtful", blame=blame, message="; ".join([*doubts[:MOST_DOUBTS], *more]))


def doubts_of(case: CaseResult) -> list[str]:
    return [*case.buts, *finding_texts(case.device_report)]


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
