"""What `eval.py MODE` is asked for: its options, and the plan of the run that they ask for."""

import argparse
import os
from pathlib import Path

from forge.commands import handover, profile_files
from forge.commands.own_evaluator import calls
from forge.console import EXIT_BUT, Parser, UsageError, refuse_unwritable
from forge.device import NAMES as DEVICE_NAMES
from forge.device import resolve
from forge.device.extensions import move_kept_folder
from forge.generate.submission import KERNEL, check_submission, read_source
from forge.judge import compilers
from forge.judge.plan import (
    EMULATED_LIMIT_S,
    STAND_IN_ARCH,
    EvalPlan,
    add_case_options,
    case_limit_s,
    cases_to_run,
    choose_harness,
    sample_of,
    small_case,
)
from forge.task.harness import HARNESSES
from forge.task.problem import MODES, find_problem

EXAMPLES = """\
examples:
  eval.py test amd-fp8-mm                               # ./submission.py on the best device this machine has
  eval.py test --submission mine.py --cases smoke       # the problem that the file's header names; seconds
  eval.py benchmark amd-gemm-rs --against baseline      # beside another variant or file: ratios
  eval.py history                                       # what was run; also compare, report, import (--help of each)

With POPCORN_FD set, MODE CASESFILE speaks the official evaluator's own protocol instead.
Exit codes: docs/exit-codes.md.
"""


def eval_parser() -> Parser:
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
    profile_files.add_options(p)
    p.add_argument("--seed", type=int, metavar="N", help="the run's secret seed, mixed into each case's own")
    p.add_argument("--json", metavar="FILE", type=Path, help="write everything to FILE as well")
    p.add_argument("--sarif", metavar="FILE", type=Path, help="write what checks find to FILE, for code scanning")
    p.add_argument(
        "--no-history", action="store_true", help="do not keep this run (eval.py history lists what is kept)"
    )
    p.add_argument(
        "--timeout",
        type=float,
        metavar="S",
        help="seconds for each case, whatever it does (default: the official time-out; emulated: "
        f"{EMULATED_LIMIT_S:g}, or a minute of processor time without a launch, an instruction or output)",
    )
    p.add_argument(
        "--full",
        action="store_true",
        help="emulated benchmarks and profiles: all of large cases, not a sample of their workgroups; checks them too",
    )
    p.add_argument(
        "--no-judge",
        action="store_true",
        help="emulated benchmarks and profiles: a modelled time alone; no output is looked at, and nothing passes",
    )
    p.add_argument("--harness", metavar="FLAVOUR", help=f"judge as this one does: {', '.join(HARNESSES)}")
    p.add_argument("--strict", action="store_true", help=f"exit {EXIT_BUT} where a pass has doubts or findings")
    p.add_argument(
        "--trust",
        action="store_true",
        help="the submission is one's own: what its confinement lacks here is no doubt (docs/confinement.md)",
    )
    p.add_argument(
        "--calls",
        type=int,
        choices=(1, 3),
        default=3,
        help="of each case, each judged: on its own data, on other data at the same addresses, on other data elsewhere "
        "(default: %(default)s; 1 for the largest cases)",
    )
    p.add_argument(
        "--replay",
        action="store_true",
        default=None,
        help="emulated, one GPU: make each output anew of the kernels and operations that it is said to be made by, in "
        "a process that never held the submission (docs/harness.md); so does --strict",
    )
    p.add_argument("--no-replay", dest="replay", action="store_false", default=None, help="with --strict: do not")
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
    p.add_argument(
        "--compact",
        action="store_true",
        help="at the end alone, in under thirty lines: the verdict, the first cause with its line, one next step",
    )
    p.add_argument("--show-output", action="store_true", help="show what passing cases printed, too")
    return p


def make_plan(args: argparse.Namespace, source: bytes | None = None) -> tuple[EvalPlan, Path | None]:
    """Checks all that can be, cheapest first. source: in place of what --submission's file holds. The path: an eval.py
    of the folder's own that must judge."""
    if args.mode not in MODES:
        raise UsageError(f"unknown mode {args.mode!r}: choose one of {', '.join(MODES)}")
    if args.timeout is not None and not 0 < args.timeout < float("inf"):
        raise UsageError(f"--timeout {args.timeout:g}: must be more than 0 seconds")
    if args.seed is not None and args.seed < 0:
        raise UsageError(f"--seed {args.seed}: must not be negative")
    written = {f"--{name}": path for name in ("json", "sarif") if (path := getattr(args, name)) is not None}
    for option, path in written.items():
        refuse_unwritable(option, path)
    if args.device not in DEVICE_NAMES:
        raise UsageError(f"unknown device {args.device!r}: choose one of {', '.join(DEVICE_NAMES)}")
    if source is None and not args.problem:
        source = read_source(args.submission)
    problem = find_problem(args.problem or handover.named_by(source or b"", args.submission))
    for option, output in written.items():
        sources = [file.source for file in problem.files if file.source is not None]
        read = {args.submission: "the submission itself"}
        read |= dict.fromkeys([*sources, problem.directory / "task.yml"], "one of the problem's files")
        for path, what in read.items():
            if path.exists() and output.exists() and output.samefile(path):
                raise UsageError(f"{option} {output}: is {what}, which it would replace")
    harness, own_eval = choose_harness(problem, args.harness)
    reads = None if own_eval is not None else harness
    cases, not_official = cases_to_run(problem, reads, args.mode, args, args.seed, args.honest_bools)
    source = read_source(args.submission) if source is None else source
    called = KERNEL if own_eval is None or calls(own_eval, KERNEL) else ""
    submission = check_submission(source, args.submission, called)
    device = resolve(args.device, problem.arch or STAND_IN_ARCH)
    moved = move_kept_folder() if device.emulated else ""
    if args.checks is not None:
        device.use_checks(args.checks)
    elif device.emulated and args.mode == "test" and "CDNA_CHECKS" not in os.environ:
        device.use_checks("all")
    elif "CDNA_CHECKS" in os.environ:
        device.check_variables()
    compilers.take(args.triton, problem, device, submission)
    if args.no_judge and (not device.emulated or args.mode not in ("benchmark", "profile") or own_eval is not None):
        raise UsageError("--no-judge goes with benchmark and profile on an emulated device, where we judge")
    limit_s = args.timeout or case_limit_s(problem, harness, device, args.mode, cases)
    samples = device.emulated and args.mode in ("benchmark", "profile") and not args.full
    sample, not_sampled = sample_of(problem, cases) if samples else ("", "")
    plan = EvalPlan(
        mode=args.mode,
        problem=problem,
        submission=submission,
        harness=harness,
        device=device,
        cases=cases,
        seed=args.seed,
        limit_s=limit_s,
        limit_asked=args.timeout is not None,
        accuracy=not args.no_accuracy,
        fixed_ranks=args.fixed_ranks,
        calls=args.calls,
        judged=not args.no_judge,
        replayed=args.strict if args.replay is None else args.replay,
        replay_asked=bool(args.replay),
        sample=sample,
        not_sampled=not_sampled,
        small=small_case(problem, reads, judged=bool(sample)) if device.emulated else None,
        not_official=not_official,
        moved=moved,
    )
    plan.check_gpus()
    return plan, own_eval
