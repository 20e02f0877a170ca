"""What a tuner has tried, as JSON lines: appended to while it runs, read when it goes on after a stop."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

import msgspec
from msgspec import Struct

from forge.tune.search import Row

ATTEMPTS = 2  # a row whose trial began this often without an end is left alone: it takes the tuner down with it


class TrialsLogError(Exception):
    """A file that cannot be read or written. One line."""


@dataclass(frozen=True)
class Setting:
    """What a time depends on beside case and row: with another one, a trial says nothing."""

    problem: str
    variant: str
    sources: str  # digest of the sources, without the table's rows
    device: str
    arch: str
    versions: str


@dataclass(frozen=True)
class Trial:
    case: str  # spec line
    row: Row | None  # None: the submission as it is
    status: str  # pass | wrong | error | crash | timeout
    message: str = ""
    key: str | None = None  # of the row, as Python spells it
    b2b_us: float | None = None
    harness_us: float | None = None
    modelled_us: float | None = None
    as_it_is: Row | None = None  # of row None: the row that the submission has now, if it tells
    table: str = ""  # of row None: digest of the table that it was with
    runs: int = 1  # how often it was timed; times are the mean of these

    def us(self, clock: str) -> float | None:
        value: float | None = getattr(self, f"{clock}_us")
        return value if self.status == "pass" else None

    def with_another(self, other: Trial) -> Trial:
        """Both times as one; a trial that fails the second time has failed."""
        if other.status != "pass":
            return other
        pairs = ((self.b2b_us, other.b2b_us), (self.harness_us, other.harness_us))
        b2b_us, harness_us = (a if b is None else b if a is None else (a + b) / 2 for a, b in pairs)
        return replace(self, b2b_us=b2b_us, harness_us=harness_us, runs=self.runs + 1)


class TrialLine(Struct, omit_defaults=True):
    """A line of the file: a trial that has ended, or else one that begins, or stops without an end."""

    setting: Setting
    case: str = ""
    row: Row | None = None
    stopped: bool = False
    trial: Trial | None = None


@dataclass
class TrialsLog:
    """Trials by case and row. Lines of another setting are kept in the file and not looked at."""

    path: Path
    setting: Setting
    trials: dict[tuple[str, str], Trial] = field(default_factory=dict)
    begun: dict[tuple[str, str], int] = field(default_factory=dict)
    others: int = 0  # trials of another setting

    def __post_init__(self) -> None:
        self._file: TextIO | None = None
        self.reread()

    def reread(self) -> None:
        """Takes in what stands in the file: another tuner may have added to it."""
        self.begun, self.others = {}, 0
        for line in lines_of(self.path):
            if line.setting != self.setting:
                self.others += line.trial is not None
            elif line.trial is not None:
                self.trials[self.place(line.trial.case, line.trial.row)] = line.trial
            else:
                place = self.place(line.case, line.row)
                self.begun[place] = self.begun.get(place, 0) + (-1 if line.stopped else 1)

    @staticmethod
    def place(case: str, row: Row | None) -> tuple[str, str]:
        return case, json.dumps(row, sort_keys=True)

    def known(self, case: str, row: Row | None) -> Trial | None:
        place = self.place(case, row)
        if place not in self.trials and self.begun.get(place, 0) >= ATTEMPTS:
            return Trial(case, row, "crash", f"began {ATTEMPTS} times and never ended")
        return self.trials.get(place)

    def begin(self, case: str, row: Row | None) -> None:
        self._write(TrialLine(self.setting, case, row))

    def stop(self, case: str, row: Row | None) -> None:  # not because of its row
        self._write(TrialLine(self.setting, case, row, stopped=True))

    def end(self, trial: Trial) -> None:
        self.trials[self.place(trial.case, trial.row)] = trial
        self._write(TrialLine(self.setting, trial=trial))

    def open(self) -> TextIO:
        """The file, to append to."""
        if self._file is None:
            try:
                whole = not self.path.exists() or self.path.read_bytes()[-1:] in (b"", b"\n")
                self._file = self.path.open("a", encoding="utf-8")
            except OSError as error:
                raise TrialsLogError(f"{self.path}: cannot be written: {error.strerror or error}") from None
            if not whole:  # the last line was cut off by a crash: it stays one broken line
                self._file.write("\n")
        return self._file

    def _write(self, line: TrialLine) -> None:
        """One write of a whole line, under a lock: two tuners' lines do not mix."""
        file = self.open()
        text = msgspec.json.encode(line).decode() + "\n"
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)


def lines_of(path: Path) -> list[TrialLine]:
    """The lines that parse: a crash may have cut one off."""
    try:
        texts = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise TrialsLogError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    found = []
    for text in texts:
        with contextlib.suppress(msgspec.DecodeError):
            found.append(msgspec.json.decode(text, type=TrialLine))
    return found
