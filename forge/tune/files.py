"""Tuning a file: forge.tune SUBMISSION or FOLDER. Each row is the file with that row set, judged as a whole.

docs/tuning.md says what it needs of a file. Trials run on a Dask cluster (forge/cluster.py); the trials log is that of
trials_log.py, so the same command goes on where it stopped, and two of them share what both have tried.
"""

import argparse
import hashlib
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from forge.cluster import Cluster, cluster, local_workers
from forge.console import EXIT_FAIL, EXIT_INTERRUPTED, EXIT_PASS, UsageError, number
from forge.device import resolve
from forge.files import write_whole
from forge.generate.submission import KERNEL, directives, read_submission
from forge.generate.tuning import NewRow, with_rows
from forge.judge import compilers
from forge.judge.plan import STAND_IN_ARCH, EvalPlan, cases_to_run, choose_harness
from forge.task.cases import CaseSpec, case_text
from forge.task.problem import Problem, ProblemError, find_problem, own_entries
from forge.task.score import geometric_mean
from forge.tune.best import CLOCK_TEXTS, best_of, by_key, cases_text, note_of, to_tune
from forge.tune.search import WORTH, Row, Search, beats, leader
from forge.tune.spaces import FileSpace, space_of
from forge.tune.trial import Job, Outcome, lost, run
from forge.tune.trials_log import Setting, Trial, TrialsLog


def names_a_file(words: argparse.Namespace) -> bool:
    """Whether the command is for a file or a folder, not for a variant of kernels/."""
    if words.submission is not None or words.problem.endswith(".py"):
        return True
    return Path(words.problem).is_dir() and words.problem not in {
        word for entry in own_entries() for word in (entry.name, entry.stem)
    }


def find(args: argparse.Namespace) -> tuple[Problem, Path]:
    """The problem and the file of: submission.py; FOLDER [--submission FILE]; PROBLEM --submission FILE."""
    if args.problem.endswith(".py"):
        path = Path(args.problem)
        name = directives(read_submission(path)).leaderboard
        if name is None:
            raise UsageError(
                f"which problem? {path} has no line '#!POPCORN leaderboard ...': forge tune PROBLEM --submission {path}"
            )
        return find_problem(name), path
    folder = Path(args.problem)
    inside = folder / "submission.py"
    path = args.submission or (inside if inside.is_file() else Path("submission.py"))
    return find_problem(args.problem), path


def tune(args: argparse.Namespace) -> int:
    problem, path = find(args)
    submission = read_submission(path, KERNEL)
    device = resolve(args.device, problem.arch or STAND_IN_ARCH)
    compilers.take(args.triton, problem, device, submission)
    space = space_of(submission.decode(), str(path), device.arch)
    harness, _ = choose_harness(problem, None)
    cases, _ = cases_to_run(problem, harness, "test" if args.tests else "benchmark", args)
    plan = EvalPlan("benchmark", problem, submission, harness, device, cases, None, args.timeout)
    plan.check_gpus()
    clock = "modelled" if device.emulated else args.clock
    log = TrialsLog(args.trials_log or Path(f"tune-{path.stem}.jsonl"), setting_of(plan, space))
    log.open()
    print(f"{problem.name} {path}  on {device.label}; decided {CLOCK_TEXTS[clock]}")
    print(f"{space.what}; trials log {log.path}: {len(log.trials)} rows tried before")
    workers = local_workers(device.emulated)
    deadline = None if args.minutes is None else time.monotonic() + 60 * args.minutes
    with cluster(args.scheduler, workers) as where:
        tuner = FileTuner(plan, space, log, clock, where, deadline, max(1, (os.cpu_count() or 1) // workers))
        try:
            tuner.search()
            stopped = False
        except KeyboardInterrupt:
            print("stopped: call again to go on")
            stopped = True
    code = tuner.finish(path, args.write)
    return EXIT_INTERRUPTED if stopped else code


def setting_of(plan: EvalPlan, space: FileSpace) -> Setting:
    """What the times of the file's rows depend on: the rows that it has now are not among it, for --write changes
    them."""
    fingerprint = plan.device.fingerprint()
    versions = f"torch {fingerprint.torch}, triton {fingerprint.triton}"
    digest = hashlib.sha256(space.without_rows.encode()).hexdigest()[:16]
    return Setting(plan.problem.name, "file", digest, plan.device.label, plan.device.arch, versions)


@dataclass
class FileTuner:
    plan: EvalPlan
    space: FileSpace
    log: TrialsLog
    clock: str
    where: Cluster
    deadline: float | None
    threads: int
    versions: dict[str, str] = field(default_factory=dict)  # of the first trial's machine: all must have them

    def search(self) -> None:
        """As it is, then what the search asks for, as many rows at once as there are workers."""
        groups: Sequence[Sequence[CaseSpec]] = (
            [[case] for case in self.plan.cases] if self.space.by_case else [self.plan.cases]
        )
        self.try_rows([None], self.plan.cases)
        for cases in groups:
            search = Search(self.space.columns, self.space.start)
            if not self.space.by_case and self.space.with_row(self.space.start) == self.space.text:
                search.tell(self.space.start, self.us_of(None, cases))
            while rows := search.ask(max(1, self.where.workers() // len(cases))):
                if not self.try_rows(rows, cases):
                    print("  out of time: call again to go on")
                    return
                for row in rows:
                    search.tell(row, self.us_of(row, cases))
        for case, alone in to_tune(self.plan.cases, self.log, self.clock):
            if alone and self.space.by_case and not self.try_rows(alone, [case]):
                print("  out of time: call again to go on")
                return

    def us_of(self, row: Row | None, cases: Sequence[CaseSpec]) -> float | None:
        """The geometric mean over the cases; None unless the row passes all."""
        trials = [self.known(case.spec, row) for case in cases]
        times = [us for trial in trials if trial is not None and (us := trial.us(self.clock)) is not None]
        return geometric_mean(times) if len(times) == len(cases) else None

    def known(self, case: str, row: Row | None) -> Trial | None:
        """From the log; as it is, of this very file."""
        trial = self.log.known(case, row)
        return trial if row is not None or trial is None or trial.table in ("", self.digest) else None

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.plan.submission).hexdigest()[:16]

    def try_rows(self, rows: Sequence[Row | None], cases: Sequence[CaseSpec]) -> bool:
        """Tries what the log does not know, each as soon as a worker is free; False when time is over."""
        self.log.reread()
        jobs = {}
        for row in rows:
            for case in cases:
                if self.known(case.spec, row) is None:
                    text = self.space.with_row(row or {}) if row or self.space.by_case else self.space.text
                    job = Job(text, case.spec, self.problem, self.plan.device.name, self.plan.limit_s, self.threads)
                    jobs[job] = (case, row)
        if not jobs:
            return True
        if self.deadline is not None and time.monotonic() > self.deadline:
            return False
        for job, outcome in self.where.results(run, list(jobs), None):
            case, row = jobs[job]
            self.note(case, row, outcome or lost())
        return True

    @property
    def problem(self) -> str:
        """As a worker finds it: by name, or by a path that it must have as well."""
        problem = self.plan.problem
        known = any(entry.directory == problem.directory for entry in own_entries())
        return problem.name if known else str(problem.directory)

    def note(self, case: CaseSpec, row: Row | None, outcome: Outcome) -> None:
        if outcome.status == "refused":
            raise ProblemError(f"a worker could not try a row: {outcome.message}")
        if outcome.versions:
            self.versions = self.versions or outcome.versions
            if outcome.versions != self.versions:
                names = [name for name in self.versions if outcome.versions.get(name) != self.versions[name]]
                raise ProblemError(f"workers have different versions of {', '.join(names)}: their times are no series")
        status = "pass" if outcome.status == "pass" and outcome.us.get(self.clock) else outcome.status
        message = outcome.message
        if outcome.status == "pass" and not outcome.us.get(self.clock):
            status, message = "error", f"no {CLOCK_TEXTS[self.clock]} time: no kernel was launched"
        b2b, harness, modelled = (outcome.us.get(clock) for clock in ("b2b", "harness", "modelled"))
        key, table = outcome.keys[-1] if outcome.keys else None, self.digest if row is None else ""
        trial = Trial(case.spec, row, status, message, key, b2b, harness, modelled, table=table)
        self.log.end(trial)
        told = f"{number(outcome.us.get(self.clock), 5)} us" if status == "pass" else f"{status}: {message}"
        print(f"  {case_text(case.spec)}: {row_text(row)}: {told}", flush=True)

    # ------------------------------------------------------------ what came of it

    def finish(self, path: Path, write: bool) -> int:
        before = {case.spec: self.us_of(None, [case]) for case in self.plan.cases}
        if self.space.by_case:
            rows = self._best_by_case()
            changed = self._with_table(path, rows)
        else:
            tried = {repr(trial.row): trial.row for trial in self.log.trials.values() if trial.row is not None}
            timed: list[tuple[float, Row | None]]
            timed = [(us, row) for row in tried.values() if (us := self.us_of(row, self.plan.cases)) is not None]
            as_it_is = self.us_of(None, self.plan.cases)
            us, row = leader(timed or [(math.inf, None)])
            enough = 1 + WORTH if self.space.shortens else 1 - WORTH
            better = row is not None and (as_it_is is None or us < as_it_is * enough)
            if row is None and as_it_is is None:
                print("no row passed")
                return EXIT_FAIL
            cases = f"geometric mean of {len(self.plan.cases)} cases"
            was = f" (before {number(as_it_is, 5)})" if as_it_is else ""
            shown = us if better else as_it_is
            print(f"{cases}: {number(shown, 5)} us{was}; {len(timed)} rows passed; {row_text(row if better else None)}")
            changed = self.space.with_row(row) if better and row else None
        if self.space.by_case and not any(before.values()) and changed is None:
            print("no row passed")
            return EXIT_FAIL
        if changed is not None and write:
            write_whole(path, changed)
            print(f"{path}: written")
        elif changed is not None:
            print(f"--write changes {path}")
        return EXIT_PASS

    def _best_by_case(self) -> list[NewRow]:
        found = []
        for alike in by_key(self.log, [case.spec for case in self.plan.cases]):
            best = best_of(self.log, alike, self.clock)
            told = cases_text(alike)
            if best is None:
                looked = any(trial.key for trial in self.log.trials.values() if trial.case in alike)
                why = "no us; as it is" if looked else "custom_kernel did not look into TUNING, so no row takes effect"
                print(f"{told}: {why}")
            elif best.row is None or not beats(best.us, best.before_us):
                print(f"{told}: {number(best.before_us, 5) or 'no'} us; as it is")
            else:
                was = f" (before {number(best.before_us, 5)})" if best.before_us else ""
                print(f"{told}: {number(best.us, 5)} us{was}; {row_text(best.row)}")
                found.append(NewRow(best.key, best.row, note_of(best, self.log.setting, self.clock)))
        return found

    def _with_table(self, path: Path, rows: list[NewRow]) -> str | None:
        return with_rows(self.space.text, str(path), rows) if rows else None


def row_text(row: Row | None) -> str:
    return "as it is" if row is None else " ".join(f"{column}={value}" for column, value in row.items())
