"""What registers hold of each work-item, as far as that follows from its number alone: LDS addresses mostly do.

A value is known where it is the same on all paths. Whatever is loaded, compared, or differs between the rounds of a
loop is not, nor what is written while some lanes are off.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

import numpy as np

from ..isa import facts_of
from .flow import Flow
from .uses import operands_in
from .waits import bit_of, bits_of

_WAVE = 64
_EXEC = bit_of(("exec", 0))
_M0 = bit_of(("m0", 0))
_FULL = -1  # number of the value "all lanes are on", of exec and of pairs that keep it
_SINGLE = re.compile(r"([vas])(\d+)$|m0$")
_PAIR = re.compile(r"[vs]\[(\d+):(\d+)\]$")
_CHANGED = re.compile(r"\b(clamp|\w+_sel|dst_unused|row_\w+|quad_perm|wave_\w+|bank_mask|op_sel\w*|neg\w*)\b|[-|]v")
Lanes = np.ndarray  # of u32, one a work-item
State = dict[int, int]  # a register's bit -> number of its value


def _shifted(a: Lanes, b: Lanes) -> Lanes:
    return a << (b & 31)


def _field(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    return a >> (b & 31) & ((np.uint32(1) << (c & 31)) - np.uint32(1))


def _scalar_field(a: Lanes, b: Lanes) -> Lanes:
    return _field(a, b, b >> 16)


def _product24(a: Lanes, b: Lanes) -> Lanes:
    return (a & 0xFFFFFF) * (b & 0xFFFFFF)


def _lanes_below(a: Lanes, b: Lanes, start: int) -> Lanes | None:
    """v_mbcnt of a mask of ones: the lane's number, in two halves."""
    lane: Lanes = np.arange(len(a), dtype=np.uint32) % _WAVE
    return b + np.clip(lane.astype(np.int64) - start, 0, 32).astype(np.uint32) if (a == 0xFFFFFFFF).all() else None


_OPERATIONS: dict[str, Callable[..., Lanes | None]] = {
    **dict.fromkeys(("v_mov_b32", "s_mov_b32", "s_movk_i32", "v_accvgpr_read_b32", "v_accvgpr_write_b32"), lambda a: a),
    "v_accvgpr_mov_b32": lambda a: a,
    **dict.fromkeys(("v_and_b32", "s_and_b32"), lambda a, b: a & b),
    **dict.fromkeys(("v_or_b32", "s_or_b32"), lambda a, b: a | b),
    **dict.fromkeys(("v_xor_b32", "s_xor_b32"), lambda a, b: a ^ b),
    "s_andn2_b32": lambda a, b: a & ~b,
    **dict.fromkeys(("v_not_b32", "s_not_b32"), lambda a: ~a),
    **dict.fromkeys(("v_add_u32", "s_add_u32", "s_add_i32"), lambda a, b: a + b),
    **dict.fromkeys(("v_sub_u32", "s_sub_u32", "s_sub_i32"), lambda a, b: a - b),
    "v_subrev_u32": lambda a, b: b - a,
    "v_lshlrev_b32": lambda a, b: _shifted(b, a),
    "s_lshl_b32": _shifted,
    "v_lshrrev_b32": lambda a, b: b >> (a & 31),
    "s_lshr_b32": lambda a, b: a >> (b & 31),
    **dict.fromkeys(("s_mul_i32", "v_mul_lo_u32"), lambda a, b: a * b),
    "v_mul_u32_u24": _product24,
    "v_mad_u32_u24": lambda a, b, c: _product24(a, b) + c,
    "v_lshl_add_u32": lambda a, b, c: _shifted(a, b) + c,
    "v_add_lshl_u32": lambda a, b, c: _shifted(a + b, c),
    "v_lshl_or_b32": lambda a, b, c: _shifted(a, b) | c,
    "v_and_or_b32": lambda a, b, c: a & b | c,
    "v_or3_b32": lambda a, b, c: a | b | c,
    "v_add3_u32": lambda a, b, c: a + b + c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_bfi_b32": lambda a, b, c: a & b | ~a & c,
    "v_bfe_u32": _field,
    "s_bfe_u32": _scalar_field,
    "v_readfirstlane_b32": lambda a: np.repeat(a[::_WAVE], _WAVE)[: len(a)],
    "v_mbcnt_lo_u32_b32": lambda a, b: _lanes_below(a, b, 0),
    "v_mbcnt_hi_u32_b32": lambda a, b: _lanes_below(a, b, 32),
}


@functools.cache
def _plan(name: str, text: str) -> tuple[Callable[..., Lanes | None], int, tuple[int, ...]] | None:
    """(operation, bit of the result, its sources: bits, or -1 - constant); None of what is not worked out."""
    operation, table = _OPERATIONS.get(name), re.search(r" bitop3:(\w+)$", text)
    if name == "v_bitop3_b32":
        operation = functools.partial(_by_table, int(table[1], 0) if table else 0)
        text = text.partition(" bitop3:")[0]
    places = [place for part in operands_in(text) if (place := _place(part)) is not None]
    if operation is None or _CHANGED.search(text) or len(places) < len(operands_in(text)) or places[0] < 0:
        return None
    return operation, places[0], tuple(places[1:])


def _by_table(number: int, *sources: Lanes) -> Lanes:
    """Bit by bit, entry 4a + 2b + c of a truth table."""
    result = np.zeros_like(sources[0])
    for entry in range(8):
        if number >> entry & 1:
            a, b, c = (source if entry >> 2 - i & 1 else ~source for i, source in enumerate(sources))
            result |= a & b & c
    return result


def _place(text: str) -> int | None:
    found = _SINGLE.match(text)
    if found:
        return bit_of((found[1], int(found[2]))) if found[1] else _M0
    try:
        return -1 - (int(text, 0) & 0xFFFFFFFF)
    except ValueError:
        return None


class LaneValues:
    """Of one kernel, in workgroups of `n` work-items in a row."""

    def __init__(self, flow: Flow, entry: int, n: int, numbered: bool) -> None:
        """numbered: v0 holds a work-item's number at the entry, and nothing else."""
        self.flow, self.n = flow, n
        self._values: list[Lanes] = []
        self._numbers: dict[bytes, int] = {}
        start: State = {_EXEC: _FULL} if n % _WAVE == 0 else {}
        if numbered:
            start[bit_of(("v", 0))] = self._number(np.arange(n, dtype=np.uint32))
        self._at: dict[int, State] = {}
        self._solve(entry, start)

    def _number(self, value: Lanes) -> int:
        value = np.broadcast_to(value.astype(np.uint32), (self.n,))
        number = self._numbers.setdefault(value.tobytes(), len(self._values))
        if number == len(self._values):
            self._values.append(value)
        return number

    def _solve(self, entry: int, start: State) -> None:
        pending = [(entry, start)]
        while pending:
            index, state = pending.pop()
            first = True
            while True:
                if first or index in self.flow.leaders:
                    known = self._at.get(index)
                    both = dict(state) if known is None else dict(state.items() & known.items())
                    if known is not None and len(both) == len(known):
                        break
                    self._at[index], state, first = both, dict(both), False
                self._step(state, index)
                if self.flow.leaves[index]:
                    pending += [(at, state) for at, _ in self.flow.after(index, ())]
                    break
                index += 1

    def _step(self, state: State, index: int) -> None:
        if index in self.flow.unknown:
            return
        name, text = self.flow.mnemonics[index], self.flow.asm.statements[index].operands
        if name.endswith("_b64") and self._step_masks(state, name, text):
            return
        plan = _plan(name, text)
        result = None
        if plan is not None and (facts_of(name).unit == "scalar" or state.get(_EXEC) == _FULL):
            values = [self._value(state, place) for place in plan[2]]
            result = plan[0](*values) if all(value is not None for value in values) else None
        for bit in bits_of(name, text):
            state.pop(bit, None)
        if plan is not None and result is not None:
            state[plan[1]] = self._number(result)

    def _value(self, state: State, place: int) -> Lanes | None:
        if place < 0:
            return np.full(self.n, -1 - place, dtype=np.uint32)
        number = state.get(place, _FULL)
        return self._values[number] if number >= 0 else None

    def _step_masks(self, state: State, name: str, text: str) -> bool:
        """Moves of pairs, and what keeps and restores exec; False of anything else."""
        parts = operands_in(text)
        if name in ("s_mov_b64", "v_mov_b64"):
            to, source = parts[:2]
            kept = _FULL if source == "-1" else state.get(_EXEC if source == "exec" else _low(source))
            halves = [state.get(_low(source) + i) for i in (0, 1)] if _PAIR.match(source) else [None, None]
        elif name in ("s_and_saveexec_b64", "s_or_saveexec_b64", "s_andn2_saveexec_b64", "s_xor_saveexec_b64"):
            kept, to = state.get(_EXEC), parts[0]
            state.pop(_EXEC, None)
            if name == "s_or_saveexec_b64" and parts[1] == "-1":
                state[_EXEC] = _FULL
            halves = [None, None]
        elif name == "s_or_b64" and parts[:2] == ("exec", "exec"):
            kept, to, halves = state.get(_low(parts[2])), "exec", [None, None]
        else:
            return False
        for bit in (_EXEC,) if to == "exec" else (_low(to), _low(to) + 1):
            state.pop(bit, None)
        if kept == _FULL:
            state[_EXEC if to == "exec" else _low(to)] = _FULL
        elif to != "exec":
            state |= {_low(to) + i: half for i, half in enumerate(halves) if half is not None}
        return True

    def look(self, wanted: set[int], see: Callable[[int, Callable[[str], Lanes | None]], None]) -> None:
        """Calls `see` of each wanted instruction with what reads an operand there; of those with all lanes on alone."""
        for start, before in self._at.items():
            state, index = dict(before), start
            while True:
                if index in wanted and state.get(_EXEC) == _FULL:
                    see(index, functools.partial(self._operand, state))
                self._step(state, index)
                index += 1
                if self.flow.leaves[index - 1] or index in self._at:
                    break

    def _operand(self, state: State, text: str) -> Lanes | None:
        place = _place(text)
        return None if place is None else self._value(state, place)


def _low(pair: str) -> int:
    """The bit of the lower register of a pair; -1 of anything else."""
    found = _PAIR.match(pair)
    return bit_of((pair[0], int(found[1]))) if found else bit_of(("vcc", 0)) if pair == "vcc" else -1
