"""The command for people: eval.py MODE PROBLEM. Bad input ends here, with one line and exit code 2."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from forge.commands import handover, history, jsonfile, own_evaluator, protocol
from forge.commands.against import REFERENCE_SUBMISSION, Other, Pair, PairView
from forge.commands.caveats import notes_for
from forge.commands.view import Console, View, finding_texts
from forge.console import (
    EXIT_BAD_INPUT,
    EXIT_BUT,
    EXIT_FAIL,
    EXIT_INTERRUPTED,
    EXIT_PASS,
    Parser,
    UsageError,
    end_on_signals,
    fill_standard_descriptors,
)
from forge.device import NAMES as DEVICE_NAMES
from forge.device import resolve
from forge.generate.submission import SubmissionError, read_submission
from forge.judge import compilers
from forge.judge.evaluate import evaluate
from forge.judge.plan import (
    BAD_INPUT,
    STAND_IN_ARCH,
    EvalPlan,
    add_case_options,
    case_limit_s,
    cases_to_run,
    choose_harness,
)
from forge.judge.processes import adopt_orphans
from forge.judge.results import Run
from forge.judge.worker_pool import TaskError
from forge.task.harness import HARNESSES, default_harness
from forge.task.problem import MODES, find_problem, own_entry

EXAMPLES = """\
examples:
  eval.py test amd-fp8-mm                               # ./submission.py on the best device this machine has
  eval.py test --submission mine.py --cases smoke       # the problem that the file's header names; seconds
  eval.py benchmark amd-gemm-rs --against baseline      # beside another variant or file: ratios
  eval.py history                                       # what was run; also compare, report, import (--help of each)

With POPCORN_FD set, MODE CASESFILE speaks the official evaluator's own protocol instead.
Exit codes: docs/exit-codes.md.
"""


def parser() -> Parser:
    p = Parser(
        prog="eval.py",
        description="Judge a submission as the leaderboard does.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EXAMPLES,
    )
    p.add_argument("mode", metavar="MODE", help=", ".join(MODES))
    p.add_argument(
        "problem",
        metavar="PROBLEM",
        nargs="?",
        help="a leaderboard name, or a folder in GPU MODE's format (default: the leaderboard that the submission's "
        "#!POPCORN line names)",
    )
    p.add_argument(
        "--submission", metavar="FILE", type=Path, default=Path("submission.py"), help="default: %(default)s"
    )
    p.add_argument("--device", default="auto", help=f"{', '.join(DEVICE_NAMES)} (default: %(default)s)")
    add_case_options(p)
    p.add_argument(
        "--against",
        metavar="OTHER",
        help="benchmark a second submission in the same run, case by case: a variant's name (baseline, ...), a file, "
        "or 'reference', the problem's own",
    )
    p.add_argument("--seed", type=int, metavar="N", help="the run's secret seed, mixed into each case's own")
    p.add_argument("--json", metavar="FILE", type=Path, help="write everything to FILE as well")
    p.add_argument(
        "--no-history", action="store_true", help="do not keep this run (eval.py history lists what is kept)"
    )
    p.add_argument("--timeout", type=float, metavar="S", help="seconds for each case (default: the official time-out)")
    p.add_argument("--harness", metavar="FLAVOUR", help=f"judge as this one does: {', '.join(HARNESSES)}")
    p.add_argument("--strict", action="store_true", help=f"exit {EXIT_BUT} where a pass has doubts or findings")
    p.add_argument(
        "--calls",
        type=int,
        choices=(1, 3),
        default=3,
        help="of each case, each judged: on its own data, on other data at the same addresses, on other data elsewhere "
        "(default: %(default)s; 1 for the largest cases)",
    )
    p.add_argument(
        "--fixed-ranks",
        action="store_true",
        help="keep rank i in process i (the leaderboard does not): to find out whether that is what a submission fails",
    )
    p.add_argument("--honest-bools", action="store_true", help="let False in a case mean false (officially: true)")
    p.add_argument("--no-accuracy", action="store_true", help="skip the relative L2 error beside each verdict")
    p.add_argument(
        "--checks", metavar="LIST", help="checks of kernels on an emulated device: all (default of test), none, names"
    )
    compilers.add_option(p)
    p.add_argument("--show-output", action="store_true", help="show what passing cases printed, too")
    return p


def main(argv: list[str]) -> int:
    fill_standard_descriptors()
    end_on_signals()
    if "POPCORN_FD" in os.environ:
        return protocol.main(argv)
    if argv[:1] and argv[0] in history.COMMANDS:
        return history.main(argv)
    try:
        return _main(argv)
    except (SubmissionError, *BAD_INPUT) as error:
        print(f"eval.py: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except OSError as error:  # a disk that is full, a path that is too long: the machine's, whatever is submitted
        place = f"{error.filename}: " if error.filename else ""
        print(f"eval.py: {place}{error.strerror or error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        print("eval.py: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    finally:
        _let_go_of_stdout()


def _main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    plan, run_eval = make_plan(args)
    other = None if args.against is None else _other_submission(plan, args.against, run_eval)
    run = Run(plan.mode, [], timed=not plan.device.emulated)
    run.notes = notes_for(plan, official_eval=run_eval is not None)
    adopt_orphans()
    console = Console(soft_wrap=True)
    pair = None if other is None else Pair(plan, other, run)
    view = View(console, plan, args.show_output) if pair is None else PairView(console, pair, args.show_output)
    view.head(run.notes, own_eval=run_eval is not None)
    try:
        with view:
            if isinstance(view, PairView):
                view.pair.evaluate(view)
            elif run_eval is not None:
                own_evaluator.evaluate(plan, run_eval, run, view)
            else:
                evaluate(plan, run, view)
    except TaskError as error:
        raise TaskError(f"{error}{_own_reference_hint(plan)}") from None
    finally:
        exit_code = _exit_code(pair or run, args.strict) if run.complete else _ending(sys.exc_info()[1])
        told = (exit_code, ["eval.py", *argv])
        document = pair.as_json(*told) if pair else jsonfile.as_json(plan, run, *told)
        if args.json is not None:
            jsonfile.write_json(args.json, document)
        if not args.no_history and run.cases:
            history.remember(document, plan.submission, *([other.submission] if other else []))
    view.foot(run)
    if run.passed and pair is None:
        for line in handover.next_steps(plan, args.submission, run.fingerprint):
            view.print(line, "dim")
    return exit_code


def _exit_code(run: Run | Pair, strict: bool) -> int:
    if not run.passed:
        return EXIT_FAIL
    cases = run.run.cases if isinstance(run, Pair) else run.cases
    found = any(finding_texts(case.device_report) for case in cases)
    return EXIT_BUT if strict and (run.doubted or found) else EXIT_PASS


def _ending(error: BaseException | None) -> int:
    """The exit code of a run that this ends."""
    if isinstance(error, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    return EXIT_BAD_INPUT if isinstance(error, (OSError, *BAD_INPUT)) else EXIT_FAIL


def _other_submission(plan: EvalPlan, name: str, own_eval: Path | None) -> Other:
    """The submission that --against names."""
    if plan.mode != "benchmark":
        raise UsageError("--against goes with mode benchmark")
    if own_eval is not None:
        raise UsageError("--against: the folder's own eval.py judges here, one submission at a time; name a --harness")
    if name == "reference":
        return Other(name, REFERENCE_SUBMISSION)
    if name.endswith(".py") or os.sep in name or Path(name).is_file():
        if not Path(name).exists():  # read_submission would send the user to --submission
            raise UsageError(f"--against {name}: no such file")
        return Other(name, read_submission(Path(name)))
    from forge.generate.pysource import GenerationError
    from forge.generate.render import also_for, generate  # imports more than judging needs

    entry = own_entry(plan.problem) or plan.problem
    try:
        return Other(name, generate(entry, name, also=also_for(entry, name, plan.device.arch)).text.encode())
    except GenerationError as error:
        raise UsageError(f"--against {name}: {error}") from None


def _own_reference_hint(plan: EvalPlan) -> str:
    """Some owners' references need libraries that only the leaderboard's machines have; ours need none."""
    ours = own_entry(plan.problem)
    if ours is None or ours.directory == plan.problem.directory:
        return ""
    return f"; this repository's own {ours.name}, named without a path, needs only torch"


def _let_go_of_stdout() -> None:
    """Python flushes stdout when it exits, and complains if nobody reads it any more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def make_plan(args: argparse.Namespace) -> tuple[EvalPlan, Path | None]:
    """Checks all that can be, cheapest first. The path: an eval.py of the folder's own that must judge."""
    if args.mode not in MODES:
        raise UsageError(f"unknown mode {args.mode!r}: choose one of {', '.join(MODES)}")
    if args.timeout is not None and not 0 < args.timeout < float("inf"):
        raise UsageError(f"--timeout {args.timeout:g}: must be more than 0 seconds")
    if args.seed is not None and args.seed < 0:
        raise UsageError(f"--seed {args.seed}: must not be negative")
    if args.json is not None and (args.json.is_dir() or not os.access(args.json.absolute().parent, os.W_OK)):
        raise UsageError(f"--json {args.json}: cannot be written")
    if args.json is not None and args.json.exists() and args.submission.exists():
        if args.json.samefile(args.submission):
            raise UsageError(f"--json {args.json}: is the submission itself, which it would replace")
    if args.device not in DEVICE_NAMES:
        raise UsageError(f"unknown device {args.device!r}: choose one of {', '.join(DEVICE_NAMES)}")
    problem = find_problem(args.problem or handover.named_by(args.submission))
    harness, own_eval = choose_harness(problem, args.harness)
    reads = None if own_eval is not None else harness
    cases, not_official = cases_to_run(problem, reads, args.mode, args, args.seed, args.honest_bools)
    submission = read_submission(args.submission)
    device = resolve(args.device, problem.arch or STAND_IN_ARCH)
    if args.checks is not None:
        device.use_checks(args.checks)
    elif device.emulated and args.mode == "test" and "CDNA_CHECKS" not in os.environ:
        device.use_checks("all")
    elif "CDNA_CHECKS" in os.environ:
        device.check_variables()
    compilers.take(args.triton, problem, device, submission)
    if args.mode == "profile" and not harness.profile and own_eval is not None:
        raise UsageError(f"the folder's own eval.py has no profile mode; --harness {default_harness(1).name} has")
    if args.timeout is not None or own_eval is not None:  # of which it is the whole run's
        limit_s = args.timeout or problem.timeouts.of_mode(args.mode)
    else:
        limit_s = case_limit_s(problem, harness, device, args.mode, cases)
    plan = EvalPlan(
        mode=args.mode,
        problem=problem,
        submission=submission,
        harness=harness,
        device=device,
        cases=cases,
        seed=args.seed,
        limit_s=limit_s,
        accuracy=not args.no_accuracy,
        fixed_ranks=args.fixed_ranks,
        calls=args.calls,
        not_official=not_official,
    )
    plan.check_gpus()
    return plan, own_eval
