#!/usr/bin/env python3
"""Generate submission.py for a problem from its kernel sources."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import TextIO

from forge.console import aligned
from forge.generate import kernelguard
from forge.generate.archs import FOLDERS
from forge.generate.pysource import GenerationError
from forge.generate.render import generate, variants_of
from forge.task.problem import Problem, ProblemError, find_problem, load_sets


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gen_submission.py",
        description="Make one submission file of a problem's kernel and all that it uses.",
    )
    parser.add_argument("problem", nargs="?", metavar="PROBLEM", help="leaderboard name, for example amd-fp8-mm")
    parser.add_argument(
        "--variant", metavar="V", help="which of the problem's kernels (default: the one task.yml names)"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default="submission.py",
        help="where to write (default: submission.py; '-' for standard output)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="then compile every kernel of the file, Triton and HIP, for the "
        "problem's GPU, at every configuration it can choose, and print what it takes; needs no GPU",
    )
    parser.add_argument(
        "--also",
        metavar="ARCH",
        help=f"make a file that runs on this GPU as well, not only on the problem's own: {', '.join(FOLDERS)}",
    )
    parser.add_argument(
        "--check-file", metavar="FILE", help="print --check's report of an existing submission file; generates nothing"
    )
    parser.add_argument(
        "--triton",
        metavar="VERSIONS",
        help="with --check or --check-file: compile with this Triton (3.7.1, or 'installed'; default: what the "
        "leaderboard's image has), or compare several, as in 3.6.0,3.7.1; brought from the package index and kept",
    )
    parser.add_argument("--list", action="store_true", help="list the problems, their GPUs and their variants")
    arguments = parser.parse_args(argv)
    if not arguments.list and arguments.problem is None:
        parser.error("which PROBLEM? --list shows them")
    if arguments.triton and not (arguments.check or arguments.check_file):
        parser.error("--triton goes with --check or --check-file")
    return arguments


def list_problems() -> None:
    rows = [("problem", "gpu", "arch", "variants (* default)")]
    for group in load_sets():
        for entry in group.problems:
            names = [name + "*" * (name == entry.variant) for name in variants_of(entry)]
            rows.append((entry.name, " ".join(entry.gpus), entry.arch or "", ", ".join(names) or "none yet"))
    print("\n".join(aligned(rows)))


def write_atomically(path: Path, text: str) -> None:
    """Readers see the old file or the new one, never half of it."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o666 & ~umask)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise GenerationError(f"{path}: cannot be written: {error.strerror}") from None


def run(arguments: argparse.Namespace) -> int:
    if arguments.list:
        list_problems()
        return 0
    problem = find_problem(arguments.problem)
    if arguments.check_file:
        return check(read_submission(Path(arguments.check_file)), problem, sys.stdout, arguments.triton)
    submission = generate(problem, arguments.variant, also=arguments.also)
    report = sys.stderr if arguments.output == "-" else sys.stdout
    if arguments.output == "-":
        sys.stdout.write(submission.text)
        sys.stdout.flush()
    else:
        write_atomically(Path(arguments.output), submission.text)
        sources = " ".join(source.path for source in submission.sources)
        print(f"{arguments.output}: {problem.name}, {len(submission.text.encode()):,} bytes, from {sources}")
    return check(submission.text, problem, report, arguments.triton) if arguments.check else 0


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
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
