"""Cases as the leaderboard spells them: spec lines, the secret seed, and the choice that --cases makes.

A task.yml holds cases as YAML; the leaderboard writes each as a line "m: 64; n: 128; seed: 7" into a file and
the evaluator parses it back with a regular expression. What the round trip does to a value (`false` -> the
word "False", which is true) is what the leaderboard tests, so we make the same trip.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from forge.harness import Harness
from forge.problem import Case

FALSE_WORDS = (
    "False",
    "None",
    "false",
    "none",
    "null",
)  # words that are true in Python and mean the opposite


class CaseError(Exception):
    """A spec line that does not parse, or a choice of cases that does not exist. One line."""


@dataclass(frozen=True)
class CaseSpec:
    """A case to run: its line, what the line parsed to, and its index in the mode's list."""

    index: int
    spec: str
    args: dict[str, Any]

    @property
    def world_size(self) -> int | None:
        value = self.args.get("world_size")
        return value if isinstance(value, int) else None


def spec_of(case: Case) -> str:
    """The line the leaderboard writes: Python's own spelling of each value."""
    return "; ".join(f"{key}: {value}" for key, value in case.items())


def parse_spec(line: str, harness: Harness, honest_bools: bool = False) -> dict[str, Any]:
    """A line's arguments as this harness reads them; `honest_bools` gives True and False their meaning."""
    item = re.compile(rf"\s*({harness.key_pattern}):\s*({harness.word_pattern}|[+-]?[0-9]+)\s*")
    args: dict[str, Any] = {}
    for part in line.split(";"):
        match = item.fullmatch(part)
        if match is None:
            raise CaseError(
                f"invalid case '{line.strip()}': '{part.strip()}' is not 'key: integer' or 'key: word' "
                f"as harness {harness.name} reads them"
            )
        args[match[1]] = _value(match[2], harness, honest_bools)
    return args


def _value(text: str, harness: Harness, honest_bools: bool) -> Any:
    try:
        return int(text)
    except ValueError:
        pass
    if harness.lowercase_bools and text in ("true", "false"):
        return text == "true"
    if honest_bools and text in ("True", "False"):
        return text == "True"
    return text


def parse_case_file(
    text: str, harness: Harness, seed: int | None, honest_bools: bool = False
) -> list[CaseSpec]:
    """The cases of a file with one spec line each, with the secret seed mixed in where the harness does."""
    cases = []
    for index, line in enumerate(text.splitlines()):
        args = parse_spec(line, harness, honest_bools)
        if seed is not None and harness.mixes_seed and isinstance(args.get("seed"), int):
            args["seed"] = mix_seed(args["seed"], seed)
        cases.append(CaseSpec(index, line, args))
    return cases


def mix_seed(public: int, secret: int) -> int:
    """Cantor's pairing function: one integer from a case's public seed and the run's secret one."""
    return public + (public + secret) * (public + secret + 1) // 2


def false_words(cases: list[CaseSpec]) -> list[str]:
    """The keys whose word says "no" and which generate_input will nevertheless take for true."""
    return sorted({key for case in cases for key, value in case.args.items() if value in FALSE_WORDS})


def choose(choice: str, count: int, what: str) -> list[int]:
    """The indices that `--cases` names: "all", or a list such as "0,3-5", of the mode's `count` cases."""
    if choice == "all":
        return list(range(count))
    chosen: list[int] = []
    for part in choice.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if match is None:
            raise CaseError(
                f"--cases {choice}: '{part}' is neither an index nor a range (use all, smoke, or 0,3-5)"
            )
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        if last < first:
            raise CaseError(f"--cases {choice}: the range {first}-{last} runs backwards")
        if last >= count:
            raise CaseError(
                f"--cases {choice}: no case {last}; there are {count} {what} cases, 0 to {count - 1}"
            )
        chosen += [index for index in range(first, last + 1) if index not in chosen]
    return chosen
