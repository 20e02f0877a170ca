"""Leaderboards as their organisers describe them (`sets` in the repository's task.yml): is one open, and why not."""

import contextlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from forge.task.problem import ARCH_OF_GPU, ROOT, Problem, ProblemEntry, ProblemError, read_top, set_rows_of


@dataclass(frozen=True)
class Leaderboard:
    name: str
    gpus: tuple[str, ...]
    deadline: datetime  # UTC; the bot refuses what comes later
    source: str  # where the deadline is stated
    gone: str  # what else stands in the way, with its source; empty if nothing is known

    def state(self, now: datetime | None = None) -> str:
        """open until ..., or closed since ..., in one line."""
        is_open = (now or datetime.now(UTC)) <= self.deadline
        text = f"{'open until' if is_open else 'closed since'} {self.deadline:%Y-%m-%d %H:%M} UTC ({self.source})"
        return text + (f"; {self.gone}" if self.gone else "")

    def is_open(self, now: datetime | None = None) -> bool:
        return (now or datetime.now(UTC)) <= self.deadline


def leaderboard_of(name: str, root: Path = ROOT) -> Leaderboard | None:
    """None for a problem that has none: one of ours beside the organisers', or one that task.yml does not know."""
    if not (root / "task.yml").is_file():
        return None
    for group in read_top(root).readers("sets"):
        for row in group.readers("problems"):
            text = row.get("deadline", str, None)
            if row.values.get("name") == name and text is not None:
                if (deadline := _deadline(text)) is None:
                    raise row.error(f"'deadline' is a day, or a day and a time, found {text!r}")
                gpus = tuple(str(gpu) for gpu in row.get("gpus", list))
                return Leaderboard(name, gpus, deadline, group.get("source", str), group.get("gone", str, ""))
    return None


def leaderboard_beside(problem: Problem) -> Leaderboard | None:
    """What the set file of an owner's repository says of a folder of it; None where it states no deadline."""
    for group, row in set_rows_of(problem.directory):
        if deadline := _deadline(str(row.values.get("deadline") or group.values.get("deadline"))):
            return Leaderboard(problem.name, problem.gpus, deadline, str(group.path), "")
    return None


def _deadline(text: str) -> datetime | None:
    for form in ("%Y-%m-%d %H:%M", "%Y-%m-%d"):
        with contextlib.suppress(ValueError):
            return datetime.strptime(text, form).replace(tzinfo=UTC)
    return None


def other_arch(entry: ProblemEntry, arch: str, root: Path = ROOT) -> tuple[str, ...]:
    """The GPUs of that arch that stand for the problem's own; ProblemError where its formats do not allow it."""
    if arch == entry.arch:
        return entry.gpus
    if entry.arch is None:  # an owner's folder without a GPU that we know
        return next(((gpu,) for gpu, of in ARCH_OF_GPU.items() if of == arch), entry.gpus)
    allowed: list[str] = []
    why = "this problem is not in task.yml, whose key also_arch would allow it"
    for group in read_top(root).readers("sets"):
        for row in group.readers("problems"):
            if row.values.get("name") == entry.name:
                allowed, why = row.get("also_arch", list, []), "its formats are those of its own GPU"
    if arch not in allowed:
        archs = " and ".join(filter(None, [entry.arch, *allowed])) or "nothing"
        raise ProblemError(f"{entry.name}: --arch {arch}: task.yml allows {archs}: {why}")
    base = next(gpu for gpu, of in ARCH_OF_GPU.items() if of == arch)
    return tuple(base + "".join(re.findall(r"x\d+$", gpu)) for gpu in entry.gpus)
