"""Finds in compiled assembly what only an assembler or a linker would: bad inline assembly, undefined symbols."""

from __future__ import annotations

import re

_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?')
_USED = re.compile(r"([\w.$]+)@(?:rel32|gotpcrel32)@lo")
_DEFINED = re.compile(r"^([\w.$]+):|^\s*\.(?:l?comm|set|amdgpu_lds)\s+([\w.$]+)", re.MULTILINE)
_ASSEMBLER = re.compile(r"^.*?:(\d+):\d+: error: (.*)$", re.MULTILINE)


def has_inline_assembly(text: str) -> bool:
    """Whether a programmer wrote some of it: the compiler checks that only when it assembles."""
    return "ASMSTART" in text


def source_of_line(text: str, number: int) -> str:
    """`file:line` of the source that assembly line `number` (from 1) came from; "" if that is not said."""
    files: dict[str, str] = {}
    place: tuple[str, str] | None = None
    for line in text.split("\n")[:number]:
        if found := _FILE.match(line):
            folder, name = found[2], found[3]
            files[found[1]] = f"{folder}/{name}" if name and not name.startswith("/") else name or folder
        elif (found := _LOC.match(line)) and found[2] != "0":
            place = found[1], found[2]
    return f"{files[place[0]]}:{place[1]}" if place and place[0] in files else ""


def undefined_symbol(text: str) -> str | None:
    """The first symbol that the code uses and nothing defines, as an error message; None if there is none."""
    defined = {name for pair in _DEFINED.findall(text) for name in pair}
    for use in _USED.finditer(text):
        if use[1] not in defined:
            place = source_of_line(text, text.count("\n", 0, use.start()) + 1)
            return f"{place + ': ' if place else ''}error: undefined device symbol {use[1]}"
    return None


def assembler_error(text: str, said: str) -> str:
    """The assembler's first message about `text`, at the line of the source that the instruction came from."""
    found = _ASSEMBLER.search(said)
    if not found:
        return f"error: assembling failed: {(said.strip().splitlines() or ['no message'])[0]}"
    number = int(found[1])
    place = source_of_line(text, number)
    return f"{place + ': ' if place else ''}error: {found[2]}: {text.split(chr(10))[number - 1].strip()}"
