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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from .asm import AsmFile
from .cards import ARCHS, Card
from .decode import base_mnemonic
from .isa import Facts, facts_of

_REGISTER = re.compile(r"(?<![\w.])([va])(?:(\d+)|\[(\d+)(?::(\d+))?\])(?!\w)")
_FARTHEST = 21  # wait states; the largest distance below is 20
_NARROW = [re.compile(rf"{name}:[234]") for name in ("cbsz", "blgp")]  # operands of 6 and 4 bits
_CYCLES_OF_A_PASS = 4

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


def _results(signature: str, text: str) -> int:
    """How many of the operands an instruction writes; signature: of the engine's table, see decode.py."""
    slots = signature.split()
    count = next((i for i, slot in enumerate(slots) if slot[0] not in "D?"), len(slots))
    optional = count and slots[0][0] == "?" and not {"sc0", "glc"} & set(text.split())
    return 0 if optional or " lds" in text else count


@cache
def _use(mnemonic: str, text: str, signature: str) -> _Use:
    parts = _operands(text)
    facts = facts_of(mnemonic)
    if facts.unit == "matrix":
        writes = _registers(parts[0])
        c = writes if "accumulates" in facts.flags else _registers(parts[3].partition(" ")[0])
        return _Use(writes, _registers(parts[1]) | _registers(parts[2]), c, True, False)
    results = _results(signature, text)
    writes = _registers(",".join(parts[:results]))
    reads = _registers(",".join(parts[min(results, 1) :]))
    return _Use(writes, reads, Registers(), False, facts.unit == "vector")


def passes(mnemonic: str, text: str, card: Card) -> int:
    """Passes (of four cycles) that a matrix instruction takes; 0 for f64 and what is no such one."""
    facts = facts_of(mnemonic)
    if facts.unit != "matrix" or "dgemm" in facts.flags:
        return 0
    wide = "formats" in facts.flags and not all(pattern.search(text) for pattern in _NARROW)
    return facts.cycles[ARCHS.index(card.name)] // _CYCLES_OF_A_PASS * (2 if wide else 1)


def _needed(matrix: _Use, sgemm: bool, count: int, later: _Use, card: Card) -> tuple[int, str]:
    """Wait states between a matrix instruction and one behind it, and what the latter does."""
    result = count + (2 if sgemm else 3 + (card.mfma_extra_wait_states if count > 2 else 0))
    if matrix.writes & later.reads:
        return result, "reads the result of"
    if later.vector and matrix.writes & later.writes:
        return result, "overwrites the result of"
    if later.vector and not sgemm and matrix.c & later.writes:
        return count - 1, "overwrites source C of"
    return 0, ""


def _states(facts: Facts, text: str) -> int:
    if facts.unit == "idle":
        return int(text or "0", 0) + 1
    return 64 if facts.does == "sleep" else 1


def _after(asm: AsmFile, start: int, count: int, card: Card) -> Iterator[tuple[int, int]]:
    """(instruction, wait states since `start`, of `count` passes) on every path behind it, as far as hazards reach."""
    pending = [(start + 1, 0, count)]  # instruction, states passed, when the matrix unit is free
    seen: dict[int, int] = {}
    while pending:
        index, states, busy = pending.pop()
        while index < len(asm.statements) and states < _FARTHEST and seen.get(index, _FARTHEST) > states:
            seen[index] = states
            text = asm.statements[index].operands
            mnemonic = base_mnemonic(asm.statements[index].mnemonic)
            facts = facts_of(mnemonic)
            if facts.unit == "matrix":
                states = max(states, busy - 1)
                busy = states + 1 + passes(mnemonic, text, card)
            yield index, states
            states += _states(facts, text)
            target = asm.labels.get(text) if facts.unit == "branch" else None
            if target is not None:
                pending.append((target, states, busy))
            if facts.does == "jump" or facts.unit == "end":
                break
            index += 1


def _kernel(asm: AsmFile, functions: list[tuple[int, str]], index: int) -> str:
    """The kernel whose code an instruction is; "" in a function. functions: where each begins, in order."""
    before = bisect_right(functions, index, key=lambda function: function[0])
    name = functions[before - 1][1] if before else ""
    return name if name in asm.descriptors else ""


def find_hazards(asm: AsmFile, ops: Mapping[str, tuple[int, str]], card: Card) -> list[Hazard]:
    """Every instruction that comes too early behind a matrix instruction, once. ops: the engine's table of the arch."""
    found: dict[int, Hazard] = {}
    functions = sorted((asm.labels[name], name) for name in {*asm.functions, *asm.descriptors} if name in asm.labels)
    mnemonics = [base_mnemonic(statement.mnemonic) for statement in asm.statements]

    def use(index: int) -> _Use:
        return _use(mnemonics[index], asm.statements[index].operands, ops[mnemonics[index]][1])

    for index, mnemonic in enumerate(mnemonics):
        count = passes(mnemonic, asm.statements[index].operands, card)
        if not count:
            continue
        matrix, sgemm = use(index), "sgemm" in facts_of(mnemonic).flags
        for at, states in _after(asm, index, count, card):
            needed, what = _needed(matrix, sgemm, count, use(at), card)
            if states < needed:
                found.setdefault(at, Hazard(at, index, what, states, needed, _kernel(asm, functions, index)))
    return list(found.values())
