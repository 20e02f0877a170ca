"""How long a case will be emulated, from the cases before it. No torch."""

import math
from dataclasses import dataclass, field

from forge.console import minutes_text, work_text
from forge.device.report import CaseReport
from forge.judge.plan import EvalPlan
from forge.judge.results import CaseResult, Status
from forge.task.cases import CaseSpec, product_of_numbers

WORTH_SAYING_S = 60.0
# What an instruction of a wave took in cases of amd-fp8-mm on two cores that had other work, and a FLOP of torch's in
# bf16 products of amd-mla-decode there. In a case of less than the other two the seconds are not emulation's.
TYPICAL_S, TYPICAL_FLOP_S = 1e-6, 1 / 40e9
TELLING_INSTRUCTIONS, TELLING_FLOPS = 1_000_000, 1e10
# A case that small beside others says nothing of how long all of them take.
TELLS_OF_TIMES_ITS_WORK = 100
TELLS_OF_JUDGING = 20  # as many times: what judging takes whatever the size is counts for less and less


@dataclass(frozen=True)
class Seen:
    """A case that was emulated, whole or in a sample, whose counts are of all of it."""

    work: float  # FLOPs of its floors, else bytes, else the product of its numbers
    instructions: int  # of waves, in a call
    torch_flops: float  # of torch's own products, in a call
    call_s: float  # 0 where nothing says how long all of a call takes
    at_most: bool = False  # call_s holds more than emulation: compiling, say
    judged_s: float = 0.0  # a call with all that belongs to it: inputs, reference, checks

    @property
    def typical_s(self) -> float:
        return self.instructions * TYPICAL_S + self.torch_flops * TYPICAL_FLOP_S

    @property
    def telling(self) -> bool:
        return (
            self.call_s > 0
            and not self.at_most
            and (self.instructions >= TELLING_INSTRUCTIONS or self.torch_flops >= TELLING_FLOPS)
        )


@dataclass(frozen=True)
class Foretold:
    """A case that has not run."""

    instructions: float
    torch_flops: float
    seconds: float


@dataclass
class Forecast:
    """By a problem's floors, or the numbers of its cases: instructions grow with them, roughly. Where a sample has
    counted a case, by what it counted."""

    plan: EvalPlan
    seen: list[Seen] = field(default_factory=list)
    counted: dict[str, Seen] = field(default_factory=dict)  # by a case's spec

    @property
    def calls(self) -> int:
        return 1 if self.plan.mode == "profile" else self.plan.calls

    def work_of(self, case: CaseSpec) -> float:
        work = self.plan.work_of(case)
        return (work.flops or work.hbm_bytes or 0.0) if work is not None else product_of_numbers(case.args)

    def add(self, case: CaseSpec, result: CaseResult) -> None:
        if result.passed:
            whole = result.status is Status.PASS
            only_compiled = result.calls == 1 and not self.seen  # the first call of all: most of it may be compiling
            call_s = (result.call_s or result.elapsed_s / max(result.calls, 1)) if whole else 0.0
            judged_s = result.steady_s / max(result.calls, 1) if whole else 0.0
            self.note(case, result.device_report, result.torch_work.flops, call_s, only_compiled, judged_s)

    def note(
        self,
        case: CaseSpec,
        report: CaseReport,
        torch_flops: float,
        call_s: float = 0.0,
        at_most: bool = False,
        judged_s: float = 0.0,
    ) -> None:
        """A report's counts are of all of a case, though a sample made them."""
        one = Seen(self.work_of(case), report.total("wave_instructions"), torch_flops, call_s, at_most, judged_s)
        if one.typical_s:
            self.counted[case.spec] = one
            if one.work:
                self.seen.append(one)

    def of(self, case: CaseSpec) -> Foretold | None:
        """None if nothing is known. The largest case seen says it: what a launch costs whatever its size is least of
        it."""
        work = self.work_of(case)
        like = self.counted.get(case.spec)
        if like is None and self.seen and work:
            largest = max(self.seen, key=lambda one: one.work)
            times = self.grown(largest, work)
            like = Seen(work, int(largest.instructions * times), largest.torch_flops * times, 0.0)
        if like is None:
            return None
        telling = max((one for one in self.seen if one.telling), key=lambda one: one.typical_s, default=None)
        if telling is not None:
            like_it = like.typical_s <= TELLS_OF_JUDGING * telling.typical_s
            slower = (like_it and telling.judged_s or telling.call_s) / telling.typical_s
        else:  # a call that was quicker than is typical says so, whatever else was in its seconds
            slower = min([1.0, *(one.call_s / one.typical_s for one in self.seen if one.call_s)])
        return Foretold(like.instructions, like.torch_flops, slower * like.typical_s * self.calls)

    def grown(self, largest: Seen, work: float) -> float:
        """How many times the work of the largest case a larger one executes. What small cases execute whatever their
        size grows with nothing: beyond the largest, as they grew from a smaller one to it."""
        times = work / largest.work
        smaller = [one for one in self.seen if one.work <= largest.work / 2]
        if times <= 1 or not smaller:
            return times
        one = max(smaller, key=lambda one: one.work)
        exponent = math.log(largest.typical_s / one.typical_s) / math.log(largest.work / one.work)
        return times ** min(max(exponent, 0.0), 1.0)

    def text(self, case: CaseSpec, left: list[CaseSpec]) -> str:
        """Before a case, where it takes long; left: those after it."""
        known = self.of(case)
        if known is None or known.seconds < WORTH_SAYING_S:
            return ""
        after = [found.seconds for one in left if (found := self.of(one)) is not None]
        most = TELLS_OF_TIMES_ITS_WORK * max((one.work for one in self.seen), default=math.inf)
        tells = bool(left) and all(one.spec in self.counted or self.work_of(one) <= most for one in left)
        more = f"; {minutes_text(known.seconds + sum(after))} with the {len(left)} after it" if tells else ""
        why = f"; not sampled: {self.plan.not_sampled}" if self.plan.not_sampled else ""
        return f"{work_text(known.instructions, known.torch_flops)} a call, {minutes_text(known.seconds)}{more}{why}"


def sample_text(report: CaseReport, seconds: float, calls: int, torch: tuple[int, int] = (0, 0)) -> str:
    """What of a case was emulated, and how long all of it would take. seconds: that the sample did; torch: its
    operations that were left out, and their FLOPs."""
    groups, run = report.total("workgroups"), report.total("workgroups_run")
    instructions, emulated = report.total("wave_instructions"), report.total("wave_instructions_run")
    whole_s = seconds * max(instructions, 1) / max(emulated, 1) + torch[1] * TYPICAL_FLOP_S
    rest = ", the rest counted" if run < groups else ""
    parts = [f"{run:,} of {groups:,} workgroups emulated{rest}"] if groups else []
    parts += [f"{torch[0]:,.0f} large operations of torch's counted, not carried out"] if torch[0] else []
    return (
        f"a sample: {'; '.join(parts)}; output not judged at this size "
        f"(--full judges it: {work_text(instructions, torch[1])} a call, {minutes_text(calls * whole_s)})"
    )
