#!/usr/bin/env python3
"""Writes the tables of README.md and docs/ from their data, or all results as one page; --check only compares.

A result is one table: what was measured, on what machine, with which versions, by which command. A page names what it
shows between two comments: `<!-- results: NAME -->`, a file of lab/results, and `<!-- end of results -->`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "lab" / "results"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
KINDS = ("measured", "modelled", "emulated")
SHOWN = re.compile(r"(<!-- results: (\S+) -->\n).*?(<!-- end of results -->)", re.DOTALL)
HEAD = """\
# Measurements

Written by `python lab/measurements.py --page FILE` from `lab/results/*.json`. *Measured*: by a clock on the
machine that is named. *Modelled*: worked out by the time model from what was executed. *Emulated*: a result on the
emulated card, whose time means nothing. **We own no AMD GPU: nothing here was measured on one.** Ratios hold within a
run on one machine; where they were seen on several machines the notes say how far they spread.
"""


class ResultError(ValueError):
    """A file of results that cannot be used; says which and why."""


@dataclass(frozen=True)
class Result:
    """One table. `rows` have a cell for each of `columns`, whose names hold their units."""

    name: str
    title: str
    kind: str
    machine: str
    versions: dict[str, str]
    command: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)

    def table(self) -> str:
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def section(self) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        head = f"*{self.kind.capitalize()}* on {self.machine}; {versions}. `{self.command}`"
        return "\n\n".join([f"## {self.title}", head, *self.notes, self.table()])


def read(path: Path) -> Result:
    """The result in a file. ResultError names the file and what is wrong in it."""
    try:
        result = Result(path.stem, **json.loads(path.read_text(encoding="utf-8")))
    except (TypeError, json.JSONDecodeError) as error:
        raise ResultError(f"{path.name}: {error}") from None
    if result.kind not in KINDS:
        raise ResultError(f"{path.name}: kind must be {', '.join(KINDS)}, not {result.kind!r}")
    for number, row in enumerate(result.rows):
        if len(row) != len(result.columns):
            raise ResultError(f"{path.name}: row {number} has {len(row)} cells for {len(result.columns)} columns")
    return result


def page(results: dict[str, Result]) -> str:
    """All results, a section each."""
    return "\n\n".join([HEAD.rstrip(), *(results[name].section() for name in sorted(results))]) + "\n"


def with_tables(results: dict[str, Result], page: str) -> str:
    """A page as it has to be."""

    def shown(found: re.Match[str]) -> str:
        if found[2] not in results:
            raise ResultError(f"a page shows the results {found[2]}, and there is no lab/results/{found[2]}.json")
        return f"{found[1]}\n{results[found[2]].table()}\n\n{found[3]}"

    return SHOWN.sub(shown, page)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit code 1 if a page does not hold what it should")
    parser.add_argument("--page", type=Path, help="write all results into this file of Markdown")
    arguments = parser.parse_args(argv)
    now = {path: path.read_text(encoding="utf-8") for path in PAGES}
    try:
        results = {path.stem: read(path) for path in sorted(RESULTS.glob("*.json"))}
        wanted = {path: with_tables(results, text) for path, text in now.items()}
    except ResultError as error:
        print(f"measurements.py: {error}", file=sys.stderr)
        return 2
    if arguments.page:
        arguments.page.write_text(page(results), encoding="utf-8")
    stale = [path for path in PAGES if wanted[path] != now[path]]
    for path in stale:
        if arguments.check:
            print(f"{path.relative_to(ROOT)} is not what its data say: run python lab/measurements.py", file=sys.stderr)
        else:
            path.write_text(wanted[path], encoding="utf-8")
    return int(arguments.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
