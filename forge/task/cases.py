"""Cases as the leaderboard spells them: spec lines, the secret seed, and the choice that --cases makes.

A task.yml holds cases as YAML; the leaderboard writes each as a line "m: 64; n: 128; seed: 7" into a file and
the evaluator parses it back with a regular expression. What the round trip does to a value (`false` -> the
word "False", which is true) is what the leaderboard tests, so we make the same trip.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

import yaml

from forge.task.harness import Harness
from forge.task.problem import Case

FALSE_WORDS = ("False", "None", "false", "none", "null")  # are true in Python and mean the opposite

KINDS = {bool: "true or false", int: "an integer", str: "a word"}  # of a case's values


class CaseError(Exception):
    """A spec line that does not parse, or a choice of cases that does not exist. One line."""


@dataclass(frozen=True)
class CaseSpec:
    """A case to run: its line, what the line parsed to, and its index in the mode's list."""

    index: int
    spec: str
    args: Case

    @property
    def world_size(self) -> int | None:
        value = self.args.get("world_size")
        return value if isinstance(value, int) else None


def spec_of(case: Case) -> str:
    """The line the leaderboard writes: Python's own spelling of each value."""
    return "; ".join(f"{key}: {value}" for key, value in case.items())


def case_text(spec: str) -> str:
    """A spec line for a table: m: 64; n: 128 -> m=64 n=128."""
    return " ".join(part.strip().replace(": ", "=") for part in spec.split(";"))


def product_of_numbers(args: Case) -> float:
    """How large a case is, where its problem does not say what it costs: good to order cases by."""
    numbers = [value for key, value in args.items() if type(value) is int and value > 0 and key != "seed"]
    return float(math.prod(numbers))


def given_case(text: str, like: Case) -> Case:
    """A case from the command line: "world_size: 4, m: 64, has_bias: false", as in a task.yml or a spec line.

    Its keys are those of the problem's own cases, of which `like` is one.
    """
    inner = text.strip().removeprefix("{").removesuffix("}").replace(";", ",")
    try:
        case = yaml.safe_load("{" + inner + "}")
    except yaml.YAMLError:
        case = None
    if not isinstance(case, dict) or not case or None in case.values():
        raise CaseError(f"--case '{text}': not 'key: value, key: value', as in '{_listed(like)}'")
    for key, value in case.items():
        if type(value) not in KINDS:
            raise CaseError(f"--case '{text}': {key} must be an integer, a word or true/false, found {value!r}")
    missing, unknown = [key for key in like if key not in case], [str(key) for key in case if key not in like]
    if missing or unknown:
        said = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has unknown {', '.join(unknown)}"] * bool(unknown)
        raise CaseError(f"--case '{text}': {' and '.join(said)}; a case of this problem is '{_listed(like)}'")
    for key, value in like.items():
        if type(case[key]) is not type(value):
            raise CaseError(f"--case '{text}': {key} must be {KINDS[type(value)]}, found '{case[key]}'")
    if case.get("world_size", 1) < 1:
        raise CaseError(f"--case '{text}': world_size must be at least 1")
    return {key: case[key] for key in like}


def _listed(case: Case) -> str:
    words = {key: str(value).lower() if isinstance(value, bool) else value for key, value in case.items()}
    return ", ".join(f"{key}: {value}" for key, value in words.items())


def on_ranks(case: Case, world_size: int, scaled: tuple[str, ...]) -> Case:
    """The case on another number of ranks; the keys in `scaled` change with it, so that each rank's share stays."""
    before = case.get("world_size")
    if not isinstance(before, int):
        raise CaseError(f"--world-size {world_size}: this problem's cases have no world_size")
    changed = {**case, "world_size": world_size}
    for key in scaled:
        if case[key] * world_size % before:
            raise CaseError(
                f"--world-size {world_size} --keep-local: {key}={case[key]} of {before} ranks does not scale to it"
            )
        changed[key] = case[key] * world_size // before
    return changed


def parse_spec(line: str, harness: Harness, honest_bools: bool = False) -> Case:
    """A line's arguments as this harness reads them; `honest_bools` gives True and False their meaning."""
    item = re.compile(rf"\s*({harness.key_pattern}):\s*({harness.word_pattern}|[+-]?[0-9]+)\s*")
    args: Case = {}
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


def parse_case_file(text: str, harness: Harness, seed: int | None, honest_bools: bool = False) -> list[CaseSpec]:
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
            raise CaseError(f"--cases {choice}: '{part}' is neither an index nor a range (use all, smoke, or 0,3-5)")
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        if last < first:
            raise CaseError(f"--cases {choice}: the range {first}-{last} runs backwards")
        if last >= count:
            raise CaseError(f"--cases {choice}: no case {last}; there are {count} {what} cases, 0 to {count - 1}")
        chosen += [index for index in range(first, last + 1) if index not in chosen]
    return chosen
