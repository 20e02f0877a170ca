"""Matrix hazards: instructions too close behind a v_mfma whose result, or whose source C, they touch.

The hardware does not wait there by itself. Compilers insert s_nop; inside and around inline assembly nobody does. The
distances are those of the CDNA3 ISA, "Manually Inserted Wait States (NOPs)", as LLVM's GCNHazardRecognizer has them for
gfx940 and gfx950, which asks for one more of four passes and up; of f64 instructions we ask nothing.

A wait state is an issued instruction; `s_nop n` counts n + 1. A matrix instruction waits for the one before it to leave
the matrix unit, which counts as well.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from .asm import AsmFile, Statement, arch_in

_SHAPE = re.compile(r"^v_s?mf(?:ma|mac)(?:_scale)?_(\w+?)_(\d+)x(\d+)x(\d+)(?:_(\d+)b)?_?(\w*)$")
_REGISTER = re.compile(r"(?<![\w.])([va])(?:(\d+)|\[(\d+)(?::(\d+))?\])(?!\w)")
_FARTHEST = 21  # wait states; the largest distance below is 20
_ENDS = ("s_endpgm", "s_setpc_b64", "s_swappc_b64", "s_branch")
_MATRIX = ("v_mfma_f", "v_mfma_i", "v_mfma_scale", "v_smfmac")
_NO_RESULT = ("s_", "v_mfma_ld_scale", "ds_write", "v_cmp", "v_readlane", "v_readfirstlane")

Registers = frozenset[tuple[str, int]]


@dataclass(frozen=True)
class Hazard:
    """Instruction `index` comes `states` wait states behind the matrix instruction `matrix`, not `needed`.

    kernel: whose code it is; "" in a function, which several may call.
    """

    index: int
    matrix: int
    what: str
    states: int
    needed: int
    kernel: str


def message(hazard: Hazard, where: Callable[[int], str]) -> str:
    """What is wrong, in words. where: text and source line of an instruction."""
    return (
        f"{hazard.what} {where(hazard.matrix)} after {hazard.states} wait states; the hardware needs "
        f"{hazard.needed} (s_nop {hazard.needed - hazard.states - 1} between them)"
    )


@dataclass(frozen=True)
class _Use:
    """Registers of a statement; `c` are those that a matrix instruction reads as its source C."""

    writes: Registers
    reads: Registers
    c: Registers
    matrix: bool
    vector: bool


def _registers(text: str) -> Registers:
    found: set[tuple[str, int]] = set()
    for file, one, first, last in _REGISTER.findall(text):
        low = int(one or first)
        found.update((file, n) for n in range(low, int(last or low) + 1))
    return frozenset(found)


@cache
def _operands(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in re.split(r",(?![^\[]*\])", text))


@cache
def _use(mnemonic: str, text: str) -> _Use:
    parts = _operands(text)
    if mnemonic.startswith(_MATRIX):
        writes = _registers(parts[0])
        c = writes if mnemonic.startswith("v_smfmac") else _registers(parts[3].partition(" ")[0])
        return _Use(writes, _registers(parts[1]) | _registers(parts[2]), c, True, False)
    no_result = mnemonic.startswith(_NO_RESULT) or "_store_" in mnemonic or " lds" in text
    writes = Registers() if no_result else _registers(parts[0])
    reads = _registers(text if no_result else ",".join(parts[1:]))
    return _Use(writes, reads, Registers(), False, mnemonic.startswith("v_"))


def passes(mnemonic: str, text: str = "") -> int:
    """Passes (of four cycles) that a matrix instruction takes: 2, 4, 8 or 16; 0 for f64 and what is no such one."""
    shape = _SHAPE.match(mnemonic.removesuffix("_e64"))
    if not shape or "f64" in mnemonic:
        return 0
    n, blocks, kind = int(shape.group(3)), shape.group(5), shape.group(6)
    if n == 4:
        return 2
    if blocks or kind == "f32":
        return 16 if n == 32 else 8
    if kind == "f8f6f4":
        narrow = all(re.search(rf"{name}:[234]", text) for name in ("cbsz", "blgp"))
        return (8 if n == 32 else 4) if narrow else (16 if n == 32 else 8)
    return 8 if n == 32 else 4


def _needed(matrix: _Use, mnemonic: str, count: int, later: _Use, gfx950: bool) -> tuple[int, str]:
    """Wait states between a matrix instruction and one behind it, and what the latter does."""
    f32 = mnemonic.endswith("f32")
    result = count + (2 if f32 else 4 if gfx950 and count > 2 else 3)
    if matrix.writes & later.reads:
        return result, "reads the result of"
    if later.vector and matrix.writes & later.writes:
        return result, "overwrites the result of"
    if later.vector and not f32 and matrix.c & later.writes:
        return count - 1, "overwrites source C of"
    return 0, ""


def _states(statement: Statement) -> int:
    if statement.mnemonic == "s_nop":
        return int(statement.operands, 0) + 1
    return 64 if statement.mnemonic == "s_sleep" else 1


def _after(asm: AsmFile, start: int) -> Iterator[tuple[int, int]]:
    """(instruction, wait states since `start`) on every path behind it, as far as hazards reach."""
    count = passes(asm.statements[start].mnemonic, asm.statements[start].operands)
    pending = [(start + 1, 0, count)]  # instruction, states passed, when the matrix unit is free
    seen: dict[int, int] = {}
    while pending:
        index, states, busy = pending.pop()
        while index < len(asm.statements) and states < _FARTHEST and seen.get(index, _FARTHEST) > states:
            seen[index] = states
            statement = asm.statements[index]
            if statement.mnemonic.startswith(_MATRIX):
                states = max(states, busy - 1)
                busy = states + 1 + passes(statement.mnemonic, statement.operands)
            yield index, states
            states += _states(statement)
            if statement.mnemonic.startswith(("s_branch", "s_cbranch")):
                target = asm.labels.get(statement.operands)
                if target is not None:
                    pending.append((target, states, busy))
            if statement.mnemonic in _ENDS:
                break
            index += 1


def _kernel(asm: AsmFile, functions: list[tuple[int, str]], index: int) -> str:
    """The kernel whose code an instruction is; "" in a function. functions: where each begins, in order."""
    before = bisect_right(functions, index, key=lambda function: function[0])
    name = functions[before - 1][1] if before else ""
    return name if name in asm.descriptors else ""


def find_hazards(asm: AsmFile) -> list[Hazard]:
    """Every instruction that comes too early behind a matrix instruction, once."""
    found: dict[int, Hazard] = {}
    functions = sorted((asm.labels[name], name) for name in {*asm.functions, *asm.descriptors} if name in asm.labels)
    gfx950 = arch_in(asm.target) == "gfx950"
    for index, statement in enumerate(asm.statements):
        count = passes(statement.mnemonic, statement.operands)
        if not count:
            continue
        matrix = _use(statement.mnemonic, statement.operands)
        for at, states in _after(asm, index):
            later = _use(asm.statements[at].mnemonic, asm.statements[at].operands)
            needed, what = _needed(matrix, statement.mnemonic, count, later, gfx950)
            if states < needed:
                found.setdefault(at, Hazard(at, index, what, states, needed, _kernel(asm, functions, index)))
    return list(found.values())
