"""The command gen_submission.py: a problem's submission from its kernel sources, or a new one to begin from."""

import argparse
import math
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from forge.console import EXIT_CLOSED, aligned, number
from forge.files import write_whole
from forge.generate import kernelguard
from forge.generate.archs import FOLDERS
from forge.generate.pysource import GenerationError
from forge.generate.render import generate, variants_of
from forge.generate.skeleton import LANGUAGES, skeleton
from forge.task.leaderboards import leaderboard_of, other_arch
from forge.task.problem import ARCH_OF_GPU, ROOT, Problem, ProblemError, description_of, find_problem, load_sets

EXAMPLES = f"""\
examples:
  gen_submission.py --list
  gen_submission.py amd-fp8-mm -o submission.py --check
  gen_submission.py --new amd-fp8-mm --variant hip -o mine.py   # a file that runs, to begin from
  gen_submission.py --new amd-gemm-rs --arch {ARCH_OF_GPU["MI355X"]}  # for another GPU than the leaderboard's
"""


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="gen_submission.py",
        description="Make one submission file of a problem's kernel and all that it uses.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("problem", nargs="?", metavar="PROBLEM", help="leaderboard name, for example amd-fp8-mm")
    p.add_argument(
        "--variant",
        metavar="V",
        help="which of the problem's kernels (default: the one task.yml names); with --new: triton (default) or hip",
    )
    p.add_argument(
        "--new",
        metavar="PROBLEM",
        help="write a file that runs and passes, to begin from: the problem's definition in torch, and a kernel that "
        "copies; needs no kernel of this repository",
    )
    p.add_argument(
        "--arch",
        metavar="ARCH",
        help="for another GPU than the leaderboard's, where the problem's formats allow it (task.yml: also_arch)",
    )
    p.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default="submission.py",
        help="where to write (default: submission.py; '-' for standard output)",
    )
    p.add_argument(
        "--check",
        action="store_true",
        help="then compile every kernel of the file, Triton and HIP, for the "
        "problem's GPU, at every configuration it can choose, and print what it takes; needs no GPU",
    )
    p.add_argument(
        "--also",
        metavar="ARCH",
        help=f"make a file that runs on this GPU as well, not only on the problem's own: {', '.join(FOLDERS)}",
    )
    p.add_argument(
        "--check-file", metavar="FILE", help="print --check's report of an existing submission file; generates nothing"
    )
    p.add_argument(
        "--triton",
        metavar="VERSIONS",
        help="with --check or --check-file: compile with this Triton (3.7.1, or 'installed'; default: what the "
        "leaderboard's image has), or compare several, as in 3.6.0,3.7.1; brought from the package index and kept",
    )
    p.add_argument("--list", action="store_true", help="list the problems, their GPUs and their variants")
    return p


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    p = parser()
    arguments = p.parse_args(argv)
    if arguments.new is not None:
        if arguments.problem is not None or arguments.also or arguments.check_file or arguments.list:
            p.error("--new goes with --variant, --arch, -o, --check and --triton")
        arguments.problem = arguments.new
    if not arguments.list and arguments.problem is None:
        p.error("which PROBLEM? --list shows them")
    if arguments.triton and not (arguments.check or arguments.check_file):
        p.error("--triton goes with --check or --check-file")
    return arguments


def list_problems() -> None:
    rows = [("problem", "gpu", "arch", "variants (* default), and what is modelled of their benchmark cases' mean")]
    for group in load_sets():
        for entry in group.problems:
            times = {name: f" {number(us, 4)} us" for name, us in entry.modelled_us.items()}
            ranked = sorted(variants_of(entry), key=lambda name: entry.modelled_us.get(name, math.inf))
            names = [f"{name}{'*' * (name == entry.variant)}{times.get(name, '')}" for name in ranked]
            rows.append((entry.name, " ".join(entry.gpus), entry.arch or "", ", ".join(names) or "none yet"))
    print("\n".join(aligned(rows)))


def write(path: Path, text: str) -> None:
    try:
        write_whole(path, text)
    except OSError as error:
        raise GenerationError(f"{path}: cannot be written: {error.strerror}") from None


def run(arguments: argparse.Namespace) -> int:
    if arguments.list:
        list_problems()
        return 0
    problem = find_problem(arguments.problem)
    if arguments.arch is not None:
        problem = replace(problem, arch=arguments.arch, gpus=other_arch(problem, arguments.arch))
    if arguments.new:
        return begin(arguments, problem)
    if arguments.check_file:
        return check(read_submission(Path(arguments.check_file)), problem, sys.stdout, arguments.triton)
    submission = generate(problem, arguments.variant, also=arguments.also)
    report = sys.stderr if arguments.output == "-" else sys.stdout
    if arguments.output == "-":
        sys.stdout.write(submission.text)
        sys.stdout.flush()
    else:
        write(Path(arguments.output), submission.text)
        sources = " ".join(source.path for source in submission.sources)
        print(f"{arguments.output}: {problem.name}, {len(submission.text.encode()):,} bytes, from {sources}")
    return check(submission.text, problem, report, arguments.triton) if arguments.check else 0


def begin(arguments: argparse.Namespace, problem: Problem) -> int:
    """Writes a skeleton and says how to go on; never over a file that is there."""
    path, language = Path(arguments.output), arguments.variant or LANGUAGES[0]
    if problem.arch is None:
        raise GenerationError(f"--new {arguments.new}: its task.yml names no GPU that we know; --arch names one")
    text = skeleton(problem, language, problem.arch, problem.gpus, description_of(problem))
    if arguments.output == "-":
        sys.stdout.write(text)
        return 0
    if path.exists():
        raise GenerationError(f"{path}: is there already; name another file with -o")
    write(path, text)
    print(f"{path}: {problem.name} for {problem.arch}, begun in {language}; next:")
    if (board := leaderboard_of(problem.name)) is not None and board.gpus != problem.gpus:
        print(f"  (no leaderboard takes it: {board.name} is judged on {' '.join(board.gpus)})")
    device = f" --device {problem.arch}"
    judge = "./eval.py" if Path.cwd() == ROOT else shlex.quote(str(ROOT / "eval.py"))
    small = "smoke" if problem.smoke else "0"
    for mode, cases in (("test", small), ("benchmark", small), ("profile", "0")):  # which advises, of a real case
        print(f"  {judge} {mode} {arguments.new} --submission {shlex.quote(str(path))} --cases {cases}{device}")
    return check(text, problem, sys.stdout, arguments.triton) if arguments.check else 0


def check(text: str, problem: Problem, out: TextIO, triton: str | None) -> int:
    """Print what a submission's kernels take of the problem's GPU, and what KernelGuard says; the exit code."""
    from forge.compile_report.check import check_submission  # imports more than generating needs

    return max(check_submission(text, problem, out, triton), guard(text, out))


def read_submission(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise GenerationError(f"--check-file {path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise GenerationError(f"--check-file {path}: is not UTF-8 text; give a submission.py") from None


def guard(text: str, out: TextIO) -> int:
    """Print what KernelGuard says; the exit code: 1 of a file that it filters."""
    if not kernelguard.installed():
        print("KernelGuard, the leaderboard's filter, is not installed: pip install kernelguard", file=out)
        return 0
    found = kernelguard.verdict(text)
    print("\n".join(found.lines()) or f"KernelGuard: {found.classification}", file=out)
    return int(found.filtered)


def main(argv: list[str] | None = None) -> int:
    try:
        return run(parse_arguments(argv))
    except (GenerationError, ProblemError) as error:
        for line in str(error).split("\n"):
            print(f"gen_submission.py: {line}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `gen_submission.py ... -o - | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_CLOSED
    except KeyboardInterrupt:
        return 130
