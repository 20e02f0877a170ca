"""Places in a run folder's copies as places in the files that their author wrote.

A finding names the submission where the judge has put it. Whoever generated it from kernels/ looks for the line there:
the generated file has the author's own lines, so that text finds them.
"""

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

_PLACE = re.compile(r"(?P<file>[^\s(]*?(?P<name>[\w.-]+\.(?:py|hip|cu|h|cpp))):(?P<line>\d+)")
T = TypeVar("T")
_AROUND = 30  # lines that are compared on either side
_ENOUGH = 3  # lines in a row that are the same, so that it is no chance


@functools.cache
def _sources(root: Path) -> dict[Path, list[str]]:
    files = (path for path in sorted((root / "kernels").rglob("*")) if path.suffix in (".py", ".hip", ".h"))
    return {path: [line.strip() for line in path.read_text(errors="replace").splitlines()] for path in files}


def _alike(a: list[str], at: int, b: list[str], there: int) -> int:
    """How many lines in a row around two places are the same; 0 where those are not."""
    count = 0
    for step in (1, -1):
        i, k = at, there
        while 0 <= i < len(a) and 0 <= k < len(b) and abs(i - at) < _AROUND and a[i] == b[k]:
            i, k, count = i + step, k + step, count + 1
    return max(count - 1, 0)


def author_place(text: str, line: int, root: Path) -> str:
    """`kernels/FILE:LINE` of a line of a generated file, by the lines around it; "" if they are in none, or in several.

    line: from 1.
    """
    lines = [one.strip() for one in text.splitlines()]
    if not 0 < line <= len(lines) or not lines[line - 1]:
        return ""
    found = [
        (_alike(lines, line - 1, source, there), f"{path.relative_to(root)}:{there + 1}")
        for path, source in _sources(root).items()
        for there, one in enumerate(source)
        if one == lines[line - 1]
    ]
    found.sort(reverse=True)
    alone = len(found) == 1 or (len(found) > 1 and found[0][0] > found[1][0])
    return found[0][1] if alone and found[0][0] >= _ENOUGH else ""


def with_author_places(told: T, texts: Mapping[str, str], root: Path) -> T:
    """A report or a list of words that names the author's places. texts: the run folder's files by name."""

    def place(match: re.Match[str]) -> str:
        text = texts.get(match["name"])
        if text is None:
            return match[0]
        return author_place(text, int(match["line"]), root) or f"{match['name']}:{match['line']}"

    def placed(value: Any) -> Any:
        if isinstance(value, str):
            return _PLACE.sub(place, value)
        if isinstance(value, dict):
            return {key: placed(part) for key, part in value.items()}
        return [placed(part) for part in value] if isinstance(value, list | tuple) else value

    return msgspec.convert(placed(msgspec.to_builtins(told)), type(told))
