"""`gen_submission.py --check`: what a finished submission's kernels take of the problem's GPU, without one.

The compiling is done by check_worker.py in a process of its own; this reads its findings and prints them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, TextIO

from forge.console import aligned
from forge.device.cards import CARDS
from forge.device.resources import waves_per_simd
from forge.generate.pysource import GenerationError
from forge.generate.render import Submission
from forge.task.problem import ROOT, Problem

HEADER = (
    "kernel",
    "configuration",
    "VGPR",
    "AGPR",
    "SGPR",
    "spills V/S",
    "scratch B",
    "LDS B st/dyn",
    "waves/SIMD",
    "MFMA",
    "code B",
    "compile",
    "cases",
)
RIGHT = frozenset(range(2, 12))
# Importing makes no garbage, and looking for it takes a quarter of the time.
WORKER = "import gc; gc.disable(); from forge.compile_report.worker import main; main()"


def check_submission(submission: Submission, problem: Problem, out: TextIO) -> int:
    """Print one line a compiled kernel; the exit code: 0, or 1 where one does not compile or does not fit."""
    if problem.arch not in CARDS:
        raise GenerationError(
            f"--check compiles for {', '.join(CARDS)}; {problem.name} is judged on {' '.join(problem.gpus)}"
        )
    problems = []
    for arch in archs_of(submission.text, problem.arch):
        problems += report(_run_worker(submission, problem, arch), arch, out)
    for line in problems:
        print(f"gen_submission.py: {line}", file=sys.stderr)
    return 1 if problems else 0


def archs_of(text: str, arch: str) -> list[str]:
    """The problem's own arch, then others that a HIP build in the submission names beside it: "gfx942;gfx950"."""
    lists = re.findall(r"\bgfx\w+(?:[;,]gfx\w+)+", text)
    return list(dict.fromkeys([arch, *(name for one in lists for name in re.split("[;,]", one) if name in CARDS)]))


def cases_of(problem: Problem) -> dict[str, dict[str, Any]]:
    """Every case of the leaderboard by a short label; distributed ones as rank 0 sees them."""
    cases = {f"test {i}": case for i, case in enumerate(problem.tests)}
    cases |= {f"benchmark {i}": case for i, case in enumerate(problem.benchmarks)}
    ranks = {"rank": 0} if problem.world_size > 1 else {}
    return {label: {**ranks, **case} for label, case in cases.items()}


def _run_worker(submission: Submission, problem: Problem, arch: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="check-") as folder:
        for file in problem.files:
            target = Path(folder, file.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if file.source is None:
                target.write_text(submission.text, encoding="utf-8")
            elif file.source.is_file():
                shutil.copyfile(file.source, target)
        Path(folder, "submission.py").write_text(submission.text, encoding="utf-8")
        reader, writer = os.pipe()
        request = {
            "arch": arch,
            "cases": cases_of(problem),
            "descriptor": writer,
            "ranks": problem.world_size,
        }
        with tempfile.TemporaryFile("w+") as words:
            worker = start_worker(folder, words, writer)
            os.close(writer)
            try:
                assert worker.stdin is not None
                with worker.stdin as stdin:
                    json.dump(request, stdin)
                found = _read(reader)
            finally:
                worker.kill()
                worker.wait()
            if found is None:
                words.seek(0)
                last = [line for line in words.read().splitlines() if line.strip()][-1:] or ["it said nothing"]
                raise GenerationError(f"--check: compiling ended with exit code {worker.returncode}: {last[0].strip()}")
            return found


def start_worker(folder: str, words: TextIO, descriptor: int) -> subprocess.Popen[str]:
    """In that folder, with that descriptor beside its standard input; what it prints goes into words."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", WORKER],
        cwd=folder,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=words,
        stderr=words,
        pass_fds=[descriptor],
    )


def _read(reader: int) -> dict[str, Any] | None:
    """The worker's findings; None if it ended without any. Shows its progress to a person."""
    person = sys.stderr.isatty()
    findings = None
    with os.fdopen(reader) as lines:
        for line in lines:
            message = json.loads(line)
            if "progress" not in message:
                findings = message
                break
            if person:
                print(f"\r\033[Kcompiling: {message['progress']}", end="", file=sys.stderr, flush=True)
    if person:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    return findings


def report(found: dict[str, Any], arch: str, out: TextIO) -> list[str]:
    """Print the table and return what is wrong, one line each."""
    compiled = merged([row for row in found["kernels"] if "error" not in row])
    failed = [row for row in found["kernels"] if "error" in row]
    compiled.sort(key=_order)
    if compiled:
        print(f"compiled for {arch}; modelled from the assembly, not measured", file=out)
        constant = _constant_everywhere(compiled)
        for line in aligned([HEADER, *(_cells(row, arch, constant) for row in compiled)], RIGHT):
            print(line, file=out)
    wrong = [f"{row['kernel']} does not compile for {arch} ({_some(row['cases'])}): {row['error']}" for row in failed]
    limit = CARDS[arch].lds_bytes
    for row in compiled:
        lds_bytes = row["lds_static_bytes"] + row["lds_dynamic_bytes"]
        place = f"{row['place']}: " if row.get("place") else ""
        who = f"{place}{row['kernel']} ({_configuration(row, {})})"
        if lds_bytes > limit:
            wrong.append(f"{who} takes {lds_bytes} bytes of LDS a workgroup; {arch} has {limit}")
        if row.get("threads", 0) > row.get("max_threads", 0):
            wrong.append(f"{who} is compiled for at most {row['max_threads']} threads (__launch_bounds__)")
        if row["vgpr_spills"] or row["sgpr_spills"]:
            print(
                f"spills: {row['kernel']} ({_configuration(row, {})}): {row['vgpr_spills']} vector and "
                f"{row['sgpr_spills']} scalar registers, {row['scratch_bytes']} bytes of scratch a lane",
                file=out,
            )
    for note in found["notes"]:
        print(f"note: {note}", file=out)
    return wrong + [
        f"{row['error']} ({_some(row['cases'])})" if row["cases"] else row["error"] for row in found["errors"]
    ]


def merged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One of lines that would read the same: another alignment of an argument compiles a kernel anew."""
    by_content: dict[str, dict[str, Any]] = {}
    for row in rows:
        content = json.dumps({k: v for k, v in row.items() if k not in ("cases", "compile_s")}, sort_keys=True)
        known = by_content.setdefault(content, {**row, "cases": [], "compile_s": None})
        known["cases"] += [case for case in row["cases"] if case not in known["cases"]]
        if row["compile_s"] is not None:
            known["compile_s"] = (known["compile_s"] or 0) + row["compile_s"]
    return list(by_content.values())


def _cells(row: dict[str, Any], arch: str, constant: dict[str, set[str]]) -> tuple[str, ...]:
    lds_bytes = row["lds_static_bytes"] + row["lds_dynamic_bytes"]
    waves = waves_per_simd(arch, row["vgprs"], row["sgprs"], lds_bytes, row["warps"])
    return (
        row["kernel"],
        _configuration(row, constant),
        str(row["vgprs"]),
        str(row["agprs"]),
        str(row["sgprs"]),
        f"{row['vgpr_spills']}/{row['sgpr_spills']}",
        f"{row['scratch_bytes']}",
        f"{row['lds_static_bytes']}/{row['lds_dynamic_bytes']}",
        f"{waves:g}",
        str(row["matrix_instructions"]),
        str(row["code_bytes"]),
        "cached" if row["compile_s"] is None else f"{row['compile_s']:.2f} s",
        _some(row["cases"]),
    )


def _order(row: dict[str, Any]) -> tuple[Any, ...]:
    """By kernel, then by its compile-time arguments as numbers where they are numbers."""
    values = [(0, int(v), "") if v.isdecimal() else (1, 0, v) for v in row["constants"].values()]
    return row["kernel"], len(values), values, row["warps"], row["stages"]


def _configuration(row: dict[str, Any], constant: dict[str, set[str]]) -> str:
    """The kernel's compile-time arguments that differ between its lines, and how it is launched."""
    if "threads" in row:  # HIP: template arguments have places, no names
        arguments = ", ".join(row["constants"].values())
        return f"<{arguments}> threads={row['threads']}" if arguments else f"threads={row['threads']}"
    left_out = constant.get(row["kernel"], set())
    values = [f"{name}={value}" for name, value in row["constants"].items() if name not in left_out]
    return " ".join([*values, f"warps={row['warps']}", f"stages={row['stages']}"])


def _constant_everywhere(rows: list[dict[str, Any]]) -> dict[str, set[str]]:
    """By kernel, the compile-time arguments that are the same in each of several lines."""
    same: dict[str, set[str]] = {}
    for kernel in {row["kernel"] for row in rows}:
        own = [row["constants"] for row in rows if row["kernel"] == kernel]
        same[kernel] = {n for n in own[0] if len(own) > 1 and all(c.get(n) == own[0][n] for c in own)}
    return same


def _some(cases: list[str]) -> str:
    if not cases:
        return "none"
    return cases[0] if len(cases) == 1 else f"{cases[0]} and {len(cases) - 1} more"
