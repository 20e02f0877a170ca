"""The history: every run and every imported result, in one SQLite file of the user's data folder.

A run is its results document (docs/history.md), whole; the submission's bytes are kept once, by their hash. A
file that is not ours, of another version or damaged is refused with one line, and is never written to.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forge.history.times import score_of, times_of

VERSION = 1  # of the tables below
APPLICATION = 0x63466F72  # "cFor", in the file's head: tells our files from other programs' databases
BUSY_S = 30  # another command may be writing
TABLES = """
CREATE TABLE submissions (sha256 TEXT PRIMARY KEY, text BLOB NOT NULL);
CREATE TABLE runs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  time TEXT NOT NULL,
  problem TEXT NOT NULL,
  mode TEXT NOT NULL,
  verdict TEXT NOT NULL,
  device TEXT NOT NULL,
  times TEXT NOT NULL,
  score_us REAL,
  submission TEXT,
  outside TEXT UNIQUE,
  document BLOB NOT NULL
);
CREATE INDEX runs_by_problem ON runs (problem, id);
"""
COLUMNS = "id, time, problem, mode, verdict, device, times, score_us, submission, outside"


class HistoryError(Exception):
    """The history cannot be read or written, or has no such run. One line."""


@dataclass(frozen=True)
class Entry:
    """A run without its document."""

    id: int
    time: str  # ISO, UTC
    problem: str
    mode: str
    verdict: str
    device: str
    times: str  # what its times are: measured | modelled | leaderboard | none
    score_us: float | None  # over its cases, by the problem's ranking
    submission: str | None  # SHA-256; None for an imported result without code
    outside: str | None  # of an imported result: what identifies it there


def history_path() -> Path:
    """Where the XDG base directory specification puts a program's data."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "cdna-forge" / "history.sqlite"


class History:
    """The file, opened for each call: a command that runs for minutes holds no lock."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or history_path()

    @contextlib.contextmanager
    def _opened(self, write: bool = False) -> Iterator[sqlite3.Connection]:
        try:
            if write:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            mode = "rwc" if write else "ro"
            connection = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode={mode}", uri=True, timeout=BUSY_S)
            with contextlib.closing(connection), connection:
                self._check(connection, write)
                yield connection
        except sqlite3.DatabaseError as error:
            raise HistoryError(
                f"{self.path}: cannot be used as the history: {error}; it was left as it is: move it away, or run with"
                " --no-history"
            ) from None
        except OSError as error:
            raise HistoryError(f"{self.path}: cannot be written: {error.strerror or error}") from None

    def _check(self, connection: sqlite3.Connection, write: bool) -> None:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        empty = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if (version, application, empty) == (0, 0, True):
            if write:
                connection.execute("BEGIN IMMEDIATE")
                if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    for statement in filter(str.strip, TABLES.split(";")):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {APPLICATION}")
                    connection.execute(f"PRAGMA user_version = {VERSION}")
            return
        if application != APPLICATION:
            raise HistoryError(f"{self.path}: a database of another program, not the history; it was left as it is")
        if version != VERSION:
            raise HistoryError(
                f"{self.path}: a history of version {version}, and this forge reads version {VERSION}; it was left as"
                " it is: use the forge that wrote it, move it away, or run with --no-history"
            )

    # ------------------------------------------------------------ writing

    def keep(self, document: dict[str, Any], *submissions: bytes) -> int:
        """Keeps a run's document and the submissions it speaks of; the run's number."""
        times = times_of(document)
        row = (
            document["fingerprint"]["time"],
            document["problem"]["name"],
            document["mode"],
            document["verdict"],
            document["device"]["name"],
            times.kind,
            score_of(times, document.get("ranking_by", "geom")),
            document["fingerprint"]["submission_sha256"],
            None,
        )
        return self._insert(row, document, submissions)

    def keep_outside(self, entry: Entry, document: dict[str, Any], submission: bytes | None) -> int:
        """Keeps an imported result, in place of an earlier import of the same; its number."""
        row = (
            entry.time, entry.problem, entry.mode, entry.verdict, entry.device, entry.times, entry.score_us,
            entry.submission, entry.outside,
        )  # fmt: skip
        return self._insert(row, document, () if submission is None else (submission,))

    def _insert(self, row: tuple[Any, ...], document: dict[str, Any], submissions: tuple[bytes, ...]) -> int:
        with self._opened(write=True) as connection:
            for text in submissions:
                connection.execute(
                    "INSERT OR IGNORE INTO submissions VALUES (?, ?)", (sha256(text), zlib.compress(text))
                )
            packed = zlib.compress(json.dumps(document, default=str).encode())
            *values, outside = row
            known = outside and connection.execute("SELECT id FROM runs WHERE outside = ?", (outside,)).fetchone()
            names = COLUMNS.partition(", ")[2] + ", document"
            if known:
                # a later import without the code must not lose the one that is known
                kept = {"submission": "coalesce(?, submission)"}
                marks = ", ".join(f"{name} = {kept.get(name, '?')}" for name in names.split(", "))
                connection.execute(f"UPDATE runs SET {marks} WHERE id = ?", (*values, outside, packed, known[0]))
                return int(known[0])
            marks = ", ".join("?" * len(names.split(", ")))
            cursor = connection.execute(f"INSERT INTO runs ({names}) VALUES ({marks})", (*values, outside, packed))
            return int(cursor.lastrowid or 0)

    # ------------------------------------------------------------ reading

    def entries(self, problem: str | None = None, submission: str | None = None) -> list[Entry]:
        """Oldest first; all of them, or those of a problem or a submission."""
        if not self.path.exists():
            return []
        with self._opened() as connection:
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return []  # begun, and nothing kept yet
            rows = connection.execute(
                f"SELECT {COLUMNS} FROM runs WHERE (?1 IS NULL OR problem = ?1) AND (?2 IS NULL OR submission = ?2)"
                " ORDER BY id",
                (problem, submission),
            )
            return [Entry(*row) for row in rows]

    def document(self, number: int) -> dict[str, Any]:
        with self._opened() as connection:
            row = connection.execute("SELECT document FROM runs WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise HistoryError(f"{self.path}: no run {number} in the history")
        try:
            found: dict[str, Any] = json.loads(zlib.decompress(row[0]))
        except (zlib.error, ValueError) as error:
            raise HistoryError(f"{self.path}: run {number} is damaged: {error}; the others can be read") from None
        return found

    def submission(self, digest: str) -> bytes | None:
        """A kept submission; None for one that was never here."""
        if not self.path.exists():
            return None
        with self._opened() as connection:
            row = connection.execute("SELECT text FROM submissions WHERE sha256 = ?", (digest,)).fetchone()
        try:
            return None if row is None else zlib.decompress(row[0])
        except zlib.error as error:
            raise HistoryError(f"{self.path}: submission {digest[:12]} is damaged: {error}") from None


def sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
