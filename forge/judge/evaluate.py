"""One evaluation: a problem, a submission, a harness row and a device in; a Run out."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any, Protocol

from forge.device import Device
from forge.judge.results import CaseResult, Run, Status
from forge.judge.worker_pool import Report, WorkerPool
from forge.judge.workspace import Workspace
from forge.task.cases import CaseSpec
from forge.task.harness import Harness
from forge.task.problem import Problem

HANGS_BEFORE_STOP = 2  # a submission that hung this often in a row is not given the other cases as well


class Listener(Protocol):
    """Hears of an evaluation's progress."""

    def case_started(self, case: CaseSpec, position: int, count: int) -> None: ...

    def case_progress(self, phase: str, seconds: float) -> None: ...

    def case_finished(self, result: CaseResult) -> None: ...


@dataclass(frozen=True)
class Plan:
    """What to evaluate, checked and ready."""

    mode: str  # test | benchmark | leaderboard | profile
    problem: Problem
    submission: bytes
    harness: Harness
    device: Device
    cases: list[CaseSpec]
    seed: int | None
    limit_s: float  # for each case, and for getting ready
    accuracy: bool = True
    back_to_back: bool = True  # in benchmark mode, beside the harness's clock
    not_official: str = ""  # how the cases differ from the leaderboard's; empty if they do not

    def ranks_of(self, case: CaseSpec) -> int | None:
        """How many ranks a case runs on; None for a single-GPU case."""
        return case.world_size if self.harness.multi_rank else None

    @property
    def most_ranks(self) -> int:
        return max(self.ranks_of(case) or 1 for case in self.cases)


def evaluate(plan: Plan, run: Run, listener: Listener) -> None:
    """Fills `run` case by case, so that an interrupted evaluation still has what it found."""
    with Judge(plan, run, listener) as judge:
        for position in range(len(judge.cases)):
            judge.step(position)


class Judge:
    """Context manager: a submission's workers, and its cases one by one."""

    def __init__(self, plan: Plan, run: Run, listener: Listener) -> None:
        self.plan, self.run, self.listener = plan, run, listener
        self.cases = _cases_of_mode(plan)
        self.stopped = ""  # why the cases that are left do not run
        self._warm = plan.mode not in ("benchmark", "leaderboard") or not run.timed
        self._hangs = 0

    def __enter__(self) -> Judge:
        self._started = time.monotonic()
        self.workspace = Workspace(self.plan.problem, self.plan.submission)
        self.workspace.__enter__()
        self.pool = WorkerPool(
            self.workspace.make_folder,
            run_environment(self.plan, self.workspace),
            worker_setup(self.plan),
            self.plan.limit_s,
            self.listener.case_progress,
        )
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self.pool.close()
            self.run.fingerprint = self.pool.fingerprint
            self.run.elapsed_s = time.monotonic() - self._started
        finally:
            self.workspace.__exit__(*exc)

    def step(self, position: int) -> CaseResult:
        """Runs one case, or says why it is not run."""
        case = self.cases[position]
        if self.stopped:
            result = CaseResult(case.index, case.spec, Status.NOT_RUN, self.stopped)
        else:
            self.listener.case_started(case, position, len(self.cases))
            started = time.monotonic()
            problem = self.pool.ensure_started(self.plan.ranks_of(case))
            result = self._broken(case, problem, started) if problem is not None else self._judge(case)
        self.run.cases.append(result)
        self.listener.case_finished(result)
        return result

    def _broken(self, case: CaseSpec, problem: Report, started: float) -> CaseResult:
        """The submission did not load: the case that it was to run says so, and no other is tried."""
        result = CaseResult(
            case.index,
            case.spec,
            problem.status,
            problem.message,
            problem.rank,
            problem.phase,
            problem.trace,
            problem.last_words,
            elapsed_s=time.monotonic() - started,
        )
        if changes := self.workspace.changed():
            result.message += f"; {', '.join(changes)}"
        self.run.broken = result
        self.stopped = "the submission did not load"
        return result

    def _judge(self, case: CaseSpec) -> CaseResult:
        plan = self.plan
        result = None
        if not self._warm:
            self._warm = True
            result = self.pool.run(case, "warm-up", plan.mode, accuracy=False)
            if result.status in (Status.PASS, Status.FAIL):
                result = None  # the warm-up's verdict does not count, the case's own does
        if result is None:
            back_to_back = plan.back_to_back and plan.mode == "benchmark" and self.run.timed
            result = self.pool.run(case, plan.mode, plan.mode, plan.accuracy, back_to_back)
        _look_at_folder(result, self.pool, self.workspace)
        self._hangs = self._hangs + 1 if result.status is Status.TIMEOUT else 0
        if self._hangs >= HANGS_BEFORE_STOP:
            self.stopped = f"{self._hangs} cases in a row did not end in time"
        elif plan.mode == "leaderboard" and not result.passed:
            self.stopped = "leaderboard mode stops at the first failing case"
        return result


def worker_setup(plan: Plan) -> dict[str, Any]:
    return {
        "device": plan.device.name,
        "arch": plan.device.arch,
        "harness": plan.harness.name,
        "seed": plan.seed,
        "timed": not plan.device.emulated,
    }


def run_environment(plan: Plan, workspace: Workspace) -> dict[str, str]:
    """For every process of a run: the workspace's variables and the device's."""
    environment = workspace.environment()
    added = plan.device.environment()
    if "PYTHONPATH" in added:  # the device's comes from this process's, which names our own folder
        kept = environment["PYTHONPATH"].split(os.pathsep)
        first = added["PYTHONPATH"].split(os.pathsep)[0]
        added = {**added, "PYTHONPATH": os.pathsep.join([first, *filter(None, kept)])}
    environment.update(added, POPCORN_GPUS=str(plan.most_ranks))
    if plan.device.emulated and plan.most_ranks > 1:  # all ranks share this machine's cores
        environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // plan.most_ranks)))
    return environment


def _cases_of_mode(plan: Plan) -> list[CaseSpec]:
    """Leaderboard mode of some harnesses times the last case alone."""
    return plan.cases[-1:] if plan.mode == "leaderboard" and plan.harness.leaderboard_cases == "last" else plan.cases


def _look_at_folder(result: CaseResult, pool: WorkerPool, workspace: Workspace) -> None:
    """A submission that rewrites or removes the files it is judged with has no verdict worth keeping."""
    changes = workspace.changed()
    if not changes:
        return
    pool.stop()
    text = f"the submission changed its run folder: {', '.join(changes)}"
    if result.status in (Status.PASS, Status.FAIL):
        result.status, result.message, result.stats, result.back_to_back = Status.TAMPERED, text, None, None
    else:
        result.message += f"; {text}"
