"""Judging many submissions: processes that stay warm (slots.py), and who gets which submission.

What is asked of them is text: nothing of a submission is imported or run in this process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import wait
from pathlib import Path

import msgspec

from forge.bulk import slot
from forge.bulk.slots import Remote, Slot, versions
from forge.bulk.verdict import BadRequest, MachineError, Request, Verdict, refused
from forge.cluster import LOOK_S, ClusterError, cluster
from forge.generate.submission import read_source
from forge.history.store import sha256
from forge.judge.plan import BAD_INPUT
from forge.task.problem import ProblemEntry, own_entries

ATTEMPTS = 2  # at a submission whose process is lost
SILENT_S = 1800.0  # how long one may say nothing before it is taken for lost
_of_thread = threading.local()


class Judge:
    """Context manager: `workers` processes that judge, warm from one submission to the next. For one thread.

    scheduler: the address of a Dask cluster that judges instead, in all threads of its workers, or in `workers` of
    them; options: words for eval.py, as ["--seed", "7"]; baseline: a file or a variant whose time benchmarks are
    compared with; the others: what is asked of a submission that does not say it."""

    def __init__(
        self,
        workers: int | None = None,
        *,
        scheduler: str = "",
        problem: str | Path = "",
        mode: str = "test",
        cases: str = "all",
        device: str = "auto",
        options: Sequence[str] = (),
        baseline: str | Path = "",
    ) -> None:
        if workers is not None and workers < 1:
            raise BadRequest(f"workers={workers}: at least 1")
        self.asked = {"problem": str(problem), "mode": mode, "cases": cases, "device": device}
        self.options = list(options)
        self.baseline = slot.Baseline(str(baseline), _digest(Path(baseline)) if baseline else "")
        self.scheduler, self.workers = scheduler, workers
        self.remote: Remote | None = None
        self.gone = ""  # why the cluster judges no more
        self.slots = [] if scheduler else [Slot() for _ in range(workers or 1)]
        self.waiting: deque[tuple[slot.Order, int]] = deque()  # with how often each was tried
        self.done: deque[Verdict] = deque()  # without a process
        self._count = 0
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Judge:
        """MachineError: no cluster is there."""
        if self.scheduler:
            try:
                where = self._open.enter_context(cluster(self.scheduler, 0))
                self.remote = Remote(where, self.workers, judge_there)
                self.remote.look(self.slots)
            except ClusterError as error:
                raise MachineError(str(error)) from None
        return self

    def __exit__(self, *exc: object) -> None:
        for one in self.slots:
            one.ask_to_end()
        for one in self.slots:
            one.close()
        self._open.close()

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
        if self.remote and not self.gone:
            self.gone = self.remote.look(self.slots)
        self._hand_out()
        verdicts = list(self.done)
        self.done.clear()
        working = {one.connection: one for one in self.slots if one.order is not None}
        if verdicts or not (working or also):
            return verdicts
        longest_s = LOOK_S if self.remote else SILENT_S
        for ready in wait([*working, *also], min(longest_s, timeout_s or longest_s)):  # type: ignore[list-item]
            if (one := working.get(ready)) is None:  # type: ignore[call-overload]
                continue
            try:
                if (verdict := one.hear()) is not None:
                    verdicts.append(verdict)
            except EOFError:
                self._lost(one)
            except ClusterError as error:
                self.gone = str(error)
        for one in working.values():
            if one.order is not None and one.process and time.monotonic() > one.heard_s + SILENT_S:
                one.process.send_signal(signal.SIGKILL)
        self._hand_out()
        return verdicts

    def _hand_out(self) -> None:
        if self.gone:
            self._give_up()
        for one in self.slots:
            if one.order is None and self.waiting:
                one.give(*self.waiting.popleft())

    def _give_up(self) -> None:
        """What is asked of a cluster that is gone: a record each."""
        left = [one.order for one in self.slots if one.order is not None] + [order for order, _ in self.waiting]
        self.done += [refused(order.request, MachineError(self.gone), order.key) for order in left]
        self.waiting.clear()
        for one in self.slots:
            one.order = None
            one.close()

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


def judge_there(order: bytes, wanted: dict[str, str]) -> bytes:
    """Runs in a thread of a worker. No submission's text runs in its process, whose end ends all that it started."""
    mine = versions()
    if differs := [f"{name} {mine.get(name)}, not {want}" for name, want in wanted.items() if mine.get(name) != want]:
        raise MachineError(f"the worker on {socket.gethostname()} has other versions: {', '.join(differs)}")
    kept = getattr(_of_thread, "judge", None) or Judge()
    _of_thread.judge = None  # one that an exception leaves in mid-course is not used again
    verdict = kept.answer(msgspec.msgpack.decode(order, type=slot.Order))
    _of_thread.judge = kept
    return msgspec.msgpack.encode(verdict)
