"""Hazards: instructions too close behind one whose result they touch, where the hardware does not wait by itself.

Compilers insert s_nop; inside and around inline assembly nobody does. The distances are those of the CDNA ISA,
"Manually Inserted Wait States (NOPs)" and the rules of matrix instructions, as LLVM's GCNHazardRecognizer has them for
gfx940 and gfx950. What LLVM's developers only propose is told as a doubt.

A wait state is an issued instruction; `s_nop n` counts n + 1. A matrix instruction waits for the one before it to leave
the matrix unit, which counts as well.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from ..cards import ARCHS, Card
from ..isa import Facts, facts_of, instructions
from ..isa.signature import Signature
from .asm import AsmFile
from .decode import base_mnemonic

_REGISTER = re.compile(
    r"(?<![\w.])(?:([vas])(?:(\d+)|\[(\d+)(?::(\d+))?\])|(vcc|exec|m0)(?:_lo|_hi)?)(?!\w)"
)  # vcc_lo and its kin count as the whole pair
_FARTHEST = 21  # wait states; the largest distance of a matrix instruction below is 20
_NARROW = [re.compile(rf"{name}:[234]") for name in ("cbsz", "blgp")]  # operands of 6 and 4 bits
_CYCLES_OF_A_PASS = 4
_SMALL_DGEMM = 4  # passes
_DPP = re.compile(r"\b(quad_perm|row_\w+|wave_\w+|bank_mask)\b")
_PART_SELECT = re.compile(r"\bdst_sel:(?!DWORD)")
_OP_SEL = re.compile(r"\bop_sel:\[([01,]+)\]")
_HARDWARE_REGISTER = re.compile(r"hwreg\((\w+)")
_OF_ONE_LANE = {"reads_lane", "selects_lane", "swaps_lanes"}

Register = tuple[str, int]
Registers = frozenset[Register]
_AS_C = "reads, as source C, the result of"
_VCC: Register = ("vcc", 0)
_EXEC: Register = ("exec", 0)
_M0: Register = ("m0", 0)


@dataclass(frozen=True)
class Hazard:
    """Instruction `index` comes `states` wait states behind the instruction `first`, not `needed`.

    kernel: whose code it is; "" in a function, which several may call. doubt: somebody says so, unconfirmed.
    """

    index: int
    first: int
    what: str
    states: int
    needed: int
    kernel: str
    doubt: bool = False


def message(hazard: Hazard, where: Callable[[int], str]) -> str:
    """What is wrong, in words. where: text and source line of an instruction."""
    says = "another instruction: LLVM's pull request 218363 (open) asks for" if hazard.doubt else "the hardware needs"
    return (
        f"{hazard.what} {where(hazard.first)} after {hazard.states} wait states; {says} "
        f"{hazard.needed} (s_nop {hazard.needed - hazard.states - 1} between them)"
    )


@dataclass(frozen=True)
class _Use:
    """Registers of a statement, and what the rules ask of it; `c` are those read as source C."""

    name: str
    unit: str
    writes: Registers = frozenset()
    reads: Registers = frozenset()
    c: Registers = frozenset()
    lane: Registers = frozenset()  # the lane select of v_readlane and v_writelane
    stored: Registers = frozenset()  # data of a store from more than two registers
    stays: int = 0  # for so many wait states it has to be left alone
    dpp: Registers = frozenset()  # read from other lanes
    trans: bool = False
    dot: bool = False
    part: bool = False  # writes a part of its register
    m0: bool = False
    hardware: str = ""  # register of s_setreg, s_getreg

    @property
    def vector(self) -> bool:
        return self.unit == "vector"

    @property
    def flags(self) -> frozenset[str]:
        return facts_of(self.name).flags


def _registers(text: str) -> Registers:
    found: set[Register] = set()
    for file, one, first, last, special in _REGISTER.findall(text):
        if special:
            found.add((special, 0))
            continue
        low = int(one or first)
        found.update((file, n) for n in range(low, int(last or low) + 1))
    return frozenset(found)


@cache
def _operands(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in re.split(r",(?![^\[]*\])", text))


def _results(signature: Signature, text: str) -> int:
    """How many of the operands an instruction writes."""
    returns = {"sc0", "glc"} & set(text.split())
    return 0 if " lds" in text else len(signature.types("D", "?D" if returns else "D"))


def _writes_part(text: str, signature: Signature) -> bool:
    """By SDWA's destination select, or by the bits of op_sel behind those of the sources."""
    if _PART_SELECT.search(text):
        return True
    select = _OP_SEL.search(text)
    return select is not None and "1" in select[1].split(",")[len(signature.types("S")) :]


def _wide_store(facts: Facts, parts: tuple[str, ...], results: int) -> tuple[Registers, int]:
    """Data of a store or atomic that a vector instruction may overwrite too soon, and for how many wait states.

    A buffer's with its offset in a register frees them earlier (LLVM pull request 197267, measured on an MI350X).
    """
    if facts.unit != "memory" or facts.does not in ("store", "atomic"):
        return frozenset(), 0
    buffer = facts.space == "buffer"
    data = _registers(parts[0 if buffer else results + 1])
    return (data, 1 if buffer and _registers(parts[3].partition(" ")[0]) else 2) if len(data) > 2 else (frozenset(), 0)


@cache
def _use(mnemonic: str, text: str) -> _Use:
    parts = _operands(text)
    facts, signature = facts_of(mnemonic), instructions()[mnemonic].signature
    if facts.unit == "matrix":
        writes = _registers(parts[0])
        c = writes if "accumulates" in facts.flags else _registers(parts[3].partition(" ")[0])
        return _Use(mnemonic, "matrix", writes, _registers(parts[1]) | _registers(parts[2]), c)
    results = _results(signature, text)
    writes = _registers(",".join(parts[:results]))
    swaps = results == 2 and not signature.types("S")  # both operands are read too
    reads = _registers(",".join(parts if swaps else parts[results:]))
    if "vcc_in" in facts.flags:
        reads |= {_VCC}
    if facts.flow == "compares_to_exec":
        writes |= {_EXEC}
    part = facts.unit == "vector" and _writes_part(text, signature)
    hardware = _HARDWARE_REGISTER.search(text)
    stored, stays = _wide_store(facts, parts, results)
    return _Use(
        mnemonic,
        facts.unit,
        writes,
        reads | writes if part else reads,
        c=_registers(parts[3]) if "dot" in facts.flags and len(parts) > 3 else frozenset(),
        lane=_registers(parts[2]) if "selects_lane" in facts.flags else frozenset(),
        stored=stored,
        stays=stays,
        dpp=_registers(parts[results]) if _DPP.search(text) else frozenset(),
        trans="trans" in facts.flags,
        dot="dot" in facts.flags,
        part=part,
        m0=not {"m0_in", "to_lds"}.isdisjoint(facts.flags) or " lds" in text,
        hardware=hardware[1] if hardware else "",
    )


def passes(mnemonic: str, text: str, card: Card) -> int:
    """Passes (of four cycles) that a matrix instruction takes; 0 for what is no such one."""
    facts = facts_of(mnemonic)
    if facts.unit != "matrix":
        return 0
    wide = "formats" in facts.flags and not all(pattern.search(text) for pattern in _NARROW)
    return facts.cycles[ARCHS.index(card.name)] // _CYCLES_OF_A_PASS * (2 if wide else 1)


def _part_as_c(matrix: _Use, count: int, later: _Use, card: Card) -> int:
    """Wait states between two matrix instructions of which the later one's source C is a part of the other's result."""
    flags = facts_of(matrix.name).flags
    beside = not {"sgemm", "dgemm"}.isdisjoint(facts_of(later.name).flags)  # not by the usual path
    if "dgemm" in flags or "sgemm" in flags:
        return 0 if not beside else count + ("dgemm" in flags and count > _SMALL_DGEMM)
    return count + 1 + (card.mfma_extra_wait_states if count > 2 or not beside else 0)


def _doubted(matrix: _Use, count: int, later: _Use, card: Card) -> int:
    """Wait states that LLVM's pull request 218363, not merged, asks for between different instructions of which one's
    source C is the other's result: that it goes from one to the other by itself would hold in a chain of one alone."""
    if later.unit != "matrix" or matrix.writes != later.c:
        return 0
    one, other = (instructions()[use.name] for use in (matrix, later))
    return (
        0
        if (one.first_name or one.name) == (other.first_name or other.name)
        else _part_as_c(matrix, count, later, card)
    )


def _needed(matrix: _Use, count: int, later: _Use, card: Card) -> tuple[int, str]:
    """Wait states between a matrix instruction of so many passes and one behind it, and what the latter does."""
    flags = facts_of(matrix.name).flags
    if "dgemm" in flags:
        return max(_dgemm_rules(matrix, count, later, card), default=(0, ""))
    sgemm = "sgemm" in flags
    extra = card.mfma_extra_wait_states if count > 2 and not sgemm else 0
    result = count + (2 if sgemm else 3 + extra)
    if matrix.writes & later.reads:
        return result, "reads the result of"
    if later.unit == "matrix" and matrix.writes & later.c:
        if matrix.writes == later.c:  # goes from one to the other by itself, but of the shortest
            return 2 if count == 2 else 0, _AS_C
        return _part_as_c(matrix, count, later, card), "reads, as source C, a part of the result of"
    if later.vector and matrix.writes & later.writes:
        return result, "overwrites the result of"
    if later.vector and not sgemm and matrix.c & later.writes:
        return count - 1, "overwrites source C of"
    return 0, ""


def _dgemm_rules(matrix: _Use, count: int, later: _Use, card: Card) -> Iterator[tuple[int, str]]:
    """The same of an f64 matrix instruction."""
    small = count == _SMALL_DGEMM
    if matrix.writes & later.reads:
        memory = later.unit in ("memory", "lds")
        yield (9 if small else 18) if memory else (6 if small else count + 3), "reads the result of"
    if later.unit == "matrix" and matrix.writes & later.c:
        if matrix.writes == later.c:
            facts, others = facts_of(matrix.name), facts_of(later.name)
            yield 4 if small and (facts.flags, facts.cycles) == (others.flags, others.cycles) else 0, _AS_C
        else:
            yield _part_as_c(matrix, count, later, card), "reads, as source C, a part of the result of"
    if later.vector and matrix.writes & later.writes:
        yield 6 if small else 11, "overwrites the result of"
    if later.vector and facts_of(later.name).flops > 1 and "f64" in instructions()[later.name].signature.types("S"):
        yield 2, "multiplies in f64 behind"


def _vector_rules(first: _Use, later: _Use) -> Iterator[tuple[int, str]]:
    """Wait states that `later` needs behind a vector instruction, and what it does; those that do not apply are 0."""
    scalars = {register for register in first.writes if register[0] in ("s", "vcc")}
    if scalars & later.reads:
        needed = {"memory": 5, "vector": 2}.get(later.unit, 0)
        yield needed, "reads the scalar register written by"
        if later.vector and "vcc_in" in later.flags:
            yield 4, "reads vcc written by"
    if scalars & later.lane:
        yield 4, "selects its lane by the result of"
    if _EXEC in first.writes:
        lane = not _OF_ONE_LANE.isdisjoint(later.flags)
        yield 5 if later.dpp else 4 if lane or later.unit == "matrix" else 0, "depends on exec written by"
    if first.writes & (later.reads | later.c) and later.unit == "matrix" and not first.dot:
        yield 2, "reads, as a matrix operand, the result of"
    if first.writes & later.dpp:
        yield 2, "reads from other lanes the result of"
    if first.writes & later.reads:
        yield 2 if "swaps_lanes" in later.flags else int("reads_lane" in later.flags), "reads lanes of the result of"
        if later.vector:
            yield first.trans and not later.trans, "reads the transcendental result of"
            yield first.part, "reads the partly written result of"
    if first.dot and later.unit in ("vector", "matrix", "memory", "lds"):
        if first.writes & (later.reads - later.c if later.name == first.name else later.reads):
            yield 3, "reads the result of"
        if later.vector and later.name != first.name and first.writes & later.writes:
            yield 3, "overwrites the result of"


def _reach(first: _Use) -> int:
    """How many wait states the rules of an instruction that is no matrix one reach."""
    if first.vector:
        files = {file for file, _ in first.writes}
        return 5 if files - {"v", "a"} else 3 if first.dot else 2
    return 2 if first.stored or "setreg" in first.flags else int(first.unit == "scalar" and _M0 in first.writes)


def _needed_behind(first: _Use, later: _Use) -> tuple[int, str]:
    """The same as `_needed`, of an instruction that is no matrix one."""
    if first.vector:
        return max(_vector_rules(first, later), default=(0, ""))
    if first.stored & later.writes and later.vector:
        return first.stays, "overwrites the data of"
    if first.unit == "scalar" and _M0 in first.writes and later.m0:
        return 1, "reads m0 written by"
    if "setreg" in first.flags and first.hardware and first.hardware == later.hardware:
        return 2, "touches the hardware register set by"
    return 0, ""


def _states(facts: Facts, text: str) -> int:
    if facts.unit == "idle":
        return int(text or "0", 0) + 1
    return 64 if facts.does == "sleep" else 1


def _after(asm: AsmFile, start: int, count: int, reach: int, card: Card) -> Iterator[tuple[int, int]]:
    """(instruction, wait states since `start`, of `count` passes) on every path behind it, up to `reach` of them."""
    pending = [(start + 1, 0, count)]  # instruction, states passed, when the matrix unit is free
    seen: dict[int, int] = {}
    while pending:
        index, states, busy = pending.pop()
        while index < len(asm.statements) and states < reach and seen.get(index, reach) > states:
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


def find_hazards(asm: AsmFile, card: Card) -> list[Hazard]:
    """Every instruction that comes too early behind another, once; then doubts."""
    found: dict[int, Hazard] = {}
    doubts: dict[int, Hazard] = {}
    functions = sorted((asm.labels[name], name) for name in {*asm.functions, *asm.descriptors} if name in asm.labels)
    mnemonics = [base_mnemonic(statement.mnemonic) for statement in asm.statements]

    def use(index: int) -> _Use:
        return _use(mnemonics[index], asm.statements[index].operands)

    for index, mnemonic in enumerate(mnemonics):
        first = use(index)
        count = passes(mnemonic, asm.statements[index].operands, card)
        reach = _FARTHEST if count else _reach(first)
        for at, states in _after(asm, index, count, reach, card) if reach else ():
            needed, what = _needed(first, count, use(at), card) if count else _needed_behind(first, use(at))
            doubted = _doubted(first, count, use(at), card) if count else 0
            if states < max(needed, doubted):
                kept, needed = (found, needed) if states < needed else (doubts, doubted)
                kernel = _kernel(asm, functions, index)
                kept.setdefault(at, Hazard(at, index, what, states, needed, kernel, doubt=kept is doubts))
    return [*found.values(), *(doubt for at, doubt in doubts.items() if at not in found)]
