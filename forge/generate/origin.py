"""Where a line of a generated submission comes from: its file in the repository, and the line there."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from forge.task.problem import ROOT

_SOURCE = re.compile(r"#   ([0-9a-f]{16})  (\S+)")
_SECTION = re.compile(r"\s*# ---- (\S+)$")
_PLACE = re.compile(r"(?:[^\s(`]*/)?submission\.py:(\d+)")


class Origins:
    """Of one submission's text; one that was not generated, or whose sources have changed since, has none."""

    def __init__(self, text: str, root: Path = ROOT) -> None:
        self._lines = text.splitlines()
        self._sources: dict[str, list[str]] = {}
        for sha256, path in _SOURCE.findall(text[:10_000]):
            file = root / path
            if file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest().startswith(sha256):
                self._sources[path] = file.read_text(encoding="utf-8").splitlines()

    def of_line(self, number: int) -> str:
        """`kernels/.../x.py:14` of a line, counted from 1; "" if it is not known."""
        if not 1 <= number <= len(self._lines):
            return ""
        heads = ((n, _SECTION.match(self._lines[n - 1])) for n in range(number, 0, -1))
        head, found = next(((n, found) for n, found in heads if found), (0, None))
        if found is None or found[1] not in self._sources:
            return ""
        source, at = self._sources[found[1]], 0
        for text in (line.strip() for line in self._lines[head:number]):  # lines of a file keep their order
            if text:
                at = next((n for n in range(at + 1, len(source) + 1) if source[n - 1].strip() == text), at)
        return f"{found[1]}:{at}" if at and source[at - 1].strip() == self._lines[number - 1].strip() else ""

    def readable(self, text: str) -> str:
        """The text with every place in the submission, in whatever temporary folder, named as its author knows it."""

        def place(found: re.Match[str]) -> str:
            return self.of_line(int(found[1])) or f"submission.py:{found[1]}"

        return _PLACE.sub(place, text)
