"""Whether the ranks of a case on an emulated device get on, however slowly: a kernel may take an hour, a loop of the
host's that launches nothing is ended. What counts is launches, instructions, output and the phases of a call.

A rank is a worker of ours, or each of the processes that a folder's own eval.py starts.
"""

import contextlib
import os
import sysconfig
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from forge.judge.process_tree import descendants
from forge.judge.processes import SUBMISSION, Tail

BUSY_S = 60.0  # of a rank's own processor time
ASLEEP_S, ASLEEP_SHARE = 120.0, 0.01  # of the clock; of a core, below which a rank and all below it count as asleep
LOOK_S = 2.0
WAITS_ANYWAY = "--timeout S waits S seconds whatever it does"
STOPS = "a case stood still: each of the others may take as long"
SAMPLES = 5  # of a rank's stack: one may be taken between two of torch's operations
TICKS = os.sysconf("SC_CLK_TCK")
BUILDS = str(Path(__file__).parents[1] / "device/fake_rocm/kept.py")  # where a rank waits for what is built for it
STANDARD_LIBRARY = sysconfig.get_path("stdlib")


class Rank(Protocol):
    pid: int | None
    phase: str
    tail: Tail
    folder: Path  # of its run

    def stacks(self) -> list[list[str]]: ...  # as stacks_of tells them


@dataclass
class _Seen:
    """A rank when it was last seen to get on."""

    mark: tuple[object, ...]
    busy_s: float
    below_s: float = 0.0
    asleep_s: float = 0.0


class Standstill:
    """turns_of: of processes, what grows while a kernel of theirs executes an instruction."""

    def __init__(self, turns_of: Callable[[Iterable[int]], int | None]) -> None:
        self.turns_of = turns_of
        self.seen: dict[Rank, _Seen] = {}
        self.looked_at = time.monotonic()

    def is_due(self) -> bool:
        return time.monotonic() - self.looked_at >= LOOK_S

    def found(self, waiting: Sequence[Rank]) -> tuple[str, list[Rank]] | None:
        """What is to be said of ranks that get nowhere, and which they are."""
        elapsed_s = time.monotonic() - self.looked_at
        if not self.is_due() or any(worker.pid is None for worker in waiting):
            return None
        self.looked_at += elapsed_s
        for worker in waiting:
            if self._is_busy(worker, min(elapsed_s, 2 * LOOK_S)):  # more where all of us were stopped meanwhile
                return f"no launch, no instruction, no output in {BUSY_S:g} s of its own processor time", [worker]
        if waiting and all(self.seen[worker].asleep_s >= ASLEEP_S for worker in waiting):
            for worker in waiting:
                self.seen[worker].asleep_s = 0.0
            built_for = any(BUILDS in stack for worker in waiting for stack in worker.stacks())
            if not built_for and (asleep := [worker for worker in waiting if _in_its_own_code(worker)]):
                return f"no launch, no instruction, no output, asleep for {ASLEEP_S:g} s", asleep
        return None

    def _is_busy(self, worker: Rank, elapsed_s: float) -> bool:
        """Whether it works at nothing that counts; notes how long it and all below it have been asleep."""
        assert worker.pid is not None
        pids = [worker.pid, *descendants(worker.pid)]
        busy_s, *below = map(_processor_s, pids)
        below_s, turns = busy_s + sum(below), self.turns_of(pids)
        mark = (turns, worker.phase, worker.tail.total_bytes)
        seen = self.seen.get(worker)
        if seen is None or turns is None or mark != seen.mark:
            self.seen[worker] = _Seen(mark, busy_s, below_s)
            return False
        asleep = below_s - seen.below_s < ASLEEP_SHARE * elapsed_s
        seen.asleep_s, seen.below_s = seen.asleep_s + elapsed_s if asleep else 0.0, below_s
        if busy_s - seen.busy_s < BUSY_S:
            return False
        own = all(_in_its_own_code(worker) for _ in range(SAMPLES))
        self.seen[worker] = _Seen((turns, worker.phase, worker.tail.total_bytes), busy_s, below_s)
        return own


def _in_its_own_code(worker: Rank) -> bool:
    """Whether its threads are in code of the submission's, or in the standard library's that it calls. In torch's or
    Triton's they compute or compile, which is the case's work, as a call is that a kernel of the card's would be."""
    stacks, source = worker.stacks(), str(worker.folder / SUBMISSION)
    callers = [next((file for file in stack if not _is_standard(file)), source) for stack in stacks]
    own = [file.startswith("<") or Path(file).parent == worker.folder for file in callers]
    return any(source in stack for stack in stacks) and all(own)


def _is_standard(file: str) -> bool:
    return file.startswith("<frozen") or (file.startswith(STANDARD_LIBRARY) and "-packages" not in file)


def _processor_s(pid: int) -> float:
    with contextlib.suppress(OSError, ValueError, IndexError):
        user, system = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / TICKS
    return 0.0
