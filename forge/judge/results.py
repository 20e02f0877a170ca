"""What an evaluation finds: plain data that the view, the JSON file and the protocol are written from. No torch."""

from enum import Enum
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from forge.device.base import Fingerprint
from forge.device.report import Caches, CaseReport, ModelledTime
from forge.task.score import Work, rank_score


class Status(Enum):
    PASS = "pass"
    SAMPLED = "sampled"  # too large to be emulated whole: a modelled time, and its output was not judged
    UNJUDGED = "unjudged"  # asked for: it ran, and nobody looked at what came of it
    FAIL = "fail"  # wrong output
    ERROR = "error"  # an exception
    CRASH = "crash"  # the process died
    TIMEOUT = "timeout"
    TAMPERED = "tampered"  # the submission meddled with its evaluation
    NOT_RUN = "not run"


Verdict = Literal["pass", "pass, but", "fail", "incomplete", "unjudged"]
# Of an error or a case that was not judged, where that can be told: what would not compile, what found no memory.
Fault = Literal["", "compiler", "memory"]
LIBRARY = "hipBLASLt"  # instead of an operation of torch's: a product that the submission's own code has called for


def us_of(ns: float) -> float:
    return ns / 1e3


LEADERBOARD_KEYS = ("runs", "mean", "std", "err", "best", "worst")  # of its times, in its order


class Stats(Struct, frozen=True, rename=lambda name: name.removesuffix("_ns")):
    """Times of a case's calls. In files the values in ns have the leaderboard's keys, without a unit in their names."""

    runs: Annotated[int, Meta(ge=1)]
    mean_ns: Annotated[float, Meta(gt=0)]
    std_ns: float  # of the sample (n - 1)
    err_ns: float  # standard error of the mean
    best_ns: float  # the shortest
    worst_ns: float  # the longest
    median_ns: float | None = None  # ours, not the leaderboard's; None if another evaluator gave its own keys only

    @property
    def mean_us(self) -> float:
        return us_of(self.mean_ns)

    @property
    def err_us(self) -> float:
        return us_of(self.err_ns)

    @property
    def median_us(self) -> float | None:
        return None if self.median_ns is None else us_of(self.median_ns)


class BackToBack(Struct, frozen=True):
    """Calls that follow each other without a pause: each round's time per call, of the slowest rank."""

    us: float | None  # the median of the rounds; None if there is none
    host_us: float | None = None  # the same, until the calls had returned: how long one keeps the thread that makes it
    calls: int = 0  # in a round
    rounds_us: tuple[float, ...] = ()
    problem: str = ""  # what went wrong: an exception, a wrong output of the last call, a rank that was lost, a clock


class Worst(Struct, frozen=True):
    """The element farthest from its reference; one that is finite on one side only is the farthest."""

    where: str  # output, output[1], ...
    index: tuple[int, ...]  # in that tensor
    got: float
    wanted: float  # of the reference


class Accuracy(Struct, frozen=True):
    """How far an output is from the reference. It judges nothing."""

    rel_l2: float | None = None  # |got - wanted| / |wanted| of a tensor, the largest; None: not to be compared
    reference: str = ""  # what it is relative to: "float64" or "reference"
    worst: Worst | None = None
    pattern: str = ""  # what the errors of the output that is farthest off have in common, in words
    problem: str = ""  # why the outputs cannot be compared; empty if they can
    dtypes: tuple[str, ...] = ()  # a phrase for each tensor of another dtype than the reference's
    rank: int | None = None  # whose output it is: the rank that is farthest off
    right_share: float | None = None  # of all elements, those that are right but for rounding


class TorchWork(Struct, frozen=True, omit_defaults=True):
    """What torch itself did in a call."""

    flops: int = 0  # of products and sums
    left_out: int = 0  # operations that a sample did not carry out
    left_out_flops: int = 0
    products: dict[str, int] = {}  # FLOPs by operation, of those that did most
    operations: dict[str, int] = {}  # calls, of those that were called most
    entered_reference: bool = False  # whether the problem's own ref_kernel was called


class CaseResult(Struct):
    """A case, filled while it is judged."""

    index: int  # its position, as --cases names it
    spec: str  # as the leaderboard spells it
    status: Status
    message: str = ""  # one line
    rank: int | None = None  # whose message it is
    phase: str = ""  # what was being done: import submission, custom_kernel, ...
    fault: Fault = ""
    trace: str = ""
    last_words: list[str] = []  # the end of what the process printed
    stats: Stats | None = field(default=None, name="stats_ns")
    back_to_back: BackToBack | None = None  # beside the stats, in benchmark mode; no score
    accuracy: Accuracy | None = None
    device_report: CaseReport = field(default=CaseReport(), name="report")
    profile: str = ""
    processes: tuple[int, ...] = ()  # of rank 0, 1, ...: the number of the process that it ran in
    elapsed_s: float = 0.0  # until the verdict
    call_s: float = 0.0  # its quickest call, on the workers' clock: none of a first call's compiling
    steady_s: float = 0.0  # of elapsed_s, all but what its first call took beyond the others, as by compiling
    output_bytes: int = 0  # how much the processes printed
    calls: int = 0  # that were judged, beside timed ones
    later_part: str = ""  # of the calls after the first, what was judged, drawn after the call; "": all of them
    seeds: list[int] = []  # of the calls
    buts: list[str] = []  # why a pass is to be doubted
    remarks: list[str] = []  # what else the case showed
    probe_rel_l2: float | None = None  # of a call beside the official ones (Precision.probes)
    later_rel_l2: float = 0.0  # of the calls after the first, against the reference as the check has it
    share: float = 1.0  # of what the input adds to an output, the part that was there in one of the calls
    torch_work: TorchWork = TorchWork()  # of all ranks, the call in which it did most
    fresh_ratio: float | None = None  # timed calls on other data, over those on the same data
    official: bool | None = None  # where an official evaluator would say otherwise: its verdict
    time: Literal["measured", "emulated"] | None = None
    on_clock_us: float | None = None  # the modelled time as the harness's clock sees it; None where nobody knows
    floor: Work | None = None  # FLOPs, bytes and the time at the card's peaks; None where the problem states none

    @property
    def passed(self) -> bool:
        """Or nothing spoke against it: a sample has a but that says what was not checked."""
        return self.status in (Status.PASS, Status.SAMPLED)

    @property
    def ran(self) -> bool:
        """To its end, judged or not: its times are those of the whole submission."""
        return self.passed or self.status is Status.UNJUDGED

    def modelled_time(self, caches: Caches) -> ModelledTime | None:
        """Of the slowest rank; None of a call that broke off: the launches before that are no call's."""
        return self.device_report.modelled_time(caches) if self.ran or self.status is Status.FAIL else None


class Run(Struct):
    """One evaluation: its cases in order, and what holds for all of them."""

    mode: str
    cases: list[CaseResult]
    timed: bool  # False: an emulated device, whose times mean nothing
    notes: list[str] = []  # known before: quirks and deviations, one line each
    warnings: list[str] = []  # what only the run showed
    broken: CaseResult | None = None  # the submission never got as far as a case
    fingerprint: Fingerprint = Fingerprint()
    elapsed_s: float = 0.0
    complete: bool = False  # every case has its verdict
    buts: list[str] = []  # why all of its passes are to be doubted
    error: str | None = None  # what ended it before its time
    unconfined: list[str] = []  # what this machine does not keep a submission from

    @property
    def passed(self) -> bool:
        return self.complete and self.broken is None and bool(self.cases) and all(case.passed for case in self.cases)

    @property
    def doubted(self) -> bool:
        """Whether a case passes, but."""
        return bool(self.buts) or any(case.buts for case in self.cases)

    @property
    def unjudged(self) -> bool:
        """Whether nothing speaks against it, and nothing for it."""
        ran = self.complete and self.broken is None and all(case.ran for case in self.cases)
        return ran and any(case.status is Status.UNJUDGED for case in self.cases)

    @property
    def not_judged(self) -> bool:
        """Whether all that keeps it from a pass was not judged, by no fault of the submission's."""
        return not self.buts and {case.status for case in self.cases if not case.passed} == {Status.NOT_RUN}

    @property
    def verdict(self) -> Verdict:
        if not self.complete or self.not_judged:
            return "incomplete"
        if self.unjudged:
            return "unjudged"
        return ("pass, but" if self.doubted else "pass") if self.passed else "fail"

    def score_us(self, ranking_by: str) -> float | None:
        """What the leaderboard would rank, over the cases that ran; None unless all passed and were timed."""
        if self.mode not in ("benchmark", "leaderboard") or not self.passed or not self.timed:
            return None
        means_us = [case.stats.mean_us for case in self.cases if case.stats is not None]
        return rank_score(means_us, ranking_by) if len(means_us) == len(self.cases) else None
