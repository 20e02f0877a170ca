"""What the leaderboards' images hold (torch, Triton, ROCm, clang, Python): `runners` in the repository's task.yml."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forge.task.problem import ROOT, ProblemError, read_top

TOOLS = ("torch", "triton", "rocm", "clang", "python")


@dataclass(frozen=True)
class Tool:
    """What an image has of one thing. version: None where nobody knows, and `source` says why."""

    version: str | None
    source: str


@dataclass(frozen=True)
class Runner:
    """An image that a leaderboard runs submissions in."""

    name: str
    since: str
    tools: dict[str, Tool]  # by TOOLS

    def versions(self) -> dict[str, str | None]:
        return {name: tool.version for name, tool in self.tools.items()}


def load_runners(root: Path = ROOT) -> tuple[Runner, ...]:
    """Every image that task.yml describes, today's first."""
    runners = []
    for row in read_top(root).readers("runners"):
        readers = {name: row.reader(name) for name in TOOLS}
        tools = {name: Tool(tool.get("version", str, None), tool.get("source", str)) for name, tool in readers.items()}
        runners.append(Runner(row.get("name", str), row.get("since", str), tools))
    return tuple(runners)


def runner_of(problem_name: str, root: Path = ROOT) -> Runner:
    """The image that judges a problem; today's for one of no set, such as an owner's folder."""
    if not (root / "task.yml").is_file():  # an installed forge
        raise ProblemError(f"{root}: no task.yml here that says what the leaderboard's image holds")
    runners = load_runners(root)
    by_name = {runner.name: runner for runner in runners}
    for group in read_top(root).readers("sets"):
        for key in ("runner", "runner_then"):
            named: Any = group.get(key, str, None)
            if named is not None and named not in by_name:
                raise group.error(f"'{key}' is {named!r}, and `runners` has {', '.join(by_name)}")
        if any(row.values.get("name") == problem_name for row in group.readers("problems")):
            return by_name[group.get("runner", str)]
    return runners[0]
