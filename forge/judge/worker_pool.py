"""A pool of workers: the processes of one run, kept from case to case and all replaced when one is lost."""

import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from msgspec.structs import asdict, replace

from forge.device import DeviceError
from forge.device.base import Fingerprint
from forge.device.report import CaseReport, DeviceReport
from forge.judge import messages
from forge.judge.fork_server import SUBMISSIONS, ForkServer
from forge.judge.memory import MOST_TAKEN_BYTES, MOST_TAKEN_INPUTS, oom_kills
from forge.judge.process_tree import descendants
from forge.judge.processes import Event, WorkerProcess, end_all, free_port, wait_for_events
from forge.judge.rank_order import RankOrder
from forge.judge.results import Fault, Status
from forge.judge.standstill import WAITS_ANYWAY, Rank, Standstill
from forge.judge.takings import Takings
from forge.task.problem import ProblemError

TICK_S = 0.1
LOADING_S = 300.0  # for a worker to import torch and reference.py, on a machine however busy
# How long other ranks may still report once one has broken off (the first cause may come second), and once one has a
# wrong output, when all are near their end, or has lost another, whose end is the cause.
AFTER_ERROR_S, AFTER_FAIL_S = 0.5, 5.0
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
        order = {
            Status.NOT_RUN: 0,
            Status.TAMPERED: 0,
            Status.CRASH: 1,
            Status.ERROR: 2,
            Status.FAIL: 3,
            Status.TIMEOUT: 5,
        }
        return (4 if self.second_hand() else order.get(self.status, 0), self.beside, self.at_s)

    def second_hand(self) -> bool:
        """Whether it only says that another rank is gone, which may take a moment to be seen on a busy machine."""
        return self.status is Status.ERROR and any(text in self.message for text in SECOND_HAND)


class WorkerPool:
    """order: of as many processes as the largest case has ranks; grouped: whether cases have ranks at all; memory: as
    many exchanges; one_each: each process gets its own alone; worker, events: the module whose WORKER serves, and what
    it may send."""

    def __init__(
        self,
        make_folder: Callable[[], Path],
        fork_server: ForkServer,
        setup: messages.Setup,
        order: RankOrder,
        grouped: bool,
        limit_s: float,
        progress: Progress,
        memory: Sequence[int] = (),
        one_each: bool = False,
        worker: str = "forge.judge.worker",
        events: tuple[type, ...] = messages.EVENTS,
    ) -> None:
        self.make_folder, self.fork_server = make_folder, fork_server
        self.kind, self.events, self.memory, self.one_each = worker, events, list(memory), one_each
        self.setup, self.order, self.grouped = setup, order, grouped
        self.limit_s, self.progress = limit_s, progress
        self.anew: WorkerPool | None = None  # the process that makes its outputs anew
        self.beside: list[WorkerPool] = []  # others, which live on when this one stops
        self.error_patience_s = AFTER_ERROR_S
        self.turns_of: Callable[[Iterable[int]], int | None] | None = None  # the device's, where a standstill is an end
        self.workers: list[WorkerProcess] = []
        self.waiting = False  # for the workers to be ready
        self.ranks: int | None = None  # of the case; None: a single-GPU one, without a process group
        self.assigned: list[int] = []  # the numbers of the workers that run them
        self.fingerprint = Fingerprint()
        self.input_bytes = 0  # of the case, on all ranks
        self.oom_kills = 0  # of the system, before these workers were there
        self.took: list[float] = []  # of referees: what judging a case took beside its input, in bytes of this
        self.unconfined: list[str] = []  # what the workers' confinement lacks

    def stop(self) -> None:
        """Ends the workers. The next case starts others."""
        stop_at_once(self)

    @property
    def active(self) -> list[WorkerProcess]:
        """The case's workers, in the order of its ranks."""
        return [self.workers[number] for number in self.assigned]

    def start(self) -> None:
        """Has workers forked where there are none, without waiting for them: `ensure_started` does that."""
        if self.workers:
            return
        self.waiting, self.oom_kills = True, oom_kills()
        folder = self.make_folder()
        setup = replace(self.setup, folder=str(folder))
        for number in range(self.order.processes):
            rank = number if self.grouped else None
            memory = self.memory[number : number + 1] if self.one_each else self.memory
            process = WorkerProcess(rank, folder, self.fork_server, setup, self.kind, self.events, memory)
            self.workers.append(process)

    def ensure_started(self) -> RankAnswer[messages.Ready] | None:
        """Brings the pool to the point where it waits for a case; what stops it, or None."""
        if self.workers and not self.waiting:
            return None
        self.start()
        answers = self._gather(messages.Ready, self.workers)
        self.waiting = False
        problem = first_cause(answers)
        if problem is None:
            self.fingerprint = answers[0].answer.fingerprint
            self.unconfined = self.workers[0].told.missing
            if self.kind == SUBMISSIONS:
                self.fork_server.signals_stay = all(worker.told.signals_stay for worker in self.workers)
        else:
            self.stop()
        return problem

    def assign(self, ranks: int | None) -> None:
        """Gives the ranks of the next case to workers; None: a single-GPU case."""
        self.ranks, self.assigned = ranks, self.order.next(ranks or 1)

    def begin(self, kind: type[A], command: Any | list[Any]) -> tuple[list[RankAnswer[A]], RankAnswer[Any] | None]:
        """Asks the first of a case, with which its ranks make a process group: on a port that nobody takes meanwhile.

        command: one for all ranks, or a list with each one's.
        Returns the ranks' answers, in rank order, and the one that explains why there are not only passing ones.
        """
        for attempt in range(PORT_ATTEMPTS):
            if (broken := self.ensure_started()) is not None:
                return [], broken
            port = 0 if self.ranks is None else free_port()
            for rank, worker in enumerate(self.active):
                worker.rank = None if self.ranks is None else rank
                worker.tail.clear()
                own = command[rank] if isinstance(command, list) else command
                worker.tell(replace(own, rank=worker.rank, port=port))
            answers = self._gather(kind, self.active)
            problem = first_cause(answers)
            if attempt + 1 == PORT_ATTEMPTS or problem is None or not _port_was_taken(problem):
                break
            self.stop()
        return answers, problem

    def ask(
        self, kind: type[A], command: Any, limit_s: float | None = None
    ) -> tuple[list[RankAnswer[A]], RankAnswer[A] | None]:
        """The same of a later command, one for all ranks or a list with each one's. The pool has stopped unless every
        rank has answered, and could go on."""
        self.tell(command)
        return self.hear(kind, limit_s)

    def tell(self, command: Any) -> None:
        """Sends a command without waiting for its answers: `hear` does that."""
        for rank, worker in enumerate(self.active):
            worker.tell(command[rank] if isinstance(command, list) else command)

    def hear(self, kind: type[A], limit_s: float | None = None) -> tuple[list[RankAnswer[A]], RankAnswer[A] | None]:
        answers = self._gather(kind, self.active, limit_s)
        if len(answers) < len(self.assigned) or any(one.lost or one.answer.lost for one in answers):
            self.stop()
        return answers, first_cause(answers)

    def submissions(self) -> list[int]:
        """The processes that are neither those of others beside these nor their fork servers."""
        others = [worker for pool in self.beside for worker in pool.workers]
        left_out = {one.pid() for one in ForkServer.alive} | {pid for one in others for pid in one.told.above}
        below = descendants(os.getpid(), without=filter(None, (worker.parent_pid for worker in others)))
        return [pid for pid in below if pid not in left_out]

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
        standstill = None if self.turns_of is None else Standstill(self.turns_of)
        most = MOST_TAKEN_BYTES * len(workers) + MOST_TAKEN_INPUTS * self.input_bytes
        takings = Takings(self.submissions, most if self.kind == SUBMISSIONS else None, workers[0].folder.parent)
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
            too_much, fault = takings.too_much()
            if too_much:
                for worker in waiting:
                    text = f"{too_much} in {worker.phase}"
                    answers[worker] = _lost(kind, worker, Status.CRASH, text, now - started, fault)
                break
            if now >= min(deadline, patience_ends):
                if all(answer.status is Status.PASS for answer in answers.values()):
                    longer = (
                        "" if self.setup.timed else "emulated, which takes longer than a GPU: --timeout S gives it more"
                    )
                    answers |= _timed_out(kind, waiting, now - started, f"no result after {limit_s:g} s", longer)
                break
            if standstill and not ours and (stuck := standstill.found(waiting)):
                why, culprits = stuck
                answers |= _timed_out(kind, waiting, now - started, why, WAITS_ANYWAY, culprits)
                break
        return [answers[worker] for worker in workers if worker in answers]

    def _answer(self, event: Event, kind: type[A], at_s: float) -> RankAnswer[A]:
        worker, message = event.worker, event.message
        if isinstance(message, messages.DeviceBroken):
            raise DeviceError(message.message)
        if isinstance(message, messages.TaskBroken):
            raise TaskError(message.message)
        if event.end is not None and oom_kills() > self.oom_kills:
            text = f"not judged: memory ran out, and the system ended a process of this case in {worker.phase}"
            return _lost(kind, worker, Status.NOT_RUN, text, at_s, "memory")
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
            text = f"the submission replaced {', '.join(message.replaced)}, with which it is timed"
            message = replace(message, status=Status.TAMPERED, message=text)
        return RankAnswer(worker.rank, at_s, message, last_words=worker.tail.last_words())


def stop_at_once(*pools: WorkerPool) -> None:
    """`stop` of several, which takes no longer than that of one."""
    workers = [worker for pool in pools for worker in pool.workers]
    beside = {worker for pool in pools for other in pool.beside for worker in other.workers}
    end_all(workers, spare=beside.difference(workers))
    for pool in pools:
        pool.workers = []


def _lost(
    kind: type[A], worker: WorkerProcess, status: Status, text: str, at_s: float, fault: Fault = ""
) -> RankAnswer[A]:
    answer = kind(status=status, message=text, phase=worker.phase, fault=fault)
    return RankAnswer(worker.rank, at_s, answer, lost=True, last_words=worker.tail.last_words())


def _timed_out(
    kind: type[A],
    waiting: list[WorkerProcess],
    at_s: float,
    why: str,
    advice: str,
    culprits: Sequence[Rank] = (),
) -> dict[WorkerProcess, RankAnswer[A]]:
    """Names where each rank is; culprits: those that others wait for, where that is known."""
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
        message = "; ".join([f"{why} in {text}", *others, *filter(None, [advice])])
        for worker in workers:
            answers[worker] = _lost(kind, worker, Status.TIMEOUT, message, at_s)
            answers[worker].beside = len(workers) - 1 if worker not in culprits else -1
    return answers


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


def device_report(answers: Sequence[RankAnswer[Any]]) -> CaseReport:
    """What the device says of the case's kernels."""
    told: dict[int, DeviceReport] = {one.rank or 0: one.answer.device_report for one in answers}
    if len(answers) == 1:
        return CaseReport(**asdict(told.popitem()[1]))
    if all(one.empty for one in told.values()):
        return CaseReport()
    return CaseReport(ranks=tuple(told.get(rank, DeviceReport()) for rank in range(max(told) + 1)))
