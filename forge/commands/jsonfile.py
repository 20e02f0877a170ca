"""An evaluation as a program reads it: everything, with the machine and versions it was got on."""

import contextlib
import datetime
import errno
import functools
import hashlib
import json
import os
import platform
from pathlib import Path

from msgspec import convert, structs

from forge.console import Parser, UsageError
from forge.device.release import release
from forge.files import write_whole
from forge.history import document as results
from forge.judge.compilers import made_by
from forge.judge.plan import EvalPlan
from forge.judge.results import CaseResult, Run
from forge.task.score import published_scores

SAME = ("error", "notes", "buts", "unconfined", "warnings", "elapsed_s")  # of a run and its document


def document_of(plan: EvalPlan, run: Run, exit_code: int, command: list[str]) -> results.Document:
    """The whole of a run."""
    problem = plan.problem
    published = published_scores(problem, [(case.index, case.spec) for case in run.cases])
    return results.Document(
        command=command,
        mode=convert(plan.mode, results.Mode),
        verdict=run.verdict,
        exit_code=exit_code,
        score_us=run.score_us(problem.ranking_by),
        ranking_by=convert(problem.ranking_by, results.Ranking),
        published=tuple(results.PublishedScore(score_us=us, **structs.asdict(row)) for row, us in published),
        problem=results.ProblemSaid(problem.name, str(problem.directory), problem.gpus),
        harness=plan.harness.name,
        clock=plan.clock,
        device=results.DeviceSaid(plan.device.name, plan.device.arch, plan.device.emulated),
        seed=plan.seed,
        timeout_s=plan.limit_s,
        **{name: getattr(run, name) for name in SAME},
        broken=case_of(plan, run.broken) if run.broken else None,
        not_official=plan.not_official,
        cases=tuple(case_of(plan, case) for case in run.cases),
        fingerprint=made_with(plan, run),
    )


def case_of(plan: EvalPlan, case: CaseResult) -> CaseResult:
    floor = next((plan.work_of(spec) for spec in plan.cases if spec.index == case.index), None)
    time = "emulated" if plan.device.emulated else "measured" if case.stats else None
    modelled = case.modelled_time(plan.caches) if plan.device.emulated else None
    seen = plan.clock.sees_us(modelled.us, modelled.low_us, modelled.high_us) if modelled else None
    return structs.replace(case, time=time, floor=floor, on_clock_us=round(seen[0], 3) if seen else None)


def made_with(plan: EvalPlan, run: Run) -> results.MadeWith:
    device = structs.asdict(run.fingerprint)  # taken in a worker
    return results.MadeWith(
        **device | {"python": platform.python_version()},
        compilers=made_by(plan.problem, plan.device, plan.submission),
        submission_sha256=hashlib.sha256(plan.submission).hexdigest(),
        evaluator_sha256=evaluator_digest(),
        release=release(),
        platform=platform.platform(),
        cores=os.cpu_count(),
        time=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


@functools.cache
def evaluator_digest() -> str:
    """Of our own sources, as this process has them: two results with the same value were judged by the same code."""
    digest, folder = hashlib.sha256(), Path(__file__).resolve().parents[1]
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def error_text(error: BaseException) -> str:
    """What ended a command, in a line."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OSError) and error.strerror:  # a disk that is full, a path that is too long
        full = " where things are built ($CDNA_CACHE_DIR) or temporary ($TMPDIR)" * (error.errno == errno.ENOSPC)
        return f"{error.filename}: {error.strerror}" if error.filename else f"{error.strerror}{full}"
    return str(error) or type(error).__name__


def write_not_run(argv: list[str], error: BaseException, exit_code: int) -> None:
    """What `--json` asks for where nothing came to be judged: whoever reads the file finds no run before this one in
    it. A file that holds no results stays: it may be what the error is about."""
    asked = Parser(add_help=False)
    asked.add_argument("--json", type=Path)
    with contextlib.suppress(UsageError, OSError, ValueError):
        path = asked.parse_known_args(argv)[0].json
        if path is not None and (not path.is_file() or "schema" in json.loads(path.read_text() or '"schema"')):
            write_json(path, results.NotRun(command=["eval.py", *argv], exit_code=exit_code, error=error_text(error)))


def write_json(path: Path, document: results.Document | results.NotRun) -> None:
    """All of it or nothing: whoever reads the file meanwhile finds the one before."""
    text = results.to_json(document)
    if path.exists() and not path.is_file():  # /dev/stdout, a pipe
        path.write_text(text, encoding="utf-8")
        return
    try:
        write_whole(path, text)
    except OSError as error:
        raise UsageError(f"--json {path}: cannot be written: {error.strerror}") from None
