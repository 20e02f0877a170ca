"""What the tuner and its workers tell each other beside forge.judge.messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from forge.judge.messages import Answer, DeviceReport

# ---------------------------------------------------------------- commands


@dataclass(frozen=True)
class BeginTuning:
    """Answer: TuningBegun. Makes a case's process group, data and reference for the rows that follow, until EndCase."""

    args: dict[str, Any]
    rank: int | None  # None: a single-GPU case, without a process group
    port: int


@dataclass(frozen=True)
class RunRow:
    """Answer: RowRun."""

    key: str | None  # as Python spells it; None with row None
    row: dict[str, Any] | None  # None: the submission as it is


@dataclass(frozen=True)
class CheckRow:
    """Answer: RowChecked."""


@dataclass(frozen=True)
class TimeRow:
    """Answer: RowTimed."""

    best_us: float | None  # so far; None: there is none


COMMANDS = (BeginTuning, RunRow, CheckRow, TimeRow)

# ---------------------------------------------------------------- answers


@dataclass(frozen=True)
class TuningBegun(Answer):
    pass


@dataclass(frozen=True)
class RowRun(Answer):
    asked: tuple[str, ...] = ()  # keys that were looked up in TUNING, as Python spells them
    row: dict[str, Any] | None = None  # of the submission as it is, if it tells
    device_report: DeviceReport = field(default_factory=DeviceReport)


@dataclass(frozen=True)
class RowChecked(Answer):
    wrong: str = ""  # what is wrong with the output; empty if nothing


@dataclass(frozen=True)
class RowTimed(Answer):
    wrong: str = ""  # the same of the last call back to back
    b2b_us: float | None = None
    harness_us: float | None = None  # None: the row is too slow to measure further


ANSWERS = (TuningBegun, RowRun, RowChecked, RowTimed)
