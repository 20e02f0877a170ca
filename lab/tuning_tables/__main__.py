"""Makes the emulated cards' tuning tables anew by the time model: python -m lab.tuning_tables [PROBLEM ...].

Offline, under the leaderboard's Triton: rows are modelled as modelled.py does it, on a Dask cluster
(forge/cluster.py), and kept in a journal, which is a trials log of all tables together. README.md says what is
tried.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import sys
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from forge.cluster import Cluster, ClusterError, cluster, local_workers
from forge.console import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_PASS, Parser, UsageError, number
from forge.device import resolve, triton_versions
from forge.device.hip_compiler import hip_compiler
from forge.device.report import Caches
from forge.generate.pysource import GenerationError
from forge.generate.render import Submission, generate, variants_of
from forge.generate.tuning import NewRow, Table, read_table, table_path, with_rows
from forge.judge import compilers
from forge.judge.plan import BAD_INPUT, EvalPlan, choose_harness
from forge.task.problem import ROOT, Case, Problem, find_problem, own_entries
from forge.tune.best import Best, best_of, by_key, note_of
from forge.tune.command import TuningError, digest_of_sources, latest_setting
from forge.tune.search import Row, beats
from forge.tune.trial import Outcome, lost
from forge.tune.trials_log import Setting, Trial, TrialsLog, TrialsLogError
from lab.tuning_tables import header
from lab.tuning_tables.modelled import Sweep, sweep

CLOCK = "modelled"
OTHERS = 4  # rows of the table's other shapes, tried first as whole rows
AT_ONCE = 2  # rows that a worker tries one after the other: it makes a case's inputs once for them
ENOUGH = 3  # rows of a case, tried with the one in force, before its row counts as decided
ROW_TIMEOUT_S = 300.0
# Where a row takes a core half a minute or more: sizes at which rows are held against each other first.
SMALLER = {"amd-mixture-of-experts": {"dhidden": 1792, "dexpert": 512}, "amd-mla-decode": {"prefill": 500}}
FINALISTS = 3  # of them that are modelled at the case's own size


def outwards(value: Any, choices: list[Any]) -> list[Any]:
    """The choices but `value`, its neighbours first."""
    if value not in choices:
        return list(choices)
    here = choices.index(value)
    return [choices[i] for i in sorted(range(len(choices)), key=lambda i: (abs(i - here), i)) if i != here]


@dataclasses.dataclass
class TuningTable:
    """A variant's table, what its rows depend on, and the cases that have them."""

    problem: Problem
    variant: str
    submission: Submission
    path: str  # of the table
    text: str  # of the submission, as it is tried
    table: Table
    caches: Caches  # as the harness leaves them
    triton: str
    setting: Setting
    found: list[Row] = dataclasses.field(default_factory=list)  # by searches of its other cases


def tables_of(problem: Problem, variant: str | None, triton: str | None, root: Path) -> list[TuningTable]:
    """Of the problem's variants those with a table for its card."""
    found: list[TuningTable] = []
    assert problem.arch is not None
    device = resolve(problem.arch, problem.arch)
    harness, _ = choose_harness(problem, None)
    for name, made in variants_of(problem, root).items():
        if variant not in (None, name):
            continue
        submission, path = generate(problem, name, root), table_path(made.path)
        text = submission.text
        if (root / path).is_file():
            table = read_table(root, path, device.arch)
        elif (root / header.path_of(path)).is_file():
            path = header.path_of(path)
            table, text = header.read_table((root / path).read_text(encoding="utf-8"), path), header.for_trials(text)
        else:
            continue
        if not table.space:
            print(f"{path}: states no SPACE for {device.arch}: left as it is")
            continue
        version = compilers.triton_for(triton, problem, True, submission.text.encode())
        shown = triton_versions.installed_version() if version == triton_versions.INSTALLED else version
        made_by = hip_compiler() if "cpp_extension" in text else f"triton {shown}"
        setting = Setting(problem.name, name, digest_of_sources(submission, path), device.label, device.arch, made_by)
        plan = EvalPlan("benchmark", problem, text.encode(), harness, device, [], None, ROW_TIMEOUT_S)
        found.append(TuningTable(problem, name, submission, path, text, table, plan.caches, version, setting))
    return found


def candidates(table: Table, row: Row, found: Sequence[Row] | None) -> list[Row]:
    """What is tried beside a row: its neighbours in each column; at first the commonest other rows as well, and those
    that searches of other cases have found."""
    rows: list[Row] = []
    if found is not None:
        counts = {repr(other): list(table.rows.values()).count(other) for other in table.rows.values()}
        common = sorted(table.rows.values(), key=lambda other: -counts[repr(other)])
        rows += found
        rows += [other for i, other in enumerate(common) if other not in common[:i] and other != row][:OTHERS]
    for column, choices in table.space.items():
        near = outwards(row.get(column), choices)
        rows += [{**row, column: value} for value in near[:2]]
    return [other for i, other in enumerate(rows) if other != row and other not in rows[:i]]


def spec_of(case: Case) -> str:
    return "; ".join(f"{name}: {value}" for name, value in case.items())


class CaseSearch:
    """One case: rows are tried in steps, from the row in force outwards."""

    def __init__(self, table: TuningTable, case: Case, log: TrialsLog, claimed: set[tuple[str, str]]) -> None:
        self.of, self.case, self.log, self.claimed = table, case, log, claimed
        self.spec = spec_of(case)
        self.key: str | None = None

    def run(self, where: Cluster, deadline: float | None) -> None:
        if all((self.of.path, repr(key)) in self.claimed for key in self.of.table.rows):
            return
        self.step(where, deadline, [{}])
        start = self.log.known(self.spec, None)
        if start is None or start.key is None:
            return
        self.key = start.key
        # One row of a table serves several cases, and others none: a test's shape often takes DEFAULT.
        place = (self.of.path, self.key)
        row = next((row for key, row in self.of.table.rows.items() if repr(key) == self.key), None)
        if row is None or place in self.claimed:
            return
        self.claimed.add(place)
        smaller = SMALLER.get(self.of.problem.name)
        if smaller is None:
            first = self.descend(where, deadline, row)[:1]
        else:
            small = CaseSearch(self.of, {**self.case, **smaller}, self.log, self.claimed)
            small.step(where, deadline, [{}])
            as_it_is = self.log.known(small.spec, None)
            if as_it_is is None or as_it_is.key is None:
                return
            small.key = as_it_is.key
            small.step(where, deadline, [row])
            by_time = {small.us(one): one for one in reversed(small.descend(where, deadline, row))}
            finalists = [by_time[us] for us in sorted(filter(None, by_time))][:FINALISTS]  # one of those that are alike
            self.step(where, deadline, [one for one in finalists if one != row])
            first = self.ranked([row, *finalists])[:1]
        self.of.found.extend(one for one in first if one != row)

    def descend(self, where: Cluster, deadline: float | None, row: Row) -> list[Row]:
        """What was tried and works, the fastest first: neighbours of the row, then of the best until none is faster."""
        tried, best = [row], row
        found: Sequence[Row] | None = self.of.found
        while deadline is None or time.monotonic() < deadline:
            rows = candidates(self.of.table, best, found)
            found = None
            self.step(where, deadline, rows)
            tried += [other for other in rows if other not in tried]
            leader, us = next(iter(self.ranked(tried)), best), self.us(best)
            if leader == best or us is not None and not beats(self.us(leader) or us, us):
                break
            best = leader
        return self.ranked(tried)

    def us(self, row: Row) -> float | None:
        """Of the row in force as well, which is tried as the submission is."""
        trials = [self.log.known(self.spec, row)]
        if self.key is not None and self.of.table.rows.get(ast.literal_eval(self.key)) == row:
            trials.append(self.log.known(self.spec, None))
        return next((us for trial in trials if trial and (us := trial.us(CLOCK)) is not None), None)

    def ranked(self, rows: Sequence[Row]) -> list[Row]:
        times = [(us, place) for place, row in enumerate(rows) if (us := self.us(row)) is not None]
        return [rows[place] for _, place in sorted(times)]

    def step(self, where: Cluster, deadline: float | None, rows: Sequence[Row]) -> None:
        """Tries the rows that the journal does not have."""
        new = [row for row in rows if self.log.known(self.spec, row or None) is None]
        of = self.of
        sweeps = [
            Sweep(of.problem.name, of.text, of.triton, of.caches, dict(self.case), self.key, part, ROW_TIMEOUT_S)
            for part in (tuple(new[i : i + AT_ONCE]) for i in range(0, len(new), AT_ONCE))
        ]
        if deadline is not None and time.monotonic() > deadline:
            return
        for job, outcomes in where.results(sweep, sweeps, deadline):
            for row, outcome in zip(job.rows, outcomes or [lost() for _ in job.rows]):
                self.note(row, outcome)

    def note(self, row: Row, outcome: Outcome) -> None:
        keys = [key for key in outcome.keys if self.key is None or key == self.key]
        key = keys[-1] if keys else header.key_of(self.case) if self.of.path.endswith(".h") else None
        trial = Trial(self.spec, row or None, outcome.status, outcome.message, key, modelled_us=outcome.us.get(CLOCK))
        self.log.end(trial)
        told = f"{number(trial.us(CLOCK), 5)} us modelled" if trial.us(CLOCK) else f"{trial.status}: {trial.message}"
        shown = " ".join(f"{column}={value}" for column, value in row.items()) or "as it is"
        print(f"{self.of.problem.name} {self.of.variant} {key}: {shown}: {told}", flush=True)


def search(tables: Sequence[TuningTable], logs: dict[str, TrialsLog], where: Cluster, end: float | None) -> None:
    """All cases of all tables, as many at a time as there are workers: benchmarks come first, then the first tables.
    Where cases share a row, the first one decides."""
    claimed: set[tuple[str, str]] = set()
    cases = [(table, case) for table in tables for case in table.problem.benchmarks]
    cases += [(table, case) for table in tables for case in table.problem.tests]
    searches = [CaseSearch(table, case, logs[table.path], claimed) for table, case in cases]
    with ThreadPoolExecutor(max(1, where.workers())) as pool:
        waiting: set[Future[None]] = {pool.submit(one.run, where, end) for one in searches}
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


# ---------------------------------------------------------------- what came of it


def new_rows(table: TuningTable, log: TrialsLog) -> list[NewRow]:
    """The rows that were decided: faster ones, such as took the place of one that spills or does not work, and those
    in force that nothing beside them beat, which get a comment that says so."""
    rows: dict[Any, NewRow] = {}
    cases = dict.fromkeys(map(spec_of, (*table.problem.benchmarks, *table.problem.tests)))
    for alike in by_key(log, list(cases)):
        best: Best | None = best_of(log, alike, CLOCK)
        if best is None or best.key in rows or best.key not in table.table.rows or best.tried < ENOUGH:
            continue
        if best.row is None:
            best = dataclasses.replace(best, row=table.table.rows[best.key], before_us=None)
        assert best.row is not None
        rows[best.key] = NewRow(best.key, best.row, note_of(best, log.setting, CLOCK))
    return list(rows.values())


def finish(table: TuningTable, log: TrialsLog, root: Path, write: bool) -> None:
    rows = new_rows(table, log)
    if write and rows:
        file = root / table.path
        text = file.read_text(encoding="utf-8")
        put = header.with_rows if table.path.endswith(".h") else with_rows
        file.write_text(put(text, table.path, rows), encoding="utf-8")
    changed = [row for row in rows if row.row != table.table.rows[row.key]]
    print(f"{table.path}: of {len(table.table.rows)} rows {len(rows)} decided, {len(changed)} changed")
    for row in changed:
        print(f"  {row.key}: {row.row}  # {row.note}")


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="python -m lab.tuning_tables", description="Make tuning tables anew by the time model, offline.")
    p.add_argument("problems", metavar="PROBLEM", nargs="*", help="leaderboard names, in this order (default: all)")
    p.add_argument("--variant", metavar="V", help="only this variant of each")
    where = p.add_mutually_exclusive_group()
    where.add_argument("--jobs", type=int, metavar="N", help="processes on this machine (default: one for each core)")
    where.add_argument("--scheduler", metavar="ADDRESS", help="the workers of this Dask cluster instead")
    p.add_argument("--minutes", type=float, metavar="M", help="stop after M minutes (0: only read the journal)")
    p.add_argument("--journal", type=Path, metavar="FILE", default=Path("tables.jsonl"), help="default: %(default)s")
    p.add_argument("--write", action="store_true", help="write what was decided into the tables")
    compilers.add_option(p)
    return p


def main(argv: list[str], root: Path = ROOT) -> int:
    try:
        return _main(parser().parse_args(argv), root)
    except (ClusterError, GenerationError, TrialsLogError, TuningError, *BAD_INPUT) as error:
        print(f"tuning_tables: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        print("stopped: call again to go on", file=sys.stderr)
        return EXIT_INTERRUPTED


def _main(args: argparse.Namespace, root: Path) -> int:
    if args.jobs is not None and args.jobs < 1 or args.minutes is not None and args.minutes < 0:
        raise UsageError("--jobs is at least 1, --minutes not negative")
    end = None if args.minutes is None else time.monotonic() + 60 * args.minutes
    names = args.problems or [entry.name for entry in own_entries()]
    tables = [table for name in names for table in tables_of(find_problem(name), args.variant, args.triton, root)]
    if not tables:
        raise UsageError(f"{' '.join(names)}: no variant{f' {args.variant}' if args.variant else ''} with a table")
    if args.minutes == 0:
        logs = journals_of(tables, args.journal)
    else:
        logs = {table.path: TrialsLog(args.journal, table.setting) for table in tables}
        for table in tables if args.scheduler is None else ():  # brought once, and refused in one line
            triton_versions.folder_of(table.triton, compilers.reason(args.triton, table.problem))
        with cluster(args.scheduler, args.jobs or local_workers(True)) as where:
            search(tables, logs, where, end)
    for table in tables:
        if table.path in logs:
            finish(table, logs[table.path], root, args.write)
    return EXIT_PASS


def journals_of(tables: Sequence[TuningTable], journal: Path) -> dict[str, TrialsLog]:
    """What a journal that was made elsewhere has of the tables; TuningError if it has nothing of any."""
    logs, lacking = {}, TuningError("")
    for table in tables:
        try:
            setting = latest_setting(journal, table.problem.name, table.variant)
        except TuningError as error:
            lacking = error
            continue
        if setting.sources != table.setting.sources:
            print(f"warning: {table.path}: the journal's rows were modelled with other sources than are here now")
        logs[table.path] = TrialsLog(journal, setting)
    if not logs:
        raise lacking
    return logs


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
