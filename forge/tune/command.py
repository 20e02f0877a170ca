"""The tuner: python -m forge.tune PROBLEM --variant V. Measures rows of a variant's tuning table and writes the best.

docs/tuning.md says how it works and what it needs of a variant.
"""

import argparse
import dataclasses
import hashlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forge.cluster import ClusterError
from forge.console import (
    EXIT_BAD_INPUT,
    EXIT_FAIL,
    EXIT_INTERRUPTED,
    EXIT_PASS,
    Parser,
    UsageError,
    end_on_signals,
    number,
)
from forge.device import NAMES as DEVICE_NAMES
from forge.device import Device, resolve
from forge.generate.pysource import GenerationError
from forge.generate.render import Submission, also_for, generate, pick_variant
from forge.generate.submission import SubmissionError
from forge.generate.tuning import NewRow, Table, read_table, table_path, with_rows
from forge.judge import compilers
from forge.judge.evaluate import make_pool, run_environment
from forge.judge.fork_server import ForkServer
from forge.judge.messages import EVENTS, CaseEnded, EndCase
from forge.judge.plan import BAD_INPUT, STAND_IN_ARCH, EvalPlan, add_case_options, cases_to_run, choose_harness
from forge.judge.process_tree import adopt_orphans
from forge.judge.worker_pool import RankAnswer, WorkerPool, device_report
from forge.judge.workspace import Workspace
from forge.task.cases import CaseSpec, case_text
from forge.task.problem import ROOT, Problem, find_problem
from forge.tune import files, messages
from forge.tune.best import CLOCK_TEXTS, Best, best_of, by_key, cases_text, key_of, note_of, to_tune
from forge.tune.search import Row, Search, leader
from forge.tune.spaces import SpaceError
from forge.tune.trials_log import Setting, Trial, TrialsLog, TrialsLogError, lines_of

CLOCKS = ("b2b", "harness", "modelled")
LIMIT_S = 120.0
CONFIRMATIONS = 4


EXAMPLES = """\
examples:
  forge tune amd-gemm-rs --variant triton --world-size 4 --keep-local --minutes 10 --write
  forge tune submission.py --device DEVICE --write                # a TUNING table, @triton.autotune or marked #defines
  forge tune submission.py --scheduler tcp://10.0.0.1:8786        # on the workers of a running Dask cluster
  forge tune amd-gemm-rs --variant triton --minutes 0 --write     # only write what the trials log has
"""


class OutOfTime(Exception):
    """The time that --minutes gave is over."""


class TuningError(Exception):
    """What cannot be tuned, in one line."""


def parser() -> argparse.ArgumentParser:
    p = Parser(
        prog="python -m forge.tune",
        description="Find the best rows of a variant's tuning table.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EXAMPLES,
    )
    p.add_argument(
        "problem",
        metavar="PROBLEM|FILE|FOLDER",
        help="a leaderboard name, whose variant in kernels/ is tuned; or a submission.py; or a task folder with one",
    )
    p.add_argument("--submission", metavar="FILE", type=Path, help="the file to tune, if its header names no problem")
    p.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="of a file: try rows on the workers of this Dask cluster (default: one of its own on this machine)",
    )
    p.add_argument("--variant", metavar="V", help="which of its variants (default: the one task.yml names)")
    p.add_argument("--device", default="auto", help=f"{', '.join(DEVICE_NAMES)} (default: %(default)s)")
    add_case_options(p)
    compilers.add_option(p)
    p.add_argument("--tests", action="store_true", help="the cases of mode test, not of mode benchmark")
    p.add_argument("--minutes", type=float, metavar="M", help="stop after M minutes (0: only read the trials log)")
    p.add_argument(
        "--timeout", type=float, metavar="S", default=LIMIT_S, help="for a row, compiling included: %(default)g"
    )
    p.add_argument("--clock", choices=CLOCKS[:2], default="b2b", help="what decides: %(default)s, or the harness's")
    p.add_argument("--rows-from", metavar="FILE", type=Path, help="try the rows of this table first, at every shape")
    p.add_argument("--trials-log", metavar="FILE", type=Path, help="default: tune-PROBLEM-VARIANT.jsonl in this folder")
    p.add_argument("--write", action="store_true", help="write the best rows into the variant's table at the end")
    return p


def main(argv: list[str], root: Path = ROOT) -> int:
    try:
        return _main(parser().parse_args(argv), root)
    except (
        ClusterError,
        GenerationError,
        SpaceError,
        SubmissionError,
        TrialsLogError,
        TuningError,
        *BAD_INPUT,
    ) as error:
        print(f"forge.tune: {error}", file=sys.stderr)
        return EXIT_FAIL if isinstance(error, SubmissionError) else EXIT_BAD_INPUT
    except KeyboardInterrupt:
        print("forge.tune: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def _main(args: argparse.Namespace, root: Path) -> int:
    if args.minutes is not None and args.minutes < 0 or args.timeout <= 0:
        raise UsageError("--minutes must not be negative, and --timeout more than 0 seconds")
    if files.names_a_file(args):
        if args.variant or args.rows_from or args.minutes == 0:
            raise UsageError("--variant, --rows-from and --minutes 0 go with a variant of kernels/, not with a file")
        return files.tune(args)
    if args.scheduler is not None:
        raise UsageError("--scheduler goes with a file: forge tune submission.py --scheduler ADDRESS")
    problem = find_problem(args.problem, root)
    name = pick_variant(problem, args.variant, root).name
    log_path = args.trials_log or Path(f"tune-{problem.name}-{name}.jsonl")
    device: Device | None = None
    if args.minutes == 0:
        setting = latest_setting(log_path, problem.name, name)
        arch = setting.arch
    else:
        device = resolve(args.device, problem.arch or STAND_IN_ARCH)
        arch = device.arch
    submission = generate(problem, args.variant, root, also_for(problem, args.variant, arch, root))
    variant = submission.also or submission.variant  # whose table is tuned
    path = table_path(variant.path)
    if not variant.path.endswith(".py") or not (root / path).is_file():
        raise TuningError(f"{variant.path}: has no Python tuning table {path}, so there is nothing to tune")
    sources = digest_of_sources(submission, path)
    if device is None:
        plan = None
        cases = list(dict.fromkeys(spec for spec, _ in TrialsLog(log_path, setting).trials))
    else:
        plan = make_plan(args, problem, submission.text.encode(), device)
        setting = setting_of(problem, name, sources, plan)
        cases = [case.spec for case in plan.cases]
        table = read_table(root, path, plan.device.arch)
        if not table.space and args.rows_from is None:
            raise TuningError(f"{path}: states no SPACE for {plan.device.arch}, and --rows-from names no rows to try")
        others = [] if args.rows_from is None else rows_of(args.rows_from, table)
    log, stopped = TrialsLog(log_path, setting), False
    if plan is not None:
        log.open()  # now, not when the ranks have started
    clock = "modelled" if setting.device.startswith("emulated") else args.clock
    print(f"{problem.name} {name}  on {setting.device}, {setting.versions}; decided {CLOCK_TEXTS[clock]}")
    print(f"trials log {log_path}: {len(log.trials)} rows tried before" + _others(log))
    if setting.sources != sources:
        print("warning: the log's last rows were tried with other sources than are here now")
    if plan is not None:
        deadline = None if args.minutes is None else time.monotonic() + 60 * args.minutes
        digest = hashlib.sha256((root / path).read_bytes()).hexdigest()[:16]
        stopped = not tune_all(plan, table, digest, others, log, clock, deadline)
    best = [row for alike in by_key(log, cases) if (row := best_of(log, alike, clock)) is not None]
    code = finish(best, log, clock, root, path, args.write)
    return EXIT_INTERRUPTED if stopped else code


def _others(log: TrialsLog) -> str:
    return f" ({log.others} of other sources, devices or versions do not count)" if log.others else ""


def make_plan(args: argparse.Namespace, problem: Problem, submission: bytes, device: Device) -> EvalPlan:
    compilers.take(args.triton, problem, device, submission)
    harness, _ = choose_harness(problem, None)
    cases, not_official = cases_to_run(problem, harness, "test" if args.tests else "benchmark", args)
    plan = EvalPlan(
        "benchmark", problem, submission, harness, device, cases, None, args.timeout,
        fixed_ranks=True, not_official=not_official,
    )  # fmt: skip
    plan.check_gpus()
    return plan


def digest_of_sources(submission: Submission, table: str) -> str:
    """Of all that the submission was made from but the table."""
    sources = "".join(source.sha256 for source in submission.sources if source.path != table)
    return hashlib.sha256(sources.encode()).hexdigest()[:16]


def setting_of(problem: Problem, variant: str, sources: str, plan: EvalPlan) -> Setting:
    fingerprint = plan.device.fingerprint()
    versions = f"torch {fingerprint.torch}, triton {fingerprint.triton}"
    if hip := compilers.made_by(problem, plan.device, plan.submission).hip:
        versions += f", {hip}"
    return Setting(problem.name, variant, sources, plan.device.label, plan.device.arch, versions)


def latest_setting(path: Path, problem: str, variant: str) -> Setting:
    settings = [line.setting for line in lines_of(path) if line.trial]
    ours = [setting for setting in settings if (setting.problem, setting.variant) == (problem, variant)]
    if not ours:
        others = sorted({f"{setting.problem} {setting.variant}" for setting in settings})
        of_others = f", only of {', '.join(others)}" if others else ""
        raise TuningError(f"{path}: no trial of {problem} {variant} in this log{of_others}")
    return ours[-1]


def rows_of(path: Path, table: Table) -> list[Row]:
    """The different rows of another table, those columns of them that this one has."""
    other = read_table(path.resolve().parent, path.name)
    rows: list[Row] = []
    for row in [*other.rows.values(), other.default]:
        known = {**table.default, **{column: value for column, value in row.items() if column in table.default}}
        if known not in rows:
            rows.append(known)
    return rows


# ---------------------------------------------------------------- trying


def tune_all(
    plan: EvalPlan,
    table: Table,
    table_digest: str,
    others: list[Row],
    log: TrialsLog,
    clock: str,
    deadline: float | None,
) -> bool:
    """Every case, each with its share of what time is left. Ctrl-C and the deadline end it; the trials log has all.
    False after Ctrl-C."""
    end_on_signals()
    adopt_orphans()
    with Workspace(plan.problem, plan.submission) as workspace:
        fork_server = ForkServer(run_environment(plan, workspace), plan.device.name, plan.device.arch)
        kind: dict[str, Any] = {"worker": "forge.tune.worker", "events": EVENTS + messages.ANSWERS}
        pool = make_pool(plan, workspace.make_folder, fork_server, lambda *_: None, **kind)
        pool.error_patience_s = plan.limit_s / 6  # ranks compile at their own pace
        try:
            for position, (case, rows) in enumerate(to_tune(plan.cases, log, clock)):
                print(f"case {case.index}: {case_text(case.spec)}" + (rows and ", rows of cases with its key" or ""))
                end = None
                if deadline is not None:
                    left_s = max(0.0, deadline - time.monotonic())
                    end = time.monotonic() + left_s / max(1, len(plan.cases) - position)
                tuner = CaseTuner(plan, pool, case, log, clock, end, table_digest)
                try:
                    tuner.tune(table, others, rows)
                except OutOfTime:
                    print("  out of time: call again to go on")
                tuner.confirm()
                tuner.leave()
            return True
        except KeyboardInterrupt:
            print("stopped: call again to go on")
            return False
        finally:
            pool.stop()
            fork_server.close()


@dataclasses.dataclass
class CaseTuner:
    """One case: asks the ranks to try rows, and the trials log what is known already."""

    plan: EvalPlan
    pool: WorkerPool
    case: CaseSpec
    log: TrialsLog
    clock: str
    deadline: float | None
    table_digest: str
    key: str | None = None  # under which the submission looks its row up, as Python spells it
    best_us: float | None = None
    begun: bool = False

    def tune(self, table: Table, others: list[Row], alone: list[Row]) -> None:
        start = self.trial(None)
        if start.key is None:
            why = "custom_kernel did not look into TUNING" if start.status == "pass" else _outcome(start, self.clock)
            print(f"  cannot be tuned: {why}")
            return
        self.key = start.key
        self.best_us = start.us(self.clock)
        if alone:
            for one in alone:
                self.time_of(one)
            return
        row = table.rows.get(key_of(self.key))
        # Outside the table "as it is" need not be DEFAULT: a variant may fit that to the shape.
        search = Search(table.space, row or start.as_it_is or table.default, others)
        if row is not None:
            search.tell(row, self.best_us)
        while rows := search.ask():
            search.tell(rows[0], self.time_of(rows[0]))

    def confirm(self) -> None:
        """A search finds lucky times: what is best so far is timed once more, and the submission as it is as well."""
        if self.plan.device.emulated or self.key is None:
            return
        for _ in range(CONFIRMATIONS):
            trials = [trial for trial in self.log.trials.values() if trial.case == self.case.spec]
            timed = [(us, trial) for trial in trials if (us := trial.us(self.clock)) is not None]
            best = leader(timed)[1] if timed else None
            once = [trial for _, trial in timed if trial.runs == 1 and (trial is best or trial.row is None)]
            if not once:
                return
            for trial in once:
                both = trial.with_another(self.measured(trial.row))
                self.log.end(both)
                print(f"  again: {_row_text(trial.row)}: {_outcome(both, self.clock)}, mean of {both.runs}", flush=True)

    def time_of(self, row: Row) -> float | None:
        trial = self.trial(row)
        us = trial.us(self.clock)
        if us is not None and (self.best_us is None or us < self.best_us):
            self.best_us = us
        return us

    def trial(self, row: Row | None) -> Trial:
        known = self.log.known(self.case.spec, row)
        if known is not None and (row is not None or known.table in ("", self.table_digest)):
            return known
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise OutOfTime
        self.log.begin(self.case.spec, row)
        try:
            trial = self.measured(row)
        except BaseException:  # Ctrl-C, or something is wrong with the case
            self.log.stop(self.case.spec, row)
            raise
        if row is None:
            trial = dataclasses.replace(trial, table=self.table_digest)
        self.log.end(trial)
        print(f"  {_row_text(row)}: {_outcome(trial, self.clock)}", flush=True)
        return trial

    def measured(self, row: Row | None) -> Trial:
        spec = self.case.spec
        if not self.begun or not self.pool.workers:
            if (begun := self.begin()) is not None:
                raise TuningError(f"case {self.case.index}: {begun.text()}")
            self.begun = True
        ran, problem = self.pool.ask(messages.RowRun, messages.RunRow(self.key, row))
        if problem is not None:
            return Trial(spec, row, problem.status.value, problem.text(), self.key)
        key, asked = self.key, ran[0].answer.asked
        if row is None:
            key = asked[-1] if asked and key_of(asked[-1]) is not None else None
        elif any(key not in one.answer.asked for one in ran):
            raise TuningError(
                f"case {self.case.index}: custom_kernel did not look up {key} again in the submission's TUNING, so no"
                " row takes effect: it keeps a plan or the dict itself (docs/tuning.md: What it needs of a variant)"
            )
        modelled = device_report(ran).modelled_time(self.plan.caches)
        modelled_us = modelled.us if modelled else None
        trial = Trial(spec, row, "pass", key=key, modelled_us=modelled_us, as_it_is=ran[0].answer.row)
        trial, going = self.checked(trial, *self.pool.ask(messages.RowChecked, messages.CheckRow()))
        if going and not self.plan.device.emulated:
            best_us = self.best_us if self.clock == "b2b" else None
            timed = self.pool.ask(messages.RowTimed, messages.TimeRow(best_us))
            trial, going = self.checked(trial, *timed)
            if going:
                times = timed[0][0].answer
                trial = dataclasses.replace(trial, b2b_us=times.b2b_us, harness_us=times.harness_us)
        return trial

    def checked(
        self, trial: Trial, answers: Sequence[RankAnswer[Any]], problem: RankAnswer[Any] | None
    ) -> tuple[Trial, bool]:
        """The trial as the ranks' answers (RowChecked, RowTimed) leave it, and whether it goes on."""
        if problem is not None:
            status, message = problem.status.value, problem.text()
        elif wrong := [one for one in answers if one.answer.wrong]:
            who = f"rank {wrong[0].rank}: " if wrong[0].rank is not None else ""
            status, message = "wrong", who + wrong[0].answer.wrong
        else:
            return trial, True
        return dataclasses.replace(trial, status=status, message=message, modelled_us=None), False

    def begin(self) -> RankAnswer[Any] | None:
        """Brings the ranks to where they wait for a row; what stops them, or None."""
        self.pool.assign(self.plan.ranks_of(self.case))
        said = self.plan.problem.precision
        most = min(filter(None, (said.rel_l2, said.probe_rel_l2)), default=None)
        _, problem = self.pool.begin(messages.TuningBegun, messages.BeginTuning(self.case.args, None, 0, most))
        if problem is not None:
            self.pool.stop()
        return problem

    def leave(self) -> None:
        if self.begun and self.pool.workers and self.pool.ask(CaseEnded, EndCase())[1] is not None:
            self.pool.stop()


def _row_text(row: Row | None) -> str:
    return "as it is" if row is None else " ".join(f"{column}={value}" for column, value in row.items())


def _outcome(trial: Trial, clock: str) -> str:
    if trial.status != "pass":
        return f"{trial.status}: {trial.message}"
    if clock == "modelled":
        return f"{number(trial.modelled_us, 5) or 'nothing'} us modelled"
    harness = number(trial.harness_us, 5)
    return f"{number(trial.b2b_us, 5)} us back to back" + (f", {harness} us harness" if harness else "")


# ---------------------------------------------------------------- what came of it


def finish(best: list[Best], log: TrialsLog, clock: str, root: Path, path: str, write: bool) -> int:
    if not best:
        print("no row passed")
        return EXIT_FAIL
    new = []
    columns = read_table(root, path).default.keys()
    for found in best:
        failed = "".join(f", {count} {status}" for status, count in sorted(found.failed.items()))
        was = f" (before {number(found.before_us, 5)})" if found.before_us is not None else ""
        told = "as it is" if found.row is None else _row_text(found.row)
        print(f"{cases_text(found.cases)}: {number(found.us, 5)} us{was}; {found.tried} rows tried{failed}; {told}")
        if found.row is not None and found.row.keys() != columns:
            print(f"  not for {path}: its rows have the columns {', '.join(columns)}")
        elif found.row is not None:
            new.append(NewRow(found.key, found.row, note_of(found, log.setting, clock)))
    text = (root / path).read_text(encoding="utf-8")
    changed = with_rows(text, path, new) if new else text
    if write and new:
        (root / path).write_text(changed, encoding="utf-8")
        print(f"{path}: {len(new)} rows written")
    elif new:
        before = set(text.splitlines())
        print(f"rows for {path} (--write writes them):")
        print("\n".join(line for line in changed.splitlines() if line not in before))
    return EXIT_PASS
