"""A pool of workers: the processes of one run, one a rank, kept from case to case and replaced when one is lost."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forge.device import DeviceError
from forge.judge.fork_server import ForkServer
from forge.judge.processes import Event, WorkerProcess, descendants, end_all, free_port, task_count, wait_for_events
from forge.judge.results import BackToBack, CaseResult, Status
from forge.judge.timing import Stats
from forge.task.cases import CaseSpec

TICK_S = 0.1
LOADING_S = 300.0  # for a worker to import torch and reference.py, on a machine however busy
SLOW_REFERENCE_S = 30.0  # a passing case whose check took longer is not compared with the reference once more
# How long other ranks may still report once one has broken off (the first cause may come second), and once
# one has a wrong output, when all are near their end.
AFTER_ERROR_S, AFTER_FAIL_S = 0.5, 5.0
MAX_PROCESSES = 1000  # below one evaluation; a parallel compiler starts hundreds
BACK_TO_BACK_LIMIT_S = 60.0  # for calls in a row, beside the check: they are counted to take some seconds
GOODBYE_S = 20.0  # for a rank to leave its process group
PORT_ATTEMPTS = 5

# Texts of errors that say no more than that another rank is gone.
SECOND_HAND = (
    "Connection closed by peer",
    "Connection reset",
    "Broken pipe",
    "Socket closed",
    "NCCL",
    "recvBytes",
)
PORT_TAKEN = ("EADDRINUSE", "address already in use", "Address already in use")

Progress = Callable[[str, float], None]  # (phase, seconds since the case began)


class TaskError(Exception):
    """The problem's own files are at fault. One line."""


@dataclass
class Report:
    """What one rank said about a case."""

    rank: int | None
    at_s: float
    status: Status
    message: str
    phase: str
    trace: str = ""
    last_words: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    beside: int = 0  # how many other ranks hang in the same place

    def weight(self) -> tuple[int, int, float]:
        """Sorts the likeliest first cause first: a death explains others' errors, which explain hangs.

        Of ranks that hang, the one that is somewhere else than most is the one they wait for.
        """
        second_hand = self.status is Status.ERROR and any(text in self.message for text in SECOND_HAND)
        order = {Status.TAMPERED: 0, Status.CRASH: 1, Status.ERROR: 2, Status.FAIL: 3, Status.TIMEOUT: 5}
        return (4 if second_hand else order[self.status], self.beside, self.at_s)


class WorkerPool:
    def __init__(
        self,
        make_folder: Callable[[], Path],
        environment: dict[str, str],
        setup: dict[str, Any],
        limit_s: float,
        progress: Progress,
    ) -> None:
        self.make_folder = make_folder
        self.fork_server = ForkServer(environment, setup["device"], setup["arch"])
        self.setup, self.limit_s, self.progress = setup, limit_s, progress
        self.beside: WorkerPool | None = None  # another submission's, which lives on when this one stops
        self.error_patience_s = AFTER_ERROR_S
        self.world_size: int | None = None  # None: a single-GPU case, without a process group
        self.workers: list[WorkerProcess] = []
        self.fingerprint: dict[str, Any] = {}

    def stop(self) -> None:
        """Ends the workers. The next case starts others."""
        end_all(self.workers, spare=self.beside.workers if self.beside else ())
        self.workers = []

    def close(self) -> None:
        self.stop()
        self.fork_server.close()

    def ensure_started(self, world_size: int | None) -> Report | None:
        """Brings the pool to the point where it waits for a case; the report of what stops it, or None."""
        if self.workers and world_size == self.world_size:
            return None
        self.stop()
        self.world_size = world_size
        folder = self.make_folder()
        for rank in [None] if world_size is None else range(world_size):
            setup = {**self.setup, "rank": rank, "folder": str(folder)}
            self.workers.append(WorkerProcess(setup["rank"], folder, self.fork_server, setup))
        reports = self._gather("ready")
        problem = _first_cause(reports)
        if problem is None:
            self.fingerprint = reports[0].data["fingerprint"]
            return None
        self.stop()
        if problem.data.get("event") == "task-broken":
            raise TaskError(problem.message)
        return problem

    def run(self, case: CaseSpec, kind: str, mode: str, accuracy: bool, back_to_back: bool = False) -> CaseResult:
        """One case on all ranks. The pool must have started; it has stopped if a rank was lost."""
        started = time.monotonic()
        for attempt in range(PORT_ATTEMPTS):
            port = 0 if self.world_size is None else free_port()
            for worker in self.workers:
                worker.tail.clear()
                worker.tell({"command": "run", "kind": kind, "mode": mode, "args": case.args, "port": port})
            reports = self._gather("result")
            problem = _first_cause(reports)
            if attempt + 1 < PORT_ATTEMPTS and problem is not None and port_was_taken(problem):
                self.stop()
                if (problem := self.ensure_started(self.world_size)) is None:
                    continue
            break
        result = self._result(case, reports, problem)
        check_s = max(report.data.get("check_s", 0.0) for report in reports)
        if result.passed and check_s > SLOW_REFERENCE_S:
            accuracy = False
            result.accuracy = {"problem": f"not computed: the reference takes {check_s:.0f} s"}
        finished = all(r.status in (Status.PASS, Status.FAIL) for r in reports) and len(reports) == len(self.workers)
        if finished:
            args = case.args if back_to_back and result.passed else None
            self._finish(result, accuracy, args, check_s, port)
        else:
            self.stop()
        result.elapsed_s = time.monotonic() - started
        return result

    def ask(self, command: dict[str, Any], awaited: str) -> tuple[list[Report], Report | None]:
        """The ranks' answers in rank order, and the one that explains why there are not only passing ones.

        The pool goes on where every rank has answered and could go on; otherwise it has stopped.
        """
        for worker in self.workers:
            worker.tail.clear()
            worker.tell(command)
        reports = self._gather(awaited)
        answered = all(report.status in (Status.PASS, Status.ERROR) and report.data for report in reports)
        if not answered or len(reports) < len(self.workers) or any(report.data.get("lost") for report in reports):
            self.stop()
        return reports, _first_cause(reports)

    def leave(self, port: int) -> None:
        """Ends the process group of commands that were asked."""
        if self.workers and self.ask({"command": "end", "port": port}, "ended")[1] is not None:
            self.stop()

    def _result(self, case: CaseSpec, reports: list[Report], problem: Report | None) -> CaseResult:
        first = problem or reports[0]
        stats = reports[0].data.get("stats")
        return CaseResult(
            index=case.index,
            spec=case.spec,
            status=first.status,
            message=first.message,
            rank=first.rank,
            phase=first.phase,
            trace=first.trace,
            last_words=first.last_words,
            stats=Stats(**stats) if stats and problem is None else None,
            report=device_report(reports),
            profile=reports[0].data.get("profile", ""),
            output_bytes=sum(worker.tail.total_bytes for worker in self.workers),
        )

    def _finish(
        self, result: CaseResult, accuracy: bool, again: dict[str, Any] | None, check_s: float, port: int
    ) -> None:
        """After a verdict: the comparison beside it, the calls back to back (of the arguments `again`), and the end
        of the process group."""
        if accuracy:
            for worker in self.workers:
                worker.tell({"command": "accuracy", "port": port})
            replies = self._gather("accuracy")
            if (lost := _first_cause(replies)) is not None:
                result.accuracy = {"problem": "the comparison with the reference did not finish"}
                return self._lost_after_verdict(result, lost)
            result.accuracy = _worst_accuracy([(reply.rank, reply.data) for reply in replies])
        if again is not None:
            for worker in self.workers:
                worker.tell({"command": "back-to-back", "args": again, "port": port})
            replies = self._gather("back-to-back", min(self.limit_s, BACK_TO_BACK_LIMIT_S + 3 * check_s))
            result.back_to_back = back_to_back_of(replies)
            if _first_cause(replies) is not None:  # no verdict: the leaderboard makes no such calls
                return self.stop()
        for worker in self.workers:
            worker.tell({"command": "end", "port": port})
        replies = self._gather("ended", GOODBYE_S)
        if (lost := _first_cause(replies)) is not None:
            self._lost_after_verdict(result, lost)
        elif any(reply.data.get("error") for reply in replies):
            self.stop()

    def _lost_after_verdict(self, result: CaseResult, lost: Report) -> None:
        """A death after the result takes a pass with it: an official evaluator would not have lived to see it.

        Except where our own comparison took too long, or more memory than the system has.
        """
        self.stop()
        ours = lost.status is Status.TIMEOUT or (lost.phase == "accuracy" and "SIGKILL" in lost.message)
        if result.passed and not ours:
            result.status, result.message, result.rank = lost.status, f"after its result: {lost.message}", lost.rank
            result.stats, result.phase, result.last_words = None, lost.phase, lost.last_words

    # ------------------------------------------------------------ listening

    def _gather(self, awaited: str, limit_s: float | None = None) -> list[Report]:
        """Waits for one `awaited` message from each rank; in rank order, the lost ones reported as such.

        Once a rank has failed the others get a moment, not their whole time: they may be waiting for it.
        """
        started = time.monotonic()
        limit_s = limit_s or self.limit_s
        # Loading torch and the reference is our time; the submission's begins with its own import.
        ours = awaited == "ready"
        deadline, patience_ends = started + (LOADING_S if ours else limit_s), math.inf
        reports: dict[WorkerProcess, Report] = {}
        tasks = task_count()
        while len(reports) < len(self.workers):
            now = time.monotonic()
            for event in wait_for_events(self.workers, min(TICK_S, max(min(deadline, patience_ends) - now, 0))):
                if event.worker in reports:
                    continue
                report = self._report(event, awaited, now - started)
                if report is not None:
                    reports[event.worker] = report
                    after = {Status.PASS: limit_s, Status.FAIL: AFTER_FAIL_S}
                    patience = after.get(report.status, self.error_patience_s)
                    patience_ends = min(patience_ends, time.monotonic() + patience)
            now = time.monotonic()
            waiting = [worker for worker in self.workers if worker not in reports]
            if ours and all(worker.phase == "import submission" for worker in waiting):
                ours, deadline = False, now + limit_s
            if waiting:
                self.progress(_phase_text(waiting), now - started)
            if task_count() - tasks > MAX_PROCESSES and len(descendants(os.getpid())) > MAX_PROCESSES:
                self._lost(reports, waiting, f"it started more than {MAX_PROCESSES} processes", now - started)
                break
            if now >= min(deadline, patience_ends):
                if any(report.status is not Status.PASS for report in reports.values()):
                    break
                self._timed_out(reports, waiting, now - started, limit_s)
                break
        return [reports[worker] for worker in self.workers if worker in reports]

    def _report(self, event: Event, awaited: str, at_s: float) -> Report | None:
        worker, message = event.worker, event.message
        if event.kind == "message":
            if message["event"] == awaited:
                status = Status(message.get("status", "pass"))
                if message.get("replaced"):
                    text = f"the submission replaced {', '.join(message['replaced'])}, with which it is judged"
                    return Report(worker.rank, at_s, Status.TAMPERED, text, message["phase"])
                words = worker.tail.last_words() if status is not Status.PASS else []
                return Report(
                    worker.rank, at_s, status, message.get("message", ""), message.get("phase", worker.phase),
                    message.get("trace", ""), words, message,
                )  # fmt: skip
            if message["event"] == "device-broken":
                raise DeviceError(message["message"])
            if message["event"] in ("broken", "task-broken"):
                words = worker.tail.last_words()
                return Report(
                    worker.rank, at_s, Status.ERROR, message["message"], message.get("phase", worker.phase),
                    message.get("trace", ""), words, message,
                )  # fmt: skip
            return None
        if event.kind == "tampered":
            text = f"the submission meddled with the evaluator: {event.text}"
            return Report(worker.rank, at_s, Status.TAMPERED, text, worker.phase, last_words=worker.tail.last_words())
        place = worker.tail.stack_place(worker.folder)
        text = f"{event.text} in {worker.phase}" + (f" ({place})" if place else "")
        return Report(worker.rank, at_s, Status.CRASH, text, worker.phase, last_words=worker.tail.last_words())

    def _timed_out(
        self, reports: dict[WorkerProcess, Report], waiting: list[WorkerProcess], at_s: float, limit_s: float
    ) -> None:
        """Names where each rank is."""
        for worker in waiting:
            worker.ask_for_stack()  # all at once: a rank that ends first would move the others
        places: dict[str, list[WorkerProcess]] = {}
        for worker in waiting:
            place = worker.read_stack()
            text = worker.phase + (f" ({place})" if place else "")
            places.setdefault(text, []).append(worker)
        for text, workers in places.items():
            others = [
                f"rank{'s' if len(group) > 1 else ''} {', '.join(str(w.rank) for w in group)} in {other}"
                for other, group in places.items()
                if other != text
            ]
            message = "; ".join([f"no result after {limit_s:g} s in {text}", *others])
            for worker in workers:
                words = worker.tail.last_words()
                report = Report(worker.rank, at_s, Status.TIMEOUT, message, worker.phase, last_words=words)
                report.beside = len(workers) - 1
                reports[worker] = report

    def _lost(self, reports: dict[WorkerProcess, Report], waiting: list[WorkerProcess], text: str, at_s: float) -> None:
        for worker in waiting:
            message = f"{text} in {worker.phase}"
            reports[worker] = Report(worker.rank, at_s, Status.CRASH, message, worker.phase)


def back_to_back_of(replies: list[Report]) -> BackToBack:
    """All ranks' rounds as one: a round lasts as long as on the slowest rank."""
    problem = _first_cause(replies)
    if problem is not None:
        who = f"rank {problem.rank}: " if problem.rank is not None else ""
        return BackToBack(None, problem=f"{who}{problem.message}")
    rounds, host_rounds = (
        tuple(max(times) for times in zip(*(reply.data[key] for reply in replies)))
        for key in ("rounds_us", "host_rounds_us")
    )
    wrong = [reply for reply in replies if reply.data["problem"]]
    text = f"rank {wrong[0].rank}: " if wrong and wrong[0].rank is not None else ""
    return BackToBack(
        statistics.median(rounds) if rounds else None,
        statistics.median(host_rounds) if host_rounds else None,
        replies[0].data["calls"],
        rounds,
        text + wrong[0].data["problem"] if wrong else "",
    )


def _first_cause(reports: list[Report]) -> Report | None:
    """The failing rank that explains the others; None if all is well."""
    failing = [report for report in reports if report.status is not Status.PASS]
    return min(failing, key=Report.weight) if failing else None


def port_was_taken(problem: Report) -> bool:
    return problem.phase == "init_process_group" and any(text in problem.message for text in PORT_TAKEN)


def _phase_text(waiting: list[WorkerProcess]) -> str:
    phases = sorted({worker.phase for worker in waiting})
    if len(waiting) == 1 and waiting[0].rank is not None:
        return f"rank {waiting[0].rank}: {phases[0]}"
    return ", ".join(phases)


def _worst_accuracy(replies: list[tuple[int | None, dict[str, Any]]]) -> dict[str, Any]:
    """The rank that is farthest off stands for all."""

    def badness(reply: tuple[int | None, dict[str, Any]]) -> float:
        value = reply[1].get("rel_l2")
        return float("inf") if value is None else float(value)

    rank, accuracy = max(replies, key=badness)
    return {**{key: value for key, value in accuracy.items() if key != "event"}, "rank": rank}


def device_report(reports: list[Report]) -> dict[str, Any]:
    """What the device says of the case's kernels; of several ranks, each by its name."""
    if len(reports) == 1:
        return reports[0].data.get("report", {})
    found = {f"rank {report.rank}": report.data.get("report", {}) for report in reports}
    return found if any(found.values()) else {}
