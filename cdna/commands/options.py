"""Options of subcommands whose modules take launches to import: a command that makes none does without."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ARGUMENTS = (
    "an argument of the kernel, in order: f16[64x128]=randn (or zeros, ones, nan, arange, empty), FILE.npy, i32=5, "
    "f32=0.5, null, pad=8 (so many zero bytes); may be repeated"
)


def add_code_object_commands(commands: Any) -> None:
    """`dump` and `launch`, with their options."""
    dump = commands.add_parser("dump", help="disassemble a code object", description="Disassemble a code object.")
    launch = commands.add_parser(
        "launch", help="launch a kernel of a code object", description="Launch a kernel of a code object."
    )
    for command in (dump, launch):
        command.add_argument("file", type=Path, help=".co, .hsaco or bundle")
        command.add_argument("--arch", help="which of a bundle's")
    add_launch_options(launch, required=True)
    launch.add_argument("--checks", default="none", metavar="NAMES", help="all, none, or names of checks")
    launch.add_argument("--save", type=Path, metavar="DIR", help="write each tensor there afterwards, as argN.npy")


def add_launch_options(parser: argparse.ArgumentParser, required: bool) -> None:
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


def add_profile_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help="write what one CU's waves do over time, for Chrome's tracing or Perfetto; modelled",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write it all as one page")


def until_closed(command: Callable[[], int]) -> int:
    """The exit code of a command; 1, without a word, once nobody reads what it prints (`... | head`)."""
    try:
        code = command()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is flushed at the end
        return 1
