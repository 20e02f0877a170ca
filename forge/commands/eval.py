"""The command for people: eval.py MODE PROBLEM. Bad input ends here, with one line and exit code 2."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from forge.commands import jsonfile, own_evaluator, protocol
from forge.commands.against import REFERENCE_SUBMISSION, Other, Pair, PairView
from forge.commands.caveats import notes_for
from forge.commands.report import View
from forge.device import NAMES as DEVICE_NAMES
from forge.device import DeviceError, resolve
from forge.generate.submission import SubmissionError, read_submission
from forge.judge.evaluate import Plan, evaluate
from forge.judge.processes import adopt_orphans
from forge.judge.results import Run
from forge.judge.worker_pool import TaskError
from forge.task.cases import CaseError, CaseSpec, choose, given_case, on_ranks, parse_case_file, spec_of
from forge.task.harness import HARNESSES, Harness, HarnessError, default_harness, harness_named, harness_of_eval
from forge.task.problem import ROOT, Case, Problem, ProblemEntry, ProblemError, find_problem, load_sets
from forge.task.score import FloorError

MODES = ("test", "benchmark", "leaderboard", "profile")
EXIT_PASS, EXIT_FAIL, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 0, 1, 2, 130
STAND_IN_ARCH = "gfx942"  # emulated for a problem that names no GPU we know

BAD_INPUT = (CaseError, DeviceError, FloorError, HarnessError, ProblemError, SubmissionError, TaskError)


class UsageError(Exception):
    """Arguments that make no command. One line."""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} ({self.prog} --help says more)")


def parser() -> Parser:
    p = Parser(
        prog="eval.py",
        description="Judge a submission as the leaderboard does.",
        epilog="With POPCORN_FD set, MODE CASESFILE speaks the official evaluator's own protocol instead.",
    )
    p.add_argument("mode", metavar="MODE", help=", ".join(MODES))
    p.add_argument("problem", metavar="PROBLEM", help="a leaderboard name, or a folder in GPU MODE's format")
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
    p.add_argument("--timeout", type=float, metavar="S", help="seconds for each case (default: the official time-out)")
    p.add_argument("--harness", metavar="FLAVOUR", help=f"judge as this one does: {', '.join(HARNESSES)}")
    p.add_argument("--honest-bools", action="store_true", help="let False in a case mean false (officially: true)")
    p.add_argument("--no-accuracy", action="store_true", help="skip the relative L2 error beside each verdict")
    p.add_argument(
        "--checks", metavar="LIST", help="checks of kernels on an emulated device: all (default of test), none, names"
    )
    p.add_argument("--show-output", action="store_true", help="show what passing cases printed, too")
    return p


def add_case_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("--cases", metavar="CHOICE", default="all", help="all, smoke, or indices such as 0,3-5")
    p.add_argument(
        "--case",
        metavar="CASE",
        action="append",
        default=[],
        help="a case of your own instead, such as 'world_size: 4, m: 64, n: 2880, k: 2880, has_bias: true, seed: 1'; "
        "may be repeated",
    )
    p.add_argument("--world-size", type=int, metavar="N", help="run the cases on N ranks instead of their own number")
    p.add_argument(
        "--keep-local",
        action="store_true",
        help="with --world-size: scale what is spread over the ranks (task.yml: spread), so that each has as much",
    )


def main(argv: list[str]) -> int:
    if "POPCORN_FD" in os.environ:
        return protocol.main(argv)
    try:
        return _main(argv)
    except (UsageError, *BAD_INPUT) as error:
        print(f"eval.py: {error}", file=sys.stderr)
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
    signal.signal(signal.SIGTERM, terminated)
    adopt_orphans()
    if other is not None:
        return _compare(plan, other, run, args, argv)
    view = View(Console(soft_wrap=True), plan, args.show_output)
    view.head(run.notes, own_eval=run_eval is not None)
    try:
        with view:
            if run_eval is not None:
                own_evaluator.evaluate(plan, run_eval, run, view)
            else:
                evaluate(plan, run, view)
    except TaskError as error:
        raise TaskError(f"{error}{_own_reference_hint(plan)}") from None
    finally:
        exit_code = EXIT_PASS if run.passed else EXIT_FAIL
        if args.json is not None:
            jsonfile.write_json(args.json, jsonfile.as_json(plan, run, exit_code, ["eval.py", *argv]))
    view.foot(run)
    return exit_code


def _other_submission(plan: Plan, name: str, own_eval: Path | None) -> Other:
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

    entry = _own_entry(plan.problem) or plan.problem
    try:
        return Other(name, generate(entry, name, also=also_for(entry, name, plan.device.arch)).text.encode())
    except GenerationError as error:
        raise UsageError(f"--against {name}: {error}") from None


def _compare(plan: Plan, other: Other, run: Run, args: argparse.Namespace, argv: list[str]) -> int:
    pair = Pair(plan, other, run)
    view = PairView(Console(soft_wrap=True), pair, args.show_output)
    view.head(run.notes, own_eval=False)
    try:
        with view:
            pair.evaluate(view)
    finally:
        exit_code = EXIT_PASS if pair.passed else EXIT_FAIL
        if args.json is not None:
            jsonfile.write_json(args.json, pair.as_json(exit_code, ["eval.py", *argv]))
    view.foot(run)
    return exit_code


def _own_reference_hint(plan: Plan) -> str:
    """Some owners' references need libraries that only the leaderboard's machines have; ours need none."""
    ours = _own_entry(plan.problem)
    if ours is None or ours.directory == plan.problem.directory:
        return ""
    return f"; this repository's own {ours.name}, named without a path, needs only torch"


def _own_entry(problem: Problem) -> ProblemEntry | None:
    """This repository's entry of the same leaderboard name: an owner's folder of a problem has no kernels beside it."""
    sets = load_sets() if (ROOT / "task.yml").is_file() else ()
    return next((entry for group in sets for entry in group.problems if entry.name == problem.name), None)


def _let_go_of_stdout() -> None:
    """Python flushes stdout when it exits, and complains if nobody reads it any more."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def terminated(number: int, frame: Any) -> NoReturn:
    raise KeyboardInterrupt


def make_plan(args: argparse.Namespace) -> tuple[Plan, Path | None]:
    """Checks all that can be, cheapest first. The path: an eval.py of the folder's own that must judge."""
    if args.mode not in MODES:
        raise UsageError(f"unknown mode {args.mode!r}: choose one of {', '.join(MODES)}")
    if args.timeout is not None and not 0 < args.timeout < float("inf"):
        raise UsageError(f"--timeout {args.timeout:g}: must be more than 0 seconds")
    if args.seed is not None and args.seed < 0:
        raise UsageError(f"--seed {args.seed}: must not be negative")
    if args.json is not None and (args.json.is_dir() or not os.access(args.json.absolute().parent, os.W_OK)):
        raise UsageError(f"--json {args.json}: cannot be written")
    if args.device not in DEVICE_NAMES:
        raise UsageError(f"unknown device {args.device!r}: choose one of {', '.join(DEVICE_NAMES)}")
    problem = find_problem(args.problem)
    harness, own_eval = choose_harness(problem, args.harness)
    cases, not_official = cases_to_run(problem, None if own_eval is not None else harness, args)
    submission = read_submission(args.submission)
    device = resolve(args.device, problem.arch or STAND_IN_ARCH)
    if args.checks is not None:
        device.use_checks(args.checks)
    elif device.emulated and args.mode == "test" and "CDNA_CHECKS" not in os.environ:
        device.use_checks("all")
    if args.mode == "profile" and not harness.profile and own_eval is not None:
        raise UsageError(f"the folder's own eval.py has no profile mode; --harness {default_harness(1).name} has")
    plan = Plan(
        mode=args.mode,
        problem=problem,
        submission=submission,
        harness=harness,
        device=device,
        cases=cases,
        seed=args.seed,
        limit_s=args.timeout or problem.timeouts.of_mode(args.mode),
        accuracy=not args.no_accuracy,
        not_official=not_official,
    )
    check_gpus(plan)
    return plan, own_eval


def check_gpus(plan: Plan) -> None:
    gpus = getattr(plan.device, "gpus", None)
    if gpus is not None and plan.most_ranks > len(gpus):
        raise CaseError(
            f"a case has {plan.most_ranks} ranks and this machine {len(gpus)} GPU{'s' * (len(gpus) > 1)}: "
            f"choose others, or run them on fewer with --world-size {len(gpus)}, or emulate with --device gfx942"
        )


def cases_to_run(problem: Problem, harness: Harness | None, args: argparse.Namespace) -> tuple[list[CaseSpec], str]:
    """The cases that the options choose, as this harness reads them, and how they differ from the leaderboard's.

    Without a harness a folder's own eval.py will read them: it may know values that none of ours does.
    """
    yaml_cases, chosen, not_official = _choose_cases(problem, args)
    lines = [spec_of(case) for case in yaml_cases]
    if harness is not None:
        seed, honest_bools = getattr(args, "seed", None), getattr(args, "honest_bools", False)
        specs = parse_case_file("\n".join(lines), harness, seed, honest_bools)
    else:
        specs = [CaseSpec(i, line, case) for i, (line, case) in enumerate(zip(lines, yaml_cases))]
    return [specs[index] for index in chosen], not_official


def _choose_cases(problem: Problem, args: argparse.Namespace) -> tuple[tuple[Case, ...], list[int], str]:
    """The mode's whole list, the chosen indices into it, and how they differ from the leaderboard's cases."""
    cases = problem.tests if args.mode == "test" else problem.benchmarks
    said = []
    if args.case:
        if args.cases != "all":
            raise UsageError("--case and --cases: only one of them chooses")
        cases = tuple(given_case(text, cases[0]) for text in args.case)
        chosen = list(range(len(cases)))
        said.append("from the command line")
    elif args.cases == "smoke":
        if not problem.smoke:
            raise CaseError(f"{problem.name} states no smoke cases in its task.yml; name indices instead, as in 0,3-5")
        cases, chosen = problem.smoke, list(range(len(problem.smoke)))
        said.append("small ones, for a first look")
    else:
        chosen = choose(args.cases, len(cases), args.mode)
    if args.keep_local and args.world_size is None:
        raise UsageError("--keep-local goes with --world-size")
    if args.world_size is not None:
        if args.world_size < 1:
            raise UsageError(f"--world-size {args.world_size}: must be at least 1")
        spread = problem.spread
        if args.keep_local and not spread and (ours := _own_entry(problem)) is not None:
            spread = find_problem(ours.name).spread
        if args.keep_local and not spread:
            raise UsageError(f"--keep-local: {problem.name}'s task.yml has no key 'spread' that says what to scale")
        scaled = spread if args.keep_local else ()
        cases = tuple(
            on_ranks(case, args.world_size, scaled) if index in chosen else case for index, case in enumerate(cases)
        )
        said.append(f"on {args.world_size} ranks" + (f", {', '.join(scaled)} scaled with them" if scaled else ""))
    return cases, chosen, ", ".join(said)


def choose_harness(problem: Problem, wanted: str | None) -> tuple[Harness, Path | None]:
    """The row to judge by, and the folder's eval.py if that must judge because we do not know it."""
    if wanted is not None:
        return harness_named(wanted), None
    if problem.harness is not None:
        return harness_named(problem.harness), None
    source = problem.source_of("eval.py")
    default = default_harness(problem.world_size)
    if source is None or not source.is_file() or source == ROOT / "eval.py":
        return default, None
    known = harness_of_eval(source)
    return (known, None) if known is not None else (default, source)
