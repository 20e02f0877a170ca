"""Results in words: what the screen, messages and files say of them. No torch."""

import re
from collections import Counter
from collections.abc import Mapping

from forge.commands.torch_profile import torch_lines
from forge.console import harmless
from forge.device.report import Caches, CaseReport, ModelledTime
from forge.judge.plan import EvalPlan
from forge.judge.results import Accuracy, CaseResult, Status
from forge.task.harness import Clock

NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")  # that differ from case to case
MESSAGE_LINES = 4  # of what an official check says: some print whole tensors


MARK, NAMED = "~", 4  # before a modelled time that is in part an estimate of torch's operations; of these a line names
LACKING = ">"  # before one that lacks a part of what a launch asked of memory
UNSURE = "?"  # before one that is outside of what the model was held against


def modelled_text(time: ModelledTime | None) -> str:
    """A case's modelled time in us with its interval. Marked where torch's operations are in it, at their roofline, or
    lines are not, or the interval may not hold."""
    if time is None:
        return ""
    return f"{_marks(time)}{time.us:.4g}" + f" ({time.interval})" * bool(time.interval)


def _marks(time: ModelledTime) -> str:
    return LACKING * bool(time.unrecorded) + MARK * bool(time.torch_us) + UNSURE * bool(time.unsure)


def time_texts(time: ModelledTime | None) -> list[str]:
    """What a modelled time's marks say, a line each."""
    if time is None:
        return []
    lacking = f"{LACKING} {time.lacking}" if time.lacking else ""
    unsure = f"{UNSURE} {time.unsure}" if time.unsure else ""
    return [text for text in (lacking, torch_text(time.torch_us), unsure) if text]


def torch_text(by_name: Mapping[str, float]) -> str:
    """What torch's operations are of a modelled time, by name; empty if nothing."""
    if not by_name:
        return ""
    named = ", ".join(f"{name} {us:.3g}" for name, us in list(by_name.items())[:NAMED])
    more = ", ..." if len(by_name) > NAMED else ""
    return f"{MARK} of it torch's own operations at the card's roofline: {sum(by_name.values()):.4g} us ({named}{more})"


BACK_TO_BACK_TEXT = "b2b us: mean per call of 20 back-to-back calls (GPU events, slowest rank, warm caches); not scored"
HOST_TEXT = "host us: how long one of these calls keeps its thread until it returns (mean, slowest rank)"


def on_clock_text(time: ModelledTime, clock: Clock) -> str:
    """A case's modelled time on the harness's clock, with the marks of that time; "" where nobody knows."""
    seen = clock.sees_us(time.us, time.low_us, time.high_us)
    return f"{_marks(time)}{seen[0]:.4g}" if seen else ""


def ends(low_us: float, high_us: float) -> str:
    return f"{low_us:.3g}..{high_us:.3g}" if high_us else f"{low_us:.3g}.."


def modelled_means(plan: EvalPlan) -> str:
    clock = plan.clock
    more = "what that adds nobody published"
    if clock.adds_us is not None:
        more = f"that adds {clock.adds_us:g} us ({clock.adds_low_us:g}..{clock.adds_high_us:g}; {clock.source})"
    return (
        f"modelled us: what Triton and HIP kernels executed, over the card's rates, caches {plan.caches}, as a "
        f"profiler's clock sees a call alone; the harness's own is {clock.text}: {more}; ~: with torch's own "
        "operations, at what they cannot be below; (from..to): where nine of ten published times lie; no "
        "measurement and no score (docs/time-model.md)"
    )


def clock_text(plan: EvalPlan) -> str:
    """What the harness's clock is."""
    harness = plan.harness
    caches = "caches flushed before" if harness.l2_flush_bytes else "caches warm"
    return f"us: harness {harness.name}'s clock: {plan.clock.text}, {caches}, mean"


def details(result: CaseResult) -> list[str]:
    """What follows a case's line: for a failing one everything that helps, for a passing one its warnings."""
    lines = []
    accuracy = result.accuracy or Accuracy()
    if result.ran:
        lines += [f"but {text}" for text in result.buts] + [f"note: {text}" for text in result.remarks]
        if result.fresh_ratio is not None:
            lines.append(f"on other data a call takes {result.fresh_ratio:.2f} times as long as on the same data")
        if accuracy.dtypes:
            lines.append(f"warning: {'; '.join(accuracy.dtypes)}")
        if result.back_to_back is not None and result.back_to_back.problem:
            lines.append(f"warning: called back to back: {result.back_to_back.problem}")
        return lines
    if result.status is Status.NOT_RUN:
        return [result.message]
    who = f"rank {result.rank}: " if result.rank is not None else ""
    lines += (who + harmless(result.message.replace("\\n", "\n"))).split("\n")[:MESSAGE_LINES]
    if (worst := accuracy.worst) is not None:
        of = f"rank {accuracy.rank} " if accuracy.rank is not None else ""
        lines.append(f"worst: {of}{worst.where} at {worst.index}: got {worst.got:.8g}, wanted {worst.wanted:.8g}")
        lines += [f"pattern: {accuracy.pattern}"] if accuracy.pattern else []
    elif accuracy.problem:
        lines.append(accuracy.problem)
    lines += [f"judged of later calls: {result.later_part}"] * bool(result.later_part)
    lines += [line for line in accuracy.dtypes if line not in result.message]
    lines += [f"note: {text}" for text in result.remarks]
    return lines + tail_lines(result)


def tail_lines(result: CaseResult) -> list[str]:
    """The trace of an exception and what the process last printed, but for findings, which are told by themselves."""
    lines = [f"| {line}" for line in result.trace.splitlines()]
    told = finding_texts(result.device_report)
    words = Counter(line for line in result.last_words if not any(_repeats(line, text) for text in told))
    lines += ["last words:"] * bool(words)
    lines += [f"| {line} ({times} times)" if times > 1 else f"| {line}" for line, times in words.items()]
    if result.output_bytes > 2**20:
        lines.append(f"(it printed {result.output_bytes / 1e6:.0f} MB)")
    return lines


def _repeats(line: str, finding: str) -> bool:
    """Whether it was printed of the same fault, in whichever launch; it may be cut off."""
    gist = NUMBERS.sub("", line.removeprefix("cdna: ").strip())
    return len(gist) > 8 and gist in NUMBERS.sub("", finding)


def autotuned(report: CaseReport) -> list[str]:
    """What @triton.autotune chose on an emulated device: of one rank, of the first where there are several."""
    found = report.by_rank[0].autotuned
    return [text if text.startswith("autotune ") else f"autotune {text}" for text in found]


def finding_texts(report: CaseReport) -> list[str]:
    """What the device's checks found, of all ranks, each once."""
    return list(dict.fromkeys(one.text for one in report.all_findings()))


NO_KERNEL = "no Triton or HIP kernel was launched"


def profile_lines(report: CaseReport, caches: Caches, arch: str, needed_flops: float | None = None) -> list[str]:
    """Each kernel's profile; of several ranks the slowest's."""
    rank = report.slowest(caches)
    one = report.by_rank[rank]
    told = [line for kernel in one.kernels.values() for line in (kernel.profile or {}).get(caches, ())] or [NO_KERNEL]
    head = [f"rank {rank}, the slowest of {len(report.ranks)}:"] if report.ranks else []
    return [*head, *told, *torch_lines(one.torch, caches, arch, needed_flops)]
