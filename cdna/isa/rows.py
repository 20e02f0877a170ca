"""Rows of the table of instructions. Instructions that differ in one word of the name and in the opcode alone share a
row of the file: the words stand in braces, their opcodes in the same order."""

import re
from collections.abc import Iterator
from pathlib import Path

from ..errors import CdnaError

TABLE = Path(__file__).with_name("instructions.txt")
TESTED = "*"
OPCODE = re.compile(r"(\w+:)([0-9a-f,]+)(.*)")
_FAMILY = re.compile(r"(.*)\{(.*)\}(.*)")


def _spelled_out(row: list[str]) -> Iterator[list[str]]:
    """A row for each instruction of it."""
    family = _FAMILY.fullmatch(row[0])
    if not family:
        yield row
        return
    words = family[2].split(",")
    encoding = OPCODE.fullmatch(row[-1])
    opcodes = encoding[2].split(",") if encoding else []
    if encoding and len(opcodes) != len(words):
        raise ValueError(f"{row[0]} has {len(words)} words and {len(opcodes)} opcodes")
    cells = [f"{encoding[1]}{opcode}{encoding[3]}" for opcode in opcodes] if encoding else [row[-1]] * len(words)
    for word, cell in zip(words, cells):
        yield [family[1] + word + family[3], *row[1:-1], cell]


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
