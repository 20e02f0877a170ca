"""`python -m cdna run --orders N`: a program in other orders that the card may take, until one changes what comes out.

The first run is in the card's order and tells where waves meet (engine/checks/preempt.cpp). Seeds then draw schedules:
waves held back where they met others, an XCD that comes late, a wave that runs ahead, a stream that is not waited for,
L2s that keep what they hold, a drawn order of everything. The one that changes an output or raises a finding is shrunk:
words are left out of it as long as it still does.
"""

import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ..errors import CdnaError
from .compile.source import HipSource
from .run import build_program, environment_of_run, environment_of_schedule

# Beyond this many times the first run's time, and so many seconds, a run is said not to end.
_TIMES, _SECONDS = 20, 60.0
_MOST_TRIES = 60  # of one wave that waits, and half of those of two, instead of a drawn order
_ADDRESS = re.compile(r"0x[0-9a-f]+|executed \d+ times|, the first of \d+")


class Place(NamedTuple):
    """A wave at one of its visits to an instruction, as a schedule's word has it, and that instruction's text."""

    word: str
    where: str


@dataclass
class Outcome:
    """What a run has left behind."""

    code: int | None  # None: it did not end
    output: str
    said: str
    digest: str = ""
    launches: list[tuple[str, str]] = field(default_factory=list)  # their numbers and kernels
    pairs: dict[tuple[str, str], list[tuple[Place, Place]]] = field(default_factory=dict)  # by instructions that meet
    streams: list[str] = field(default_factory=list)  # words for them, and for branches of graphs

    def findings(self) -> set[str]:
        """The first line of each, without what differs from run to run."""
        return {_ADDRESS.sub("", line) for line in self.said.splitlines() if line.startswith("cdna: ")}


def parse_orders(text: str) -> tuple[int, int]:
    """`N` or `N@SEED`: how many, and the first one's seed."""
    found = re.fullmatch(r"([1-9]\d*)(?:@([1-9]\d*))?", text)
    if found is None:
        raise CdnaError(f"--orders {text}: how many, or N@SEED with the first one's seed; whole numbers from 1 on")
    return int(found[1]), int(found[2] or 1)


class Runner:
    """Runs a built program in one order after another, each the same every time: on one thread."""

    def __init__(self, program: Path, name: str, arguments: Sequence[str], arch: str) -> None:
        self._command = [name, *arguments]
        self._program = program
        self._environment = {"CDNA_CHECKS": "all", **environment_of_run(arch)}
        self._limit: float | None = None

    def run(self, schedule: str) -> Outcome:
        """One run; a finding, an output and where waves meet."""
        with tempfile.NamedTemporaryFile("r", prefix="cdna-order-") as report:
            environment = {**self._environment, **environment_of_schedule(schedule), "CDNA_ORDER_REPORT": report.name}
            try:
                done = subprocess.run(
                    self._command,
                    executable=self._program,
                    env=environment,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=self._limit,
                )
                outcome = Outcome(done.returncode, done.stdout, done.stderr)
            except subprocess.TimeoutExpired:
                outcome = Outcome(None, "", "")
            _read_report(report.read(), outcome)
        return outcome

    def limit(self, seconds: float) -> None:
        """Longer than this a run does not take."""
        self._limit = seconds


def _read_report(text: str, outcome: Outcome) -> None:
    for line in text.splitlines():
        kind, *fields = line.split("\t")
        if kind == "launch":
            outcome.launches.append((fields[0], fields[1]))
        elif kind == "pair" and len(fields) == 5:
            launch, one, other, *where = fields
            places = Place(f"hold:{launch}:{one}", where[0]), Place(f"hold:{launch}:{other}", where[1])
            outcome.pairs.setdefault((where[0], where[1]), []).append(places)
        elif kind == "digest":
            outcome.digest = fields[0]
        elif kind == "stream":
            outcome.streams.append(f"stream:{fields[0]}")
        elif kind == "graph":
            outcome.streams.append("branches")


def draw(seed: int, first: Outcome) -> str:
    """The schedule of a seed: words of which each is one thing that the card may do."""
    drawn = random.Random(seed)
    words = []
    if drawn.random() < 0.5:
        words.append("l2")
    ways = 2 * ["order"] + 4 * ["hold"] * bool(first.pairs) + ["xcd", "ahead"] * bool(first.launches)
    ways += ["stream"] * bool(first.streams)
    way = drawn.choice(ways)
    if way == "order":
        words.append(f"order:{seed}")
    elif way == "stream":
        words += [one for one in first.streams if drawn.random() < 0.5] or [first.streams[-1]]
    elif way == "xcd":
        words.append(f"xcd:{drawn.choice(first.launches)[0]}:{drawn.randrange(8)}")
    elif way == "ahead":
        met = [place for pairs in first.pairs.values() for pair in pairs for place in pair]
        _, launch, wave, *_ = drawn.choice(met).word.split(":") if met else ("", first.launches[0][0], "0.0")
        words.append(f"ahead:{launch}:{wave}")
    else:
        pairs = list(first.pairs.values())
        for _ in range(drawn.choice((1, 1, 1, 2, 3))):  # few are enough for most faults
            words.append(drawn.choice(drawn.choice(drawn.choice(pairs))).word)
    return " ".join(dict.fromkeys(words))


class Comparison:
    """How an outcome differs from that of the card's order, in what two runs in that order have the same."""

    def __init__(self, first: Outcome, again: Outcome) -> None:
        self._first = first
        self._printed = first.output == again.output
        self._copied = first.digest == again.digest

    def difference(self, other: Outcome) -> str:
        """In words; empty: none."""
        if other.code is None:
            return "it does not end"
        if new := sorted(other.findings() - self._first.findings()):
            return new[0].removeprefix("cdna: ")
        if other.code != self._first.code:
            return f"exit code {other.code}, which is {self._first.code} in the card's order"
        if self._printed and other.output != self._first.output:
            return "it prints something else: " + _first_change(self._first.output, other.output)
        if self._copied and other.digest != self._first.digest:
            return "other bits are copied to the host"
        return ""


def _first_change(before: str, after: str) -> str:
    lines = before.splitlines(), after.splitlines()
    for one, other in zip(*lines, strict=False):
        if one != other:
            return f"`{other[:80]}` and not `{one[:80]}`"
    return f"{len(lines[1])} lines and not {len(lines[0])}"


def shrink(runner: Runner, comparison: Comparison, first: Outcome, schedule: str, difference: str) -> tuple[str, str]:
    """The shortest schedule that still differs, and how. In a drawn order much happens: one or two waves that wait are
    shorter, where they do the same."""
    words = schedule.split()
    if any(word.startswith("order:") for word in words):
        for fewer in _holds(first):
            if found := comparison.difference(runner.run(fewer)):
                words, difference = fewer.split(), found
                break
    for word in list(words):
        fewer = " ".join(one for one in words if one != word)
        if found := comparison.difference(runner.run(fewer)):
            words, difference = fewer.split(), found
    return " ".join(words), difference


def _holds(first: Outcome) -> list[str]:
    """One wave that waits where it has met another, and drawn pairs of those."""
    places = list(dict.fromkeys(place.word for pairs in first.pairs.values() for place in pairs[0]))
    both = [f"{one} {other}" for one in places for other in places if one != other]
    return places[:_MOST_TRIES] + random.Random(0).sample(both, min(2 * _MOST_TRIES, len(both)))


def explain(schedule: str, first: Outcome) -> list[str]:
    """A line for each word of a schedule."""
    where = {place.word: place.where for pairs in first.pairs.values() for pair in pairs for place in pair}
    kernels = dict(first.launches)
    lines = []
    for word in schedule.split():
        kind, *rest = word.split(":")
        launch = f"of launch {rest[0]} ({kernels.get(rest[0], '?')})" if len(rest) > 1 else ""
        if kind == "hold":
            group, wave = rest[1].split(".")
            lines.append(
                f"workgroup {group}, wave {wave} {launch} waits before {where.get(word, f'instruction {rest[2]}')}, "
                f"the time {rest[3]} that it comes there, until nobody else gets on"
            )
        elif kind == "xcd":
            lines.append(f"the workgroups of XCD {rest[1]} {launch} begin when nobody else gets on")
        elif kind == "ahead":
            group, wave = rest[1].split(".")
            lines.append(f"workgroup {group}, wave {wave} {launch} runs first, as far as it gets")
        elif kind == "stream":
            lines.append(f"stream {rest[0]}, by creation, does its work when it is waited for")
        elif kind == "branches":
            lines.append("of a graph's nodes that may come in any order the last one made comes first")
        elif kind == "l2":
            lines.append("an XCD's L2 keeps what it has read, and what it holds, until an instruction says otherwise")
        else:
            lines.append(f"workgroups and waves take turns as seed {rest[0]} draws them")
    return lines


def run_orders(sources: Sequence[HipSource], arguments: Sequence[str], count: int, seed: int) -> int:
    """The program in its card's order and `count` others; 1 at the first that differs, else the program's exit code."""
    runner = Runner(build_program(sources), str(sources[0].path), arguments, sources[0].arch)
    began = os.times().elapsed
    first = runner.run("")
    runner.limit(_SECONDS + _TIMES * (os.times().elapsed - began))
    sys.stdout.write(first.output)
    sys.stderr.write(first.said)
    if first.code and first.findings():
        print("cdna: orders: found in the card's own order; others are not looked at", file=sys.stderr)
        return first.code
    comparison = Comparison(first, runner.run(""))
    if difference := comparison.difference(runner.run("")):
        print(f"cdna: orders: two runs in the card's order differ: {difference}", file=sys.stderr)
        return 1
    for one in range(seed, seed + count):
        schedule = draw(one, first)
        if not (difference := comparison.difference(runner.run(schedule))):
            continue
        schedule, difference = shrink(runner, comparison, first, schedule, difference)
        print(f"cdna: orders: seed {one}: {difference}", file=sys.stderr)
        for line in explain(schedule, first):
            print(f"  {line}", file=sys.stderr)
        print(f"  again: python -m cdna run --schedule '{schedule}' ...; or --orders 1@{one}", file=sys.stderr)
        return 1
    met = f"{sum(map(len, first.pairs.values()))} of {len(first.pairs)} pairs of instructions"
    print(f"cdna: orders: {count} others, no difference; places where waves meet: {met}", file=sys.stderr)
    return first.code or 0
