"""Checks of what hardware hides: which there are, what they find, and how a launch is made with them.

    with cdna.device("gfx942", checks="all"):       # or "none", or {"bounds", "race"}
        kernel[grid](...)                           # CheckError at the first finding
    cdna.findings()                                 # what was found since the last call

The engine does the work (engine/checks, launch_checks.py); hazards.py looks at the program itself.
"""

import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..engine.build import ENGINE_DIR
from ..errors import CdnaError, KernelFault
from ..results import Finding

# The engine's list: in the order of the kinds' bits.
KINDS = tuple(re.findall(r'^KIND\(\w+, "(\w+)"\)$', (ENGINE_DIR / "checks/kinds.h").read_text(), re.MULTILINE))
STATIC_KINDS = ("hazard",)  # without a bit there; comes next
ALL_KINDS = KINDS + STATIC_KINDS
VARIABLE = "CDNA_CHECKS"


class CheckError(KernelFault):
    """A check found something; `finding` says what."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


def as_finding(record: Any, kernel: str, arch: str, instruction: str, source: str, other_instruction: str) -> Finding:
    """Of the engine's Finding; instruction: `text`, source: file:line."""
    kind, message = ALL_KINDS[record.kind], record.message.decode(errors="replace")
    if kind in STATIC_KINDS:
        return Finding(kind, kernel, arch, message, instruction, source)
    lane, tensor = record.lane if record.lane >= 0 else None, record.tensor.decode(errors="replace")
    return Finding(
        kind, kernel, arch, message, instruction, source,
        tuple(record.group), record.wave, lane, record.address or None, tensor, other_instruction, record.count,
    )  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """Memory that a launch may touch: where it lies, what the kernel gets as pointer, and how a finding calls it."""

    base: int
    size_bytes: int
    pointer: int
    name: str


@dataclass(frozen=True)
class Memory:
    """The tensors of a launch; `open` where the kernel may follow pointers that none of them covers."""

    tensors: Sequence[Tensor] = ()
    open: bool = True


UNKNOWN_MEMORY = Memory()


@dataclass(frozen=True)
class Settings:
    """Which checks run, and whether a finding stops the launch."""

    kinds: frozenset[str] = frozenset()
    raises: bool = True


def parse_kinds(text: str | Iterable[str] | None) -> frozenset[str]:
    """ "all", "none", a comma-separated list or a set of names, "all" among them; None: what $CDNA_CHECKS says."""
    if text is None:
        text = os.environ.get(VARIABLE) or "none"
    names = [n.strip() for n in text.split(",")] if isinstance(text, str) else list(text)
    if names in ([], ["none"], [""]):
        return frozenset()
    unknown = sorted(set(names) - set(ALL_KINDS) - {"all"})
    if unknown:
        raise CdnaError(f"no check is called {', '.join(unknown)}: all, none, or some of {', '.join(ALL_KINDS)}")
    return frozenset(ALL_KINDS if "all" in names else names)


_findings: deque[Finding] = deque(maxlen=10_000)
listeners: list[Callable[[Sequence[Finding]], None]] = []  # told as they are kept
_settings: list[Settings] = []


def settings() -> Settings:
    """What the innermost `use` set; without one, $CDNA_CHECKS (prefix `report:` to go on after a finding)."""
    if _settings:
        return _settings[-1]
    text = os.environ.get(VARIABLE) or "none"
    raises = not text.startswith("report:")
    return Settings(parse_kinds(text.removeprefix("report:")), raises)


def push(kinds: str | Iterable[str] | None, raises: bool = True) -> None:
    """Set the checks of the launches to come; None leaves what is set."""
    _settings.append(settings() if kinds is None else Settings(parse_kinds(kinds), raises))
    _tell_allocator()


def pop() -> None:
    """Back to what was set before the last `push`."""
    _settings.pop()
    _tell_allocator()


def _tell_allocator() -> None:
    """Have torch's tensors known as unwritten from when they are made, where somebody looks for that."""
    if "torch" in sys.modules and ("unwritten" in settings().kinds or "cdna.memory.torch_memory" in sys.modules):
        from ..memory.torch_memory import fill_fresh

        fill_fresh("unwritten" in settings().kinds)


@contextmanager
def use(kinds: str | Iterable[str] | None, raises: bool = True) -> Iterator[None]:
    """Within the block, launches run with these checks."""
    push(kinds, raises)
    try:
        yield
    finally:
        pop()


def note(found: Sequence[Finding], raises: bool) -> None:
    """Keep findings; the first is raised where findings are errors."""
    _findings.extend(found)
    for tell in listeners if found else ():
        tell(found)
    if found and raises:
        raise CheckError(found[0])


def take_noted() -> list[Finding]:
    """What has been kept since the last call."""
    taken = list(_findings)
    _findings.clear()
    return taken
