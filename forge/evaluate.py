"""One evaluation: a problem, a submission, a harness row and a device in; a Run out."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any, Protocol

from forge.cases import CaseSpec
from forge.crew import Crew
from forge.device import Device
from forge.harness import Harness
from forge.problem import Problem
from forge.results import CaseResult, Run, Status
from forge.workspace import Workspace

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

    def ranks_of(self, case: CaseSpec) -> int | None:
        """How many ranks a case runs on; None for a single-GPU case."""
        return case.world_size if self.harness.multi_rank else None

    @property
    def most_ranks(self) -> int:
        return max(self.ranks_of(case) or 1 for case in self.cases)


def evaluate(plan: Plan, run: Run, listener: Listener) -> None:
    """Fills `run` case by case, so that an interrupted evaluation still has what it found."""
    started = time.monotonic()
    with Workspace(plan.problem, plan.submission) as workspace:
        crew = Crew(
            workspace.make_folder,
            run_environment(plan, workspace),
            _setup(plan),
            plan.limit_s,
            listener.case_progress,
        )
        try:
            _run_cases(plan, run, crew, workspace, listener)
        finally:
            crew.stop()
            run.fingerprint = crew.fingerprint
            run.elapsed_s = time.monotonic() - started


def _setup(plan: Plan) -> dict[str, Any]:
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


def _run_cases(plan: Plan, run: Run, crew: Crew, workspace: Workspace, listener: Listener) -> None:
    cases = _cases_of_mode(plan)
    warm = plan.mode not in ("benchmark", "leaderboard") or not run.timed
    hangs = 0
    for position, case in enumerate(cases):
        listener.case_started(case, position, len(cases))
        started = time.monotonic()
        problem = crew.ensure_started(plan.ranks_of(case))
        if problem is not None:
            run.broken = CaseResult(
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
            if changes := workspace.changed():
                run.broken.message += f"; {', '.join(changes)}"
            run.cases.append(run.broken)
            listener.case_finished(run.broken)
            _skip(run, cases[position + 1 :], "the submission did not load", listener)
            return
        result = None
        if not warm:
            warm = True
            result = crew.run(case, "warm-up", plan.mode, accuracy=False)
            if result.status in (Status.PASS, Status.FAIL):
                result = None  # the warm-up's verdict does not count, the case's own does
        if result is None:
            result = crew.run(case, plan.mode, plan.mode, plan.accuracy)
        _look_at_folder(result, crew, workspace)
        run.cases.append(result)
        listener.case_finished(result)
        hangs = hangs + 1 if result.status is Status.TIMEOUT else 0
        rest = cases[position + 1 :]
        if hangs >= HANGS_BEFORE_STOP and rest:
            return _skip(run, rest, f"{hangs} cases in a row did not end in time", listener)
        if plan.mode == "leaderboard" and not result.passed and rest:
            return _skip(run, rest, "leaderboard mode stops at the first failing case", listener)


def _cases_of_mode(plan: Plan) -> list[CaseSpec]:
    """Leaderboard mode of some harnesses times the last case alone."""
    return (
        plan.cases[-1:]
        if plan.mode == "leaderboard" and plan.harness.leaderboard_cases == "last"
        else plan.cases
    )


def _skip(run: Run, cases: list[CaseSpec], why: str, listener: Listener) -> None:
    for case in cases:
        result = CaseResult(case.index, case.spec, Status.NOT_RUN, why)
        run.cases.append(result)
        listener.case_finished(result)


def _look_at_folder(result: CaseResult, crew: Crew, workspace: Workspace) -> None:
    """A submission that rewrites or removes the files it is judged with has no verdict worth keeping."""
    changes = workspace.changed()
    if not changes:
        return
    crew.stop()
    text = f"the submission changed its run folder: {', '.join(changes)}"
    if result.status in (Status.PASS, Status.FAIL):
        result.status, result.message, result.stats = Status.TAMPERED, text, None
    else:
        result.message += f"; {text}"
