"""What a service was asked, and what came of it, on the disk: a restart goes on where it was."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from forge.bulk.slot import Order
from forge.bulk.verdict import BadRequest, MachineError, Verdict, refused, to_line
from forge.console import UsageError

State = Literal["queued", "running", "done"]
SCHEMA = """
CREATE TABLE IF NOT EXISTS tasks (
  number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, key TEXT NOT NULL, state TEXT NOT NULL, asked BLOB,
  verdict BLOB, tried INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS by_state ON tasks (state, number);
"""
ATTEMPTS = 3  # at a task with which the whole service ended, one in each run of it


class Full(Exception):
    """No room for what is asked now. One line."""


class Task(Struct, frozen=True):
    id: str
    state: State
    verdict: msgspec.Raw = msgspec.Raw(b"null")


class Queue:
    """Context manager. One service to a folder; its threads share it."""

    def __init__(self, folder: Path, most: int, kept: int) -> None:
        """most: tasks that are not done; kept: those that are."""
        self.folder, self.most, self.kept = folder, most, kept
        self.lock = threading.Lock()

    def __enter__(self) -> Queue:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.held = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self.held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.rows = sqlite3.connect(self.folder / "tasks.db", check_same_thread=False, isolation_level=None)
            self.rows.execute("PRAGMA journal_mode = WAL")
            self.rows.execute("PRAGMA synchronous = FULL")
            self.rows.executescript(SCHEMA)
            self.rows.execute("UPDATE tasks SET state = 'queued' WHERE state = 'running'")
        except BlockingIOError:
            raise UsageError(f"--queue {self.folder}: another service has it") from None
        except (OSError, sqlite3.Error) as error:
            raise UsageError(f"--queue {self.folder}: cannot be used: {error}") from None
        return self

    def __exit__(self, *exc: object) -> None:
        self.rows.close()
        os.close(self.held)

    def add(self, orders: Sequence[Order]) -> list[Task | BadRequest]:
        """A task each, all of them or none: Full. One that is there already stays what it is; another one with its id
        is refused. sqlite3.Error: the disk."""
        told: list[Task | BadRequest] = []
        with self.lock, self.rows:
            self.rows.execute("BEGIN IMMEDIATE")
            for order in orders:
                name = order.request.id
                known = self.rows.execute("SELECT key, state, verdict FROM tasks WHERE id = ?", (name,)).fetchone()
                if known is None:
                    row = (name, order.key, msgspec.msgpack.encode(order))
                    self.rows.execute("INSERT INTO tasks (id, key, state, asked) VALUES (?, ?, 'queued', ?)", row)
                    told.append(Task(name, "queued"))
                elif known[0] == order.key:
                    told.append(_task(name, *known[1:]))
                else:
                    told.append(BadRequest(f"another submission has the id {name!r}"))
            waiting = self.rows.execute("SELECT count(*) FROM tasks WHERE state != 'done'").fetchone()[0]
            if waiting > self.most:
                raise Full(f"{self.most} submissions wait already: ask again later")
        return told

    def take(self) -> Order | None:
        """The oldest that waits, which runs from now on."""
        with self.lock, self.rows:
            row = self.rows.execute(
                "SELECT number, asked, tried FROM tasks WHERE state = 'queued' ORDER BY number LIMIT 1"
            ).fetchone()
            if row is None:
                return None
            number, asked, tried = row
            order = msgspec.msgpack.decode(asked, type=Order)
            if tried < ATTEMPTS:
                self.rows.execute("UPDATE tasks SET state = 'running', tried = tried + 1 WHERE number = ?", (number,))
                return order
        self.end(
            refused(order.request, MachineError(f"the service ended {tried} times while it was judged"), order.key)
        )
        return self.take()

    def give_back(self) -> None:
        """What runs at an end that was asked for was not tried."""
        with self.lock, self.rows:
            self.rows.execute("UPDATE tasks SET state = 'queued', tried = tried - 1 WHERE state = 'running'")

    def end(self, verdict: Verdict) -> None:
        with self.lock, self.rows:
            row = (to_line(verdict).strip(), verdict.id)
            self.rows.execute("UPDATE tasks SET state = 'done', asked = NULL, verdict = ? WHERE id = ?", row)
            self.rows.execute(
                "DELETE FROM tasks WHERE state = 'done' AND number <= "
                "(SELECT number FROM tasks WHERE state = 'done' ORDER BY number DESC LIMIT 1 OFFSET ?)",
                (self.kept,),
            )

    def get(self, name: str) -> Task | None:
        with self.lock:
            row = self.rows.execute("SELECT state, verdict FROM tasks WHERE id = ?", (name,)).fetchone()
        return _task(name, *row) if row else None

    def counts(self) -> Counter[str]:
        with self.lock:
            return Counter(dict(self.rows.execute("SELECT state, count(*) FROM tasks GROUP BY state").fetchall()))


def _task(name: str, state: State, verdict: bytes | None) -> Task:
    return Task(name, state, msgspec.Raw(verdict or b"null"))
