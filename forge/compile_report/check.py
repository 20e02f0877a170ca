"""`gen_submission.py --check`: compiles a submission with one version of Triton, or with several to compare."""

import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from forge.compile_report.findings import Findings, KernelRow
from forge.compile_report.report import (
    archs_of,
    configuration_of,
    constant_everywhere,
    look_at,
    merged,
    order_of,
    report,
    run_worker,
    use_of,
)
from forge.console import aligned, number
from forge.device import DeviceError, triton_versions
from forge.device.cards import CARDS
from forge.device.resources import FIGURES, KernelUse, figures, table
from forge.generate.pysource import GenerationError
from forge.history.document import read_result
from forge.judge.compilers import reason, triton_for
from forge.task.problem import ROOT, Problem


def check_submission(text: str, problem: Problem, out: TextIO, triton: str | None = None) -> int:
    """Print one line per compiled kernel of a submission's text; the exit code: 0, or 1 where one does not compile or
    does not fit. triton: versions to compile with, "3.6.0,3.7.1"; None: the leaderboard's."""
    if problem.arch not in CARDS:
        raise GenerationError(
            f"--check compiles for {', '.join(CARDS)}; {problem.name} is judged on {' '.join(problem.gpus)}"
        )
    versions = triton.split(",") if triton else [triton_for(None, problem, True, text.encode())]
    try:
        paths = {one: triton_versions.environment(one, reason(triton, problem)) for one in versions}
    except DeviceError as error:
        raise GenerationError(str(error)) from None
    problems = []
    for arch in archs_of(text, problem.arch):
        found = {version: run_worker(text, problem, arch, path) for version, path in paths.items()}
        problems += compare(found, arch, out) if len(found) > 1 else report(found[versions[0]], arch, out)
    if len(paths) > 1:
        print_modelled(text, problem, list(paths), out)
    for line in problems:
        print(f"gen_submission.py: {line}", file=sys.stderr)
    return 1 if problems else 0


def compare(found: dict[str, Findings], arch: str, out: TextIO) -> list[str]:
    """Print a table with a line per kernel and version, and return what is wrong, one line each."""
    kernels: dict[tuple[str, int], dict[str, KernelRow]] = {}
    wrong, remarks = [], []
    for version, findings in found.items():
        compiled = sorted(merged(findings.kernels), key=order_of)
        seen: Counter[str] = Counter()  # one configuration may be compiled more than once, for other alignments
        for row in compiled:
            name = f"{row.kernel} {configuration_of(row, {})}"
            kernels.setdefault((name, seen[name]), {})[version] = row
            seen[name] += 1
        found_wrong, said = look_at(findings, compiled, [use_of(row, {}) for row in compiled], arch)
        wrong += [f"Triton {version}: {line}" for line in found_wrong]
        remarks += [f"Triton {version}: {line}" for line in said]
    uses, changed = [], 0
    constant = constant_everywhere([row for by_version in kernels.values() for row in by_version.values()])
    for by_version in kernels.values():
        first = use_of(next(iter(by_version.values())), constant)
        for version, row in by_version.items():
            use = use_of(row, constant)
            labels = {**use.labels, "Triton": version}
            changes = _differences(arch, first, use)
            uses.append(replace(use, labels=labels, remarks={"differs in": changes, "cases": use.remarks["cases"]}))
            changed += bool(changes)
    if uses:
        compilers = dict.fromkeys(name for findings in found.values() for name in findings.compilers)
        print("\n".join(table(arch, uses, " and ".join(compilers))), file=out)
    print("\n".join([*remarks, f"{changed} of {len(kernels)} kernels differ from the first version"]), file=out)
    return wrong


def _differences(arch: str, first: KernelUse, other: KernelUse) -> str:
    """The names of the figures that are not those of the first version, but for the size of the code."""
    pairs = zip(FIGURES, figures(arch, first), figures(arch, other))
    return ", ".join(name for name, before, after in pairs if before != after and name != "code B")


def print_modelled(text: str, problem: Problem, versions: list[str], out: TextIO) -> None:
    """Print the modelled time of the problem's smoke cases, each version beside the first."""
    if problem.world_size > 1 or not problem.smoke or not (ROOT / "eval.py").is_file():
        why = "several ranks" if problem.world_size > 1 else "no smoke cases"
        print(f"modelled time: not here ({why}): eval.py benchmark {problem.name} --triton VERSION", file=out)
        return
    times = {version: _modelled_us(text, problem, version) for version in versions}
    rows = [("case", *(f"{version}, us" for version in versions), "ratio to the first")]
    for case in times[versions[0]]:
        us = [times[version].get(case) for version in versions]
        ratios = [f"{value / us[0]:.2f}" for value in us[1:] if value and us[0]]
        rows.append((case, *(number(value, 4) or "none" for value in us), " ".join(ratios)))
    print("modelled, not measured: kernels alone, caches as the harness leaves them", file=out)
    print("\n".join(aligned(rows, right=frozenset(range(1, len(versions) + 2)))), file=out)


def _modelled_us(text: str, problem: Problem, version: str) -> dict[str, float]:
    """Microseconds by case, of those smoke cases that pass."""
    with tempfile.TemporaryDirectory(prefix="check-") as folder:
        submission, result = Path(folder, "submission.py"), Path(folder, "result.json")
        submission.write_text(text, encoding="utf-8")
        command = [sys.executable, str(ROOT / "eval.py"), "benchmark", str(problem.directory), "--cases", "smoke"]
        command += ["--submission", str(submission), "--device", str(problem.arch), "--triton", version]
        subprocess.run([*command, "--json", str(result)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if not result.is_file():
            return {}
        document = read_result(result)
    return {case.spec: time.us for case in document.cases if (time := document.modelled(case))}
