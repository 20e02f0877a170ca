"""The table of instructions written anew: what several instructions share stands in one row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from cdna.isa.rows import OPCODE, TABLE, TESTED

COLUMNS = 11
COLUMNS_OF_ALL = 3
WIDEST = 36  # of an aligned cell: a longer one moves what is behind it


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
    """The rows of the file: the opposite of cdna.isa.rows.read_rows."""
    alike: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for name, *columns, encoding in rows:
        place = OPCODE.fullmatch(encoding)
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


def write_rows(rows: Iterable[list[str]], file: Path = TABLE) -> None:
    """Replace the table's rows, columns aligned; its head stays."""
    head = [line for line in file.read_text().splitlines() if line.startswith("#")]
    ordered = sorted(_families(rows))
    wide = [[row for row in ordered if i < COLUMNS_OF_ALL or len(row) == COLUMNS] for i in range(COLUMNS)]
    widths = [min(WIDEST, max(len(row[i]) for row in wide[i])) for i in range(COLUMNS)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in ordered]
    file.write_text("\n".join([*head, *lines, ""]))


def archs_text(archs: Iterable[str], tested: Iterable[str]) -> str:
    """The second column."""
    return ",".join(arch + TESTED * (arch in set(tested)) for arch in sorted(archs))
