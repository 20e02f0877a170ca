"""What an evaluation finds: plain data that the view, the JSON file and the protocol are written from. No torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from forge.task.score import rank_score


class Status(Enum):
    PASS = "pass"
    SAMPLED = "sampled"  # too large to be emulated whole: a modelled time, and its output was not judged
    FAIL = "fail"  # wrong output
    ERROR = "error"  # an exception
    CRASH = "crash"  # the process died
    TIMEOUT = "timeout"
    TAMPERED = "tampered"  # the submission meddled with its evaluation
    NOT_RUN = "not run"


LIBRARY = "hipBLASLt"  # instead of an operation of torch's: a product that the submission's own code has called for


def us_of(ns: float) -> float:
    return ns / 1e3


LEADERBOARD_KEYS = ("runs", "mean", "std", "err", "best", "worst")  # of its times, in its order


@dataclass(frozen=True)
class Stats:
    """Times of a case's calls."""

    runs: int
    mean_ns: float
    std_ns: float  # of the sample (n - 1)
    err_ns: float  # standard error of the mean
    best_ns: float
    worst_ns: float
    median_ns: float | None = None  # ours, not the leaderboard's; None if another evaluator gave its own keys only

    def by_key(self) -> dict[str, Any]:
        """The values in ns under the leaderboard's keys, which have no unit in their names, and `median`."""
        return {name.removesuffix("_ns"): value for name, value in vars(self).items()}

    @property
    def mean_us(self) -> float:
        return us_of(self.mean_ns)

    @property
    def err_us(self) -> float:
        return us_of(self.err_ns)

    @property
    def median_us(self) -> float | None:
        return None if self.median_ns is None else us_of(self.median_ns)


@dataclass(frozen=True)
class BackToBack:
    """Calls that follow each other without a pause: each round's time per call, of the slowest rank."""

    us: float | None  # the median of the rounds; None if there is none
    host_us: float | None = None  # the same, until the calls had returned: how long one keeps the thread that makes it
    calls: int = 0  # in a round
    rounds_us: tuple[float, ...] = ()
    problem: str = ""  # what went wrong: an exception, a wrong output of the last call, a rank that was lost, a clock


@dataclass(frozen=True)
class Worst:
    """The element farthest from its reference; one that is finite on one side only is the farthest."""

    where: str  # output, output[1], ...
    index: tuple[int, ...]
    got: float
    wanted: float


@dataclass(frozen=True)
class Accuracy:
    """How far an output is from the reference. It judges nothing."""

    rel_l2: float | None = (
        None  # |got - wanted| / |wanted| of a tensor, the largest; None if outputs cannot be compared
    )
    reference: str = ""  # what it is relative to: "float64" or "reference"
    worst: Worst | None = None
    pattern: str = ""  # what the errors of the output that is farthest off have in common, in words
    problem: str = ""  # why the outputs cannot be compared; empty if they can
    dtypes: tuple[str, ...] = ()  # a phrase for each tensor of another dtype than the reference's
    rank: int | None = None  # whose output it is: the rank that is farthest off


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
    accuracy: Accuracy | None = None
    device_report: dict[str, Any] = field(default_factory=dict)  # what the device says of the case's kernels
    profile: str = ""
    processes: tuple[int, ...] = ()  # of rank 0, 1, ...: the number of the process that it ran in
    elapsed_s: float = 0.0  # until the verdict
    call_s: float = 0.0  # its quickest call, on the workers' clock: none of a first call's compiling
    output_bytes: int = 0  # how much the processes printed
    calls: int = 0  # that were judged, beside timed ones
    seeds: list[int] = field(default_factory=list)  # of the calls
    buts: list[str] = field(default_factory=list)  # why a pass is to be doubted
    remarks: list[str] = field(default_factory=list)  # what else the case showed
    probe_rel_l2: float | None = None  # of a call beside the official ones (Precision.probes)
    later_rel_l2: float = 0.0  # of the calls after the first, against the reference as the check has it
    share: float = 1.0  # of what the input adds to an output, the part that was there in one of the calls
    torch_work: dict[str, Any] = field(default_factory=dict)  # what torch itself did in a call, of all ranks
    fresh_ratio: float | None = None  # timed calls on other data, over those on the same data
    official: bool | None = None  # where an official evaluator would say otherwise: its verdict

    @property
    def passed(self) -> bool:
        """Or nothing spoke against it: a sample has a but that says what was not checked."""
        return self.status in (Status.PASS, Status.SAMPLED)


@dataclass
class Run:
    """One evaluation: its cases in order, and what holds for all of them."""

    mode: str
    cases: list[CaseResult]
    timed: bool  # False: an emulated device, whose times mean nothing
    notes: list[str] = field(default_factory=list)  # known before: quirks and deviations, one line each
    warnings: list[str] = field(default_factory=list)  # what only the run showed
    broken: CaseResult | None = None  # the submission never got as far as a case
    fingerprint: dict[str, Any] = field(default_factory=dict)
    elapsed_s: float = 0.0
    complete: bool = False  # every case has its verdict
    buts: list[str] = field(default_factory=list)  # why all of its passes are to be doubted
    error: str | None = None  # what ended it before its time
    unconfined: list[str] = field(default_factory=list)  # what this machine does not keep a submission from

    @property
    def passed(self) -> bool:
        return self.complete and self.broken is None and bool(self.cases) and all(case.passed for case in self.cases)

    @property
    def doubted(self) -> bool:
        """Whether a case passes, but."""
        return bool(self.buts) or any(case.buts for case in self.cases)

    @property
    def verdict(self) -> str:
        if not self.complete:
            return "incomplete"
        return ("pass, but" if self.doubted else "pass") if self.passed else "fail"

    def score_us(self, ranking_by: str) -> float | None:
        """What the leaderboard would rank, over the cases that ran; None unless all passed and were timed."""
        if self.mode not in ("benchmark", "leaderboard") or not self.passed or not self.timed:
            return None
        means_us = [case.stats.mean_us for case in self.cases if case.stats is not None]
        return rank_score(means_us, ranking_by) if len(means_us) == len(self.cases) else None


def modelled_time(device_report: dict[str, Any], caches: str) -> dict[str, Any] | None:
    """What the device models for a case, with `caches` cold or warm: {"us", "bound", ...}, of the slowest rank."""
    if "modelled" in device_report:
        found: dict[str, Any] = device_report["modelled"][caches]
        return found
    ranks = [modelled_time(value, caches) for name, value in device_report.items() if name.startswith("rank ")]
    return max((time for time in ranks if time), key=lambda time: time["us"], default=None)


def total(report: dict[str, Any], key: str) -> int:
    """The sum of a counter wherever it stands in a device's report: by kernel, by rank."""
    here = report.get(key, 0)
    below = sum(total(value, key) for value in report.values() if isinstance(value, dict))
    return below + (here if isinstance(here, int) else 0)


def has_finding(report: dict[str, Any], kind: str) -> bool:
    """Whether a device's report tells of one, of any rank."""
    here = any(one.get("kind") == kind for one in report.get("findings", []))
    return here or any(has_finding(value, kind) for value in report.values() if isinstance(value, dict))


def instructions_text(n: float) -> str:
    """Of waves, to two digits: 1.9 G instructions."""
    power = 9 if n >= 1e9 else 6
    value = n / 10**power
    return f"{value:.{1 if value < 10 else 0}f} {'G' if power == 9 else 'M'} instructions"


def work_text(instructions: float, torch_flops: float) -> str:
    """What a call executes: of waves, and of torch's own products where these are as much as matters."""
    power = next((n for n in (12, 9) if torch_flops >= 10**n), 0)
    torch = f"{torch_flops / 10**power:.3g} {'T' if power == 12 else 'G'}FLOP of torch's" if power else ""
    return " and ".join(filter(None, [instructions_text(instructions) if instructions else "", torch]))


def minutes_text(seconds: float) -> str:
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} hours"


MARK, NAMED = "~", 4  # before a modelled time that is in part an estimate of torch's operations; of these a line names
LACKING = ">"  # before one that lacks a part of what a launch asked of memory


def modelled_text(time: dict[str, Any] | None) -> str:
    """A case's modelled time in us, marked where torch's operations are in it, at their roofline, or lines are not."""
    if time is None:
        return ""
    return (LACKING if time.get("unrecorded") else "") + (MARK if time.get("torch_us") else "") + f"{time['us']:.4g}"


def time_texts(time: dict[str, Any] | None) -> list[str]:
    """What a modelled time's marks say, a line each."""
    lacking = (time or {}).get("unrecorded", "")
    return [text for text in (lacking and f"{LACKING} {lacking}", torch_text(time)) if text]


def torch_text(time: dict[str, Any] | None) -> str:
    """What torch's operations are of a modelled time, by name; empty if nothing."""
    by_name = (time or {}).get("torch_us")
    if time is None or not by_name:
        return ""
    named = ", ".join(f"{name} {us:.3g}" for name, us in list(by_name.items())[:NAMED])
    more = ", ..." if len(by_name) > NAMED else ""
    return f"{MARK} of it torch's own operations at the card's roofline: {sum(by_name.values()):.4g} us ({named}{more})"
