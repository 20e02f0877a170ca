"""forge judge: many submissions, a line of JSON each (docs/bulk.md)."""

import argparse
import contextlib
import hashlib
import os
import select
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from forge.bulk.journal import Journal
from forge.bulk.judge import Judge
from forge.bulk.verdict import BadRequest, MachineError, Request, Verdict, refused, to_line
from forge.commands.planning import eval_parser
from forge.console import (
    EXIT_BAD_INPUT,
    EXIT_BUT,
    EXIT_CLOSED,
    EXIT_FAIL,
    EXIT_INTERRUPTED,
    EXIT_PASS,
    Parser,
    UsageError,
    end_on_signals,
    harmless,
)
from forge.device import NAMES as DEVICE_NAMES
from forge.judge.plan import BAD_INPUT

# Of eval.py: these mean the same here.
PASSED_ON = set(
    "--seed --timeout --full --harness --trust --calls --no-accuracy --checks --triton --world-size --replay "
    "--no-replay".split()
)
MOST_LINE_BYTES, CHUNK_BYTES = 64 << 20, 1 << 16
LOOKS_EVERY_S = 0.5
EXAMPLES = """\
examples:
  forge judge a.py b.py --problem amd-fp8-mm --cases smoke --workers 2 --out verdicts.jsonl
  forge judge *.py --out verdicts.jsonl                  # the problem that each header names; goes on where it was
  forge judge --problem amd-fp8-mm < requests.jsonl      # {"id": "7", "source": "..."} each; verdicts on stdout

Without FILES each line of standard input is a request: id, source or file, and problem, mode, cases, device where they
differ from the options. docs/bulk.md has the statuses.
"""


def parser() -> Parser:
    p = Parser(
        prog="forge judge",
        description="Judge many submissions, strictly: a line of JSON each, as it ends.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EXAMPLES,
    )
    p.add_argument("files", metavar="FILES", nargs="*", help="submissions (default: requests on standard input)")
    p.add_argument(
        "--problem", default="", help="a leaderboard name, or a folder (default: each file's #!POPCORN line)"
    )
    p.add_argument("--mode", default="test", choices=("test", "benchmark"), help="default: %(default)s")
    p.add_argument("--cases", default="all", metavar="CHOICE", help="all, smoke, or indices such as 0,3-5")
    p.add_argument("--device", default="auto", choices=DEVICE_NAMES, help="default: %(default)s")
    p.add_argument("--workers", type=int, metavar="N", help="so many at a time (default: 1; all that a cluster has)")
    p.add_argument("--scheduler", default="", metavar="ADDRESS", help="judge on the workers of this Dask cluster")
    p.add_argument(
        "--out", type=Path, metavar="FILE", help="append verdicts to FILE; what is there already is not judged again"
    )
    p.add_argument(
        "--baseline",
        default="",
        metavar="NAME",
        help="benchmarks: a file, or a variant as --against of eval.py takes it, whose times the reward is beside",
    )
    pass_on(p)
    return p


def pass_on(p: Parser, names: set[str] = PASSED_ON) -> None:
    """Has a command take these options of eval.py's."""
    for action in eval_parser()._actions:
        if names & set(action.option_strings):
            p._add_action(action)


class Requests:
    """What is to be judged: files that are named, or lines of standard input as they come."""

    def __init__(self, files: Sequence[str], fd: int | None) -> None:
        self.asked: list[tuple[str, Any]] = [(name, {"id": name, "file": name}) for name in files]
        self.fd, self.data, self.too_long, self.number = fd, bytearray(), False, 0

    @property
    def ended(self) -> bool:
        return self.fd is None and not self.asked

    def take(self) -> tuple[str, Any] | None:
        """(What to call it, what it says), if one is there."""
        while not self.asked and self.fd is not None and select.select([self.fd], [], [], 0)[0]:
            self._read(os.read(self.fd, CHUNK_BYTES))
        return self.asked.pop(0) if self.asked else None

    def _read(self, data: bytes) -> None:
        if not data:
            self.fd, data = None, b"\n" if self.data or self.too_long else b""
        first, *rest = data.split(b"\n")
        self.data += first
        for more in rest:
            self._line(bytes(self.data))
            self.data[:] = more
        if len(self.data) > MOST_LINE_BYTES:
            self.too_long = True
            self.data.clear()

    def _line(self, line: bytes) -> None:
        self.number += 1
        if line.strip() or self.too_long:
            said = BadRequest(f"longer than {MOST_LINE_BYTES >> 20} MiB") if self.too_long else line
            self.asked.append((f"line {self.number}", said))
        self.too_long = False


class Run:
    """One command: what was asked so far, what was said, and where it is written."""

    def __init__(self, judge: Judge, journal: Journal | None, console: Console) -> None:
        self.judge, self.journal, self.console = judge, journal, console
        self.counts: Counter[str] = Counter()
        self.blamed: Counter[str] = Counter()
        self.before = 0
        self.ids: set[str] = set()
        self.trouble = ""  # why verdicts could not be written

    def ask(self, name: str, said: Any) -> None:
        """Whatever is wrong with it is its verdict, and the rest goes on."""
        key = hashlib.sha256(said if isinstance(said, bytes) else repr(said).encode()).hexdigest()
        try:
            if isinstance(said, BadRequest):
                raise said
            asked = decoded(said) if isinstance(said, bytes) else said
            name = str(asked.get("id", name))
            if name in self.ids:
                raise BadRequest(f"another submission has the id {name!r}")
            self.ids.add(name)
            order = self.judge.order_of({**asked, "id": name})
            if not self.is_known(name, order.key):
                self.judge.add(order)
        except (BadRequest, *BAD_INPUT) as error:
            if not self.is_known(name, key):
                self.tell(refused(Request(id=name or "?"), error, key))

    def is_known(self, name: str, key: str) -> bool:
        status = self.journal.judged.get((name, key)) if self.journal else None
        self.before += status is not None
        self.counts += Counter([status] if status else [])
        return status is not None

    def tell(self, verdict: Verdict) -> None:
        self.counts[verdict.status] += 1
        self.blamed[verdict.blame] += 1
        if self.journal is None:
            sys.stdout.buffer.write(to_line(verdict))
            sys.stdout.flush()
            return
        shown = f"{verdict.status:14}{verdict.id}" + (f": {verdict.message}" if verdict.message else "")
        self.console.print(harmless(shown), markup=False, highlight=False, soft_wrap=True)
        why = self.journal.write(verdict)
        if why and not self.trouble:
            self.console.print(harmless(why), markup=False, highlight=False, soft_wrap=True)
        self.trouble = why

    @property
    def words(self) -> str:
        return ", ".join(f"{count} {status}" for status, count in self.counts.most_common()) or "none judged"

    def exit_code(self) -> int:
        if self.trouble or self.blamed["request"] or self.counts["machine_error"]:
            return EXIT_BAD_INPUT
        bad = self.counts.keys() - {"passed", "doubtful"}
        return EXIT_FAIL if bad else EXIT_BUT if self.counts["doubtful"] else EXIT_PASS


def progress_on(console: Console) -> Progress:
    """Its words may be a submission's, as the phase that it is in: they are no markup."""
    words = TextColumn("{task.description}", markup=False)
    columns = (words, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal)


def decoded(line: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadRequest(f"no request: {error}") from None


def options_of(args: argparse.Namespace, names: set[str] = PASSED_ON) -> list[str]:
    """Those of eval.py that were given."""
    options = []
    for action in eval_parser()._actions:
        if names & set(action.option_strings) and (value := getattr(args, action.dest)) != action.default:
            if action.nargs != 0:
                options += [action.option_strings[0], str(value)]
            elif value == action.const:  # of two flags for the same, the one that was given
                options.append(action.option_strings[0])
    return options


def main(argv: Sequence[str]) -> int:
    end_on_signals()
    try:
        return _main(parser().parse_args(argv))
    except (UsageError, BadRequest, MachineError) as error:
        print(f"forge judge: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_CLOSED


def _main(args: argparse.Namespace) -> int:
    if not args.files and sys.stdin.isatty():
        raise UsageError("name FILES, or give requests on standard input (forge judge --help)")
    requests = Requests(args.files, None if args.files else sys.stdin.fileno())
    asked = {"problem": args.problem, "mode": args.mode, "cases": args.cases, "device": args.device}
    console, started = Console(stderr=True), time.monotonic()
    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(Journal(args.out)) if args.out else None
        judge = stack.enter_context(
            Judge(args.workers, scheduler=args.scheduler, options=options_of(args), baseline=args.baseline, **asked)
        )
        run = Run(judge, journal, console)
        bar = stack.enter_context(progress_on(console))
        task = bar.add_task("starting", total=len(args.files) or None)
        try:
            while not (requests.ended and not judge.busy):
                while judge.free and (one := requests.take()) is not None:
                    run.ask(*one)
                also = [requests.fd] if judge.free and requests.fd is not None else []
                for verdict in judge.hear(LOOKS_EVERY_S, also):
                    run.tell(verdict)
                doing = next((one.doing for one in judge.slots if one.order), "")
                bar.update(task, completed=run.counts.total(), description=f"{run.words}  {harmless(doing)[:40]}")
        except KeyboardInterrupt:
            goes_on = f" {args.out} has them: the same command goes on." if args.out else ""
            console.print(f"interrupted: {run.words}.{goes_on}", markup=False, highlight=False, soft_wrap=True)
            return EXIT_INTERRUPTED
        run.trouble = journal.write() if journal else ""
    before = f"; {run.before} of them before" if run.before else ""
    elapsed = f"{run.words}{before}; {time.monotonic() - started:.1f} s"
    console.print("\n".join(filter(None, [elapsed, run.trouble])), markup=False, highlight=False, soft_wrap=True)
    return run.exit_code()
