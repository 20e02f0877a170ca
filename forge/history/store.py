"""The history: every run and every imported result, in one SQLite file of the user's data folder.

A run is its results document (docs/history.md), whole; the submission's bytes are kept once, by their hash. A
file that is not ours, of another version or damaged is refused with one line, and is never written to.
"""

import contextlib
import hashlib
import os
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from forge.history.document import Document, read_document, to_json
from forge.history.popcorn import Outside
from forge.task.score import rank_score

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

    def keep(self, document: Document, *submissions: bytes) -> int:
        """Keeps a run's document and the submissions it speaks of; the run's number."""
        made, us = document.fingerprint, document.times_us
        whole = us and us.keys() == {case.spec for case in document.cases}
        entry = Entry(
            0, made.time, document.problem.name, document.mode, document.verdict, document.device.name, document.kind,
            rank_score([*us.values()], document.ranking_by) if whole else None, made.submission_sha256, None,
        )  # fmt: skip
        return self._insert(entry, to_json(document).encode(), submissions)

    def keep_outside(self, entry: Entry, outside: Outside, submission: bytes | None) -> int:
        """Keeps an imported result, in place of an earlier import of the same; its number."""
        document = msgspec.json.encode({"outside": replace(outside, code=None)})
        return self._insert(entry, document, () if submission is None else (submission,))

    def _insert(self, entry: Entry, document: bytes, submissions: tuple[bytes, ...]) -> int:
        with self._opened(write=True) as connection:
            for text in submissions:
                connection.execute(
                    "INSERT OR IGNORE INTO submissions VALUES (?, ?)", (sha256(text), zlib.compress(text))
                )
            packed = zlib.compress(document)
            _, *values, outside = vars(entry).values()
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

    def document(self, number: int) -> Document:
        return read_document(self.text(number), f"{self.path}: run {number}")

    def outside(self, number: int) -> Outside:
        """Of an imported result."""
        try:
            return msgspec.json.decode(self.text(number), type=dict[str, Outside])["outside"]
        except (ValueError, KeyError) as error:
            raise HistoryError(f"{self.path}: run {number} is damaged: {error}; the others can be read") from None

    def text(self, number: int) -> bytes:
        """As it was kept."""
        with self._opened() as connection:
            row = connection.execute("SELECT document FROM runs WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise HistoryError(f"{self.path}: no run {number} in the history")
        try:
            return zlib.decompress(row[0])
        except zlib.error as error:
            raise HistoryError(f"{self.path}: run {number} is damaged: {error}; the others can be read") from None

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
