"""An evaluation as a person sees it: progress while it runs, one aligned line per case, the score."""

from __future__ import annotations

import os
import re
import time
from typing import Any

import rich.console
from rich.live import Live
from rich.text import Text

from forge.commands import texts
from forge.console import CONTROL, harmless, number
from forge.judge.compilers import compiled_with
from forge.judge.plan import EvalPlan
from forge.judge.results import CaseResult, Run, Status
from forge.judge.verdict import CHECKED, SMALL_INSTRUCTIONS
from forge.task.cases import CaseSpec, case_text
from forge.task.score import Work, published_scores, rank_score, score_on

STYLES = {
    Status.PASS: "green",
    Status.SAMPLED: "yellow",
    Status.UNJUDGED: "yellow",
    Status.FAIL: "bold red",
    Status.ERROR: "bold red",
    Status.CRASH: "bold red",
    Status.TIMEOUT: "bold yellow",
    Status.TAMPERED: "bold magenta",
    Status.NOT_RUN: "dim",
}
BUT, STATUS_WIDTH = "pass, but", 9
UNSEEN = "what they do not see: docs/emulated-device.md"
PLACES = re.compile(r"/run\d+/|0x[0-9a-f]+")  # that differ from case to case
AGAIN_WIDTH = 100  # of what an earlier case has said in full


class Console(rich.console.Console):
    """One that goes on when nobody reads it any more: the JSON file and the exit code remain."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.close(nothing)


def verdict_style(run: Run) -> str:
    return ("bold yellow" if run.doubted else "bold green") if run.passed else "bold red"


class View:
    """A Listener that prints a line per case and, on a terminal, keeps a live one below them."""

    back_to_back_texts: tuple[str, ...] = (texts.BACK_TO_BACK_TEXT, texts.HOST_TEXT)

    def __init__(self, console: Console, plan: EvalPlan, show_output: bool) -> None:
        self.console, self.plan, self.show_output = console, plan, show_output
        self.timed = not plan.device.emulated and plan.mode in ("benchmark", "leaderboard")
        self.back_to_back = self.timed and plan.mode == "benchmark"
        self.modelled = plan.device.emulated and plan.mode in ("benchmark", "profile")
        self.case_width = max(len(case_text(case.spec)) for case in plan.cases)
        self.index_width = len(str(max(case.index for case in plan.cases)))
        self.work: dict[int, Work | None] = {case.index: plan.work_of(case) for case in plan.cases}
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
            self.print(texts.clock_text(plan), "dim")
        if self.back_to_back and not own_eval:
            for line in self.back_to_back_texts:
                self.print(line, "dim")
        for line in self._head_lines():
            self.print(line, "dim")

    def _head_lines(self) -> list[str]:
        return [self._columns("status", "case", "", [head for head, _ in self._time_columns()], "rel. L2")]

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
        lines = texts.details(result)
        if not result.ran:
            lines = self._once("", "\n".join(map(harmless, lines)), PLACES, result)
        for detail in lines:
            self.print(f"{'':{STATUS_WIDTH}} {detail}", "red" if not result.ran else "yellow")
        alike: dict[str, list[str]] = {}  # ranks have each their own addresses
        for text in texts.finding_texts(result.device_report):
            alike.setdefault(texts.NUMBERS.sub("", text), []).append(text)
        for first, *others in alike.values():
            more = [f"  and {len(others)} more like it"] if others else []
            for words in self._once("check: ", harmless(first), texts.NUMBERS, result) + more:
                self.print(f"{'':{STATUS_WIDTH}} {words}", "magenta")
        marks = texts.time_texts(result.modelled_time(self.plan.caches)) if self.modelled else []
        for text in [*texts.autotuned(result.device_report), *marks]:
            self.print(f"{'':{STATUS_WIDTH}} {text}", "dim")
        if self.show_output and result.passed:
            for words in result.last_words:
                self.print(f"{'':{STATUS_WIDTH}} | {words}", "dim")

    def _once(self, prefix: str, text: str, differs: re.Pattern[str], result: CaseResult) -> list[str]:
        """Its lines; the first one's beginning where all but what may differ was said of an earlier case."""
        first = self.told.setdefault(differs.sub("", text), result.index)
        if first == result.index:
            return f"{prefix}{text}".splitlines()
        head = text.partition("\n")[0]
        head = head if len(head) <= AGAIN_WIDTH else f"{head[: AGAIN_WIDTH - 4]} ..."
        return [] if result.status is Status.NOT_RUN else [f"{prefix}as in case {first}: {head}"]

    def _columns(self, status: str, case: str, index: str, values: list[str], rel_l2: str) -> str:
        cells = [f"{status:{STATUS_WIDTH}}", f"{index:>{self.index_width}}", f"{case:{self.case_width}}"]
        cells += [f"{value:>{width}}" for value, width in zip(values, [width for _, width in self._time_columns()])]
        return " ".join([*cells, f"{rel_l2:>9}"]).rstrip()

    def _time_columns(self) -> list[tuple[str, int]]:
        """(head, width)."""
        if self.timed:
            again = [("b2b us", 9), ("host us", 8)] * self.back_to_back
            return [("us", 10), ("+- us", 8), *again, ("TFLOP/s", 8), ("GB/s", 8), ("of light", 8)]
        clock = self.plan.clock
        seen = [(f"{clock.name} us", 13)] * (clock.adds_us is not None)
        model = [("modelled us", 20), *seen, ("bound", 22), ("of light", 8)] * self.modelled
        return [("time", 9), ("launches", 8), ("wave instr.", 13), *model] if self.plan.device.emulated else []

    def _time_values(self, result: CaseResult) -> list[str]:
        if not self.timed:
            shown = "emulated" if result.status is not Status.NOT_RUN else ""
            report = result.device_report
            executed = [f"{report.total(counter):,}" for counter in ("launches", "wave_instructions")]
            executed = ["", ""] if report.empty else executed
            time = result.modelled_time(self.plan.caches) if self.modelled else None
            seen = [texts.on_clock_text(time, self.plan.clock) if time else ""] * (self.plan.clock.adds_us is not None)
            bound = [time.bound, self._of_light(result, time.us)] if time else ["", ""]
            model = [texts.modelled_text(time), *seen, *bound] if self.modelled else []
            return [shown, *executed, *model] if self.plan.device.emulated else []
        if result.stats is None:
            return [""] * len(self._time_columns())
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
        times = [case.modelled_time(self.plan.caches) for case in run.cases if case.ran]
        modelled_us = [time.us for time in times if time]
        if not run.cases or len(modelled_us) < len(run.cases):
            return []
        how = "geometric mean" if problem.ranking_by == "geom" else problem.ranking_by
        text = f"modelled, {how} of {len(run.cases)} cases: {rank_score(modelled_us, problem.ranking_by):.3f} us"
        ends = [(time.us, time.low_us, time.high_us) for time in times if time]
        if seen := score_on(self.plan.clock, ends, problem.ranking_by):
            text += f"; on the harness's clock ({self.plan.clock.name}) {seen[0]:.3f} us ({texts.ends(*seen[1:])})"
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
                for line in texts.profile_lines(
                    case.device_report, self.plan.caches, device.arch, work.flops if work else None
                ):
                    self.print(line)
        verdict = run.verdict if run.passed else run.verdict.upper()
        passed = sum(case.ran for case in run.cases) if run.unjudged else passed
        seconds = f"{run.elapsed_s:.1f} s"
        found = [texts.NUMBERS.sub("", text) for case in run.cases for text in texts.finding_texts(case.device_report)]
        once, times = len(set(found)), f", {len(found)} times in all" if len(set(found)) < len(found) else ""
        checks = f", {once} finding{'s' * (once > 1)} of the device's checks{times}" if found else ""
        self.print(f"{verdict}: {passed} of {len(run.cases)} cases, {seconds}{checks}", verdict_style(run))
        large = any(case.device_report.total("wave_instructions") > SMALL_INSTRUCTIONS for case in run.cases)
        kinds = getattr(self.plan.device, "checks", "") or os.environ.get("CDNA_CHECKS", "none")
        if self.plan.device.emulated and kinds.removeprefix("report:") == "none":
            self.print("checks: none but for the host's memory; --checks all has all", "dim")
        elif self.plan.device.emulated and large and self.plan.calls > 1:
            self.print(f"checks: first calls, all of small cases, one in {1 / CHECKED:g} of others; {UNSEEN}", "dim")
        if parts := list(dict.fromkeys(case.later_part.partition(":")[0] for case in run.cases if case.later_part)):
            self.print(f"judged of later calls: {', '.join(parts)}, drawn after each (docs/harness.md)", "dim")
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
        if self.modelled and any(case.modelled_time(self.plan.caches) for case in run.cases):
            self.print(texts.modelled_means(self.plan), "dim")
