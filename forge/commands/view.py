"""An evaluation as a person sees it: progress while it runs, one aligned line per case, the score."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from typing import Any

import rich.console
from rich.live import Live
from rich.text import Text

from forge.commands.torch_profile import torch_lines
from forge.console import CONTROL, harmless, number
from forge.device.cards import peaks_of
from forge.judge.compilers import compiled_with
from forge.judge.plan import EvalPlan
from forge.judge.results import Accuracy, CaseResult, Run, Status, modelled_text, modelled_time, time_texts, total
from forge.task.cases import CaseSpec, case_text
from forge.task.score import Work, published_scores, rank_score, work_of

STYLES = {
    Status.PASS: "green",
    Status.SAMPLED: "yellow",
    Status.FAIL: "bold red",
    Status.ERROR: "bold red",
    Status.CRASH: "bold red",
    Status.TIMEOUT: "bold yellow",
    Status.TAMPERED: "bold magenta",
    Status.NOT_RUN: "dim",
}
BUT, STATUS_WIDTH = "pass, but", 9
MESSAGE_LINES = 4  # of what an official check says: some print whole tensors
PLACES, NUMBERS = re.compile(r"/run\d+/|0x[0-9a-f]+"), re.compile(r"0x[0-9a-f]+|\d+")  # that differ from case to case

BACK_TO_BACK_TEXT = "b2b us: mean per call of 20 back-to-back calls (GPU events, slowest rank, warm caches); not scored"
HOST_TEXT = "host us: how long one of these calls keeps its thread until it returns (mean, slowest rank)"


def modelled_means(caches: str) -> str:
    return (
        f"modelled us: what Triton and HIP kernels executed, over the card's rates, caches {caches}; ~: with torch's "
        "own operations, at what they cannot be below; no measurement and no score (docs/time-model.md)"
    )


class Console(rich.console.Console):
    """One that goes on when nobody reads it any more: the JSON file and the exit code remain."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.close(nothing)


def verdict_style(run: Run) -> str:
    return ("bold yellow" if run.doubted else "bold green") if run.passed else "bold red"


def clock_text(plan: EvalPlan) -> str:
    """What the harness's clock is."""
    harness = plan.harness
    caches = "caches flushed before" if harness.l2_flush_bytes else "caches warm"
    if plan.grouped:
        clock = "rank 0's host clock from barrier to barrier, the input's copy included"
    elif harness.clock == "events":
        clock = "events around one call"
    else:
        clock = "host clock around one call and its synchronize"
    return f"us: harness {harness.name}'s clock: {clock}, {caches}, mean"


class View:
    """A Listener that prints a line per case and, on a terminal, keeps a live one below them."""

    back_to_back_texts: tuple[str, ...] = (BACK_TO_BACK_TEXT, HOST_TEXT)

    def __init__(self, console: Console, plan: EvalPlan, show_output: bool) -> None:
        self.console, self.plan, self.show_output = console, plan, show_output
        self.timed = not plan.device.emulated and plan.mode in ("benchmark", "leaderboard")
        self.back_to_back = self.timed and plan.mode == "benchmark"
        self.modelled = plan.device.emulated and plan.mode in ("benchmark", "profile")
        texts = [case_text(case.spec) for case in plan.cases]
        self.case_width = max(map(len, texts))
        self.index_width = len(str(max(case.index for case in plan.cases)))
        self.work: dict[int, Work | None] = {
            case.index: work_of(plan.problem.floors, case.args, peaks_of(plan.device.arch)) for case in plan.cases
        }
        self.position, self.count, self.label = 0, len(plan.cases), ""
        self.phase, self.seconds = "", 0.0
        self.started = time.monotonic()
        self.live: Live | None = None
        self.told: dict[str, int] = {}  # what was said of a case: of which

    # ------------------------------------------------------------ live

    def __enter__(self) -> View:
        if self.console.is_terminal:
            self.live = Live(get_renderable=self._status, console=self.console, refresh_per_second=8, transient=True)
            self.live.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        if self.live is not None:
            self.live.__exit__(*exc)
            self.live = None

    def _status(self) -> Text:
        total = time.monotonic() - self.started
        text = Text(f"case {self.position + 1}/{self.count}  ", style="cyan", no_wrap=True, overflow="ellipsis")
        text.append(f"{self.phase or 'starting'} {self.seconds:.1f} s, {total:.1f} s in all  ")
        return text.append(self.label, style="dim")

    def case_started(self, case: CaseSpec, position: int, count: int) -> None:
        self.position, self.count, self.label = position, count, case_text(case.spec)
        self.phase, self.seconds = "", 0.0

    def case_progress(self, phase: str, seconds: float) -> None:
        self.phase, self.seconds = phase, seconds

    def case_forecast(self, text: str) -> None:
        self.print(f"{'':{STATUS_WIDTH}} {self.label}: {text}", "dim")

    # ------------------------------------------------------------ lines

    def print(self, text: Text | str, style: str = "") -> None:
        """One line, never wrapped: wrapped columns cannot be read, and a pipe has no width."""
        if isinstance(text, str):
            text = harmless(text, f"{'':{STATUS_WIDTH}} ")
        try:
            self.console.print(text, style=style or None, soft_wrap=True, highlight=False, markup=False)
        except (OSError, ValueError):  # a full disk behind it, or no standard output at all
            self.console.on_broken_pipe()

    def head(self, notes: list[str], own_eval: bool) -> None:
        plan = self.plan
        judge = "its own eval.py" if own_eval else f"harness {plan.harness.name}"
        device = plan.device.label + ("" if not plan.device.emulated else ": results count, times mean nothing")
        self.print(f"{plan.problem.name}  {plan.mode}  {judge}  on {device}", "bold")
        if made := compiled_with(plan.problem, plan.device, plan.submission):
            self.print(f"compiled with {made}", "dim")
        for note in notes:
            self.print(f"note: {note}", "yellow")
        if self.timed:
            self.print(clock_text(plan), "dim")
        if self.back_to_back and not own_eval:
            for line in self.back_to_back_texts:
                self.print(line, "dim")
        for line in self._head_lines():
            self.print(line, "dim")

    def _head_lines(self) -> list[str]:
        return [self._columns("status", "case", "", self._time_heads(), "rel. L2")]

    def case_finished(self, result: CaseResult) -> None:
        line = Text()
        values = self._time_values(result)
        rel_l2 = number(result.accuracy.rel_l2 if result.accuracy else None, 3)
        status, style = result.status.value, STYLES[result.status]
        if result.status is Status.PASS and result.buts:
            status, style = BUT, "bold yellow"
        shown = self._columns(status, case_text(result.spec), str(result.index), values, rel_l2)
        shown = " ".join(CONTROL.sub("", shown).splitlines())  # words of the device's report among them
        line.append(shown[:STATUS_WIDTH], style=style)
        line.append(shown[STATUS_WIDTH:])
        self.print(line)
        lines = [*map(harmless, details(result))]
        if not result.passed:
            lines = self._once("", "\n".join(lines), PLACES, result)
        for detail in lines:
            self.print(f"{'':{STATUS_WIDTH}} {detail}", "red" if not result.passed else "yellow")
        alike: dict[str, list[str]] = {}  # ranks have each their own addresses
        for text in finding_texts(result.device_report):
            alike.setdefault(NUMBERS.sub("", text), []).append(text)
        for first, *others in alike.values():
            more = [f"  and {len(others)} more like it"] if others else []
            for words in self._once("check: ", harmless(first), NUMBERS, result) + more:
                self.print(f"{'':{STATUS_WIDTH}} {words}", "magenta")
        marks = time_texts(modelled_time(result.device_report, self.plan.caches)) if self.modelled else []
        for text in [*autotuned(result.device_report), *marks]:
            self.print(f"{'':{STATUS_WIDTH}} {text}", "dim")
        if self.show_output and result.passed:
            for words in result.last_words:
                self.print(f"{'':{STATUS_WIDTH}} | {words}", "dim")

    def _once(self, prefix: str, text: str, differs: re.Pattern[str], result: CaseResult) -> list[str]:
        """Its lines; only the first where all but what may differ was said of an earlier case."""
        first = self.told.setdefault(differs.sub("", text), result.index)
        if first == result.index:
            return f"{prefix}{text}".splitlines()
        head = text.partition("\n")[0]
        return [] if result.status is Status.NOT_RUN else [f"{prefix}as in case {first}: {head}"]

    def _columns(self, status: str, case: str, index: str, values: list[str], rel_l2: str) -> str:
        cells = [f"{status:{STATUS_WIDTH}}", f"{index:>{self.index_width}}", f"{case:{self.case_width}}"]
        cells += [f"{value:>{width}}" for value, width in zip(values, self._time_widths())]
        return " ".join([*cells, f"{rel_l2:>9}"]).rstrip()

    def _time_heads(self) -> list[str]:
        if self.timed:
            return ["us", "+- us", *["b2b us", "host us"] * self.back_to_back, "TFLOP/s", "GB/s", "of light"]
        heads = ["time", "launches", "wave instr."] if self.plan.device.emulated else []
        return [*heads, "modelled us", "bound", "of light"] if self.modelled else heads

    def _time_widths(self) -> list[int]:
        if self.timed:
            return [10, 8, *[9, 8] * self.back_to_back, 8, 8, 8]
        return [9, 8, 13, *([11, 22, 8] if self.modelled else [])] if self.plan.device.emulated else []

    def _time_values(self, result: CaseResult) -> list[str]:
        if not self.timed:
            shown = "emulated" if result.status is not Status.NOT_RUN else ""
            counts = [f"{total(result.device_report, key):,}" for key in ("launches", "wave_instructions")]
            executed = counts if result.device_report else ["", ""]
            ended = result.status not in (Status.ERROR, Status.CRASH, Status.TIMEOUT)  # else it is a part's
            time = modelled_time(result.device_report, self.plan.caches) if self.modelled and ended else None
            model = [modelled_text(time), time["bound"], self._of_light(result, time["us"])] if time else [""] * 3
            return [shown, *executed, *model] if self.plan.device.emulated else []
        if result.stats is None:
            return [""] * len(self._time_widths())
        again = result.back_to_back
        work, us = self.work[result.index], result.stats.mean_us
        return [
            number(us, 5),
            number(result.stats.err_us, 2),
            *[number(again.us if again else None, 5), number(again.host_us if again else None, 3)] * self.back_to_back,
            number(work.flops / us * 1e-6 if work and work.flops else None, 4),
            number(work.hbm_bytes / us * 1e-3 if work and work.hbm_bytes else None, 4),
            self._of_light(result, us),
        ]

    def _of_light(self, result: CaseResult, us: float) -> str:
        work = self.work[result.index]
        return f"{work.light_us / us:.1%}" if work and work.light_us else ""

    def _modelled_scores(self, run: Run) -> list[str]:
        """Over all cases, as the leaderboard would rank them: modelled, at the speed of light, published."""
        problem = self.plan.problem
        times = [modelled_time(case.device_report, self.plan.caches) for case in run.cases if case.passed]
        modelled_us = [time["us"] for time in times if time]
        if not run.cases or len(modelled_us) < len(run.cases):
            return []
        how = "geometric mean" if problem.ranking_by == "geom" else problem.ranking_by
        text = f"modelled, {how} of {len(run.cases)} cases: {rank_score(modelled_us, problem.ranking_by):.3f} us"
        lights = [work.light_us for case in run.cases if (work := self.work[case.index]) and work.light_us]
        if len(lights) == len(run.cases):
            text += f"; at the speed of light {rank_score(lights, problem.ranking_by):.3f} us"
        return [text, *self._published(run)]

    def _published(self, run: Run) -> list[str]:
        lines = []
        for row, published_us in published_scores(self.plan.problem, [(case.index, case.spec) for case in run.cases]):
            source = f" ({row.source}; {row.clock})" if row.clock else f" ({row.source})"
            lines.append(f"published by {row.by}, same cases: {published_us:.3f} us{source}")
        return lines

    # ------------------------------------------------------------ the end

    def foot(self, run: Run) -> None:
        passed = sum(case.passed for case in run.cases)
        for case in run.cases:
            if case.profile:
                self.print(f"profile of case {case.index}: {case_text(case.spec)}", "bold")
                for row in case.profile.splitlines():
                    self.print(row)
            elif self.plan.mode == "profile" and self.plan.device.emulated and case.status is not Status.NOT_RUN:
                self.print(f"case {case.index}: {case_text(case.spec)}", "bold")
                work, device = self.work[case.index], self.plan.device
                for line in profile_lines(
                    case.device_report, self.plan.caches, device.arch, work.flops if work else None
                ):
                    self.print(line)
        verdict = run.verdict if run.passed else run.verdict.upper()
        seconds = f"{run.elapsed_s:.1f} s"
        found = [NUMBERS.sub("", text) for case in run.cases for text in finding_texts(case.device_report)]
        once, times = len(set(found)), f", {len(found)} times in all" if len(set(found)) < len(found) else ""
        checks = f", {once} finding{'s' * (once > 1)} of the device's checks{times}" if found else ""
        self.print(
            f"{verdict}: {passed} of {len(run.cases)} cases, {seconds}{checks}",
            verdict_style(run),
        )
        for text in run.buts:
            self.print(f"but {text}", "yellow")
        for text in run.warnings:
            self.print(f"warning: {text}", "yellow")
        if run.unconfined:
            told = "; ".join(run.unconfined)
            self.print(f"note: the submission is not wholly confined here: {told} (docs/confinement.md)")
        problem = self.plan.problem
        if (us := run.score_us(problem.ranking_by)) is not None:
            how = {"geom": "geometric mean of the means", "mean": "mean of the means", "last": "last mean"}
            cases = f"{len(run.cases)} cases" + (", not the leaderboard's" if self.plan.not_official else "")
            self.print(f"score: {us:.3f} us ({how[problem.ranking_by]}, {cases})", "bold")
            for line in self._published(run):
                self.print(line, "dim")
        elif not run.timed and self.plan.mode in ("benchmark", "leaderboard"):
            self.print("score: none, an emulated device measures no time", "dim")
            for line in self._modelled_scores(run):
                self.print(line, "dim")
        if self.modelled and any(modelled_time(case.device_report, self.plan.caches) for case in run.cases):
            self.print(modelled_means(self.plan.caches), "dim")


def details(result: CaseResult) -> list[str]:
    """What follows a case's line: for a failing one everything that helps, for a passing one its warnings."""
    lines = []
    accuracy = result.accuracy or Accuracy()
    if result.passed:
        lines += [f"but {text}" for text in result.buts] + [f"note: {text}" for text in result.remarks]
        if result.fresh_ratio is not None:
            lines.append(f"on other data a call takes {result.fresh_ratio:.2f} times as long as on the same data")
        if accuracy.dtypes:
            lines.append(f"warning: {'; '.join(accuracy.dtypes)}")
        if result.back_to_back is not None and result.back_to_back.problem:
            lines.append(f"warning: called back to back: {result.back_to_back.problem}")
        return lines
    if result.status is Status.NOT_RUN:
        return [result.message]
    who = f"rank {result.rank}: " if result.rank is not None else ""
    lines += (who + harmless(result.message.replace("\\n", "\n"))).split("\n")[:MESSAGE_LINES]
    if (worst := accuracy.worst) is not None:
        of = f"rank {accuracy.rank} " if accuracy.rank is not None else ""
        lines.append(f"worst: {of}{worst.where} at {worst.index}: got {worst.got:.8g}, wanted {worst.wanted:.8g}")
        lines += [f"pattern: {accuracy.pattern}"] if accuracy.pattern else []
    elif accuracy.problem:
        lines.append(accuracy.problem)
    lines += [line for line in accuracy.dtypes if line not in result.message]
    lines += [f"note: {text}" for text in result.remarks]
    return lines + tail_lines(result)


def tail_lines(result: CaseResult) -> list[str]:
    """The trace of an exception and what the process last printed, but for findings, which are told by themselves."""
    lines = [f"| {line}" for line in result.trace.splitlines()]
    told = finding_texts(result.device_report)
    words = Counter(line for line in result.last_words if not any(_repeats(line, text) for text in told))
    lines += ["last words:"] * bool(words)
    lines += [f"| {line} ({times} times)" if times > 1 else f"| {line}" for line, times in words.items()]
    if result.output_bytes > 2**20:
        lines.append(f"(it printed {result.output_bytes / 1e6:.0f} MB)")
    return lines


def _repeats(line: str, finding: str) -> bool:
    """Whether it was printed of the same fault, in whichever launch; it may be cut off."""
    gist = NUMBERS.sub("", line.removeprefix("cdna: ").strip())
    return len(gist) > 8 and gist in NUMBERS.sub("", finding)


def finding_texts(report: dict[str, Any]) -> list[str]:
    """What the device's checks found, wherever it stands in a report: once, or by rank."""
    here = [finding["text"] for finding in report.get("findings", [])]
    below = [text for value in report.values() if isinstance(value, dict) for text in finding_texts(value)]
    return list(dict.fromkeys(here + below))


def autotuned(report: dict[str, Any]) -> list[str]:
    """What @triton.autotune chose on an emulated device: of one rank, of the first where there are several."""
    found: list[str] = report.get("rank 0", report).get("autotuned", [])
    return [text if text.startswith("autotune ") else f"autotune {text}" for text in found]


NO_KERNEL = "no Triton or HIP kernel was launched"


def slowest_rank(report: dict[str, Any], caches: str) -> dict[str, Any]:
    """Of several ranks' reports the slowest's; the report itself where there is one."""
    ranks = [part for name, part in report.items() if name.startswith("rank ")]
    return max(ranks, key=lambda part: (modelled_time(part, caches) or {"us": 0.0})["us"], default=report)


def profile_lines(report: dict[str, Any], caches: str, arch: str, needed_flops: float | None = None) -> list[str]:
    """Each kernel's profile; of several ranks the slowest's."""
    ranks = {name: part for name, part in report.items() if name.startswith("rank ")}
    if ranks:
        name = max(ranks, key=lambda name: (modelled_time(ranks[name], caches) or {"us": 0.0})["us"])
        return [f"{name}, the slowest of {len(ranks)}:", *profile_lines(ranks[name], caches, arch, needed_flops)]
    kernels = report.get("kernels", {})
    told = [line for kernel in kernels.values() for line in kernel.get("profile", {}).get(caches, [])] or [NO_KERNEL]
    return told + torch_lines(report.get("torch", []), caches, arch, needed_flops)
