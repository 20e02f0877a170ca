"""`eval.py profile --against`: where one of two submissions is faster, and why: reasons and lines beside each other."""

from dataclasses import dataclass, field

from forge.commands.texts import NO_KERNEL
from forge.device.report import Caches, CaseReport

WORTH = 0.02  # of the longer time: a smaller difference is not told


@dataclass
class Reason:
    """What a submission's kernels spend for one reason."""

    us: float = 0.0
    lines: list[tuple[float, str, str]] = field(default_factory=list)  # (us, place, the reason in full)


def pair_lines(ours: CaseReport, theirs: CaseReport, caches: Caches, names: tuple[str, str]) -> list[str]:
    """ours, theirs: the reports of one case."""
    times = [report.modelled_time(caches) for report in (ours, theirs)]
    if times[0] is None or times[1] is None:
        return [f"{name}: {NO_KERNEL}" for name, time in zip(names, times) if time is None]
    us = [times[0].us, times[1].us]
    fast, slow = (0, 1) if us[0] <= us[1] else (1, 0)
    told = [
        f"{names[0]} {us[0]:.2f} us, bound by {times[0].bound}; {names[1]} {us[1]:.2f} us, bound by "
        f"{times[1].bound}; modelled. {names[fast]} is {us[slow] / us[fast]:.2f} times as fast",
        f"  {'time goes to':24} {names[0]:>10} {names[1][:10]:>10} {'less':>9}  lines",
    ]
    sides = [_reasons(report, caches) for report in (ours, theirs)]
    either = {**sides[0], **sides[1]}
    differences = {name: sides[1].get(name, Reason()).us - sides[0].get(name, Reason()).us for name in either}
    known = False
    for name, less in sorted(differences.items(), key=lambda item: -abs(item[1])):
        if abs(less) < WORTH * max(us):
            continue
        known = True
        mine, other = (side.get(name, Reason()) for side in sides)
        told.append(
            f"  {name:24} {mine.us:10.2f} {other.us:10.2f} {less:+9.2f}  "
            f"{names[0]}: {_largest(mine)} | {names[1]}: {_largest(other)}"
        )
    return told if known else [*told[:1], "  no reason takes a time that differs by 2 %"]


def _reasons(report: CaseReport, caches: Caches) -> dict[str, Reason]:
    found: dict[str, Reason] = {}
    for kernel in report.by_rank[report.slowest(caches)].kernels.values():
        for entry in (kernel.spent or {}).get(caches, ()):
            reason = found.setdefault(entry.reason, Reason())
            reason.us += entry.us
            if entry.place:
                reason.lines.append((entry.us, entry.place, entry.text))
    return found


def _largest(reason: Reason) -> str:
    if not reason.lines:
        return "-"
    us, place, text = max(reason.lines)
    return f"{place.rpartition('/')[2]} {us:.2f} ({text})"
