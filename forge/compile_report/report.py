"""`gen_submission.py --check`: what a finished submission's kernels take of the problem's GPU, without one.

The compiling is done by worker.py in a process of its own; this starts it, reads its findings and prints them.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, TextIO

import msgspec
from msgspec.structs import replace

from forge.compile_report.findings import Findings, KernelRow, Progress, Request
from forge.device.cards import CARDS
from forge.device.resources import WAVE_LANES, KernelUse, lds_error, table
from forge.generate.pysource import GenerationError
from forge.task import json_lines
from forge.task.problem import ROOT, Case, Problem

# Importing makes no garbage, and looking for it takes a quarter of the time.
WORKER = "import gc; gc.disable(); from forge.compile_report.worker import main; main()"


def archs_of(text: str, arch: str) -> list[str]:
    """The problem's own arch, then others that a HIP build in the submission names beside it: "gfx942;gfx950"."""
    lists = re.findall(r"\bgfx\w+(?:[;,]gfx\w+)+", text)
    return list(dict.fromkeys([arch, *(name for one in lists for name in re.split("[;,]", one) if name in CARDS)]))


def cases_of(problem: Problem) -> dict[str, Case]:
    """Every case of the leaderboard by a short label; distributed ones as rank 0 sees them."""
    cases = {f"test {i}": case for i, case in enumerate(problem.tests)}
    cases |= {f"benchmark {i}": case for i, case in enumerate(problem.benchmarks)}
    ranks = {"rank": 0} if problem.world_size > 1 else {}
    return {label: {**ranks, **case} for label, case in cases.items()}


def run_worker(submission: str, problem: Problem, arch: str, environment: dict[str, str]) -> Findings:
    with tempfile.TemporaryDirectory(prefix="check-") as folder:
        for file in problem.files:
            target = Path(folder, file.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if file.source is None:
                target.write_text(submission, encoding="utf-8")
            elif file.source.is_file():
                shutil.copyfile(file.source, target)
        Path(folder, "submission.py").write_text(submission, encoding="utf-8")
        reader, writer = os.pipe()
        request = Request(arch, cases_of(problem), writer, problem.world_size)
        with tempfile.TemporaryFile("w+") as words:
            worker = start_worker(folder, words, writer, environment)
            os.close(writer)
            try:
                assert worker.stdin is not None
                with worker.stdin as stdin:
                    stdin.write(json_lines.encode(request).decode())
                found = _read(reader)
            finally:
                worker.kill()
                worker.wait()
            if found is None:
                words.seek(0)
                last = [line for line in words.read().splitlines() if line.strip()][-1:] or ["it said nothing"]
                raise GenerationError(f"--check: compiling ended with exit code {worker.returncode}: {last[0].strip()}")
            return found


def start_worker(folder: str, words: TextIO, descriptor: int, environment: dict[str, str]) -> subprocess.Popen[str]:
    """In that folder, with that descriptor beside its standard input and those variables; what it prints goes into
    words."""
    path = os.pathsep.join([str(ROOT), *filter(None, [environment.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", WORKER],
        cwd=folder,
        text=True,
        env={**os.environ, **environment, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=words,
        stderr=words,
        pass_fds=[descriptor],
    )


def _read(reader: int) -> Findings | None:
    """The worker's findings; None if it ended without any. Shows its progress to a person."""
    person = sys.stderr.isatty()
    findings = None
    with os.fdopen(reader) as lines:
        for line in lines:
            told = msgspec.json.decode(line, type=Progress | Findings)
            if isinstance(told, Findings):
                findings = told
                break
            if person:
                print(f"\r\033[Kcompiling: {told.what}", end="", file=sys.stderr, flush=True)
    if person:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    return findings


def report(found: Findings, arch: str, out: TextIO) -> list[str]:
    """Print the table and return what is wrong, one line each."""
    compiled = sorted(merged(found.kernels), key=order_of)
    constant = constant_everywhere(compiled)
    uses = [use_of(row, constant) for row in compiled]
    if compiled:
        print("\n".join(table(arch, uses, " and ".join(found.compilers))), file=out)
    wrong, remarks = look_at(found, compiled, uses, arch)
    if remarks:
        print("\n".join(remarks), file=out)
    return wrong


def look_at(
    found: Findings, compiled: list[KernelRow], uses: list[KernelUse], arch: str
) -> tuple[list[str], list[str]]:
    """What is wrong with the compiled kernels, and what else is to be said of them: spills, notes. One line each."""
    wrong, remarks = [], []
    for failure in found.failures:
        if failure.kernel:
            wrong.append(f"{failure.kernel} does not compile for {arch} ({_some(failure.cases)}): {failure.error}")
    for row, use in zip(compiled, uses):
        taken = row.resources
        configuration = configuration_of(row, {})
        who = f"{row.place + ': ' if row.place else ''}{row.kernel} ({configuration})"
        if error := lds_error(arch, who, use):
            wrong.append(error)
        if row.threads > taken.max_threads:
            wrong.append(f"{who} is compiled for at most {taken.max_threads} threads (__launch_bounds__)")
        if taken.vgpr_spills or taken.sgpr_spills:
            remarks.append(
                f"spills: {row.kernel} ({configuration}): {taken.vgpr_spills} vector and "
                f"{taken.sgpr_spills} scalar registers, {taken.scratch_bytes} bytes of scratch per lane"
            )
        wrong += [f"{who}: {line}" for line in row.wrong]
        remarks += [f"waits and hazards: {who}: undecided: {line}" for line in row.undecided]
    proven = sum(not row.wrong and not row.undecided for row in compiled)
    remarks += [f"waits and hazards on every path: {proven} of {len(compiled)} kernels proven"] * bool(compiled)
    wrong += [
        f"{failure.error} ({_some(failure.cases)})" if failure.cases else failure.error
        for failure in found.failures
        if not failure.kernel
    ]
    return wrong, remarks + [f"note: {note}" for note in found.notes]


def merged(rows: list[KernelRow]) -> list[KernelRow]:
    """One of lines that would read the same: another alignment of an argument compiles a kernel anew."""
    by_content: dict[str, KernelRow] = {}
    for row in rows:
        known = by_content.setdefault(
            repr(replace(row, cases=[], compile_s=None)), replace(row, cases=[], compile_s=None)
        )
        known.cases += [case for case in row.cases if case not in known.cases]
        if row.compile_s is not None:
            known.compile_s = (known.compile_s or 0) + row.compile_s
    return list(by_content.values())


def use_of(row: KernelRow, constant: dict[str, set[str]]) -> KernelUse:
    compile_time = "cached" if row.compile_s is None else f"{row.compile_s:.2f} s"
    return KernelUse(
        row.resources,
        min(row.threads, row.resources.max_threads),
        row.dynamic_lds_bytes,
        {"kernel": row.kernel, "configuration": configuration_of(row, constant)},
        {"compile": compile_time, "cases": _some(row.cases)},
    )


def order_of(row: KernelRow) -> tuple[Any, ...]:
    """By kernel, then by its compile-time arguments as numbers where they are numbers."""
    values = [(0, int(v), "") if v.isdecimal() else (1, 0, v) for v in row.constants.values()]
    return row.kernel, len(values), values, row.threads, row.stages or 0


def configuration_of(row: KernelRow, constant: dict[str, set[str]]) -> str:
    """The kernel's compile-time arguments that differ between its lines, and how it is launched."""
    if row.stages is None:  # HIP: template arguments have places, no names
        arguments = ", ".join(row.constants.values())
        return f"<{arguments}> threads={row.threads}" if arguments else f"threads={row.threads}"
    left_out = constant.get(row.kernel, set())
    values = [f"{name}={value}" for name, value in row.constants.items() if name not in left_out]
    return " ".join([*values, f"warps={row.threads // WAVE_LANES}", f"stages={row.stages}"])


def constant_everywhere(rows: list[KernelRow]) -> dict[str, set[str]]:
    """By kernel, the compile-time arguments that are the same in each of several lines."""
    same: dict[str, set[str]] = {}
    for kernel in {row.kernel for row in rows}:
        own = [row.constants for row in rows if row.kernel == kernel]
        same[kernel] = {n for n in own[0] if len(own) > 1 and all(c.get(n) == own[0][n] for c in own)}
    return same


def _some(cases: list[str]) -> str:
    if not cases:
        return "none"
    return cases[0] if len(cases) == 1 else f"{cases[0]} and {len(cases) - 1} more"
