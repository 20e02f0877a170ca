"""The file of a bulk run's verdicts, a line each: nothing that was judged is lost, nor is it judged again.

A line is written whole and lies on the disk before the next submission's; a process or a machine that ends meanwhile
leaves at most a part of the last line, which is cut off. Where the disk is full, lines wait for room."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

import msgspec
from msgspec import Struct

from forge.bulk.verdict import Outcome, Verdict, to_line
from forge.console import UsageError


class Known(Struct):
    """Of a line, what says whether its submission has been judged."""

    id: str
    key: str
    status: Outcome


class Journal:
    """Context manager. Two runs do not write to one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.judged: dict[tuple[str, str], Outcome] = {}  # by id and key
        self.unwritten: list[Verdict] = []

    def __enter__(self) -> Journal:
        try:
            self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise UsageError(f"--out {self.path}: cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._read()
        except BlockingIOError:
            os.close(self.file)
            raise UsageError(f"--out {self.path}: another run writes it") from None
        except UsageError:
            os.close(self.file)
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self.file)

    def _read(self) -> None:
        decode, whole = msgspec.json.Decoder(Known).decode, 0
        with open(self.file, "rb", closefd=False) as lines:
            for number, line in enumerate(lines, 1):
                try:
                    if not line.endswith(b"\n"):
                        raise ValueError("not whole")
                    known = decode(line)
                except (ValueError, msgspec.DecodeError):
                    if lines.read(1) or not (line.startswith(b'{"id": ') or not line.strip(b"\0\n")):
                        raise UsageError(f"--out {self.path}: line {number} is no verdict of forge judge") from None
                    break
                whole += len(line)
                if known.status != "machine_error":  # which says nothing of it
                    self.judged[known.id, known.key] = known.status
        os.ftruncate(self.file, whole)
        os.lseek(self.file, whole, os.SEEK_SET)

    def write(self, verdict: Verdict | None = None) -> str:
        """Adds it, and those before it that wait for room: "", or why some still do."""
        self.unwritten += [verdict] if verdict else []
        while self.unwritten:
            line, start = to_line(self.unwritten[0]), os.lseek(self.file, 0, os.SEEK_CUR)
            try:
                if os.write(self.file, line) < len(line):
                    raise OSError(0, "No space left on device")
                os.fdatasync(self.file)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.ftruncate(self.file, start)
                    os.lseek(self.file, start, os.SEEK_SET)
                return f"{self.path}: {error.strerror}: {len(self.unwritten)} verdicts wait for room"
            self.unwritten.pop(0)
        return ""
