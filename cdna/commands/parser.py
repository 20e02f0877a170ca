"""The subcommands' names and options: without what the commands themselves import."""

import argparse
import os
import re
from pathlib import Path
from typing import Any

from ..binary.waits import MOST_STEPS
from ..cards import ARCHS, get_card
from ..errors import CdnaError
from ..hip.compile.source import HipSource
from ..version import model_version, release

DESCRIPTION = "HIP programs and kernels on an emulated MI300X or MI355X, without a GPU."
_SCHEDULE_WORD = re.compile(r"l2|branches|(order|stream):\d+|xcd:\d+:\d+|ahead:\d+:\d+\.\d+|hold:\d+:\d+\.\d+:\d+:\d+")
_LETTERS = {"f": "-ffast-math", "m": "-munsafe-fp-atomics", "W": "-Wno-vla"}
ARGUMENTS = (
    "an argument of the kernel, in order: f16[64x128]=randn (or zeros, ones, nan, arange, empty), FILE.npy, i32=5, "
    "f32=0.5, null, pad=8 (so many zero bytes); may be repeated"
)


class _Version(argparse.Action):
    """Told when it is asked for: the model's hash reads all sources."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"cdna {release()}, model {model_version()}")
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    """One subcommand for each thing that this installation can do."""
    parser = argparse.ArgumentParser(prog="cdna", description=DESCRIPTION)
    parser.add_argument("--version", action=_Version, nargs=0, help="the number, the commit and the time model's hash")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (_add_run, _add_check, _add_profile, _add_compile, _add_report, _add_debug, _add_coverage):
        add(commands)
    _add_code_objects(commands)
    commands.add_parser(
        "doctor",
        help="what was found of compilers and headers, and what to install",
        description="Print what was found of compilers, headers and device libraries.",
    )
    return parser


def _add_run(commands: Any) -> None:
    run = commands.add_parser(
        "run",
        help="compile a HIP program, host and device, and run it",
        description="Compile a HIP program, host and device, and run it. The exit code is the program's.",
    )
    _add_compile_options(run)
    run.add_argument(
        "--counters", action="store_true", help="print at the end what each kernel executed, and a modelled time"
    )
    run.add_argument(
        "--checks",
        metavar="LIST",
        help="checks of kernels: all, none or names; the program ends at the first finding (report:LIST: it goes on)",
    )
    run.add_argument("--sarif", type=Path, metavar="FILE", help="also write what checks find, for code scanning")
    run.add_argument(
        "--orders",
        metavar="N[@SEED]",
        help="also run it in N other orders that the card may take, with checks, to the first that changes an output",
    )
    run.add_argument("--schedule", metavar="WORDS", help="run it in the order that `--orders` has printed")
    run.add_argument(
        "-o",
        dest="output",
        type=Path,
        metavar="FILE",
        help="put the program there first, for one that looks for its files beside itself",
    )
    run.add_argument("files", type=Path, nargs="+", metavar="file", help="HIP source; one of them with main()")
    run.usage = run.format_usage().removeprefix("usage: ").strip() + " [-- the program's own arguments]"


def _add_check(commands: Any) -> None:
    check = commands.add_parser(
        "check",
        help="waits and hazards on every path of every kernel; launches nothing",
        description="Look at every path of every kernel for registers used before what loads them has come, and for "
        "instructions too close to each other. Exit code: 0 all proven, 1 something found, 3 not all of it decided.",
    )
    _add_compile_options(check, default_arch=None)
    check.add_argument("--json", type=Path, metavar="FILE", help="also write it all as JSON")
    check.add_argument("--sarif", type=Path, metavar="FILE", help="also write the findings for code scanning")
    check.add_argument(
        "--steps", type=int, default=MOST_STEPS, metavar="N", help=f"how much to walk of one program ({MOST_STEPS:,})"
    )
    check.add_argument(
        "files", type=Path, nargs="+", metavar="file", help=".co, .hsaco or bundle, .s, HIP source, or a Triton .py"
    )


def _add_profile(commands: Any) -> None:
    profile = commands.add_parser(
        "profile",
        help="where the time goes, line by line, and what a kernel would gain without each reason; modelled",
        description="Run a HIP program, one kernel of a code object (--grid, --block, --arg), or a Python script that "
        "launches Triton kernels, and print for each kernel which lines take its modelled time, why, and what it would "
        "gain without that. The exit code is the program's.",
    )
    _add_compile_options(profile, default_arch=None)
    _add_launch_options(profile, required=False)
    _add_profile_options(profile)
    profile.add_argument("files", type=Path, nargs="+", metavar="file", help="HIP sources, a .co or .hsaco, or a .py")
    profile.usage = profile.format_usage().removeprefix("usage: ").strip() + " [-- the program's own arguments]"


def _add_compile(commands: Any) -> None:
    compile_ = commands.add_parser(
        "compile",
        help="compile kernels to a file that hipModuleLoad takes",
        description="Compile the kernels of a HIP source to a code object of the emulated "
        "device, as hipcc --genco does for a card.",
    )
    _add_compile_options(compile_)
    compile_.add_argument("-o", dest="output", type=Path, required=True, metavar="FILE", help="where to write it")
    compile_.add_argument("file", type=Path, help="HIP source")


def _add_report(commands: Any) -> None:
    report = commands.add_parser(
        "report",
        help="registers, LDS, occupancy and size of each kernel",
        description="Print what each kernel of a file takes of the card. Executes nothing.",
    )
    _add_compile_options(report)
    report.add_argument(
        "--threads",
        type=int,
        default=0,
        metavar="N",
        help="threads of a workgroup (default: what the kernel was compiled for)",
    )
    report.add_argument("--dynamic-lds", type=int, default=0, metavar="BYTES", help="LDS that the launch adds")
    report.add_argument("file", type=Path, help="AMDGCN assembly (.s) or HIP source")


def _add_debug(commands: Any) -> None:
    debug = commands.add_parser(
        "debug",
        help="stop a program's waves, show what they hold, go on step by step",
        description="Run a Triton script, a HIP source or a code object (with the words of `launch` behind it) under a "
        "prompt that stops waves; `help` there lists its commands. They may come from a file.",
    )
    _add_compile_options(debug)
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


def _add_coverage(commands: Any) -> None:
    coverage = commands.add_parser(
        "coverage",
        help="which of the card's instructions are implemented and tested",
        description="List the instructions of each arch: implemented and tested singly, implemented, not implemented.",
    )
    coverage.add_argument("--arch", choices=ARCHS, help="one card (default: both)")
    coverage.add_argument("--missing", action="store_true", help="list only what is not tested or not implemented")
    coverage.add_argument("--json", type=Path, metavar="FILE", help="also write the lists to a file")


def _add_compile_options(parser: argparse.ArgumentParser, default_arch: str | None = ARCHS[0]) -> None:
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


def _add_code_objects(commands: Any) -> None:
    """`dump` and `launch`, with their options."""
    dump = commands.add_parser("dump", help="disassemble a code object", description="Disassemble a code object.")
    launch = commands.add_parser(
        "launch", help="launch a kernel of a code object", description="Launch a kernel of a code object."
    )
    for command in (dump, launch):
        command.add_argument("file", type=Path, help=".co, .hsaco or bundle")
        command.add_argument("--arch", help="which of a bundle's")
    _add_launch_options(launch, required=True)
    launch.add_argument("--checks", default="none", metavar="NAMES", help="all, none, or names of checks")
    launch.add_argument("--save", type=Path, metavar="DIR", help="write each tensor there afterwards, as argN.npy")


def _add_launch_options(parser: argparse.ArgumentParser, required: bool) -> None:
    """Which kernel, and with what. required: grid and block are."""
    parser.add_argument("--kernel", metavar="NAME", help="which, where there are several")
    parser.add_argument("--grid", required=required, type=_counts, metavar="X[,Y[,Z]]", help="workgroups")
    parser.add_argument(
        "--block", required=required, type=_counts, metavar="X[,Y[,Z]]", help="work-items of a workgroup"
    )
    parser.add_argument("--lds", type=int, default=0, metavar="BYTES", help="dynamic LDS")
    parser.add_argument("--arg", action="append", default=[], metavar="ARG", help=ARGUMENTS)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of randn (default: 0)")


def _counts(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _add_profile_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help="write what one CU's waves do over time, for Chrome's tracing or Perfetto; modelled",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write it all as one page")


def source_of(arguments: argparse.Namespace, file: Path) -> HipSource:
    """The file, to be compiled as the options say."""
    flags = [f"-D{define}" for define in arguments.defines]
    flags += [f"-std={arguments.std}"] if arguments.std else []
    flags += arguments.features
    flags += [f"-O{arguments.level}"] if arguments.level else []
    return HipSource(file, arguments.arch or ARCHS[0], tuple(flags), tuple(arguments.include_dirs))


def choose_schedule(words: str | None) -> None:
    """Have the program's waves held back as `--orders` has printed it: on one thread, with checks."""
    if words is not None:
        from ..hip.run import environment_of_schedule

        for word in words.split():
            if not _SCHEDULE_WORD.fullmatch(word):
                raise CdnaError(f"--schedule: `{word}` is none of its words: docs/emulated-device.md")
        os.environ.update(environment_of_schedule(words))
        os.environ.setdefault("CDNA_CHECKS", "all")


def choose_checks(names: str | None) -> None:
    """Have all launches of this process and of those that it starts checked as an option says."""
    if names is not None:
        from .. import checks

        checks.parse_kinds(names.removeprefix("report:"))
        os.environ[checks.VARIABLE] = names
