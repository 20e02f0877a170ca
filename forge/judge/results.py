"""What an evaluation finds: plain data that the report, the JSON file and the protocol are written from."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from forge.judge.timing import Stats


class Status(Enum):
    PASS = "pass"
    FAIL = "fail"  # wrong output
    ERROR = "error"  # an exception
    CRASH = "crash"  # the process died
    TIMEOUT = "timeout"
    TAMPERED = "tampered"  # the submission meddled with its evaluation
    NOT_RUN = "not run"


@dataclass(frozen=True)
class BackToBack:
    """Calls that follow each other without a pause: each round's time a call, of the slowest rank."""

    us: float | None  # the median of the rounds; None if there is none
    host_us: float | None = None  # the same, until the calls had returned: how long one keeps the thread that makes it
    calls: int = 0  # in a round
    rounds_us: tuple[float, ...] = ()
    problem: str = ""  # what went wrong: an exception, a wrong output of the last call, a rank that was lost


@dataclass
class CaseResult:
    index: int
    spec: str
    status: Status
    message: str = ""  # one line
    rank: int | None = None  # whose message it is
    phase: str = ""  # what was being done: import submission, custom_kernel, ...
    trace: str = ""
    last_words: list[str] = field(default_factory=list)  # the end of what the process printed
    stats: Stats | None = None
    back_to_back: BackToBack | None = None  # beside the stats, in benchmark mode; no score
    accuracy: dict[str, Any] | None = None  # forge.judge.compare.Accuracy
    report: dict[str, Any] = field(default_factory=dict)  # what the device says of the case's kernels
    profile: str = ""
    elapsed_s: float = 0.0
    output_bytes: int = 0  # how much the processes printed

    @property
    def passed(self) -> bool:
        return self.status is Status.PASS


@dataclass
class Run:
    """One evaluation: its cases in order, and what holds for all of them."""

    mode: str
    cases: list[CaseResult]
    timed: bool  # False: an emulated device, whose times mean nothing
    notes: list[str] = field(default_factory=list)  # deviations and warnings, one line each
    broken: CaseResult | None = None  # the submission never got as far as a case
    fingerprint: dict[str, Any] = field(default_factory=dict)
    elapsed_s: float = 0.0

    @property
    def passed(self) -> bool:
        return self.broken is None and bool(self.cases) and all(case.passed for case in self.cases)
