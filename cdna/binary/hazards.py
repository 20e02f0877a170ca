"""Hazards: instructions too close behind one whose result they touch, where the hardware does not wait by itself.

Compilers insert s_nop; inside and around inline assembly nobody does. The distances are those of the CDNA ISA,
"Manually Inserted Wait States (NOPs)" and the rules of matrix instructions, as LLVM's GCNHazardRecognizer has them for
gfx940 and gfx950. What LLVM's developers only propose is told as a doubt.

A wait state is an issued instruction; `s_nop n` counts n + 1. A matrix instruction waits for the one before it to leave
the matrix unit, which counts as well.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..cards import ARCHS, Card
from ..isa import Facts, facts_of, instructions
from .asm import AsmFile
from .flow import Flow
from .uses import EXEC, M0, Use, use_of

_FARTHEST = 21  # wait states; the largest distance of a matrix instruction below is 20
_NARROW = [re.compile(rf"{name}:[234]") for name in ("cbsz", "blgp")]  # operands of 6 and 4 bits
_CYCLES_OF_A_PASS = 4
_SMALL_DGEMM = 4  # passes
_OF_ONE_LANE = {"reads_lane", "selects_lane", "swaps_lanes"}
_AS_C = "reads, as source C, the result of"


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


def passes(mnemonic: str, text: str, card: Card) -> int:
    """Passes (of four cycles) that a matrix instruction takes; 0 for what is no such one."""
    facts = facts_of(mnemonic)
    if facts.unit != "matrix":
        return 0
    wide = "formats" in facts.flags and not all(pattern.search(text) for pattern in _NARROW)
    return facts.cycles[ARCHS.index(card.name)] // _CYCLES_OF_A_PASS * (2 if wide else 1)


def _part_as_c(matrix: Use, count: int, later: Use, card: Card) -> int:
    """Wait states between two matrix instructions of which the later one's source C is a part of the other's result."""
    flags = facts_of(matrix.name).flags
    beside = not {"sgemm", "dgemm"}.isdisjoint(facts_of(later.name).flags)  # not by the usual path
    if "dgemm" in flags or "sgemm" in flags:
        return 0 if not beside else count + ("dgemm" in flags and count > _SMALL_DGEMM)
    return count + 1 + (card.mfma_extra_wait_states if count > 2 or not beside else 0)


def _doubted(matrix: Use, count: int, later: Use, card: Card) -> int:
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


def _needed(matrix: Use, count: int, later: Use, card: Card) -> tuple[int, str]:
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


def _dgemm_rules(matrix: Use, count: int, later: Use, card: Card) -> Iterator[tuple[int, str]]:
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


def _vector_rules(first: Use, later: Use) -> Iterator[tuple[int, str]]:
    """Wait states that `later` needs behind a vector instruction, and what it does; those that do not apply are 0."""
    scalars = {register for register in first.writes if register[0] in ("s", "vcc")}
    if scalars & later.reads:
        needed = {"memory": 5, "vector": 2}.get(later.unit, 0)
        yield needed, "reads the scalar register written by"
        if later.vector and "vcc_in" in later.flags:
            yield 4, "reads vcc written by"
    if scalars & later.lane:
        yield 4, "selects its lane by the result of"
    if EXEC in first.writes:
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


def _reach(first: Use) -> int:
    """How many wait states the rules of an instruction that is no matrix one reach."""
    if first.vector:
        files = {file for file, _ in first.writes}
        return 5 if files - {"v", "a"} else 3 if first.dot else 2
    return 2 if first.stored or "setreg" in first.flags else int(first.unit == "scalar" and M0 in first.writes)


def _needed_behind(first: Use, later: Use) -> tuple[int, str]:
    """The same as `_needed`, of an instruction that is no matrix one."""
    if first.vector:
        return max(_vector_rules(first, later), default=(0, ""))
    if first.stored & later.writes and later.vector:
        return first.stays, "overwrites the data of"
    if first.unit == "scalar" and M0 in first.writes and later.m0:
        return 1, "reads m0 written by"
    if "setreg" in first.flags and first.hardware and first.hardware == later.hardware:
        return 2, "touches the hardware register set by"
    return 0, ""


def states_of(facts: Facts, text: str) -> int:
    if facts.unit == "idle":
        return int(text or "0", 0) + 1
    return 64 if facts.does == "sleep" else 1


def _after(flow: Flow, start: int, count: int, reach: int, card: Card) -> Iterator[tuple[int, int]]:
    """(instruction, wait states since `start`, of `count` passes) on every path behind it, up to `reach` of them."""
    # instruction, calls to return from, states passed, when the matrix unit is free
    pending = [(at, stack, 0, count) for at, stack in flow.after(start, ())]
    seen: dict[int, int] = {}
    while pending:
        index, stack, states, busy = pending.pop()
        while states < reach and seen.get(index, reach) > states and index not in flow.unknown:
            seen[index] = states
            text, mnemonic = flow.asm.statements[index].operands, flow.mnemonics[index]
            facts = facts_of(mnemonic)
            if facts.unit == "matrix":
                states = max(states, busy - 1)
                busy = states + 1 + passes(mnemonic, text, card)
            yield index, states
            states += states_of(facts, text)
            if flow.leaves[index]:
                pending += [(at, calls, states, busy) for at, calls in flow.after(index, stack)]
                break
            index += 1


def find_hazards(asm: AsmFile, card: Card, flow: Flow | None = None) -> list[Hazard]:
    """Every instruction that comes too early behind another, once; then doubts."""
    found: dict[int, Hazard] = {}
    doubts: dict[int, Hazard] = {}
    flow = flow or Flow(asm)

    def use(index: int) -> Use:
        return use_of(flow.mnemonics[index], asm.statements[index].operands)

    for index, mnemonic in enumerate(flow.mnemonics):
        if index in flow.unknown:
            continue
        first = use(index)
        count = passes(mnemonic, asm.statements[index].operands, card)
        reach = _FARTHEST if count else _reach(first)
        for at, states in _after(flow, index, count, reach, card) if reach else ():
            needed, what = _needed(first, count, use(at), card) if count else _needed_behind(first, use(at))
            doubted = _doubted(first, count, use(at), card) if count else 0
            if states < max(needed, doubted):
                kept, needed = (found, needed) if states < needed else (doubts, doubted)
                kernel = flow.kernel_of(index)
                kept.setdefault(at, Hazard(at, index, what, states, needed, kernel, doubt=kept is doubts))
    return [*found.values(), *(doubt for at, doubt in doubts.items() if at not in found)]
