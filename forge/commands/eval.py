"""The command for people: eval.py MODE PROBLEM. What ends it before its time does so here, with one line."""

import io
import os
import sys
import traceback
from pathlib import Path

from msgspec import structs

from forge.commands import handover, history, jsonfile, profile_files, protocol
from forge.commands.against import Other, Pair, PairView, other_named
from forge.commands.outcome import compact
from forge.commands.planning import eval_parser, make_plan
from forge.commands.run import exit_code_of, fill, new_run, with_hint
from forge.commands.view import Console, View
from forge.console import (
    EXIT_BAD_INPUT,
    EXIT_FAIL,
    EXIT_INTERRUPTED,
    UsageError,
    end_on_signals,
    fill_standard_descriptors,
    take_signals,
)
from forge.device.report import write_sarif
from forge.generate.submission import SubmissionError
from forge.judge.plan import BAD_INPUT, EvalPlan
from forge.judge.process_tree import adopt_orphans
from forge.judge.worker_pool import TaskError


def main(argv: list[str]) -> int:
    fill_standard_descriptors()
    end_on_signals()
    for stream in (sys.stdout, sys.stderr):  # in whatever encoding: a submission's words may hold any character
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    kept = argv[:1] and argv[0] in history.COMMANDS
    if other := protocol if "POPCORN_FD" in os.environ else history if kept else None:
        take_signals()
        return other.main(argv)
    try:
        return _main(argv)
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, (KeyboardInterrupt, OSError, SubmissionError, *BAD_INPUT)):
            print(f"eval.py: {jsonfile.error_text(error)}", file=sys.stderr)
        else:
            traceback.print_exc()
        return _exit_code_of(error)
    finally:
        _let_go_of_stdout()


def _main(argv: list[str]) -> int:
    try:
        take_signals()
        args = eval_parser().parse_args(argv)
        plan, run_eval = make_plan(args)
        profile_files.check(args, plan)
        if args.compact and args.against is not None:
            raise UsageError("--compact: --against has two verdicts")
        other = None if args.against is None else _other_submission(plan, args.against, run_eval)
        run = new_run(plan, run_eval)
        adopt_orphans()
        console = Console(soft_wrap=True, quiet=args.compact)
        pair = None if other is None else Pair(plan, other, run)
        view = View(console, plan, args.show_output) if pair is None else PairView(console, pair, args.show_output)
    except (Exception, KeyboardInterrupt) as error:
        jsonfile.write_not_run(argv, error, _exit_code_of(error))
        raise
    try:
        view.head(run.notes, own_eval=run_eval is not None)
        with view:
            if isinstance(view, PairView):
                view.pair.evaluate(view)
            else:
                fill(run, plan, run_eval, view)
    except TaskError as error:
        raise with_hint(error, plan) from None
    finally:
        ended_by = sys.exc_info()[1]
        both = pair or run
        judged = exit_code_of(run, both.passed, both.doubted, args.strict, args.trust)
        exit_code = _exit_code_of(ended_by) if ended_by else judged
        run.error = jsonfile.error_text(ended_by) if ended_by else None
        timelines = profile_files.take(run)
        if pair is not None:  # files are of ours alone
            profile_files.take(pair.their_run)
        told = (exit_code, ["eval.py", *argv])
        document = pair.document(*told) if pair else jsonfile.document_of(plan, run, *told)
        if args.json is not None:
            jsonfile.write_json(args.json, document)
        if args.sarif is not None:
            found = [one for case in run.cases for one in case.device_report.all_findings()]
            write_sarif(args.sarif, args.submission, found)
        if not args.no_history and run.cases:
            history.remember(document, plan.submission, *([other.submission] if other else []))
    view.foot(run)
    for line in profile_files.write(args, plan, document, timelines):
        view.print(line)
    if args.compact:
        strictly = exit_code_of(run, run.passed, run.doubted, strict=True, trust=args.trust)
        strict = structs.replace(document, exit_code=strictly)
        print("\n".join(compact(strict, str(args.submission), plan.submission.decode(errors="replace"))))
    elif run.passed and pair is None:
        for line in handover.next_steps(plan, args.submission, run.fingerprint):
            view.print(line, "dim")
    return exit_code


def _exit_code_of(error: BaseException) -> int:
    """Of what ends the command: the submission's fault, or that of the call, of the machine or of this code."""
    if isinstance(error, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    return EXIT_FAIL if isinstance(error, SubmissionError) else EXIT_BAD_INPUT


def _other_submission(plan: EvalPlan, name: str, own_eval: Path | None) -> Other:
    """The submission that --against names."""
    if plan.mode != "benchmark" and not (plan.mode == "profile" and plan.device.emulated):
        raise UsageError("--against goes with mode benchmark, and on an emulated device with profile")
    if own_eval is not None:
        raise UsageError("--against: the folder's own eval.py judges here, one submission at a time; name a --harness")
    return other_named(plan, name)


def _let_go_of_stdout() -> None:
    """Python flushes stdout when it exits, and complains if nobody reads it any more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
