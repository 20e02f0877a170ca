"""How long a case will be emulated, from the cases before it. No torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from forge.judge.plan import EvalPlan
from forge.judge.results import CaseResult, Status, instructions_text, minutes_text, total
from forge.task.cases import CaseSpec

WORTH_SAYING_S = 60.0
# A case of fewer instructions is compiling more than emulation: not its seconds say how long others take, but what an
# instruction of a wave took in cases of amd-fp8-mm on two cores that had other work.
TELLING_INSTRUCTIONS, TYPICAL_S = 1_000_000, 1e-6


@dataclass(frozen=True)
class Seen:
    """A case that was emulated whole."""

    work: float  # FLOPs of its floors, else bytes
    instructions: int  # of waves, in a call
    seconds: float  # all its calls, and their checks


@dataclass
class Forecast:
    """By the FLOPs of the problem's floors: instructions and seconds grow with them, roughly."""

    plan: EvalPlan
    seen: list[Seen] = field(default_factory=list)

    def work_of(self, case: CaseSpec) -> float:
        work = self.plan.work_of(case)
        return (work.flops or work.hbm_bytes or 0.0) if work is not None else 0.0

    def add(self, case: CaseSpec, result: CaseResult) -> None:
        instructions, work = total(result.device_report, "wave_instructions"), self.work_of(case)
        if result.status is Status.PASS and instructions and work:
            self.seen.append(Seen(work, instructions, result.elapsed_s))

    def of(self, case: CaseSpec) -> tuple[float, float] | None:
        """(instructions of a call, seconds); None if nothing is known. The largest case seen says it: what a launch
        costs whatever its size is least of it."""
        work = self.work_of(case)
        if not self.seen or not work:
            return None
        like = max(self.seen, key=lambda one: one.work)
        instructions = like.instructions * work / like.work
        if like.instructions < TELLING_INSTRUCTIONS:
            return instructions, instructions * TYPICAL_S * self.plan.calls
        return instructions, like.seconds * work / like.work

    def text(self, case: CaseSpec, left: list[CaseSpec]) -> str:
        """Before a case, where it takes long; left: those after it."""
        known = self.of(case)
        if known is None or known[1] < WORTH_SAYING_S:
            return ""
        after = sum(found[1] for one in left if (found := self.of(one)) is not None)
        more = f"; {minutes_text(known[1] + after)} with the {len(left)} after it" if left else ""
        return f"{instructions_text(known[0])} a call, {minutes_text(known[1])}{more}"
