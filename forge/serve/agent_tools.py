"""What an agent may ask of this repository, each answered in lines that fit a context window, with where to look next.

A submission is text, a file below the folder that the server was started in, or the name of an earlier one. None runs
in this process."""

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from forge.bulk.judge import Judge
from forge.bulk.verdict import BadRequest, Verdict
from forge.commands import texts
from forge.commands.outcome import compact, source_lines
from forge.console import CONTROL, aligned, number
from forge.device.report import CaseReport
from forge.generate.pysource import GenerationError
from forge.generate.skeleton import LANGUAGES, skeleton
from forge.generate.submission import MOST_BYTES, directives, read_source
from forge.history.compare import Side, check_pair, lines_of
from forge.history.document import Document, ResultError
from forge.judge.confinement import COMMAND
from forge.judge.plan import BAD_INPUT
from forge.task.cases import case_text
from forge.task.harness import HARNESSES
from forge.task.problem import ROOT, description_of, find_problem, own_entries
from forge.task.score import rank_score

MOST_LINES, MOST_CHARS, MOST_KEPT, MOST_GAINS = 56, 240, 500, 6
CHECK_ENDS_S = 1800.0
ERRORS = (BadRequest, GenerationError, ResultError, *BAD_INPUT)


def short(lines: Iterable[str], then: str) -> str:
    """At most so many lines, harmless to who reads them, and where to look next."""
    told = [CONTROL.sub("", part)[:MOST_CHARS] for line in lines for part in line.splitlines()]
    more = [f"... and {len(told) - MOST_LINES} more lines"] if len(told) > MOST_LINES else []
    return "\n".join([*told[:MOST_LINES], *more, f"next: {then}"])


def ended(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Exit code and words of a program, of which nothing is left behind."""
    with tempfile.TemporaryFile() as words:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, env=environment, start_new_session=True
        )
        try:
            code = process.wait(CHECK_ENDS_S)
        except subprocess.TimeoutExpired:
            raise BadRequest(f"no end after {CHECK_ENDS_S:g} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        words.seek(0)
        return code, words.read().decode(errors="replace")


class Tools:
    """For one thread at a time: each call waits for the one before."""

    def __init__(self, judge: Judge, problem: str = "") -> None:
        self.judge, self.problem, self.lock = judge, problem, threading.Lock()
        self.sources: dict[str, bytes] = {}
        self.verdicts: dict[tuple[str, str, str, str], Verdict] = {}  # by submission, problem, mode and cases

    # ------------------------------------------------------------ what is asked of

    def named(self, submission: str) -> str:
        """The name under which a submission is known from now on."""
        if submission in self.sources:
            return submission
        if "\n" in submission:
            source = submission.encode(errors="surrogateescape")
        else:
            path, here = Path(submission).resolve(), Path.cwd()
            if path.suffix != ".py" or not path.is_relative_to(here):
                ways = f"its text, the name of an earlier one, or a .py file in {here}"
                raise BadRequest(f"{submission!r} is no submission: give {ways}")
            source = read_source(path)
        if len(source) > MOST_BYTES:
            raise BadRequest(f"{len(source) >> 20} MB: a submission has at most {MOST_BYTES >> 20}")
        name = hashlib.sha256(source).hexdigest()[:8]
        while len(self.sources) >= MOST_KEPT:
            self.sources.pop(next(iter(self.sources)))
        self.sources[name] = source
        return name

    def problem_of(self, problem: str, source: bytes = b"") -> str:
        """One of this repository's, or the server's own: an agent names no folder, whose code would run."""
        name = problem or self.problem or directives(source).leaderboard or ""
        if not name:
            raise BadRequest("which problem? list_problems has them")
        if name != self.problem and name not in {entry.name for entry in own_entries()}:
            raise BadRequest(f"unknown problem {name!r}: list_problems has them")
        return name

    def judged(self, name: str, problem: str, mode: str, cases: str) -> Verdict:
        """Once for each submission: the same answer is not got again."""
        asked = {"problem": self.problem_of(problem, self.sources[name]), "mode": mode, "cases": cases}
        key = (name, asked["problem"], mode, cases)
        with self.lock:
            if key not in self.verdicts:
                order = self.judge.order_of(
                    {"id": name, "source": self.sources[name].decode(errors="surrogateescape"), **asked}
                )
                verdict = self.judge.answer(order)
                if verdict.report is None:  # nothing to keep: it could not be judged
                    return verdict
                self.verdicts[key] = verdict
            return self.verdicts[key]

    # ------------------------------------------------------------ the tools

    def list_problems(self) -> str:
        """The problems that can be judged: name, GPUs, cases, and how they are ranked."""
        rows = [("problem", "GPUs", "tests", "benchmarks", "smoke", "ranked by")]
        for entry in own_entries():
            one = find_problem(entry.name)
            tests, benchmarks, smoke = (str(len(cases)) for cases in (one.tests, one.benchmarks, one.smoke))
            rows.append((one.name, " ".join(one.gpus), tests, benchmarks, smoke, one.ranking_by))
        return short(aligned(rows), "new_submission(problem) gives a file that passes, to begin from")

    def new_submission(self, problem: str = "", language: str = LANGUAGES[0]) -> str:
        """A submission's text that runs and passes, to begin from: the problem in torch, and a kernel that copies.
        language: triton or hip. The text is given whole, between two lines of dashes."""
        one = find_problem(self.problem_of(problem))
        if one.arch is None:
            raise BadRequest(f"{one.name}: names no GPU that we know")
        text = skeleton(one, language, one.arch, one.gpus, description_of(one))
        name = self.named(text)
        floors = one.floors
        needs = f"each case needs at least {floors.flops} FLOPs, {floors.hbm_bytes} bytes" if floors else ""
        then = "next: change custom_kernel, then test(submission='<the whole text>')"
        return f"submission {name}\n{needs}\n---\n{text}---\n{then}"

    def check(self, submission: str, problem: str = "") -> str:
        """Compiles every kernel at every configuration that the problem's cases choose, and runs none: registers,
        spills, LDS, waves per SIMD, and what KernelGuard says. Slow for many configurations, and for HIP."""
        name = self.named(submission)
        with tempfile.TemporaryDirectory(prefix="check-") as folder:
            path = Path(folder, "submission.py")
            path.write_bytes(self.sources[name])
            bounds = {"readable": ["/"], "writable": [folder]}
            command = [sys.executable, "-I", "-S", COMMAND, msgspec.json.encode(bounds).decode(), sys.executable]
            one = self.problem_of(problem, self.sources[name])
            command += [str(ROOT / "gen_submission.py"), one, "--check-file", str(path)]
            own = {"TRITON_CACHE_DIR": "triton", "TORCH_EXTENSIONS_DIR": "extensions", "CDNA_OWN_CACHE_DIR": "cdna"}
            kept = {name: f"{folder}/{place}" for name, place in own.items()}
            code, text = ended(command, {**os.environ, **kept})
        lines = [" ".join(line.split()) for line in text.splitlines()]
        return short([f"submission {name}: exit code {code}", *lines], f"test('{name}')")

    def test(self, submission: str, problem: str = "", cases: str = "all") -> str:
        """Judges it as the leaderboard's tests do, with all checks of the emulated card: the verdict, the first cause
        with its line, and one next step. cases: all, smoke, or positions as 0,3-5."""
        name = self.named(submission)
        verdict = self.judged(name, problem, "test", cases)
        return self.told(
            name, verdict, f"benchmark('{name}')", f"test with what is named above mended; submission {name}"
        )

    def benchmark(self, submission: str, problem: str = "", cases: str = "all") -> str:
        """Times of the benchmark cases: modelled on an emulated card, measured on a GPU; beside the speed of light."""
        name = self.named(submission)
        verdict = self.judged(name, problem, "benchmark", cases)
        report = verdict.report
        if report is None or not any(case.passed for case in report.cases):
            return self.told(name, verdict, "", f"test('{name}')")
        rows = [("case", "", "status", f"us {report.kind}", "bound", "of light")]
        for case in report.cases:
            us, time, light = report.us_of(case), report.modelled(case), case.floor and case.floor.light_us
            share = f"{light / us:.1%}" if light and us else ""
            bound = time.bound if time and case.passed else ""
            rows.append((str(case.index), case_text(case.spec), case.status.value, number(us, 5), bound, share))
        times = list(report.times_us.values())
        whole = [f"{report.ranking_by} of all: {number(rank_score(times, report.ranking_by), 5)} us"] * (
            len(times) == len(report.cases)
        )
        lines = [f"submission {name}: {verdict.status}", *aligned(rows, frozenset({0, 3})), *whole]
        lines += [verdict.message] if verdict.message else []
        return short(lines, f"profile('{name}', case=N) of the slowest; advise('{name}', case=N)")

    def profile(self, submission: str, problem: str = "", case: int = 0) -> str:
        """Where a benchmark case's time goes on an emulated card: each kernel's counters and its lines."""
        name, found, report = self.profiled(submission, problem, case)
        if report is None:
            return found
        told = report.cases[0]
        lines = texts.profile_lines(told.device_report, HARNESSES[report.harness].caches, report.device.arch)
        return short([f"submission {name}, {case_text(told.spec)}", *lines], f"advise('{name}', case={case})")

    def advise(self, submission: str, problem: str = "", case: int = 0) -> str:
        """What to change first in a benchmark case: known causes, the costliest lines, and what each would gain."""
        name, found, report = self.profiled(submission, problem, case)
        if report is None:
            return found
        source = self.sources[name].decode(errors="replace")
        lines = [f"submission {name}, {case_text(report.cases[0].spec)}"]
        for kernel, one in kernels_of(report.cases[0].device_report):
            work = one.work
            if isinstance(work, msgspec.UnsetType):
                continue
            gains = sorted((gain for gain in work.gains if gain.us > 0), key=lambda gain: -gain.us)[:MOST_GAINS]
            lines += [f"{kernel}: {one.launches} launches"] + [f"  {advice.text}" for advice in work.advice]
            for gain in gains:
                lines += [f"  {gain.us:.3g} us less without '{gain.reason}' at {gain.place}"]
                lines += [f"    {line}" for line in source_lines([gain.place], source)]
        if len(lines) == 1:
            lines.append(texts.NO_KERNEL)
        return short(lines, f"change that, test, then compare('{name}', '<the new one>')")

    def compare(self, a: str, b: str, problem: str = "", cases: str = "all") -> str:
        """Two submissions beside each other on the benchmarks: times, bounds, counters, findings, changed lines."""
        sides = []
        for one in (a, b):
            name = self.named(one)
            verdict = self.judged(name, problem, "benchmark", cases)
            if verdict.report is None:
                return self.told(name, verdict, "", f"test('{name}')")
            sides.append(Side(name, verdict.report, self.sources[name]))
        check_pair(sides[0], sides[1])
        return short(lines_of(sides[0], sides[1]), f"profile('{sides[1].name}', case=N) where it is slower")

    def explain_finding(self, finding: str) -> str:
        """What a check's finding means: its name (bounds, wait, race, ...) or its text."""
        page = (ROOT / "docs" / "emulated-device.md").read_text(encoding="utf-8").partition("## Checks")[2]
        rows = [line for line in page.splitlines() if line.startswith("| `")]
        kinds = {line.split("`")[1]: line.strip("| ").partition(" | ")[2] for line in rows}
        words = finding.lower()
        known = [kind for kind in kinds if kind in words] or [kind for kind in kinds if kind[:5] in words]
        if not known:
            return short(
                [f"no check of that name; there are: {', '.join(kinds)}"], "docs/emulated-device.md, section Checks"
            )
        told = [f"{kind}: {part.strip()}" for kind in known[:3] for part in kinds[kind].split(";")]
        examples = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
        for kind in known[:3]:
            section = examples.partition(f"## {kind}\n")[2].partition("\n## ")[0]
            told += [f"for example: {line.strip()}" for line in section.splitlines() if "// mended:" in line]
        return short(told, "docs/findings.md has that example's program; test(...) again once yours is mended")

    # ------------------------------------------------------------ what they share

    def told(self, name: str, verdict: Verdict, good: str, bad: str) -> str:
        if verdict.report is None:
            return short([f"submission {name}: {verdict.status}: {verdict.message}"], bad)
        lines = compact(verdict.report, name, self.sources[name].decode(errors="replace"))
        return short([f"submission {name}", *lines[:-1]], good if verdict.passed and good else bad)

    def profiled(self, submission: str, problem: str, case: int) -> tuple[str, str, Document | None]:
        name = self.named(submission)
        verdict = self.judged(name, problem, "profile", str(case))
        report = verdict.report
        if report is None or not report.cases or not report.cases[0].passed:
            return name, self.told(name, verdict, "", f"test('{name}')"), None
        return name, "", report


def kernels_of(report: CaseReport) -> list[tuple[str, Any]]:
    return [pair for part in report.by_rank[:1] for pair in part.kernels.items()]


NAMES = (
    "list_problems", "new_submission", "check", "test", "benchmark", "profile", "advise", "compare", "explain_finding",
)  # fmt: skip
