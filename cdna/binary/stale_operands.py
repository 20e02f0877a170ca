"""A defect of gfx950 that no run here shows, by one engineer's write-up, unconfirmed: where a kernel has its pattern.

A matrix instruction that takes source A or B from the one before it, unchanged, spares itself the read; a packed vector
instruction (v_pk_*) that executes beside it may then be spared its own, and use what was there before. Triton's pull
request 11169 works around it; the write-up is jerryyin/scripts, amdgpu_ds_read_b64_waitcnt/ROOT_CAUSE.md.
"""

import functools
from collections.abc import Iterator

from ..cards import Card
from ..isa import facts_of, instructions
from .flow import Flow
from .hazards import passes, states_of
from .uses import Registers, operands_in, registers_in, use_of

ARCHS = ("gfx950",)
PACKED = {"p16", "p32", "pi16"}  # types of cdna/isa/signature.py
_NEAR = 64  # instructions between two matrix instructions that may be neighbours


def suspects(flow: Flow, card: Card) -> Iterator[tuple[int, int]]:
    """(v_pk_* instruction, the matrix instruction beside which it executes), the former once."""
    if card.name not in ARCHS:
        return
    seen: set[int] = set()
    for first, mnemonic in enumerate(flow.mnemonics):
        if first in flow.unknown or facts_of(mnemonic).unit != "matrix":
            continue
        for second in _neighbours(flow, first):
            for at in _beside(flow, second, card):
                if at not in seen:
                    seen.add(at)
                    yield at, second


def _sources(flow: Flow, index: int) -> tuple[Registers, Registers]:
    _, a, b, *_ = operands_in(flow.asm.statements[index].operands)
    return registers_in(a), registers_in(b)


def _neighbours(flow: Flow, first: int) -> Iterator[int]:
    """The matrix instructions next behind it that take source A or B from it, with nothing written in between."""
    sources = _sources(flow, first)
    written = use_of(flow.mnemonics[first], flow.asm.statements[first].operands).writes
    pending, met = [(at, stack, written, _NEAR) for at, stack in flow.after(first, ())], set()
    while pending:
        index, stack, written, left = pending.pop()
        if index in flow.unknown or index in met or not left:
            continue
        met.add(index)
        if facts_of(flow.mnemonics[index]).unit == "matrix":
            if any(old == new and not old & written for old, new in zip(sources, _sources(flow, index))):
                yield index
            continue
        written = written | use_of(flow.mnemonics[index], flow.asm.statements[index].operands).writes
        pending += [(at, calls, written, left - 1) for at, calls in flow.after(index, stack)]


def _beside(flow: Flow, matrix: int, card: Card) -> Iterator[int]:
    """The v_pk_* instructions that are issued before it has left the matrix unit, and before the next one."""
    left = passes(flow.mnemonics[matrix], flow.asm.statements[matrix].operands, card)
    pending, met = [(at, stack, left) for at, stack in flow.after(matrix, ())], set()
    while pending:
        index, stack, left = pending.pop()
        facts = facts_of(flow.mnemonics[index]) if index not in flow.unknown else None
        if facts is None or left <= 0 or index in met or facts.unit == "matrix":
            continue
        met.add(index)
        if _is_packed(flow.mnemonics[index]):
            yield index
        left -= states_of(facts, flow.asm.statements[index].operands)
        pending += [(at, calls, left) for at, calls in flow.after(index, stack)]


@functools.cache
def _is_packed(name: str) -> bool:
    """Two numbers of each source at once, and no sum of their products: v_pk_*."""
    instruction = instructions()[name]
    sources = set(instruction.signature.types("S"))
    return bool(sources) and sources <= PACKED and "dot" not in instruction.flags
