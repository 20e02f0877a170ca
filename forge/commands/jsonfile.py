"""An evaluation as a program reads it: everything, with the machine and versions it was got on."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
import json
import math
import os
import platform
from pathlib import Path
from typing import Any

from forge.console import Parser, UsageError
from forge.device.cards import peaks_of
from forge.files import write_whole
from forge.history.schema import NOT_RUN
from forge.judge.compilers import made_by
from forge.judge.plan import EvalPlan
from forge.judge.results import CaseResult, Run
from forge.task.score import published_scores, work_of

SCHEMA = 1


def as_json(plan: EvalPlan, run: Run, exit_code: int, command: list[str]) -> dict[str, Any]:
    """The whole of a run. Times are in nanoseconds (`*_ns`) or microseconds (`*_us`) as their names say."""
    problem = plan.problem
    published = published_scores(problem, [(case.index, case.spec) for case in run.cases])
    return {
        "schema": SCHEMA,
        "command": command,
        "mode": run.mode,
        "verdict": run.verdict,  # pass; pass, but; fail; incomplete
        "exit_code": exit_code,
        "error": run.error,
        "score_us": run.score_us(problem.ranking_by),
        "ranking_by": problem.ranking_by,
        "published": [{**dataclasses.asdict(row), "score_us": us} for row, us in published],
        "problem": {"name": problem.name, "directory": str(problem.directory), "gpus": list(problem.gpus)},
        "harness": plan.harness.name,
        "device": {"name": plan.device.name, "arch": plan.device.arch, "emulated": plan.device.emulated},
        "seed": plan.seed,
        "timeout_s": plan.limit_s,
        "notes": run.notes,
        "buts": run.buts,
        "unconfined": run.unconfined,
        "warnings": run.warnings,
        "elapsed_s": run.elapsed_s,
        "broken": case_json(plan, run.broken) if run.broken else None,
        "not_official": plan.not_official,
        "cases": [case_json(plan, case) for case in run.cases],
        "fingerprint": fingerprint(plan, run),
    }


def case_json(plan: EvalPlan, case: CaseResult) -> dict[str, Any]:
    value = dataclasses.asdict(case)
    value["report"] = value.pop("device_report")
    value["status"] = case.status.value
    value["time"] = "emulated" if plan.device.emulated else "measured" if case.stats else None
    value["stats_ns"] = case.stats.by_key() if case.stats else None
    del value["stats"]
    args = next((spec.args for spec in plan.cases if spec.index == case.index), None)
    work = work_of(plan.problem.floors, args, peaks_of(plan.device.arch)) if args is not None else None
    value["floor"] = dataclasses.asdict(work) if work else None
    return value


def fingerprint(plan: EvalPlan, run: Run) -> dict[str, Any]:
    return {
        **run.fingerprint,  # the device's own, taken in a worker: torch, triton, GPU or emulated card
        "compilers": made_by(plan.problem, plan.device, plan.submission),
        "submission_sha256": hashlib.sha256(plan.submission).hexdigest(),
        "evaluator_sha256": _evaluator_digest(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _evaluator_digest() -> str:
    """Of our own sources: two results with the same value were judged by the same code."""
    digest, folder = hashlib.sha256(), Path(__file__).resolve().parents[1]
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def error_text(error: BaseException) -> str:
    """What ended a command, in a line."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OSError) and error.strerror:  # a disk that is full, a path that is too long
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def write_not_run(argv: list[str], error: BaseException, exit_code: int) -> None:
    """What `--json` asks for where nothing came to be judged: whoever reads the file finds no run before this one in
    it. A file that holds no results stays: it may be what the error is about."""
    asked = Parser(add_help=False)
    asked.add_argument("--json", type=Path)
    with contextlib.suppress(UsageError, OSError, ValueError):
        path = asked.parse_known_args(argv)[0].json
        if path is not None and (not path.is_file() or "schema" in json.loads(path.read_text() or '"schema"')):
            document = {"schema": SCHEMA, "command": ["eval.py", *argv], "verdict": NOT_RUN, "exit_code": exit_code}
            write_json(path, {**document, "error": error_text(error), "cases": []})


def write_json(path: Path, value: dict[str, Any]) -> None:
    """All of it or nothing: whoever reads the file meanwhile finds the one before."""
    text = json.dumps(finite(value), indent=2, default=str) + "\n"
    if path.exists() and not path.is_file():  # /dev/stdout, a pipe
        path.write_text(text, encoding="utf-8")
        return
    try:
        write_whole(path, text)
    except OSError as error:
        raise UsageError(f"--json {path}: cannot be written: {error.strerror}") from None


def finite(value: Any) -> Any:
    """JSON has no infinity and no NaN: they become words."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value
