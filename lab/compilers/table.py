"""Outcomes as they are kept, a line of JSON each, and their table for pages."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cdna import ARCHS

from .corpus import Reproducer

RESULTS = Path(__file__).resolve().parents[1] / "results"
OUTCOMES = RESULTS / "compilers" / "outcomes.jsonl"
Row = dict[str, Any]  # reproducer, compiler, arch, result, first_wrong, findings, version, digest
Rows = dict[tuple[str, str, str], Row]
RIGHT = "right"
_RIGHT = (RIGHT, *(f"{arch} {RIGHT}" for arch in ARCHS))


def row_of(line: str, compiler: str) -> Row:
    """Of what a child process says."""
    row = json.loads(line)
    return {"reproducer": row["reproducer"], "compiler": compiler, "arch": row["arch"], **row}


def read() -> Rows:
    if not OUTCOMES.exists():
        return {}
    rows = map(json.loads, OUTCOMES.read_text(encoding="utf-8").splitlines())
    return {(row["reproducer"], row["compiler"], row["arch"]): row for row in rows}


def append(row: Row) -> None:
    """At once, since a run may be ended at any time; of two lines about the same the later counts."""
    OUTCOMES.parent.mkdir(exist_ok=True)
    with OUTCOMES.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def write(rows: Rows) -> None:
    """All, in order."""
    partial = OUTCOMES.with_suffix(".partial")
    lines = (json.dumps(rows[key], ensure_ascii=False) for key in sorted(rows, key=_order))
    partial.write_text("\n".join([*lines, ""]), encoding="utf-8")
    os.replace(partial, OUTCOMES)


def _order(key: tuple[str, str, str]) -> tuple[Any, ...]:
    name, compiler, arch = key
    return name, compiler.partition("-")[0], [int(number) for number in re.findall(r"\d+", compiler)], arch


def told(row: Row) -> str:
    """An outcome in a word or two."""
    return ", ".join([row["result"], *row.get("findings", {})])


def cell(of_archs: Mapping[str, Row], archs: tuple[str, ...] = ARCHS) -> str:
    """Of one reproducer and compiler; archs are named where they differ, or where not all of them have run."""
    by = {arch: told(row) for arch, row in sorted(of_archs.items())}
    if len(by) < len(archs):
        return "; ".join(f"{arch} {words}" for arch, words in by.items())
    if len(set(by.values())) == 1:
        return by[archs[0]]
    return "; ".join(f"{arch} {words}" for arch, words in by.items() if words != RIGHT)


LANGUAGES = {"triton": "Triton", "hip": "clang, as ziglang has it"}


def write_results(rows: Rows, known: Mapping[str, Reproducer]) -> None:
    """A table for each language, of the reproducers that some compiler does not get right."""
    for language, name in LANGUAGES.items():
        mine = {name: one for name, one in sorted(known.items()) if one.language == language}
        compilers = sorted({key[1] for key in rows if key[0] in mine}, key=lambda compiler: _order(("", compiler, "")))
        labels = [label(rows, compiler) for compiler in compilers]
        table = {
            "title": f"Reproducers of miscompilations: {name}",
            "kind": "emulated",
            "machine": "emulated gfx942 and gfx950, with all checks",
            "versions": {name: ", ".join(labels)},
            "command": f"python -m lab.compilers {' '.join(compilers)}",
            "columns": ["", *labels],
            "rows": list(lines(rows, mine, compilers)),
            "notes": notes(rows, mine, compilers),
        }
        text = json.dumps(table, indent=2, ensure_ascii=False) + "\n"
        (RESULTS / f"compilers_{language}.json").write_text(text, encoding="utf-8")


def lines(rows: Rows, known: Mapping[str, Reproducer], compilers: list[str]) -> Iterator[list[str]]:
    for name, one in known.items():
        cells = [cell(of_archs(rows, name, compiler), one.archs) for compiler in compilers]
        if any(words not in ("", *_RIGHT) for words in cells):
            yield [f"`{name}` ({one.source})", *cells]


def notes(rows: Rows, known: Mapping[str, Reproducer], compilers: list[str]) -> list[str]:
    said = {
        name: [cell(of_archs(rows, name, compiler), one.archs) for compiler in compilers] for name, one in known.items()
    }
    right = sorted(name for name, cells in said.items() if any(cells) and set(cells) <= {"", *_RIGHT})
    several = f"{len(known)} reproducers; right in all that ran: {len(right)}: {', '.join(right)}."
    all_of_it = sum(len(one.archs) for one in known.values()) * len(compilers)
    open_ = all_of_it - sum(len(of_archs(rows, name, compiler)) for name in known for compiler in compilers)
    missing = f"Not run yet: {open_} of {all_of_it}, by compilers, archs and reproducers."
    return [several, missing] if open_ else [several]


def label(rows: Rows, compiler: str) -> str:
    """A version, as the compiler says it."""
    return next((row["version"] for key, row in rows.items() if key[1] == compiler), compiler)


def of_archs(rows: Rows, name: str, compiler: str) -> dict[str, Row]:
    return {row["arch"]: row for key, row in rows.items() if key[:2] == (name, compiler)}
