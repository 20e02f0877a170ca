"""Judging many submissions: processes that stay warm (forge/bulk/slot.py), and who gets which submission.

What is asked of them is text: nothing of a submission is imported or run in this process.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO

import msgspec

from forge.bulk import slot
from forge.bulk.verdict import BadRequest, MachineError, Request, Verdict, refused
from forge.console import CONTROL
from forge.generate.submission import read_source
from forge.history.store import sha256
from forge.judge.plan import BAD_INPUT
from forge.judge.processes import describe_exit
from forge.task.problem import ROOT, ProblemEntry, own_entries

# Started as `python -P -c BOOT <repository root> <connection>`: neither the folder that it is started in nor what lies
# there is on its path.
BOOT = """
import sys
sys.path.insert(0, sys.argv[1])
fd = int(sys.argv[2])
sys.argv[:] = ["eval.py"]
from forge.bulk.slot import serve
serve(fd)
"""
ATTEMPTS = 2  # at a submission whose process is lost
ENDS_IN_S = 15.0  # a process that was asked to
SILENT_S = 1800.0  # how long one may say nothing before it is taken for lost
LAST_BYTES, LAST_LINES = 4096, 3


class Slot:
    """A process, as this one sees it. It is started with its first submission."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.connection: Connection | None = None
        self.order: slot.Order | None = None  # that it is at
        self.tried = 0  # how often that was lost before
        self.doing = ""
        self.heard_s = 0.0
        self.words: IO[bytes] | None = None  # what it printed

    def start(self) -> None:
        self.close()
        ours, theirs = socket.socketpair()
        self.words = self.words or tempfile.TemporaryFile()
        self.connection = Connection(ours.detach())
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", BOOT, str(ROOT), str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=self.words,
            stderr=self.words,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,  # Ctrl-C is for this process, which tells them
        )
        theirs.close()

    def give(self, order: slot.Order, tried: int) -> None:
        self.order, self.tried, self.doing, self.heard_s = order, tried, "starting", time.monotonic()
        if self.process is None or self.process.poll() is not None:
            self.start()
        assert self.connection is not None and self.words is not None
        self.words.truncate(0)
        self.words.seek(0)  # where it goes on as well: they share the place
        try:
            self.connection.send_bytes(msgspec.msgpack.encode(order))
        except OSError:
            pass  # it has just ended: `hear` says so

    def hear(self) -> Verdict | None:
        """What it says, after `wait` has found that it does. EOFError where it is lost."""
        assert self.connection is not None
        try:
            told = slot.told_decoder.decode(self.connection.recv_bytes())
        except (OSError, EOFError):
            raise EOFError from None
        self.heard_s = time.monotonic()
        if isinstance(told, slot.Progress):
            self.doing = told.text
            return None
        self.order = None
        return told.verdict

    def last_words(self) -> str:
        """Of a process that is lost: how it ended, and what it printed last."""
        assert self.process is not None and self.words is not None
        try:
            ended = describe_exit(self.process.wait(ENDS_IN_S))
        except subprocess.TimeoutExpired:
            ended = "the process closed its connection"
        self.words.seek(max(0, self.words.seek(0, os.SEEK_END) - LAST_BYTES))
        said = CONTROL.sub("", self.words.read().decode(errors="replace"))
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        return ": ".join([ended, *filter(None, [" | ".join(lines[-LAST_LINES:])])])

    def ask_to_end(self) -> None:
        """Its own clearing up takes a moment: `close` waits for it."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()

    def close(self) -> None:
        self.ask_to_end()
        if self.process is not None:
            try:
                self.process.wait(ENDS_IN_S)
            except subprocess.TimeoutExpired:
                self.process.kill()  # its fork server sees that, and clears
                self.process.wait()
            self.process = None


class Judge:
    """Context manager: `workers` processes that judge, warm from one submission to the next. For one thread.

    options: words for eval.py, as ["--seed", "7"]; baseline: a file or a variant whose time benchmarks are compared
    with; the others: what is asked of a submission that does not say it."""

    def __init__(
        self,
        workers: int = 1,
        *,
        problem: str | Path = "",
        mode: str = "test",
        cases: str = "all",
        device: str = "auto",
        options: Sequence[str] = (),
        baseline: str | Path = "",
    ) -> None:
        if workers < 1:
            raise BadRequest(f"workers={workers}: at least 1")
        self.asked = {"problem": str(problem), "mode": mode, "cases": cases, "device": device}
        self.options = list(options)
        self.baseline = slot.Baseline(str(baseline), _digest(Path(baseline)) if baseline else "")
        self.slots = [Slot() for _ in range(workers)]
        self.waiting: deque[tuple[slot.Order, int]] = deque()  # with how often each was tried
        self.done: deque[Verdict] = deque()  # without a process
        self._count = 0

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *exc: object) -> None:
        for one in self.slots:
            one.ask_to_end()
        for one in self.slots:
            one.close()

    # ------------------------------------------------------------ for programs

    def judge(self, source: str | bytes | Path, **asked: str | Path) -> Verdict:
        """Of one submission: its text, or the path of its file. BadRequest, MachineError: there is none."""
        text = source.decode(errors="surrogateescape") if isinstance(source, bytes) else source
        given = {"file": str(text)} if isinstance(text, Path) else {"source": text}
        return or_raise(next(self.judge_all([{**given, **{name: str(value) for name, value in asked.items()}}])))

    def judge_all(self, requests: Iterable[Request | dict[str, str]]) -> Iterator[Verdict]:
        """Of each, as it ends. Requests are taken as processes get free: they may be without end. Who leaves the loop
        before its end has what is not judged yet given up."""
        left = iter(requests)
        more = True
        try:
            while more or self.busy:
                while more and self.free:
                    request = next(left, None)
                    if more := request is not None:
                        self.submit(request)
                yield from self.hear()
        finally:
            self.waiting.clear()
            self.done.clear()
            for one in self.slots:
                if one.order is not None:
                    one.order = None
                    one.close()

    # ------------------------------------------------------------ for the command

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.done or any(one.order for one in self.slots))

    @property
    def free(self) -> int:
        """How many more can begin at once."""
        return max(0, sum(one.order is None for one in self.slots) - len(self.waiting) - len(self.done))

    def submit(self, asked: Request | dict[str, str]) -> None:
        self._count += 1
        named = asked.id if isinstance(asked, Request) else str(asked.get("id") or self._count)
        try:
            self.add(self.order_of(asked if isinstance(asked, Request) else {**asked, "id": named}))
        except (BadRequest, *BAD_INPUT) as error:
            self.done.append(refused(Request(id=named), error))

    def order_of(self, asked: Request | dict[str, str]) -> slot.Order:
        """What a process is told. BadRequest, UsageError: that makes no request, or its file cannot be read."""
        try:
            request = asked if isinstance(asked, Request) else msgspec.convert({**self.asked, **asked}, Request)
        except msgspec.ValidationError as error:
            raise BadRequest(str(error)) from None
        if (request.source is None) == (request.file is None):
            raise BadRequest("either source or file says what is to be judged")
        if request.file is not None:
            if not os.path.exists(request.file):
                raise BadRequest(f"{request.file}: no such file")
            return slot.Order(request, read_source(Path(request.file)), request.file, self.options, self.baseline)
        source = (request.source or "").encode(errors="surrogateescape")
        request = msgspec.structs.replace(request, source=None)
        return slot.Order(request, source, "submission.py", self.options, self.baseline)

    def add(self, order: slot.Order) -> None:
        self.waiting.append((order, 0))

    def answer(self, order: slot.Order) -> Verdict:
        """Of one, while nothing else is asked."""
        self.add(order)
        while not (verdicts := self.hear()):
            pass
        return verdicts[0]

    def hear(self, timeout_s: float | None = None, also: Sequence[int] = ()) -> list[Verdict]:
        """Verdicts that have come, after waiting for one, for progress, or for one of the descriptors `also`."""
        self._hand_out()
        verdicts = list(self.done)
        self.done.clear()
        working = {one.connection: one for one in self.slots if one.order is not None}
        if verdicts or not (working or also):
            return verdicts
        for ready in wait([*working, *also], min(SILENT_S, timeout_s or SILENT_S)):  # type: ignore[list-item]
            if (one := working.get(ready)) is None:  # type: ignore[call-overload]
                continue
            try:
                if (verdict := one.hear()) is not None:
                    verdicts.append(verdict)
            except EOFError:
                self._lost(one)
        for one in working.values():
            if one.order is not None and one.process and time.monotonic() > one.heard_s + SILENT_S:
                one.process.send_signal(signal.SIGKILL)
        self._hand_out()
        return verdicts

    def _hand_out(self) -> None:
        for one in self.slots:
            if one.order is None and self.waiting:
                one.give(*self.waiting.popleft())

    def _lost(self, one: Slot) -> None:
        """A submission whose process is gone gets another one, and then the fault is the machine's."""
        assert one.order is not None
        order, how = one.order, one.last_words()
        tried, one.order = one.tried + 1, None
        one.close()
        if tried < ATTEMPTS:
            self.waiting.appendleft((order, tried))
            return
        error = MachineError(f"the process that judges it was lost {tried} times: {how}")
        self.done.append(refused(order.request, error, order.key))


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()) if path.is_file() else ""


def or_raise(verdict: Verdict) -> Verdict:
    if verdict.status == "machine_error" and verdict.report is None:
        raise MachineError(verdict.message)
    if verdict.blame == "request":
        raise BadRequest(verdict.message)
    return verdict


def judge(source: str | bytes | Path, *, options: Sequence[str] = (), **asked: str | Path) -> Verdict:
    """A submission's verdict: its text, or the path of its file; problem, mode, cases, device as for `Judge`.

    It begins anew each time: a `Judge` stays warm."""
    with Judge(options=options) as one:
        return one.judge(source, **asked)


def problems() -> tuple[ProblemEntry, ...]:
    """This repository's."""
    return tuple(own_entries())
