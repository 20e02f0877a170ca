"""Rows of the table of instructions, read and written. Instructions that differ in one word of the name and in the
opcode alone share a row of the file: the words stand in braces, their opcodes in the same order."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..errors import CdnaError

TABLE = Path(__file__).with_name("instructions.txt")
TESTED = "*"
_COLUMNS = 11
_COLUMNS_OF_ALL = 3
_WIDEST = 36  # of an aligned cell: a longer one moves what is behind it
_FAMILY = re.compile(r"(.*)\{(.*)\}(.*)")
_OPCODE = re.compile(r"(\w+:)([0-9a-f,]+)(.*)")


def _spelled_out(row: list[str]) -> Iterator[list[str]]:
    """A row for each instruction of it."""
    family = _FAMILY.fullmatch(row[0])
    if not family:
        yield row
        return
    words = family[2].split(",")
    encoding = _OPCODE.fullmatch(row[-1])
    opcodes = encoding[2].split(",") if encoding else []
    if encoding and len(opcodes) != len(words):
        raise ValueError(f"{row[0]} has {len(words)} words and {len(opcodes)} opcodes")
    cells = [f"{encoding[1]}{opcode}{encoding[3]}" for opcode in opcodes] if encoding else [row[-1]] * len(words)
    for word, cell in zip(words, cells):
        yield [family[1] + word + family[3], *row[1:-1], cell]


def _largest_family(names: set[str]) -> tuple[str, str, list[str]]:
    """Of names, the most that differ in one word behind the first alone: what is before it, behind it, the words."""
    families: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in sorted(names):
        words = name.split("_")
        for i in range(1, len(words)):
            families["_".join([*words[:i], ""]), "_".join(["", *words[i + 1 :]])].append(words[i])
        families[name, ""].append("")
    (before, behind), words = max(families.items(), key=lambda item: (len(item[1]), item[0]))
    return before, "" if behind == "_" else behind, words


def _families(rows: Iterable[list[str]]) -> Iterator[list[str]]:
    """The rows of the file: the opposite of _spelled_out."""
    alike: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for name, *columns, encoding in rows:
        place = _OPCODE.fullmatch(encoding)
        alike[*columns, f"{place[1]}{{}}{place[3]}" if place else encoding][name] = place[2] if place else ""
    for (*columns, encoding), opcodes in alike.items():
        left = set(opcodes)
        while left:
            before, behind, words = _largest_family(left)
            words.sort(key=lambda word: (int(opcodes[before + word + behind] or "0", 16), word))
            names = [before + word + behind for word in words]
            left -= set(names)
            cell = encoding.format(",".join(opcodes[name] for name in names))
            yield [f"{before}{{{','.join(words)}}}{behind}" if len(words) > 1 else names[0], *columns, cell]


def read_rows(file: Path = TABLE) -> Iterator[tuple[int, list[str]]]:
    """(line number, columns) of each instruction; CdnaError names the line of what is wrong."""
    try:
        lines = file.read_text().splitlines()
    except OSError as error:
        raise CdnaError(f"{file}: {error.strerror}: the installation is incomplete") from None
    for number, line in enumerate(lines, 1):
        if line and not line.startswith("#"):
            try:
                yield from ((number, row) for row in _spelled_out(line.split()))
            except ValueError as error:
                raise CdnaError(f"{file}:{number}: {error}") from None


def write_rows(rows: Iterable[list[str]], file: Path = TABLE) -> None:
    """Replace the table's rows, columns aligned; its head stays."""
    head = [line for line in file.read_text().splitlines() if line.startswith("#")]
    ordered = sorted(_families(rows))
    wide = [[row for row in ordered if i < _COLUMNS_OF_ALL or len(row) == _COLUMNS] for i in range(_COLUMNS)]
    widths = [min(_WIDEST, max(len(row[i]) for row in wide[i])) for i in range(_COLUMNS)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in ordered]
    file.write_text("\n".join([*head, *lines, ""]))


def archs_text(archs: Iterable[str], tested: Iterable[str]) -> str:
    """The second column."""
    return ",".join(arch + TESTED * (arch in set(tested)) for arch in sorted(archs))
