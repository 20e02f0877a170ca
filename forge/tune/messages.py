"""What the tuner and its workers tell each other beside forge.judge.messages."""

from forge.device.report import DeviceReport
from forge.judge.messages import Answer, Message
from forge.task.problem import Case
from forge.tune.search import Row

# ---------------------------------------------------------------- commands


class BeginTuning(Message, frozen=True):
    """Answer: TuningBegun. Makes a case's process group, data and reference for the rows that follow, until EndCase."""

    args: Case
    rank: int | None  # None: a single-GPU case, without a process group
    port: int
    rel_l2: float | None  # what the problem says an honest kernel may be off; None: not stated


class RunRow(Message, frozen=True):
    """Answer: RowRun."""

    key: str | None  # as Python spells it; None with row None
    row: Row | None  # None: the submission as it is


class CheckRow(Message, frozen=True):
    """Answer: RowChecked."""


class TimeRow(Message, frozen=True):
    """Answer: RowTimed."""

    best_us: float | None  # so far; None: there is none


COMMANDS = (BeginTuning, RunRow, CheckRow, TimeRow)

# ---------------------------------------------------------------- answers


class TuningBegun(Answer, frozen=True):
    pass


class RowRun(Answer, frozen=True):
    asked: tuple[str, ...] = ()  # keys that were looked up in TUNING, as Python spells them
    row: Row | None = None  # of the submission as it is, if it tells
    device_report: DeviceReport = DeviceReport()


class RowChecked(Answer, frozen=True):
    wrong: str = ""  # what is wrong with the output; empty if nothing


class RowTimed(Answer, frozen=True):
    wrong: str = ""  # the same of the last call back to back
    b2b_us: float | None = None
    harness_us: float | None = None  # None: the row is too slow to measure further


ANSWERS = (TuningBegun, RowRun, RowChecked, RowTimed)
