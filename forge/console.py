"""What the commands share that people meet: arguments, exit codes, columns and numbers."""

import argparse
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

# What a terminal would obey or be deceived by: escapes, C0 and C1 controls, marks that turn the direction of writing.
CONTROL = re.compile(
    "\x1b\\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
EXIT_PASS, EXIT_FAIL, EXIT_BAD_INPUT, EXIT_BUT, EXIT_INTERRUPTED, EXIT_CLOSED = 0, 1, 2, 3, 130, 141


class UsageError(Exception):
    """Arguments that make no command. One line."""


class Parser(argparse.ArgumentParser):
    """One whose errors are a UsageError, not an exit."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} ({self.prog} --help says more)")


def fill_standard_descriptors() -> None:
    """Puts /dev/null where a shell has closed standard input, output or error: the next file would take its place."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "r" if descriptor == 0 else "w", closefd=False))


def end_on_signals() -> None:
    """From now on what ends a command from outside, a closed terminal too, ends it as Ctrl-C does; what whoever
    started it has it ignore, as nohup does, it still ignores."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _terminated)


def take_signals() -> None:
    """Those that `hold_signals` has held."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _terminated(number: int, frame: Any) -> NoReturn:
    raise KeyboardInterrupt


def refuse_unwritable(option: str, file: Path) -> None:
    """UsageError, before anything runs, where an option's file cannot be written."""
    if file.is_dir() or not os.access(file.absolute().parent, os.W_OK):
        raise UsageError(f"{option} {file}: cannot be written")


def aligned(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """One line per row, for tables that other programs may read too; columns in `right` are set to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            text.rjust(width) if column in right else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]


def harmless(text: str, indent: str = "") -> str:
    """What a submission may have put words into: nothing that a terminal obeys, and a mark before each further line."""
    first, *more = CONTROL.sub("", text).splitlines() or [""]
    return f"\n{indent}| ".join([first, *more])


def number(value: float | None, digits: int) -> str:
    """Significant digits, without an exponent for what people read as a plain number; "" for None."""
    if value is None:
        return ""
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e+" in text else text


def instructions_text(n: float) -> str:
    """Of waves, to two digits: 1.9 G instructions."""
    power = 9 if n >= 1e9 else 6
    value = n / 10**power
    return f"{value:.{1 if value < 10 else 0}f} {'G' if power == 9 else 'M'} instructions"


def work_text(instructions: float, torch_flops: float) -> str:
    """What a call executes: of waves, and of torch's own products where these are as much as matters."""
    power = next((n for n in (12, 9) if torch_flops >= 10**n), 0)
    torch = f"{torch_flops / 10**power:.3g} {'T' if power == 12 else 'G'}FLOP of torch's" if power else ""
    return " and ".join(filter(None, [instructions_text(instructions) if instructions else "", torch]))


def minutes_text(seconds: float) -> str:
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} hours"
