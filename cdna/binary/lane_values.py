"""What registers hold of each work-item, as far as that follows from its number alone: LDS addresses mostly do.

A value is known where it is the same on all paths. Whatever is loaded, compared, or differs between the rounds of a
loop is not, nor what is written while some lanes are off.
"""

import functools
import re
from collections.abc import Callable

import numpy as np

from ..isa import facts_of
from ..isa.lane_arithmetic import (
    BY_TABLE,
    MOVES_OF_PAIRS,
    OPERATIONS,
    ORS_PAIRS,
    SAVES_AND_ADDS,
    SAVES_OF_EXEC,
    WAVE,
    Lanes,
    by_table,
)
from .flow import Flow
from .uses import operands_in
from .waits import bit_of, bits_of

_EXEC = bit_of(("exec", 0))
_M0 = bit_of(("m0", 0))
_FULL = -1  # number of the value "all lanes are on", of exec and of pairs that keep it
_SINGLE = re.compile(r"([vas])(\d+)$|m0$")
_PAIR = re.compile(r"[vs]\[(\d+):(\d+)\]$")
_CHANGED = re.compile(r"\b(clamp|\w+_sel|dst_unused|row_\w+|quad_perm|wave_\w+|bank_mask|op_sel\w*|neg\w*)\b|[-|]v")
State = dict[int, int]  # a register's bit -> number of its value


@functools.cache
def _plan(name: str, text: str) -> tuple[Callable[..., Lanes | None], int, tuple[int, ...]] | None:
    """(operation, bit of the result, its sources: bits, or -1 - constant); None of what is not worked out."""
    operation, table = OPERATIONS.get(name), re.search(r" bitop3:(\w+)$", text)
    if name == BY_TABLE:
        operation = functools.partial(by_table, int(table[1], 0) if table else 0)
        text = text.partition(" bitop3:")[0]
    places = [place for part in operands_in(text) if (place := _place(part)) is not None]
    if operation is None or _CHANGED.search(text) or len(places) < len(operands_in(text)) or places[0] < 0:
        return None
    return operation, places[0], tuple(places[1:])


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
        start: State = {_EXEC: _FULL} if n % WAVE == 0 else {}
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
        if name in MOVES_OF_PAIRS:
            to, source = parts[:2]
            kept = _FULL if source == "-1" else state.get(_EXEC if source == "exec" else _low(source))
            halves = [state.get(_low(source) + i) for i in (0, 1)] if _PAIR.match(source) else [None, None]
        elif name in SAVES_OF_EXEC:
            kept, to = state.get(_EXEC), parts[0]
            state.pop(_EXEC, None)
            if name == SAVES_AND_ADDS and parts[1] == "-1":
                state[_EXEC] = _FULL
            halves = [None, None]
        elif name == ORS_PAIRS and parts[:2] == ("exec", "exec"):
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
