"""KernelGuard, the filter that the leaderboard runs over a file before it queues: its verdict, where it is installed.

An optional dependency (`pip install kernelguard`, tried with 0.3.2), imported only when it is asked.
"""

import importlib
import importlib.util
import re
from dataclasses import dataclass

from forge.generate.rules import MAX_BYTES

_QUOTED = re.compile(
    r"[\w.]*\w\(|\w+(?:[._]\w+)+"
)  # code in the evidence: the begin of a call, a dotted or joined name


@dataclass(frozen=True)
class Match:
    rule: str  # THREAD_INJECTION
    severity: str  # low, medium, high, critical
    evidence: str
    line: int | None  # of the file; None where the evidence quotes nothing that is in it

    def __str__(self) -> str:
        place = f"line {self.line}: " if self.line else ""
        return f"{place}{self.rule.replace('_', ' ').lower()}, severity {self.severity}: {self.evidence}"


@dataclass(frozen=True)
class Verdict:
    classification: str  # valid, low_confidence, suspicious, hacked ...
    filtered: bool  # the leaderboard refuses the file
    matches: tuple[Match, ...]

    def lines(self) -> list[str]:
        """What to tell a person, each in a line; [] of a file that is valid."""
        if self.filtered:
            return [f"KernelGuard filters this file, so the leaderboard refuses it; change {m}" for m in self.matches]
        return [f"KernelGuard: {self.classification}, the leaderboard takes the file: {m}" for m in self.matches]


def installed() -> bool:
    return importlib.util.find_spec("kernelguard") is not None


def verdict(text: str) -> Verdict:
    """What KernelGuard says of a submission's text. ModuleNotFoundError where it is not installed."""
    found = importlib.import_module("kernelguard").analyze_code(text)
    matches = (
        Match(match["pattern"], match["severity"], match["evidence"], line_of(match["evidence"], text))
        for match in found["matched_patterns"]
    )
    return Verdict(found["classification"], bool(found["should_filter"]), tuple(matches))


def remarks(content: bytes) -> list[str]:
    """The verdict's lines on any file; none where KernelGuard is not installed, or the file too large to be taken."""
    if not installed() or len(content) >= MAX_BYTES:
        return []
    try:
        return verdict(content.decode("utf-8", "replace")).lines()
    except Exception as error:  # a tool of others, over a file of anybody's
        return [f"KernelGuard ended with {type(error).__name__} ({error}): what it makes of this file is not known"]


def line_of(evidence: str, text: str) -> int | None:
    """The first line with code that the evidence quotes, the longest such: KernelGuard itself names no line."""
    for quoted in sorted(set(_QUOTED.findall(evidence)), key=len, reverse=True):
        place = text.find(quoted)
        if place >= 0:
            return text.count("\n", 0, place) + 1
    return None
