"""What a submission's processes may take, looked at from outside: so many of them, disk, memory."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from forge.judge.confinement import task_count
from forge.judge.memory import MemoryWatch
from forge.judge.process_tree import descendants
from forge.judge.processes import free_bytes, written_bytes
from forge.judge.results import Fault

MAX_PROCESSES = 1000  # below one evaluation; a parallel compiler starts hundreds
MAX_WRITTEN_BYTES = 16 << 30  # to disks, from one answer to the next: what a submission builds is smaller


class Takings:
    """From now on, in the run's folder. most_bytes: of memory, None where nobody counts it."""

    def __init__(self, pids: Callable[[], Iterable[int]], most_bytes: int | None, folder: Path) -> None:
        self.tasks, self.free, self.folder = task_count(), free_bytes(), folder
        self.memory = None if most_bytes is None else MemoryWatch(pids, most_bytes)

    def too_much(self) -> tuple[str, Fault]:
        """What is to be said, and of which kind it is; "" where nothing is."""
        if task_count() - self.tasks > MAX_PROCESSES and len(descendants(os.getpid())) > MAX_PROCESSES:
            return f"it started more than {MAX_PROCESSES} processes", ""
        if self.free - free_bytes() > MAX_WRITTEN_BYTES < written_bytes(os.getpid(), self.folder):
            return f"it wrote more than {MAX_WRITTEN_BYTES >> 30} GiB to disk", ""
        if self.memory is not None and self.memory.is_over():
            return f"it took more than {self.memory.most / 2**30:.3g} GiB of memory", "memory"
        return "", ""
