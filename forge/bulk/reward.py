"""A verdict in steps, for whoever trains on it: what each step is known from, and None where nobody looked.

docs/reward.md says how to combine them, and which combinations were gamed."""

import math
import re
from typing import Literal

from msgspec import Struct

from forge.commands.outcome import Outcome, doubts_of
from forge.commands.texts import finding_texts
from forge.history.document import Document
from forge.judge.results import CaseResult, Status
from forge.task.score import geometric_mean

Kind = Literal["judged", "modelled", "measured", "static"]
TOO_LARGE = re.compile(r"out of resource|does not fit|: refused: ", re.IGNORECASE)
# Of the recommended sum: what is had before the verdict, and with a pass; and how many times a doubling can count.
BUILT, RAN, RIGHT, PASSED, DOUBLINGS = 0.05, 0.05, 0.2, 1.0, 4.0


class Step(Struct, frozen=True):
    value: float | None  # 0 and 1 for no and yes; None: not looked at
    kind: Kind


class Reward(Struct, frozen=True, kw_only=True):
    compiled: Step  # whether each kernel that was asked for did
    launched: Step  # whether a kernel of its own ran
    fits: Step  # whether the card took what they ask of registers, LDS and threads
    right_share: Step  # of the elements of all cases; of a case that did not end, none
    findings: Step  # how many the device's checks made
    doubts: Step  # how many else speak against a pass
    of_light: Step  # the least time at the card's peaks over this one, geometric mean; of passes alone
    speedup: Step  # the baseline's time over this one, geometric mean; of passes alone
    baseline: str = ""

    def total(self, status: Outcome) -> float:
        """The sum that docs/reward.md recommends: nothing is had of speed or of right elements with a doubt."""
        if status in ("tampered", "invalid", "machine_error"):
            return 0.0
        if status == "passed":
            return PASSED + min(DOUBLINGS, max(0.0, math.log2(self.speedup.value or 1.0)))
        begun = BUILT * (self.compiled.value or 0.0) + RAN * min(self.launched.value or 0.0, self.fits.value or 0.0)
        clean = status == "wrong" and not self.findings.value
        return begun + (RIGHT * (self.right_share.value or 0.0) if clean else 0.0)


def reward_of(report: Document, status: Outcome, checked: bool) -> Reward:
    cases = [*report.cases, *([report.broken] if report.broken else [])]
    launches = sum(case.device_report.total("launches") for case in cases)
    emulated = report.device.emulated
    texts = [text for case in cases for text in (case.message, case.trace, *case.remarks)]
    refused = any(TOO_LARGE.search(text) for text in texts)
    failed = status == "compile_error"
    findings = {text for case in cases for text in finding_texts(case.device_report)}
    doubts = {text for case in cases for text in doubts_of(case)} - findings | set(report.buts)
    clock: Kind = "modelled" if emulated else "measured"
    return Reward(
        compiled=Step(0.0 if failed and not refused else 1.0 if launches or refused else None, "judged"),
        launched=Step(float(launches > 0) if emulated else None, "judged"),
        fits=Step(0.0 if refused else 1.0 if launches else None, "static"),
        right_share=Step(_right_share(report), "judged"),
        findings=Step(float(len(findings)) if checked and launches else None, "judged"),
        doubts=Step(float(len(doubts)) if report.cases else None, "judged"),
        of_light=Step(_of_light(report), clock),
        speedup=Step(None, clock),
    )


def _right_share(report: Document) -> float | None:
    shares = [_share(case) for case in report.cases]
    known = [share for share in shares if share is not None]
    return sum(known) / len(known) if known else 0.0 if report.broken else None


def _share(case: CaseResult) -> float | None:
    if case.status is Status.FAIL:
        return case.accuracy.right_share if case.accuracy else None
    if case.status in (Status.SAMPLED, Status.UNJUDGED, Status.NOT_RUN):
        return None
    return float(case.status is Status.PASS)


def _of_light(report: Document) -> float | None:
    times = [(case.floor.light_us if case.floor else None, report.us_of(case)) for case in report.cases]
    shares = [light / us for light, us in times if light and us]
    return geometric_mean(shares) if shares and len(shares) == len(times) else None


def times_of(report: Document | None) -> dict[str, float]:
    """By case, where all passed."""
    if report is None or len(report.times_us) < len(report.cases):
        return {}
    return report.times_us


def speedup_of(mine: dict[str, float], baseline: dict[str, float]) -> float | None:
    """Of the same cases, every one."""
    if not mine or mine.keys() != baseline.keys():
        return None
    return geometric_mean([baseline[spec] / us for spec, us in mine.items()])
