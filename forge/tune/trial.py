"""One trial of a file: a submission's text and a case, judged by eval.py in a process of its own.

Runs wherever a Dask worker is: it needs this package there, in the same version, and the problem by its name or path.
"""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from forge.history.document import Document, read_result
from forge.judge.worker import die_with_parent
from forge.tune.spaces import KEYS_FILE

VERSIONS = ("torch", "triton", "card", "model", "evaluator_sha256")  # of what a document was made with
GRACE_S = 120  # beside the limit of a case: to start, to make inputs, to compute the reference


@dataclass(frozen=True)
class Job:
    """What is judged, and how."""

    text: str
    case: str  # spec line
    problem: str  # a name, or a folder's path
    device: str
    timeout_s: float
    threads: int  # host threads of an emulated kernel


@dataclass(frozen=True)
class Outcome:
    status: str  # pass | fail | error | crash | timeout | ...
    message: str
    us: dict[str, float] = field(default_factory=dict)  # by clock: modelled, or b2b and harness
    keys: tuple[str, ...] = ()  # that TUNING was asked for, as Python spells them
    versions: dict[str, str] = field(default_factory=dict)  # of what times depend on


def run(job: Job) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="forge-trial-") as folder:
        path, result = Path(folder) / "submission.py", Path(folder) / "out.json"
        keys = Path(folder) / "keys"
        path.write_text(job.text.replace(KEYS_FILE, str(keys)), encoding="utf-8")
        case = job.case.replace("; ", ", ")
        words = ["benchmark", job.problem, "--submission", str(path), "--case", case, "--device", job.device]
        words += ["--json", str(result), "--no-history", "--timeout", f"{job.timeout_s:g}", "--no-accuracy"]
        # The environment's FORGE_TRITON, where set, is a worker's own choice.
        environment = {**os.environ, "CDNA_THREADS": str(job.threads), "OMP_NUM_THREADS": str(job.threads)}
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(Path(__file__).resolve().parents[2]), environment.get("PYTHONPATH")])
        )
        try:
            done = subprocess.run(
                [sys.executable, "-m", "forge", "eval", *words],
                env=environment,
                capture_output=True,
                text=True,
                timeout=3 * job.timeout_s + GRACE_S,
                preexec_fn=die_with_parent,
            )
        except subprocess.TimeoutExpired:
            return Outcome("timeout", f"no result after {3 * job.timeout_s + GRACE_S:g} s")
        if not result.is_file():
            last = (done.stderr.strip().splitlines() or [f"eval.py ended with exit code {done.returncode}"])[-1]
            return Outcome("refused", last.removeprefix("eval.py: "))
        asked = tuple(keys.read_text(encoding="utf-8").splitlines()) if keys.is_file() else ()
        return outcome_of(read_result(result), asked)


def outcome_of(document: Document, keys: tuple[str, ...]) -> Outcome:
    """Of a results document with one case."""
    case, made = document.cases[0], document.fingerprint
    us = document.us_of(case)
    times: dict[str, float] = {}
    if us is not None:
        times["modelled" if document.device.emulated else "harness"] = us
    if case.back_to_back and case.back_to_back.us:
        times["b2b"] = case.back_to_back.us
    versions = {name: told for name in VERSIONS if (told := getattr(made, name))}
    return Outcome(case.status.value, case.message, times, keys, versions)


def lost() -> Outcome:
    return Outcome("crash", "took several workers down")
