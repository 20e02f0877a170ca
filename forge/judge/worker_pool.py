"""A pool of workers: the processes of one run, kept from case to case and all replaced when one is lost."""

from __future__ import annotations

import dataclasses
import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from forge.device import DeviceError
from forge.judge import messages
from forge.judge.fork_server import ForkServer
from forge.judge.processes import Event, WorkerProcess, descendants, end_all, free_port, task_count, wait_for_events
from forge.judge.rank_order import RankOrder
from forge.judge.results import Accuracy, BackToBack, CaseResult, Status
from forge.task.cases import CaseSpec
from forge.task.problem import ProblemError

TICK_S = 0.1
LOADING_S = 300.0  # for a worker to import torch and reference.py, on a machine however busy
SLOW_REFERENCE_S = 30.0  # a passing case whose check took longer is not compared with the reference once more
# How long other ranks may still report once one has broken off (the first cause may come second), and once one has a
# wrong output, when all are near their end, or has lost another, whose end is the cause.
AFTER_ERROR_S, AFTER_FAIL_S = 0.5, 5.0
MAX_PROCESSES = 1000  # below one evaluation; a parallel compiler starts hundreds
BACK_TO_BACK_LIMIT_S = 60.0  # for calls in a row, beside the check: they are counted to take some seconds
GOODBYE_S = 20.0  # for a rank to leave its process group
PORT_ATTEMPTS = 5

# Texts of errors that say no more than that another rank is gone.
SECOND_HAND = ("Connection closed by peer", "Connection reset", "Broken pipe", "Socket closed", "NCCL", "recvBytes")
PORT_TAKEN = ("EADDRINUSE", "address already in use", "Address already in use")

Progress = Callable[[str, float], None]  # (phase, seconds since the case began)
A = TypeVar("A", bound=messages.Answer)


class TaskError(ProblemError):
    """The problem's own files do not load in a worker. One line."""


@dataclass
class RankAnswer(Generic[A]):
    """What one rank answered, or what is to be said of it in place of an answer."""

    rank: int | None
    at_s: float
    answer: A
    lost: bool = False  # it did not answer
    last_words: list[str] = field(default_factory=list)
    beside: int = 0  # how many other ranks hang in the same place

    @property
    def status(self) -> Status:
        return self.answer.status

    @property
    def message(self) -> str:
        return self.answer.message

    def text(self) -> str:
        """Its message with its rank, and where a compiler's error has one, the line that says what is wrong."""
        who = f"rank {self.rank}: " if self.rank is not None else ""
        last = self.answer.last_line
        return who + self.message + (f": {last}" if last else "")

    def weight(self) -> tuple[int, int, float]:
        """Sorts the likeliest first cause first: a death explains others' errors, which explain hangs.

        Of ranks that hang, the one that is somewhere else than most is the one they wait for.
        """
        order = {Status.TAMPERED: 0, Status.CRASH: 1, Status.ERROR: 2, Status.FAIL: 3, Status.TIMEOUT: 5}
        return (4 if self.second_hand() else order[self.status], self.beside, self.at_s)

    def second_hand(self) -> bool:
        """Whether it only says that another rank is gone, which may take a moment to be seen on a busy machine."""
        return self.status is Status.ERROR and any(text in self.message for text in SECOND_HAND)


class WorkerPool:
    """order: of as many processes as the largest case has ranks; grouped: whether cases have ranks at all; worker,
    events: the module whose WORKER serves, and what it may send."""

    def __init__(
        self,
        make_folder: Callable[[], Path],
        environment: dict[str, str],
        setup: messages.Setup,
        order: RankOrder,
        grouped: bool,
        limit_s: float,
        progress: Progress,
        worker: str = "forge.judge.worker",
        events: tuple[type, ...] = messages.EVENTS,
    ) -> None:
        self.make_folder, self.events = make_folder, events
        self.fork_server = ForkServer(environment, setup.device, setup.arch, worker)
        self.setup, self.order, self.grouped = setup, order, grouped
        self.limit_s, self.progress = limit_s, progress
        self.beside: WorkerPool | None = None  # another submission's, which lives on when this one stops
        self.error_patience_s = AFTER_ERROR_S
        self.workers: list[WorkerProcess] = []
        self.ranks: int | None = None  # of the case; None: a single-GPU one, without a process group
        self.assigned: list[int] = []  # the numbers of the workers that run them
        self.fingerprint: dict[str, Any] = {}

    def stop(self) -> None:
        """Ends the workers. The next case starts others."""
        end_all(self.workers, spare=self.beside.workers if self.beside else ())
        self.workers = []

    def close(self) -> None:
        self.stop()
        self.fork_server.close()

    @property
    def active(self) -> list[WorkerProcess]:
        """The case's workers, in the order of its ranks."""
        return [self.workers[number] for number in self.assigned]

    def ensure_started(self) -> RankAnswer[messages.Ready] | None:
        """Brings the pool to the point where it waits for a case; what stops it, or None."""
        if self.workers:
            return None
        folder = self.make_folder()
        setup = dataclasses.replace(self.setup, folder=str(folder))
        for number in range(self.order.processes):
            rank = number if self.grouped else None
            self.workers.append(WorkerProcess(rank, folder, self.fork_server, setup, self.events))
        answers = self._gather(messages.Ready, self.workers)
        problem = first_cause(answers)
        if problem is None:
            self.fingerprint = answers[0].answer.fingerprint
        else:
            self.stop()
        return problem

    def assign(self, ranks: int | None) -> None:
        """Gives the ranks of the next case to workers; None: a single-GPU case."""
        self.ranks, self.assigned = ranks, self.order.next(ranks or 1)

    def run(
        self,
        case: CaseSpec,
        ranks: int | None,
        mode: str,
        *,
        warm_up: bool = False,
        accuracy: bool = True,
        back_to_back: bool = False,
    ) -> CaseResult:
        """One case on so many ranks. The pool has stopped if one was lost."""
        started = time.monotonic()
        self.assign(ranks)
        answers, problem = self.begin(messages.CaseRun, messages.RunCase(mode, warm_up, case.args, None, 0))
        result = self._result(case, answers, problem)
        result.elapsed_s = time.monotonic() - started
        finished = len(answers) == len(self.assigned) and all(a.status in (Status.PASS, Status.FAIL) for a in answers)
        if finished:
            check_s = max(one.answer.check_s for one in answers)
            if result.passed and check_s > SLOW_REFERENCE_S:
                accuracy = False
                result.accuracy = Accuracy(problem=f"not computed: the reference takes {check_s:.0f} s")
            self._finish(result, accuracy, case.args if back_to_back and result.passed else None, check_s)
        else:
            self.stop()
        return result

    def begin(self, kind: type[A], command: Any) -> tuple[list[RankAnswer[A]], RankAnswer[Any] | None]:
        """Asks the first of a case, with which its ranks make a process group: on a port that nobody takes meanwhile.

        Returns the ranks' answers, in rank order, and the one that explains why there are not only passing ones.
        """
        for attempt in range(PORT_ATTEMPTS):
            if (broken := self.ensure_started()) is not None:
                return [], broken
            port = 0 if self.ranks is None else free_port()
            for rank, worker in enumerate(self.active):
                worker.rank = None if self.ranks is None else rank
                worker.tail.clear()
                worker.tell(dataclasses.replace(command, rank=worker.rank, port=port))
            answers = self._gather(kind, self.active)
            problem = first_cause(answers)
            if attempt + 1 == PORT_ATTEMPTS or problem is None or not _port_was_taken(problem):
                break
            self.stop()
        return answers, problem

    def ask(self, kind: type[A], command: Any) -> tuple[list[RankAnswer[A]], RankAnswer[A] | None]:
        """The same of a later command. The pool has stopped unless every rank has answered, and could go on."""
        for worker in self.active:
            worker.tail.clear()
        answers = self._ask(kind, command)
        if len(answers) < len(self.assigned) or any(one.lost or one.answer.lost for one in answers):
            self.stop()
        return answers, first_cause(answers)

    def _ask(self, kind: type[A], command: Any, limit_s: float | None = None) -> list[RankAnswer[A]]:
        for worker in self.active:
            worker.tell(command)
        return self._gather(kind, self.active, limit_s)

    def _result(
        self, case: CaseSpec, answers: list[RankAnswer[messages.CaseRun]], problem: RankAnswer[Any] | None
    ) -> CaseResult:
        first = problem or answers[0]
        told = answers[0].answer if answers else messages.CaseRun()
        return CaseResult(
            index=case.index,
            spec=case.spec,
            status=first.status,
            message=first.message,
            rank=first.rank,
            phase=first.answer.phase,
            trace=first.answer.trace,
            last_words=first.last_words,
            stats=told.stats if problem is None else None,
            device_report=device_report(answers),
            profile=told.profile,
            processes=tuple(self.assigned) if self.grouped else (),
            output_bytes=sum(worker.tail.total_bytes for worker in self.workers),
        )

    def _finish(self, result: CaseResult, accuracy: bool, again: dict[str, Any] | None, check_s: float) -> None:
        """After a verdict: the comparison beside it, the calls back to back (of the arguments `again`), and the end
        of the process group."""
        if accuracy:
            compared = self._ask(messages.Compared, messages.CompareOutput())
            if (lost := first_cause(compared)) is not None:
                result.accuracy = Accuracy(problem="the comparison with the reference did not finish")
                return self._lost_after_verdict(result, lost)
            result.accuracy = _worst_accuracy(compared)
        if again is not None:
            limit_s = min(self.limit_s, BACK_TO_BACK_LIMIT_S + 3 * check_s)
            called = self._ask(messages.CalledBackToBack, messages.CallBackToBack(again), limit_s)
            result.back_to_back = back_to_back_of(called)
            if first_cause(called) is not None:  # no verdict: the leaderboard makes no such calls
                return self.stop()
        ended = self._ask(messages.CaseEnded, messages.EndCase(), GOODBYE_S)
        if (gone := first_cause(one for one in ended if one.lost)) is not None:
            self._lost_after_verdict(result, gone)
        elif first_cause(ended) is not None:
            self.stop()

    def _lost_after_verdict(self, result: CaseResult, lost: RankAnswer[Any]) -> None:
        """A death after the result takes a pass with it: an official evaluator would not have lived to see it.

        Except where our own comparison took too long, or more memory than the system has.
        """
        self.stop()
        phase = lost.answer.phase
        ours = lost.status is Status.TIMEOUT or (phase == "accuracy" and "SIGKILL" in lost.message)
        if result.passed and not ours:
            result.status, result.message, result.rank = lost.status, f"after its result: {lost.message}", lost.rank
            result.stats, result.phase, result.last_words = None, phase, lost.last_words

    # ------------------------------------------------------------ listening

    def _gather(self, kind: type[A], workers: list[WorkerProcess], limit_s: float | None = None) -> list[RankAnswer[A]]:
        """Waits for one answer from each worker; in their order, the lost ones reported as such.

        Once a rank has failed the others get a moment, not their whole time: they may be waiting for it.
        """
        started = time.monotonic()
        limit_s = limit_s or self.limit_s
        # Loading torch and the reference is our time; the submission's begins with its own import.
        ours = kind is messages.Ready
        deadline, patience_ends = started + (LOADING_S if ours else limit_s), math.inf
        answers: dict[WorkerProcess, RankAnswer[A]] = {}
        tasks = task_count()
        while len(answers) < len(workers):
            now = time.monotonic()
            for event in wait_for_events(workers, min(TICK_S, max(min(deadline, patience_ends) - now, 0))):
                if event.worker in answers:
                    continue
                answer = answers[event.worker] = self._answer(event, kind, now - started)
                after = {Status.PASS: limit_s, Status.FAIL: AFTER_FAIL_S}
                patience_s = AFTER_FAIL_S if answer.second_hand() else after.get(answer.status, self.error_patience_s)
                patience_ends = min(patience_ends, time.monotonic() + patience_s)
            now = time.monotonic()
            waiting = [worker for worker in workers if worker not in answers]
            if ours and all(worker.phase == "import submission" for worker in waiting):
                ours, deadline = False, now + limit_s
            if waiting:
                self.progress(_phase_text(waiting), now - started)
            if task_count() - tasks > MAX_PROCESSES and len(descendants(os.getpid())) > MAX_PROCESSES:
                for worker in waiting:
                    text = f"it started more than {MAX_PROCESSES} processes in {worker.phase}"
                    answers[worker] = _lost(kind, worker, Status.CRASH, text, now - started)
                break
            if now >= min(deadline, patience_ends):
                if all(answer.status is Status.PASS for answer in answers.values()):
                    answers |= _timed_out(kind, waiting, now - started, limit_s)
                break
        return [answers[worker] for worker in workers if worker in answers]

    def _answer(self, event: Event, kind: type[A], at_s: float) -> RankAnswer[A]:
        worker, message = event.worker, event.message
        if isinstance(message, messages.DeviceBroken):
            raise DeviceError(message.message)
        if isinstance(message, messages.TaskBroken):
            raise TaskError(message.message)
        if event.end is Status.CRASH:
            place = worker.tail.stack_place(worker.folder)
            text = f"{event.text} in {worker.phase}" + (f" ({place})" if place else "")
            return _lost(kind, worker, Status.CRASH, text, at_s)
        if event.end is not None:
            return _lost(kind, worker, event.end, event.text, at_s)
        if not isinstance(message, kind):
            text = f"the submission meddled with the evaluator: {type(message).__name__} in place of {kind.__name__}"
            return _lost(kind, worker, Status.TAMPERED, text, at_s)
        if message.replaced:
            text = f"the submission replaced {', '.join(message.replaced)}, with which it is judged"
            message = dataclasses.replace(message, status=Status.TAMPERED, message=text)
        words = worker.tail.last_words() if message.status in (Status.FAIL, Status.ERROR) else []
        return RankAnswer(worker.rank, at_s, message, last_words=words)


def _lost(kind: type[A], worker: WorkerProcess, status: Status, text: str, at_s: float) -> RankAnswer[A]:
    answer = kind(status=status, message=text, phase=worker.phase)
    return RankAnswer(worker.rank, at_s, answer, lost=True, last_words=worker.tail.last_words())


def _timed_out(
    kind: type[A], waiting: list[WorkerProcess], at_s: float, limit_s: float
) -> dict[WorkerProcess, RankAnswer[A]]:
    """Names where each rank is."""
    for worker in waiting:
        worker.ask_for_stack()  # all at once: a rank that ends first would move the others
    places: dict[str, list[WorkerProcess]] = {}
    for worker in waiting:
        place = worker.read_stack()
        text = worker.phase + (f" ({place})" if place else "")
        places.setdefault(text, []).append(worker)
    answers = {}
    for text, workers in places.items():
        others = [
            f"rank{'s' if len(group) > 1 else ''} {', '.join(str(w.rank) for w in group)} in {other}"
            for other, group in places.items()
            if other != text
        ]
        message = "; ".join([f"no result after {limit_s:g} s in {text}", *others])
        for worker in workers:
            answers[worker] = _lost(kind, worker, Status.TIMEOUT, message, at_s)
            answers[worker].beside = len(workers) - 1
    return answers


def back_to_back_of(answers: Sequence[RankAnswer[messages.CalledBackToBack]]) -> BackToBack:
    """All ranks' rounds as one: a round lasts as long as on the slowest rank."""
    problem = first_cause(answers)
    if problem is not None:
        return BackToBack(None, problem=problem.text())
    told = [one.answer for one in answers]
    rounds_us, host_rounds_us = (
        tuple(max(times) for times in zip(*rounds))
        for rounds in ([one.rounds_us for one in told], [one.host_rounds_us for one in told])
    )
    wrong = [one for one in answers if one.answer.problem]
    text = f"rank {wrong[0].rank}: " if wrong and wrong[0].rank is not None else ""
    return BackToBack(
        statistics.median(rounds_us) if rounds_us else None,
        statistics.median(host_rounds_us) if host_rounds_us else None,
        told[0].calls,
        rounds_us,
        text + wrong[0].answer.problem if wrong else "",
    )


def first_cause(answers: Iterable[RankAnswer[A]]) -> RankAnswer[A] | None:
    """The failing rank that explains the others; None if all is well."""
    failing = [one for one in answers if one.status is not Status.PASS]
    return min(failing, key=RankAnswer.weight) if failing else None


def _port_was_taken(problem: RankAnswer[Any]) -> bool:
    return problem.answer.phase == "init_process_group" and any(text in problem.message for text in PORT_TAKEN)


def _phase_text(waiting: list[WorkerProcess]) -> str:
    phases = sorted({worker.phase for worker in waiting})
    if len(waiting) == 1 and waiting[0].rank is not None:
        return f"rank {waiting[0].rank}: {phases[0]}"
    return ", ".join(phases)


def _worst_accuracy(answers: list[RankAnswer[messages.Compared]]) -> Accuracy:
    """The rank that is farthest off stands for all."""

    def of(one: RankAnswer[messages.Compared]) -> Accuracy:
        return dataclasses.replace(one.answer.accuracy or Accuracy(problem="no comparison"), rank=one.rank)

    return max(map(of, answers), key=lambda accuracy: math.inf if accuracy.rel_l2 is None else accuracy.rel_l2)


def device_report(answers: Sequence[RankAnswer[Any]]) -> dict[str, Any]:
    """What the device says of the case's kernels; of several ranks, each by its name."""
    found = {f"rank {one.rank}": one.answer.device_report for one in answers}
    if len(answers) == 1:
        return answers[0].answer.device_report or {}
    return found if any(found.values()) else {}
