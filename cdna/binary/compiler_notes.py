"""Warnings about what a compiler makes of a kernel, or would not take: given once, kept for whoever reports them."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field


class CompilerFault(UserWarning):
    """A kernel that its compiler is known to get wrong, or that the leaderboard's compiler may refuse."""


@dataclass(frozen=True)
class CompilerNote:
    """subject: a Triton kernel's name, a HIP source's."""

    subject: str
    arch: str
    text: str

    def __str__(self) -> str:
        return f"{self.subject} on {self.arch}: compiler: {self.text}"


@dataclass
class _Kept:
    given: set[CompilerNote] = field(default_factory=set)
    fresh: list[CompilerNote] = field(default_factory=list)


_kept = _Kept()


def warn_of(subject: str, arch: str, texts: Iterable[str]) -> None:
    """Warn, once a subject, arch and text."""
    for note in (CompilerNote(subject, arch, text) for text in texts):
        if note not in _kept.given:
            _kept.given.add(note)
            _kept.fresh.append(note)
            warnings.warn(f"{note} (docs/compilers.md)", CompilerFault, stacklevel=2)


def take() -> list[CompilerNote]:
    """Those given since the last call."""
    taken, _kept.fresh = _kept.fresh, []
    return taken
