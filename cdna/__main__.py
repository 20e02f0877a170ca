"""`python -m cdna`: HIP programs and kernels on an emulated MI300X or MI355X, without a GPU."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from .cards import ARCHS, get_card
from .commands.options import add_code_object_commands, add_launch_options, add_profile_options, until_closed
from .errors import CdnaError
from .hip.compile.source import HipSource

_LETTERS = {"f": "-ffast-math", "m": "-munsafe-fp-atomics", "W": "-Wno-vla"}


def add_compile_options(parser: argparse.ArgumentParser, default_arch: str | None = ARCHS[0]) -> None:
    """Options that choose how a HIP source is compiled."""
    text = f"the card (default: {ARCHS[0]}, {get_card(ARCHS[0]).model})"
    parser.add_argument("--arch", default=default_arch, choices=ARCHS, help=text)
    parser.add_argument(
        "-I",
        dest="include_dirs",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="folder to look for headers in; may be repeated",
    )
    parser.add_argument(
        "-D",
        dest="defines",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="define a macro; may be repeated",
    )
    parser.add_argument("-std", dest="std", default="", metavar="STANDARD", help="C++ standard, as in -std=c++20")
    for letter, example in _LETTERS.items():
        parser.add_argument(
            f"-{letter}",
            dest="features",
            type=f"-{letter}{{}}".format,
            action="append",
            default=[],
            metavar="FLAG",
            help=f"a compiler flag of that letter, as in {example}",
        )
    parser.add_argument("-O", dest="level", default="", metavar="LEVEL", help="optimisation level (default: 3)")


def source_of(arguments: argparse.Namespace, file: Path) -> HipSource:
    """The file, to be compiled as the options say."""
    flags = [f"-D{define}" for define in arguments.defines]
    flags += [f"-std={arguments.std}"] if arguments.std else []
    flags += arguments.features
    flags += [f"-O{arguments.level}"] if arguments.level else []
    return HipSource(file, arguments.arch or ARCHS[0], tuple(flags), tuple(arguments.include_dirs))


def build_parser() -> argparse.ArgumentParser:
    """One subcommand for each thing that this installation can do."""
    parser = argparse.ArgumentParser(prog="cdna", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run",
        help="compile a HIP program, host and device, and run it",
        description="Compile a HIP program, host and device, and run it. The exit code is the program's.",
    )
    add_compile_options(run)
    run.add_argument(
        "--counters", action="store_true", help="print at the end what each kernel executed, and a modelled time"
    )
    run.add_argument(
        "--checks",
        metavar="LIST",
        help="checks of kernels: all, none or names; the program ends at the first finding (report:LIST: it goes on)",
    )
    run.add_argument(
        "-o",
        dest="output",
        type=Path,
        metavar="FILE",
        help="put the program there first, for one that looks for its files beside itself",
    )
    run.add_argument("files", type=Path, nargs="+", metavar="file", help="HIP source; one of them with main()")
    run.usage = run.format_usage().removeprefix("usage: ").strip() + " [-- the program's own arguments]"
    profile = commands.add_parser(
        "profile",
        help="where the time goes, line by line, and what a kernel would gain without each reason; modelled",
        description="Run a HIP program, one kernel of a code object (--grid, --block, --arg), or a Python script that "
        "launches Triton kernels, and print for each kernel which lines take its modelled time, why, and what it would "
        "gain without that. The exit code is the program's.",
    )
    add_compile_options(profile, default_arch=None)
    add_launch_options(profile, required=False)
    add_profile_options(profile)
    profile.add_argument("files", type=Path, nargs="+", metavar="file", help="HIP sources, a .co or .hsaco, or a .py")
    profile.usage = profile.format_usage().removeprefix("usage: ").strip() + " [-- the program's own arguments]"
    compile_ = commands.add_parser(
        "compile",
        help="compile kernels to a file that hipModuleLoad takes",
        description="Compile the kernels of a HIP source to a code object of the emulated "
        "device, as hipcc --genco does for a card.",
    )
    add_compile_options(compile_)
    compile_.add_argument("-o", dest="output", type=Path, required=True, metavar="FILE", help="where to write it")
    compile_.add_argument("file", type=Path, help="HIP source")
    report = commands.add_parser(
        "report",
        help="registers, LDS, occupancy and size of each kernel",
        description="Print what each kernel of a file takes of the card. Executes nothing.",
    )
    add_compile_options(report)
    report.add_argument(
        "--threads",
        type=int,
        default=0,
        metavar="N",
        help="threads of a workgroup (default: what the kernel was compiled for)",
    )
    report.add_argument("--dynamic-lds", type=int, default=0, metavar="BYTES", help="LDS that the launch adds")
    report.add_argument("file", type=Path, help="AMDGCN assembly (.s) or HIP source")
    debug = commands.add_parser(
        "debug",
        help="stop a program's waves, show what they hold, go on step by step",
        description="Run a Triton script, a HIP source or a code object (with the words of `launch` behind it) under a "
        "prompt that stops waves; `help` there lists its commands. They may come from a file.",
    )
    add_compile_options(debug)
    debug.add_argument("--checks", metavar="LIST", help="checks of kernels, as of `run`")
    debug.add_argument(
        "--trace-wave",
        metavar="GROUP:WAVE",
        help="no prompt: write all that this wave of each launch executes to a file",
    )
    debug.add_argument(
        "--trace-file", type=Path, default=Path("trace.txt"), metavar="FILE", help="that file (default: trace.txt)"
    )
    debug.add_argument("program", type=Path, help="script.py, program.hip or a code object")
    debug.add_argument("words", nargs=argparse.REMAINDER, help="the program's own arguments")
    coverage = commands.add_parser(
        "coverage",
        help="which of the card's instructions are implemented and tested",
        description="List the instructions of each arch: implemented and tested singly, implemented, not implemented.",
    )
    coverage.add_argument("--arch", choices=ARCHS, help="one card (default: both)")
    coverage.add_argument("--missing", action="store_true", help="list only what is not tested or not implemented")
    coverage.add_argument("--json", type=Path, metavar="FILE", help="also write the lists to a file")
    add_code_object_commands(commands)
    commands.add_parser(
        "doctor",
        help="what was found of compilers and headers, and what to install",
        description="Print what was found of compilers, headers and device libraries.",
    )
    return parser


def choose_checks(names: str | None) -> None:
    """Have all launches of this process and of those that it starts checked as an option says."""
    if names is not None:
        from . import checks

        checks.parse_kinds(names.removeprefix("report:"))
        os.environ[checks.VARIABLE] = names


def debug(arguments: argparse.Namespace) -> int:
    """`python -m cdna debug`; the program's exit code."""
    from .commands.debugger import Debugger, is_code_object, run_script, trace_of

    choose_checks(arguments.checks)
    program, words = arguments.program, arguments.words
    code_object = is_code_object(program)
    with ExitStack() as traced:
        at_end: Callable[[], None] = traced.close
        if arguments.trace_wave is not None:
            traced.enter_context(trace_of(arguments.trace_wave, arguments.trace_file))
        else:
            debugger = Debugger()
            traced.callback(debugger.report)
            debugger.prompt()
        if code_object:
            from .commands import code_objects

            return code_objects.launch(build_parser().parse_args(["launch", str(program), *words]), sys.stdout)
        if program.suffix == ".py":
            return run_script(program, words, arguments.arch)
        from .hip.run import run_program

        return run_program([source_of(arguments, program)], words, at_end=at_end)


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand; its exit code."""
    return until_closed(lambda: run(argv))


def run(argv: list[str] | None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    own = words.index("--") if words[:1] in (["run"], ["profile"]) and "--" in words else len(words)
    try:
        arguments = build_parser().parse_args(words[:own])
        if arguments.command == "run":
            from .hip.run import run_program

            choose_checks(arguments.checks)
            sources = [source_of(arguments, file) for file in arguments.files]
            return run_program(sources, words[own + 1 :], arguments.counters, arguments.output)
        if arguments.command == "profile":
            from .commands.profile import profile

            return profile(arguments, words[own + 1 :], source_of, sys.stdout)
        if arguments.command == "debug":
            return debug(arguments)
        if arguments.command == "compile":
            from .hip.run import compile_code_object

            compile_code_object(source_of(arguments, arguments.file), arguments.output)
            return 0
        if arguments.command == "report":
            from .commands.report import assembly_of, report

            if arguments.threads < 0 or arguments.threads > 1024:
                raise CdnaError(f"--threads {arguments.threads}: a workgroup has 1 to 1024 threads")
            arch, text = assembly_of(source_of(arguments, arguments.file))
            wrong = report(text, arch, sys.stdout, arguments.threads, arguments.dynamic_lds)
            for line in wrong:
                print(f"cdna: {line}", file=sys.stderr)
            return 1 if wrong else 0
        if arguments.command == "dump":
            from .commands.code_objects import dump

            return dump(arguments.file, arguments.arch, sys.stdout)
        if arguments.command == "launch":
            from .commands.code_objects import launch

            return launch(arguments, sys.stdout)
        if arguments.command == "coverage":
            from .commands.coverage import report as coverage_report

            return coverage_report(
                [arguments.arch] if arguments.arch else ARCHS, sys.stdout, arguments.missing, arguments.json
            )
        from .commands.doctor import doctor

        return doctor(sys.stdout)
    except CdnaError as error:
        print(f"cdna: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("cdna: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
