"""How long a case will be emulated, from the cases before it. No torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from forge.judge.plan import EvalPlan
from forge.judge.results import CaseResult, Status, minutes_text, total, work_text
from forge.judge.what_ran import number_of
from forge.task.cases import CaseSpec

WORTH_SAYING_S = 60.0
# A case of fewer instructions is compiling more than emulation: not its seconds say how long others take, but what an
# instruction of a wave took in cases of amd-fp8-mm on two cores that had other work.
TELLING_INSTRUCTIONS, TYPICAL_S = 1_000_000, 1e-6
# The same of what torch multiplies: bf16 products of amd-mla-decode, there.
TELLING_FLOPS, TYPICAL_FLOP_S = 1e10, 1 / 40e9


@dataclass(frozen=True)
class Seen:
    """A case that was emulated whole."""

    work: float  # FLOPs of its floors, else bytes
    instructions: int  # of waves, in a call
    torch_flops: float  # of torch's own products, in a call
    seconds: float  # all its calls, and their checks


@dataclass(frozen=True)
class Foretold:
    """A case that has not run."""

    instructions: float
    torch_flops: float
    seconds: float


@dataclass
class Forecast:
    """By the FLOPs of the problem's floors: instructions and seconds grow with them, roughly."""

    plan: EvalPlan
    seen: list[Seen] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return 1 if self.plan.mode == "profile" else self.plan.calls

    def work_of(self, case: CaseSpec) -> float:
        work = self.plan.work_of(case)
        return (work.flops or work.hbm_bytes or 0.0) if work is not None else 0.0

    def add(self, case: CaseSpec, result: CaseResult) -> None:
        instructions, work = total(result.device_report, "wave_instructions"), self.work_of(case)
        flops = number_of(result.torch_work, "flops")
        if result.status is Status.PASS and (instructions or flops) and work:
            a_call_s = result.elapsed_s / max(result.calls, 1)
            self.seen.append(Seen(work, instructions, flops, a_call_s * self.calls))

    def of(self, case: CaseSpec) -> Foretold | None:
        """None if nothing is known. The largest case seen says it: what a launch costs whatever its size is least of
        it."""
        work = self.work_of(case)
        if not self.seen or not work:
            return None
        like = max(self.seen, key=lambda one: one.work)
        times = work / like.work
        instructions, flops = like.instructions * times, like.torch_flops * times
        if like.instructions >= TELLING_INSTRUCTIONS or like.torch_flops >= TELLING_FLOPS:
            return Foretold(instructions, flops, like.seconds * times)
        a_call = instructions * TYPICAL_S + flops * TYPICAL_FLOP_S
        return Foretold(instructions, flops, a_call * self.calls)

    def text(self, case: CaseSpec, left: list[CaseSpec]) -> str:
        """Before a case, where it takes long; left: those after it."""
        known = self.of(case)
        if known is None or known.seconds < WORTH_SAYING_S:
            return ""
        after = sum(found.seconds for one in left if (found := self.of(one)) is not None)
        more = f"; {minutes_text(known.seconds + after)} with the {len(left)} after it" if left else ""
        why = f"; not sampled: {self.plan.not_sampled}" if self.plan.not_sampled else ""
        return f"{work_text(known.instructions, known.torch_flops)} a call, {minutes_text(known.seconds)}{more}{why}"
