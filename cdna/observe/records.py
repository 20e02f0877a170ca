"""What launches executed and what checks found in them, for whoever asks later: of Python's launches and the HIP
runtime's."""

import ctypes
import sys
from collections import deque
from dataclasses import dataclass, field

from .. import checks
from ..engine.library import engine, is_loaded
from . import launch_log
from .counters import Counters


@dataclass
class LaunchRecord:
    """What one launch executed."""

    kernel: str
    grid: tuple[int, int, int]  # workgroups
    block: tuple[int, int, int]  # work-items
    lds_bytes: int
    wave_instructions: int
    by_unit: dict[str, int] = field(default_factory=dict)  # those that occupied it
    cycles: int = 0  # of their units, if all lanes' addresses lay side by side: no time, but more work is more of them
    flops: int = 0  # of its products and sums, with all lanes active
    counters: Counters | None = None  # where counting is on
    trial: bool = False  # one of an autotuner's


# Launches since each reader last asked. Bounded: a program that never asks must not grow.
_records: dict[str, deque[LaunchRecord]] = {
    name: deque(maxlen=100_000) for name in ("user", "judge", "bench", "tests", "profile")
}


def keep(record: LaunchRecord) -> LaunchRecord:
    """Note a launch for each reader."""
    for records in _records.values():
        records.append(record)
    return record


def take_records(reader: str = "user") -> list[LaunchRecord]:
    """The launches since this reader's last call, in order; readers do not take from each other."""
    if is_loaded():
        for fields in launch_log.take(engine().lib):
            keep(LaunchRecord(**fields))
    taken = list(_records[reader])
    _records[reader].clear()
    return taken


def launches() -> int:
    """How many launches this process has made, noted or not: a log that is full, or turned off, notes none."""
    return int(engine().lib.cdna_launches()) if is_loaded() else 0


@dataclass(frozen=True)
class AutotunerChoice:
    """What @triton.autotune took for one key, by modelled time."""

    kernel: str
    config: str  # as Triton spells it
    us: float
    others_us: tuple[float, ...]  # of the configurations that it left, fastest first; inf: one that does not run
    added_to: tuple[str, ...] = ()  # tensors to which each trial has added, looked for where checks are on

    def __str__(self) -> str:
        text = f"autotune {self.kernel}: chose {self.config}, modelled {self.us:.4g} us"
        if self.others_us:
            text += f"; {len(self.others_us)} others: {self.others_us[0]:.4g} to {self.others_us[-1]:.4g} us"
        if self.added_to:
            names = ", ".join(f"`{name}`" for name in self.added_to)
            text += f"; each trial has added to {names}, which neither reset_to_zero nor restore_value names"
        return text


_choices: deque[AutotunerChoice] = deque(maxlen=1000)


def note_choice(choice: AutotunerChoice) -> None:
    _choices.append(choice)
    print(f"cdna: {choice}", file=sys.stderr, flush=True)


def autotuned() -> list[AutotunerChoice]:
    """What autotuners chose since the last call, in order."""
    taken = list(_choices)
    _choices.clear()
    return taken


_benchmarks = 0


def note_benchmark() -> None:
    global _benchmarks
    _benchmarks += 1


def benchmarks() -> int:
    """How often programs have timed their own kernels since the last call, beside Triton's autotuner."""
    global _benchmarks
    taken, _benchmarks = _benchmarks, 0
    return taken


def waits() -> str:
    """Where the waves of launches under way are, how often they have been there, what they wait for; "" if none is.

    For a watchdog's thread. Who asks the process to end (SIGINT, SIGTERM, SIGABRT) reads it on stderr.
    """
    if not is_loaded():
        return ""
    text = ctypes.create_string_buffer(1 << 16)
    engine().lib.cdna_waits(text, len(text))
    return text.value.decode(errors="replace")


def cancel() -> int:
    """End the launches under way, each with LaunchCancelled, or HIP's time-out; how many. For a watchdog's thread."""
    return engine().lib.cdna_cancel() if is_loaded() else 0


def findings() -> list[checks.Finding]:
    """What the checks found since the last call: in Python's launches in order, then in the HIP runtime's."""
    if is_loaded():
        checks.note(launch_log.take_findings(engine().lib), raises=False)
    return checks.take_noted()
