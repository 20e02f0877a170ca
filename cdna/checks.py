"""Checks of what hardware hides: which there are, what they find, and how a launch is made with them.

    with cdna.device("gfx942", checks="all"):       # or "none", or {"bounds", "race"}
        kernel[grid](...)                           # CheckError at the first finding
    cdna.findings()                                 # what was found since the last call

The engine does the work (engine/check.h); hazards.py looks at the program itself.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .errors import CdnaError, KernelFault

if TYPE_CHECKING:
    from .engine import Program

# In the order of CheckKind in engine/check.h; "hazard" is static and has no bit there, but comes next (launch_log.h).
KINDS = ("bounds", "wait", "race", "uninitialised", "alignment", "barrier", "deadlock", "unwritten")
STATIC_KINDS = ("hazard",)
ALL_KINDS = KINDS + STATIC_KINDS
ON_DEMAND = frozenset({"unwritten"})  # not part of "all"
VARIABLE = "CDNA_CHECKS"
NO_INSTRUCTION = 0xFFFFFFFF


class CheckError(KernelFault):
    """A check found something; `finding` says what."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


@dataclass(frozen=True)
class Finding:
    """Something a check found, once for each instruction; `count` says how often it did."""

    kind: str
    kernel: str
    arch: str
    message: str
    instruction: str  # text of the instruction
    source: str  # file:line
    workgroup: tuple[int, int, int] | None = None
    wave: int | None = None
    lane: int | None = None
    address: int | None = None  # of memory, or a byte of LDS
    tensor: str = ""  # name and extent, where known
    other_instruction: str = ""  # the other one, of a race or a missing wait
    count: int = 1

    def __str__(self) -> str:
        where = ""
        if self.workgroup is not None:
            where = f", workgroup {self.workgroup}, wave {self.wave}"
            where += f", lane {self.lane}" if self.lane is not None else ""
        what = f"{self.kernel} on {self.arch}: {self.kind}: {self.message}"
        return f"{what}\n  at `{self.instruction}` ({self.source}){where}"


class FindingRecord(ctypes.Structure):
    """Finding of engine/check.h."""

    _fields_ = [
        ("kind", ctypes.c_uint32),
        ("pc", ctypes.c_uint32),
        ("group", ctypes.c_uint32 * 3),
        ("wave", ctypes.c_uint32),
        ("lane", ctypes.c_int32),
        ("other_pc", ctypes.c_uint32),
        ("address", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
        ("tensor", ctypes.c_char * 64),
        ("message", ctypes.c_char * 400),
    ]

    def as_finding(self, kernel: str, arch: str, instruction: str, source: str, other_instruction: str) -> Finding:
        kind = ALL_KINDS[self.kind]
        found = Finding(kind, kernel, arch, self.message.decode(errors="replace"), instruction, source)
        if kind in STATIC_KINDS:
            return found
        return replace(
            found,
            workgroup=tuple(self.group),
            wave=self.wave,
            lane=self.lane if self.lane >= 0 else None,
            address=self.address or None,
            tensor=self.tensor.decode(errors="replace"),
            other_instruction=other_instruction,
            count=self.count,
        )


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
    usual = frozenset(ALL_KINDS) - ON_DEMAND if "all" in names else frozenset()
    return usual | frozenset(names) - {"all"}


def mark_unwritten(address: int, size_bytes: int) -> None:
    """Fill fresh memory so that the `unwritten` check knows it: whoever reads it before it is written is told."""
    from .engine import engine

    engine().lib.cdna_mark_unwritten(ctypes.c_void_p(address), ctypes.c_uint64(size_bytes))


_findings: deque[Finding] = deque(maxlen=10_000)
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


def pop() -> None:
    """Back to what was set before the last `push`."""
    _settings.pop()


@contextmanager
def use(kinds: str | Iterable[str] | None, raises: bool = True) -> Iterator[None]:
    """Within the block, launches run with these checks."""
    push(kinds, raises)
    try:
        yield
    finally:
        pop()


def findings() -> list[Finding]:
    """What the checks found since the last call: in Python's launches in order, then in the HIP runtime's."""
    from . import launch_log
    from .engine import engine

    if engine.cache_info().currsize:  # nothing ran otherwise
        _findings.extend(launch_log.take_findings(engine().lib))
    taken = list(_findings)
    _findings.clear()
    return taken


def note(found: Sequence[Finding], raises: bool) -> None:
    """Keep findings; the first is raised where findings are errors."""
    _findings.extend(found)
    if found and raises:
        raise CheckError(found[0])


def instruction_place(program: Program, index: int) -> tuple[str, str]:
    """(text, source line) of a statement."""
    from .asm import source_line

    statement = program.asm.statements[index]
    return f"{statement.mnemonic} {statement.operands}".strip(), source_line(program.asm, statement)


def hazards(program: Program, kernel: str) -> list[Finding]:
    """Findings of hazards.py in the kernel's code and in functions that it may call; each is told once."""
    from .hazards import find_hazards, message

    out = []
    if program.hazards is None:
        program.hazards = find_hazards(program.asm)
    mine = [hazard for hazard in program.hazards if hazard.kernel in (kernel, "")]
    program.hazards = [hazard for hazard in program.hazards if hazard not in mine]
    for hazard in mine:
        instruction, source = instruction_place(program, hazard.index)
        other = program.where(hazard.matrix)
        text = message(hazard, program.where)
        out.append(Finding("hazard", kernel, program.arch, text, instruction, source, other_instruction=other))
    return out


class LaunchChecks:
    """The checks of one launch: made before it, asked after it."""

    def __init__(self, lib: Any, kinds: frozenset[str], raises: bool, memory: Memory) -> None:
        self._lib, self.raises = lib, raises
        bits = sum(1 << i for i, kind in enumerate(KINDS) if kind in kinds)
        self.handle = ctypes.c_void_p(lib.cdna_checks_new(bits, int(raises), int(memory.open)))
        for tensor in memory.tensors:
            lib.cdna_checks_range(
                self.handle, tensor.base, tensor.size_bytes, tensor.pointer, tensor.name.encode()[:63]
            )

    def finish(self, kernel: str, program: Program) -> None:
        """Keep what was found; the first finding is raised where findings are errors."""
        count = ctypes.c_uint32()
        records = self._lib.cdna_checks_findings(self.handle, ctypes.byref(count))
        found = [self._finding(records[i], kernel, program) for i in range(count.value)]
        self._lib.cdna_checks_free(self.handle)
        note(found, self.raises)

    @staticmethod
    def _finding(record: Any, kernel: str, program: Program) -> Finding:
        instruction, source = instruction_place(program, record.pc)
        other = "" if record.other_pc == NO_INSTRUCTION else program.where(record.other_pc)
        return record.as_finding(kernel, program.arch, instruction, source, other)


def declare(lib: Any) -> None:
    """Argument and result types of the engine's functions used here."""
    u32, u64, pointer = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
    lib.cdna_checks_new.restype, lib.cdna_checks_new.argtypes = pointer, [u32, u32, u32]
    lib.cdna_checks_range.argtypes = [pointer, u64, u64, u64, ctypes.c_char_p]
    lib.cdna_checks_findings.restype = ctypes.POINTER(FindingRecord)
    lib.cdna_checks_findings.argtypes = [pointer, ctypes.POINTER(u32)]
    lib.cdna_checks_free.argtypes = [pointer]
    lib.cdna_memory_register.argtypes = [u64, u64, ctypes.c_char_p]
    lib.cdna_memory_unregister.argtypes = [u64]
    if lib.cdna_finding_bytes() != ctypes.sizeof(FindingRecord):
        raise CdnaError(
            "the engine's findings and Python's differ in size: cdna/engine and cdna/*.py are of different versions"
        )
