"""forge rank: would the leaderboard rank this file? What is looked at on the way there, step by step (docs/bulk.md)."""

import argparse
import contextlib
import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from forge.bulk.command import options_of, pass_on
from forge.bulk.judge import Judge
from forge.bulk.verdict import BadRequest, Verdict
from forge.commands.handover import named_by
from forge.commands.view import Console
from forge.console import (
    EXIT_BAD_INPUT,
    EXIT_BUT,
    EXIT_FAIL,
    EXIT_INTERRUPTED,
    EXIT_PASS,
    Parser,
    end_on_signals,
    harmless,
    refuse_unwritable,
)
from forge.device import NAMES as DEVICE_NAMES
from forge.files import write_whole
from forge.generate import kernelguard
from forge.generate.submission import KERNEL, SubmissionError, check_submission, directives, read_source, refusals
from forge.history.document import to_json
from forge.history.light import too_fast_there
from forge.history.store import History, HistoryError, sha256
from forge.judge.plan import BAD_INPUT, choose_harness
from forge.judge.results import CaseResult
from forge.judge.timing import MIN_RUNS
from forge.task.harness import Harness
from forge.task.leaderboards import leaderboard_of
from forge.task.problem import Problem, find_problem

Answer = Literal["yes", "doubtful", "no", "not run"]
EXITS: dict[Answer, int] = {"yes": EXIT_PASS, "doubtful": EXIT_BUT, "no": EXIT_FAIL, "not run": EXIT_BAD_INPUT}
PASSED_ON = set("--timeout --full --harness --trust --calls --triton".split())  # of eval.py: these mean the same here
EXAMPLES = """\
examples:
  forge rank mine.py                            # the problem that its #!POPCORN line names; until the first no
  forge rank mine.py --problem amd-fp8-mm --full --json ranked.json
"""


class Step(Struct, frozen=True):
    """What one look came to."""

    name: str
    answer: Answer
    why: str = ""
    verdict: Verdict | None = None  # of a run


class Ranked(Struct, frozen=True, kw_only=True):
    """The answer is the worst of the steps', the reason that step's. Nothing is looked at behind the first no."""

    answer: Answer
    reason: str
    problem: str
    submission: str
    seed: int  # of the secret run
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()


def parser() -> Parser:
    p = Parser(
        prog="forge rank",
        description="Would the leaderboard rank this file? Until the first reason why not.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EXAMPLES,
    )
    p.add_argument("file", metavar="FILE", type=Path, help="the submission")
    p.add_argument("--problem", default="", help="a leaderboard name, or a folder (default: its #!POPCORN line's)")
    p.add_argument("--device", default="auto", choices=DEVICE_NAMES, help="default: %(default)s")
    p.add_argument("--seed", type=int, metavar="N", help="of the secret run (default: one that is drawn)")
    p.add_argument("--json", type=Path, metavar="FILE", help="write the answer and its runs to FILE as well")
    pass_on(p, PASSED_ON)
    return p


def rules(content: bytes, path: Path, problem: Problem) -> Step:
    """What the leaderboard's door refuses, and a header that sends the file elsewhere."""
    try:
        check_submission(content, path, KERNEL)
    except SubmissionError as error:
        return Step("rules", "no", str(error))
    if refused := refusals(content):
        return Step("rules", "no", refused[0])
    named = directives(content)
    if named.leaderboard not in (None, problem.name):
        return Step("rules", "no", f"its header names leaderboard {named.leaderboard}, not {problem.name}")
    if named.gpus and problem.gpus and not set(named.gpus) & set(problem.gpus):
        there = " ".join(problem.gpus)
        return Step("rules", "no", f"its header names {' '.join(named.gpus)}, and {problem.name} is judged on {there}")
    return Step("rules", "yes")


def guard(content: bytes) -> Step:
    if not kernelguard.installed():
        return Step("KernelGuard", "doubtful", "not looked at: pip install kernelguard")
    try:
        found = kernelguard.verdict(content.decode("utf-8", "replace"))
    except Exception as error:  # a tool of others, over a file of anybody's
        return Step("KernelGuard", "doubtful", f"it ended with {type(error).__name__}: {error}")
    return Step("KernelGuard", "no" if found.filtered else "yes", "; ".join(found.lines()) or found.classification)


def of_verdict(name: str, verdict: Verdict) -> Step:
    words: dict[str, Answer] = {"passed": "yes", "doubtful": "doubtful"}
    answer = words.get(verdict.status, "not run" if verdict.blame in ("machine", "request") else "no")
    cases = verdict.report.cases if verdict.report else ()
    told = f"{sum(case.passed for case in cases)} of {len(cases)} cases" if cases else ""
    why = f"{verdict.status}: {verdict.message}" if verdict.message else ""
    return Step(name, answer, ": ".join(filter(None, [f"{verdict.case}" if answer == "no" else told, why])), verdict)


def time_outs(problem: Problem, harness: Harness, cases: Sequence[CaseResult], emulated: bool) -> Step:
    """The leaderboard ends a mode after so long, all of its cases together. Emulated, what its timed calls take by the
    model and nothing beside: they are at least three, and at most as many as the stop rule lets there be."""
    least_s = most_s = 0.0
    known = []
    for case in cases:
        time = case.modelled_time(harness.caches)
        if not emulated:
            least_s, most_s = 0.0, most_s + case.elapsed_s
            known.append(case)
        elif time is not None:
            known.append(case)
            call_s, rule = time.us * 1e-6, harness.repeats("leaderboard")
            runs = min(rule.runs, max(MIN_RUNS, rule.budget_s / call_s + 1)) if call_s else rule.runs
            least_s, most_s = least_s + MIN_RUNS * call_s, most_s + runs * call_s
    limit_s = min(problem.timeouts.benchmark_s, problem.timeouts.ranked_s)
    told = f"of {len(known)} of {len(cases)} cases " if len(known) < len(cases) else ""
    took = f"{least_s:.3g} to {most_s:.3g} s" if emulated else f"{most_s:.3g} s"
    how = "modelled" if emulated else "with ours beside them"
    why = f"timed calls {told}take {took}, {how}; it ends after {limit_s:g} s"
    late: Answer = "no" if least_s > limit_s else "doubtful" if most_s > limit_s or not known else "yes"
    return Step("time-outs", late, why if known else "no time is known of any case")


def imported(problem: Problem, content: bytes) -> Step | None:
    """What the leaderboard itself printed of this file, where it was imported."""
    kept, lines = History(), []
    with contextlib.suppress(HistoryError):
        for entry in kept.entries(problem.name, sha256(content)):
            if entry.times == "leaderboard":
                lines += [f"run {entry.id}: {line}" for line in too_fast_there(problem, kept.outside(entry.id))]
    return Step("imported times", "doubtful", lines[0]) if lines else None


def steps_of(args: argparse.Namespace, content: bytes, problem: Problem, judge: Judge, seed: int) -> Iterator[Step]:
    yield rules(content, args.file, problem)
    yield guard(content)

    def judged(mode: str, *options: str) -> Verdict:
        order = judge.order_of({"id": mode, "file": str(args.file), "mode": mode})
        return judge.answer(msgspec.structs.replace(order, source=content, options=[*order.options, *options]))

    secret = ("--seed", str(seed))
    yield of_verdict("public tests", judged("test"))
    benchmark = judged("benchmark")
    yield of_verdict("benchmark", benchmark)
    yield of_verdict("secret tests", judged("test", *secret))
    report = benchmark.report
    emulated = report is None or report.device.emulated
    # An emulated leaderboard run executes all of every case: without --full samples have to do.
    mode = "benchmark" if emulated and not args.full else "leaderboard"
    yield of_verdict("secret run", judged(mode, *secret))
    harness = choose_harness(problem, args.harness)[0]
    yield time_outs(problem, harness, report.cases if report else (), emulated)
    if (there := imported(problem, content)) is not None:
        yield there


def rank(args: argparse.Namespace, console: Console) -> Ranked:
    content = read_source(args.file)
    name = args.problem or named_by(content, args.file)
    problem, seed = find_problem(name), secrets.randbelow(1 << 31) if args.seed is None else args.seed
    steps: list[Step] = []
    with Judge(1, problem=name, device=args.device, options=options_of(args, PASSED_ON)) as judge:
        for step in steps_of(args, content, problem, judge, seed):
            steps.append(step)
            console.print(harmless(f"{step.answer:9} {step.name}" + (f": {step.why}" if step.why else "")))
            if step.answer in ("no", "not run"):
                break
    worst = max(steps, key=lambda step: list(EXITS).index(step.answer))
    board = leaderboard_of(problem.name)
    notes = (f"leaderboard {board.name}: {board.state()}",) if board else (f"{problem.name} is no leaderboard we know",)
    reason = "" if worst.answer == "yes" else f"{worst.name}: {worst.why}"
    return Ranked(
        answer=worst.answer, reason=reason, problem=problem.name, submission=str(args.file), seed=seed,
        steps=tuple(steps), notes=notes,
    )  # fmt: skip


def main(argv: Sequence[str]) -> int:
    end_on_signals()
    console = Console(soft_wrap=True, highlight=False, markup=False)
    try:
        args = parser().parse_args(argv)
        if args.json is not None:
            refuse_unwritable("--json", args.json)
        found = rank(args, console)
    except (BadRequest, SubmissionError, *BAD_INPUT) as error:
        print(f"forge rank: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        print("forge rank: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    console.print(harmless(f"answer: {found.answer}" + (f": {found.reason}" if found.reason else "")))
    for note in found.notes:
        console.print(f"note: {note}")
    if args.json is not None:
        write_whole(args.json, to_json(found))
    return EXITS[found.answer]
