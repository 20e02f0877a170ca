"""What a call consisted of, and whether a kernel would do it so: reasons to doubt a pass, and remarks. No torch."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from forge.device.cards import peaks_of
from forge.device.report import Caches, CaseReport, DeviceReport, Finding, TimesUs
from forge.judge.messages import Called, Judged, Replayed
from forge.judge.plan import EvalPlan
from forge.judge.results import LIBRARY, Accuracy, CaseResult, Status, TorchWork
from forge.judge.worker_pool import RankAnswer, device_report
from forge.task.cases import CaseSpec
from forge.task.score import Work, too_fast

MOST_SHARE = 0.5  # of a case's FLOPs: most of the work
LEAST_SHARE, LEAST_SAMPLED = 0.9, 0.5  # that launches and torch's operations do together; as a sample scales them
LATER_TIMES = 2  # an honest kernel's error, where what it is compared with was rounded too
# Of an output's bytes: what the host may write of them at most, or earlier calls; and of the host's, as many as
# launches and torch's operations may read.
MOST_HOST, MOST_KEPT, MOST_READ = 0.005, 0.5, 0.2
# What a first call has read of the host's counts for nothing where later calls read it once more, or are told it, or
# read what was made of it: of float64 bytes.
PREPARED = {"read_again": 1, "told_again": 1, "made_again": 8}
FREE_BYTES = 512  # beside those: what arguments, flags and small tables come to, however small an output is
# From which on a call on other data takes so much longer that the same data must have been known: where data decides
# what is to be done, as routing does, and where it does not.
KNOWN_RATIO, KNOWN_PRODUCTS_RATIO = 1.5, 1.1
SAME_TIME = 1e-3  # of a modelled time, which is told in digits
CACHES: tuple[Caches, ...] = ("cold", "warm")
AGAIN = -1  # instead of a draw: the first one's data once more

R = TypeVar("R", bound=DeviceReport)
Calls = Mapping[int, Sequence[RankAnswer[Called]]]  # by draw, of each rank


def report_of(called: Calls) -> CaseReport:
    """The device's report of a case: of the call whose time it models, with what all calls have shown."""
    calls = [device_report(answers) for _, answers in _in_order(called)]
    report = device_report(called[AGAIN if AGAIN in called else 0])
    if not report.ranks:
        return merged(report, calls)
    ranks = (merged(one, [call.of_rank(rank) for call in calls]) for rank, one in enumerate(report.ranks))
    return CaseReport(ranks=tuple(ranks))


def look(plan: EvalPlan, case: CaseSpec, result: CaseResult, called: Calls) -> None:
    """Fills the result's buts, remarks and torch_work; what ends a program on a card is no pass."""
    fault = next((one for one in result.device_report.all_findings() if one.ends_program), None)
    if fault is not None and result.passed:
        result.status, result.stats, result.buts = Status.CRASH, None, []
        result.message = f"in call {fault.call}, a memory access fault on a card: {fault.line}"
    problem = plan.problem
    work = plan.work_of(case)
    needed = (work.flops or 0.0) if work is not None else 0.0
    matrix = problem.floors is not None and problem.floors.matrix != "none" and needed > 0
    said = result.modelled_time(plan.caches)
    if plan.device.emulated and said is not None and not 0 < said.us < math.inf:
        result.device_report = _without_times(result.device_report)
    doubts = _of_work(plan, result, called, needed if matrix else 0.0)
    if plan.device.emulated:
        doubts += _of_counts(plan, result, called, matrix and problem.sampled is True) + _of_bytes(called)
    limit, own_limit = problem.precision.rel_l2, problem.precision.probe_rel_l2
    errors = [(result.accuracy.rel_l2 if result.accuracy else None, limit, "")]
    if result.probe_rel_l2 is not None and own_limit is not None:
        errors.append((result.probe_rel_l2, own_limit, " on the problem's probe"))
    elif result.probe_rel_l2 is not None:
        # Alone: a bias may be most of an output, and what a reference rounds of it of the error.
        without = " without a bias" if problem.precision.bias is not None else ""
        errors = [(result.probe_rel_l2, limit, f" on larger numbers{without}")]
    rel_l2, limit, what = next((one for one in errors if _is_beyond(*one[:2])), errors[-1])
    if _is_beyond(rel_l2, limit):
        doubts.append(f"relative L2 error {rel_l2:.3g}{what}, an honest kernel's is below {limit:g}")
    elif result.share != 1:
        doubts.append(f"of what its input adds to the output {result.share:.3g} times is there")
    elif limit is not None and result.later_rel_l2 > LATER_TIMES * limit and not problem.precision.probes:
        text = f"relative L2 error {result.later_rel_l2:.3g} in a later call"
        doubts.append(f"{text}, an honest kernel's is below {limit:g}")
    elif limit is not None and rel_l2 is None and result.accuracy and result.accuracy.reference:
        doubts.append(f"its error cannot be told: {result.accuracy.problem}")
    if result.accuracy and result.accuracy.rel_l2 == math.inf and rel_l2 != math.inf:
        doubts.append("a number that is not finite where the reference's is, or the other way round")
    if (text := _faster_than_light(plan, result, work)) and (matrix or result.stats):
        doubts.append(text)
    if result.passed:
        result.buts += doubts


def _of_work(plan: EvalPlan, result: CaseResult, called: Calls, needed: float) -> list[str]:
    """Of each call on each rank, as the floor is: who did the FLOPs that it needs, where it needs any."""
    told = [one.answer.torch_work for answers in called.values() for one in answers]
    result.torch_work = max(told, key=lambda one: one.flops, default=TorchWork())
    share = result.torch_work.flops / needed if needed else 0.0
    doubts = []
    if any(one.entered_reference for one in told):
        doubts.append("custom_kernel calls the problem's own ref_kernel")
    if share >= MOST_SHARE:
        names = ", ".join(map(_full_name, result.torch_work.products))
        launches = result.device_report.total("launches")
        with_kernels = f", beside {launches} launches of its own" if launches else ""
        doubts.append(f"{names} did {min(share, 9.99):.0%} of the case's FLOPs{with_kernels}")
        if share > 1 + MOST_SHARE:
            result.remarks.append(f"torch's products and sums are {share:.3g} times the FLOPs that the case needs")
    if not plan.device.emulated or share >= MOST_SHARE:
        return doubts
    least, where = LEAST_SAMPLED if result.status is Status.SAMPLED else LEAST_SHARE, ""
    did: str | None = None
    for number, (_, answers) in enumerate(_in_order(called), 1):
        for one in answers:
            report, torch = one.answer.device_report, one.answer.torch_work
            own = (report.flops + torch.flops) / needed if needed else 1.0
            launches = report.total("launches")
            if not launches and did is None or own < least:
                where = _where(number, one.rank)
                did = f"its {launches} launches can have done {own:.2g} of the case's FLOPs at most{where}"
                did = did if launches else f"no kernel of its own was launched{where}"
                least = own
    if did is not None:
        doubts.append(did) if needed else result.remarks.append(did)
    return doubts


def _of_counts(plan: EvalPlan, result: CaseResult, called: Calls, same_work: bool) -> list[str]:
    """Of what was counted of the launches: all of them, and as long a time on data that they have seen as on other.
    same_work: whatever the data."""
    doubts = []
    reports = {draw: [one.answer.device_report for one in answers] for draw, answers in called.items()}
    if uncounted := sum(one.uncounted for ranks in reports.values() for one in ranks):
        doubts.append(f"{uncounted} launches were made of which nothing was counted: its time is not known")
    times = [device_report(called.get(draw, ())).modelled_time(plan.caches) for draw in (AGAIN, 1)]
    seen_us, other_us = (time.us if time and math.isfinite(time.us) else 0.0 for time in times)
    ratio = KNOWN_PRODUCTS_RATIO if same_work and len(called.get(1, ())) == 1 else KNOWN_RATIO
    if other_us >= ratio * seen_us > 0:
        doubts.append(f"on other data a call takes {other_us / seen_us:.3g} times as long as on data it has seen")
    timed = max((one.timed_itself for one in reports.get(AGAIN, reports.get(0, ()))), default=0)
    if timed and any(one.modelled for one in result.device_report.by_rank):
        result.remarks.append(f"custom_kernel times its own kernels, {timed} times: all of that is in its time")
    return doubts


def _of_bytes(called: Calls) -> list[str]:
    """Of each call's output: who wrote it, and what that was made of.

    What a case's first call reads of the host's, or as it found it, is what it prepares where all later calls on other
    data read that once more, or what it has made of that. An answer is of use to one call.
    """
    later = [answers for draw, answers in called.items() if draw > 0]
    for number, (draw, answers) in enumerate(_in_order(called), 1):
        for place, one in enumerate(answers):
            written, where = one.answer.written, _where(number, one.rank)
            whole = sum(written.get(name, 0) for name in ("now", "before", "given", "nobody"))
            if one.answer.unaccounted:
                return [f"who wrote its output{where} cannot be told: {one.answer.unaccounted}"]
            host, read = written.get("nobody", 0), written.get("read_nobody", 0) + written.get("told", 0)
            how = f": {', '.join(one.answer.host) or 'in its own process, past torch (numpy, an extension)'}"
            if host > MOST_HOST * whole:
                return [f"the host wrote {host / whole:.0%} of its output{where}{how}"]
            if written.get("before", 0) > MOST_KEPT * whole:
                return [f"most of its output{where} was there before the call"]
            if one.rank is not None:  # what its kernels read, others may have sent
                continue
            if draw == 0 and later:
                again = [others[place].answer.written for others in later]
                read += written.get("read_before", 0)
                for name, times in PREPARED.items():
                    read -= times * min(others.get(name, 0) for others in again)
            if read >= MOST_READ * whole + FREE_BYTES and whole:
                return [f"its output{where} is made of {read / whole:.3g} times as many bytes of the host's{how}"]
    return []


def _where(number: int, rank: int | None) -> str:
    return f" in call {number}" * (number > 1) + f" on rank {rank}" * (rank is not None)


def _faster_than_light(plan: EvalPlan, result: CaseResult, work: Work | None) -> str:
    if plan.problem.floors is None:
        return ""
    modelled = result.modelled_time(plan.caches) if plan.device.emulated else None
    us = modelled.us if modelled else result.stats.mean_us if result.stats else math.inf
    peaks, kind = peaks_of(plan.device.arch), plan.problem.floors.matrix
    text = too_fast(work, us, peaks, kind, plan.caches == "warm")
    return f"{text} ({'modelled' if modelled else 'measured'})" if text else ""


def _full_name(product: str) -> str:
    return product if product == LIBRARY else f"aten::{product}"


def _is_beyond(error: float | None, limit: float | None) -> bool:
    return error is not None and limit is not None and not error <= limit  # NaN is


def _in_order(called: Calls) -> list[tuple[int, Sequence[RankAnswer[Called]]]]:
    """The calls as they were made."""
    return sorted(called.items(), key=lambda call: 0.5 if call[0] == AGAIN else call[0])


def merged(report: R, calls: Sequence[DeviceReport]) -> R:
    """A call's report with the findings of all, each place once, and what the first one alone can show."""
    found: dict[tuple[str, ...], Finding] = {}
    for number, call in enumerate(calls, 1):
        for one in call.findings:
            place = (one.kind, one.kernel, one.instruction, one.source, one.tensor)
            found.setdefault(place, replace(one, call=number))
    return replace(report, autotuned=calls[0].autotuned or report.autotuned, findings=tuple(found.values()))


def shorter(report: DeviceReport, anew: TimesUs | None) -> str:
    """What speaks against a modelled time: launches and operations that were made anew take longer."""
    if anew is None or report.modelled is None:
        return ""
    for caches in CACHES:
        us, anew_us = report.modelled.of(caches).us, anew.of(caches)
        if not us >= anew_us * (1 - SAME_TIME):
            return f"the submission meddled with its modelled time: it tells {us:g} us, made anew it is {anew_us:g} us"
    return ""


def with_found(report: DeviceReport, anew: Replayed) -> DeviceReport:
    """With the FLOPs of the launches that were made anew, and what checks have found in these and it does not tell."""
    told = {(one.kind, one.source) for one in report.findings}
    others = (one for one in anew.findings if (one.kind, one.source) not in told)
    return replace(report, flops=anew.flops, findings=(*report.findings, *others))


def _without_times(report: CaseReport) -> CaseReport:
    """Of a process that told nonsense: a modelled time that is none."""
    return replace(report, modelled=None, ranks=tuple(replace(one, modelled=None) for one in report.ranks))


def worst_accuracy(answers: Iterable[RankAnswer[Judged]]) -> Accuracy:
    """The rank that is farthest off stands for all."""

    def of(one: RankAnswer[Judged]) -> Accuracy:
        return replace(one.answer.accuracy or Accuracy(problem="no comparison"), rank=one.rank)

    return max(map(of, answers), key=lambda accuracy: math.inf if accuracy.rel_l2 is None else accuracy.rel_l2)
