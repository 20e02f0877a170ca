"""Two submissions beside each other: the same cases on the same machine in one run, case by case in turns."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
import os
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs
from rich.text import Text

from forge.commands import jsonfile, texts
from forge.commands.profile_pair import pair_lines
from forge.commands.view import STATUS_WIDTH, STYLES, Console, View, verdict_style
from forge.console import UsageError, number
from forge.device.report import Caches, ratio_error
from forge.generate.submission import KERNEL, read_submission
from forge.history.compare import SAME, error_text, is_real
from forge.history.document import Against, Document
from forge.judge.evaluate import Judge, spare_each_other
from forge.judge.plan import EvalPlan
from forge.judge.results import CaseResult, Run, Status
from forge.task.cases import CaseSpec, case_text
from forge.task.problem import own_entry
from forge.task.score import geometric_mean

# The problem's own reference as a submission: what a user starts from.
REFERENCE_SUBMISSION = b"from reference import ref_kernel as custom_kernel\n"
OURS = "ours"
THEIR_WIDTH = 10
COMMON = ("verdict", "score_us", "broken", "cases", "fingerprint", "warnings")  # keys of both in a document


@dataclass(frozen=True)
class Other:
    """What --against names."""

    name: str  # as it was named
    submission: bytes


def other_named(plan: EvalPlan, name: str, option: str = "--against") -> Other:
    """Another submission for the plan's problem: 'reference', a file, or a variant of kernels/."""
    if name == "reference":
        return Other(name, REFERENCE_SUBMISSION)
    if name.endswith(".py") or os.sep in name or Path(name).is_file():
        if not Path(name).exists():  # read_submission would send the user to --submission
            raise UsageError(f"{option} {name}: no such file")
        return Other(name, read_submission(Path(name), KERNEL))
    from forge.generate.pysource import GenerationError
    from forge.generate.render import also_for, generate  # imports more than judging needs

    entry = own_entry(plan.problem) or plan.problem
    try:
        return Other(name, generate(entry, name, also=also_for(entry, name, plan.device.arch)).text.encode())
    except GenerationError as error:
        raise UsageError(f"{name}: {error}") from None


# How many times as long the other submission takes, by clock; None where one of the two has no such time.
Ratios = dict[str, float | None]
CLOCKS = {
    "harness": "on the harness's clock",  # of the means, as the leaderboard compares
    "harness_median": "by its medians",  # what a few slow calls do not move
    "back_to_back": "back to back",
    "modelled": "modelled",
}


def times_us(result: CaseResult, caches: Caches) -> dict[str, float | None]:
    """A case's time on each of CLOCKS; caches: which the modelled one is of."""
    stats, again, modelled = result.stats, result.back_to_back, result.modelled_time(caches)
    return {
        "harness": stats.mean_us if stats else None,
        "harness_median": stats.median_us if stats else None,
        "back_to_back": again.us if again else None,
        "modelled": modelled.us if modelled else None,
    }


def standard_error(ratio: float | None, ours: CaseResult, theirs: CaseResult) -> float | None:
    """Of a ratio of two means on the harness's clock, from each mean's own; None where it was not taken."""
    if ratio is None or ours.stats is None or theirs.stats is None:
        return None
    return ratio * math.hypot(*(stats.err_ns / stats.mean_ns for stats in (ours.stats, theirs.stats)))


class Pair:
    """Both submissions' runs. `run` is ours, `their_run` the other's; the cases are the same."""

    def __init__(self, plan: EvalPlan, other: Other, run: Run) -> None:
        self.plan, self.other, self.run = plan, other, run
        self.their_plan = dataclasses.replace(plan, submission=other.submission)
        self.their_run = Run(run.mode, [], run.timed)

    @property
    def passed(self) -> bool:
        return self.run.passed and self.their_run.passed

    @property
    def doubted(self) -> bool:
        return self.run.doubted or self.their_run.doubted

    def evaluate(self, view: PairView) -> None:
        """Each case with one submission, then with the other; who begins changes from case to case."""
        with contextlib.ExitStack() as stack:
            judges = [
                stack.enter_context(Judge(self.plan, self.run, _Side(view, OURS))),
                stack.enter_context(Judge(self.their_plan, self.their_run, _Side(view, self.other.name))),
            ]
            spare_each_other(*(pool for judge in judges for pool in (judge.pool, judge.referees)))
            for position in range(len(self.plan.cases)):
                results = {side: judges[side].step(position) for side in ((0, 1) if position % 2 == 0 else (1, 0))}
                view.pair_finished(results[0], results[1])
            self.run.complete = self.their_run.complete = True

    def ratios(self, ours: CaseResult, theirs: CaseResult) -> Ratios:
        both = zip(*(times_us(result, self.plan.caches).values() for result in (ours, theirs)))
        good = ours.passed and theirs.passed
        return {clock: b / a if good and a and b else None for clock, (a, b) in zip(CLOCKS, both)}

    def geometric_means(self) -> Ratios:
        """Over all cases; None where a case has no ratio."""
        rows = [self.ratios(ours, theirs) for ours, theirs in zip(self.run.cases, self.their_run.cases)]
        means: Ratios = {}
        for clock in CLOCKS:
            known = [ratio for row in rows if (ratio := row[clock]) is not None]
            means[clock] = geometric_mean(known) if known and len(known) == len(rows) else None
        return means

    def errors(self) -> list[float | None]:
        """The standard error of each case's ratio on the harness's clock."""
        pairs = zip(self.run.cases, self.their_run.cases)
        return [standard_error(self.ratios(*pair)["harness"], *pair) for pair in pairs]

    def modelled_undecided(self) -> list[int]:
        """Cases whose modelled times differ, and by no more than the model may be wrong about them."""
        pairs = [
            (a, self.ratios(a, b)["modelled"], self.model_error(a, b))
            for a, b in zip(self.run.cases, self.their_run.cases)
        ]
        return [a.index for a, ratio, error in pairs if ratio and abs(ratio - 1) > SAME and not is_real(ratio, error)]

    def model_error(self, ours: CaseResult, theirs: CaseResult) -> float | None:
        """By what share the model may be wrong about the ratio of two modelled times."""
        a, b = (case.modelled_time(self.plan.caches) for case in (ours, theirs))
        return ratio_error(a, b) if a and b and not self.run.timed else None

    def sure(self) -> tuple[float | None, list[int]]:
        """(The standard error of their geometric mean, cases with a ratio within two errors of 1: noise may be all)."""
        rows = zip(self.run.cases, self.their_run.cases, self.errors())
        known = [(a.index, self.ratios(a, b)["harness"] or 1, error) for a, b, error in rows if error is not None]
        mean = self.geometric_means()["harness"]
        error = mean * math.hypot(*(error / x for _, x, error in known)) / len(known) if mean and known else None
        return error, [index for index, x, error in known if abs(x - 1) < 2 * error]

    def document(self, exit_code: int, command: list[str]) -> Document:
        theirs = jsonfile.document_of(self.their_plan, self.their_run, exit_code, command)
        rows = zip(self.run.cases, self.their_run.cases, self.errors())
        against = Against(
            name=self.other.name,
            **{key: getattr(theirs, key) for key in COMMON},
            ratios=tuple(
                {
                    "index": a.index,
                    **self.ratios(a, b),
                    "harness_error": error,
                    "modelled_error": self.model_error(a, b),
                }
                for a, b, error in rows
            ),
            geometric_means=self.geometric_means(),
        )
        return structs.replace(jsonfile.document_of(self.plan, self.run, exit_code, command), against=against)


class PairView(View):
    """One line per case: both times on both clocks and their ratios; then the ratios' geometric means."""

    back_to_back_texts = (texts.BACK_TO_BACK_TEXT,)  # host times are in the JSON file: a line is long as it is

    def __init__(self, console: Console, pair: Pair, show_output: bool) -> None:
        super().__init__(console, pair.plan, show_output)
        self.pair = pair
        self.their_head = "theirs" if len(pair.other.name) > THEIR_WIDTH else pair.other.name

    def _head_lines(self) -> list[str]:
        digests = [hashlib.sha256(text).hexdigest()[:12] for text in (self.plan.submission, self.pair.other.submission)]
        return [
            f"{OURS}: SHA-256 {digests[0]}; {self.pair.other.name}: {digests[1]}; x: {self.pair.other.name} / {OURS}",
            self._line("status", "", "case", [head for clock in self._clocks() for head in clock]),
        ]

    def _clocks(self) -> list[tuple[str, str, str]]:
        heads = ["us", "b2b us"] if self.timed else ["modelled us"]
        return [(head, self.their_head, "x") for head in heads]

    def _line(self, status: str, index: str, case: str, values: list[str]) -> str:
        cells = [f"{status:{STATUS_WIDTH}}", f"{index:>{self.index_width}}", f"{case:{self.case_width}}"]
        widths = [11 if self.timed else 20, THEIR_WIDTH if self.timed else 20, 13, 11, THEIR_WIDTH, 6]
        return " ".join([*cells, *(f"{value:>{width}}" for value, width in zip(values, widths))]).rstrip()

    def _time(self, clock: str, result: CaseResult) -> str:
        if clock == "modelled":
            return texts.modelled_text(result.modelled_time(self.plan.caches))
        return number(times_us(result, self.plan.caches)[clock], 5)

    def case_finished(self, result: CaseResult) -> None:
        """A line stands for both submissions: pair_finished prints it."""

    def pair_finished(self, ours: CaseResult, theirs: CaseResult) -> None:
        ratios = self.pair.ratios(ours, theirs)
        shown_clocks = ("harness", "back_to_back") if self.timed else ("modelled",)
        values = [
            text
            for clock in shown_clocks
            for text in (self._time(clock, ours), self._time(clock, theirs), number(ratios[clock], 3))
        ]
        if self.timed:
            values[2] += _plus_minus(standard_error(ratios["harness"], ours, theirs))
        else:
            values[2] += error_text(self.pair.model_error(ours, theirs))
        shown = theirs if ours.passed else ours
        line = Text(self._line(shown.status.value, str(ours.index), case_text(ours.spec), values))
        line.stylize(STYLES[shown.status], 0, STATUS_WIDTH)
        self.print(line)
        for name, result in ((OURS, ours), (self.pair.other.name, theirs)):
            lines = [*texts.details(result), *(f"check: {text}" for text in texts.finding_texts(result.device_report))]
            if not self.timed:
                lines += texts.time_texts(result.modelled_time(self.plan.caches))
            if not result.passed and result.status is not Status.NOT_RUN:
                self.print(f"{'':{STATUS_WIDTH}} {name}: {result.status.value}", "red")
            for detail in lines:
                for words in detail.splitlines():
                    self.print(f"{'':{STATUS_WIDTH}} {name}: {words}", "yellow" if result.passed else "red")

    def _profiles(self, run: Run) -> None:
        for ours, theirs in zip(run.cases, self.pair.their_run.cases):
            self.print(f"case {ours.index}: {case_text(ours.spec)}", "bold")
            reports = (ours.device_report, theirs.device_report)
            for line in pair_lines(*reports, self.plan.caches, (OURS, self.their_head)):
                self.print(line)

    def foot(self, run: Run) -> None:
        if self.plan.mode == "profile":
            self._profiles(run)
        for name, side in ((OURS, run), (self.pair.other.name, self.pair.their_run)):
            passed = sum(case.passed for case in side.cases)
            text = f"{name}: {side.verdict.upper() if not side.passed else side.verdict}: "
            self.print(text + f"{passed} of {len(side.cases)} cases", verdict_style(side))
            for warning in side.warnings:
                self.print(f"{name}: warning: {warning}", "yellow")
        means = self.pair.geometric_means()
        error, undecided = self.pair.sure()
        told = [f"{ratio:.3f} {CLOCKS[clock]}" for clock, ratio in means.items() if ratio is not None]
        if error is not None:
            told[0] = f"{means['harness']:.3f}{_plus_minus(error)} {CLOCKS['harness']}"
        cases = f"{len(run.cases)} cases" + (", not the leaderboard's" if self.plan.not_official else "")
        if told:
            self.print(f"{self.pair.other.name} / {OURS}, geometric mean of {cases}: {', '.join(told)}", "bold")
            if undecided:
                which = ", ".join(map(str, undecided))
                self.print(f"not decided on the harness's clock, 1 being within twice the ±: case {which}", "yellow")
        elif self.timed:
            self.print("no ratio: not every case has both times", "dim")
        if not self.timed:
            if undecided := self.pair.modelled_undecided():
                which = ", ".join(map(str, undecided))
                self.print(
                    f"not decided: the model's own error, ±, may be all of the difference: case {which}", "yellow"
                )
            self.print(texts.modelled_means(self.plan), "dim")


def _plus_minus(error: float | None) -> str:
    return f" ± {number(error, 2)}" if error is not None else ""


class _Side:
    """One submission's Listener: its progress goes to the view under its name."""

    def __init__(self, view: PairView, name: str) -> None:
        self.view, self.name = view, name

    def case_started(self, case: CaseSpec, position: int, count: int) -> None:
        self.view.case_started(case, position, count)

    def case_progress(self, phase: str, seconds: float) -> None:
        self.view.case_progress(f"{self.name}: {phase}", seconds)

    def case_forecast(self, text: str) -> None:
        self.view.case_forecast(f"{self.name}: {text}")

    def case_finished(self, result: CaseResult) -> None:
        self.view.case_finished(result)
