"""LDS read before what fills it is waited for, or before the barrier behind that, and overwritten before what reads it
is: on any path.

Decided where the addresses of both follow from the work-item's number (lane_values.py); where they do not, an access
under way at a barrier is told as a doubt, and everything else left alone and counted. Loads to LDS may be under way at
barriers, for a later round: one is a doubt where it alone of those that were issued together is not waited for.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ..isa import facts_of
from ..isa.lane_arithmetic import WAVE, Lanes
from .flow import Stack
from .lane_values import LaneValues
from .uses import operands_in
from .waits import COUNTERS, LGKM, MOST_NAMED, VM, Path, Waits, steps_of

_LDS_BYTES = 160 * 1024
_BYTES_OF_DMA_LANE = 4  # of narrower loads as well


@dataclass(frozen=True)
class Early:
    """`index` reads LDS that `first` fills, or overwrites what that reads: before the wait for it, behind a barrier
    that came before that wait (crossed), or without a barrier. doubt: if the two share words at all."""

    index: int
    first: int
    reads: bool
    counter: int
    left: int
    waited: bool
    crossed: bool
    doubt: bool
    path: tuple[tuple[int, int], ...]


def message(early: Early, where: Callable[[int], str]) -> str:
    """What is wrong, in words. where: text and source line of an instruction."""
    first, wait = where(early.first), f"s_waitcnt {COUNTERS[early.counter]}({early.left})"
    does, other = ("read", "fill it") if early.reads else ("overwritten", "read it")
    doubt = ", if both touch the same words: the addresses are not known" if early.doubt else ""
    if early.crossed:
        return f"LDS is {does} behind a barrier before which nothing waits for {first}: needs {wait} there{doubt}"
    if early.waited or early.counter == LGKM:
        return f"LDS is {does} without a barrier behind {first}, by which other waves {other}"
    return f"LDS is {does} before the wait for what fills it: {first} needs {wait}"


@dataclass
class _Words:
    """The dwords that each wave of a workgroup touches: a mask a wave."""

    of_wave: list[int]
    whole: bool  # none of them in part alone
    all: int = 0

    def __post_init__(self) -> None:
        self.all = functools.reduce(operator.or_, self.of_wave)

    def same_wave(self, other: _Words) -> bool:
        return any(mine & theirs for mine, theirs in zip(self.of_wave, other.of_wave))

    def other_wave(self, other: _Words) -> bool:
        """Whether one wave touches a dword that another one touches there."""
        return self.all & other.all != 0 and any(
            mine & theirs for i, mine in enumerate(self.of_wave) for j, theirs in enumerate(other.of_wave) if i != j
        )


def _mask(numbers: np.ndarray) -> int:
    bits: np.ndarray = np.zeros(int(numbers.max()) + 1, dtype=np.uint8)
    bits[numbers] = 1
    return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")


@dataclass
class LdsOrder:
    """Of one kernel, in workgroups of `n` work-items."""

    waits: Waits
    entry: int
    reached: set[int]
    n: int
    numbered: bool
    unjudged: set[int] = field(default_factory=set)  # accesses whose addresses are not known

    def __post_init__(self) -> None:
        self.flow, self._always = self.waits.flow, dict[int, bool]()
        self._words: dict[int, _Words] = {}
        facts = {i: facts_of(self.flow.mnemonics[i]) for i in self.reached - self.flow.unknown}
        lds = {i for i, fact in facts.items() if fact.unit == "lds" and fact.does in ("load", "store", "atomic")}
        self._reads = {i for i in lds if facts[i].does == "load"}
        self._stores = {i for i in lds if facts[i].does == "store"}
        self._stores |= {i for i in self.reached if self.waits.accesses[i].to_lds}
        self._barriers = {i for i, fact in facts.items() if fact.unit == "barrier"}

    def find(self) -> Iterator[Early]:
        if not self._reads or not self._stores:
            return
        LaneValues(self.flow, self.entry, self.n, self.numbered).look(self._reads | self._stores, self._see)
        self.unjudged = (self._reads | self._stores) - self._words.keys()
        told: set[int] = set()
        parted: list[Early] = []
        known, several = self._words.keys(), self.n > WAVE
        for first in sorted(self._stores | self._reads):
            decided = first in known and not known.isdisjoint(self._later(first))
            if not decided and (not several or (self.waits.accesses[first].to_lds and not self._behind_another(first))):
                continue  # nothing could be said
            for early in self._follow(first, decided and several):
                if early.doubt and early.counter == VM:
                    parted.append(early)
                elif early.index not in told:
                    told.add(early.index)
                    yield early

        if len({early.first for early in parted}) == 1:  # who waits for each by itself means to
            yield parted[0]

    def _see(self, index: int, value: Callable[[str], Lanes | None]) -> None:
        name, text = self.flow.mnemonics[index], self.flow.asm.statements[index].operands
        facts, parts = facts_of(name), operands_in(text)
        modifiers = dict(word.split(":", 1) for word in text.replace(",", " ").split() if word.startswith("offset"))
        if "lane_order" in facts.flags or facts.bytes is None:
            return
        if index in self._stores and self.waits.accesses[index].to_lds:
            base, width, whole = value("m0"), max(facts.bytes, _BYTES_OF_DMA_LANE), True
            lane = np.arange(self.n, dtype=np.uint32) % WAVE * np.uint32(width)
            starts = [] if base is None else [(base & 0xFFFF) + int(modifiers.get("offset", "0"), 0) + lane]
        else:
            base = value(parts[1 if index in self._reads else 0].partition(" ")[0])
            width, whole = facts.bytes, facts.bytes >= 4
            names = ("offset",) if facts.elements == 1 else ("offset0", "offset1")
            scale = 1 if facts.elements == 1 else width * facts.stride
            starts = [] if base is None else [base + int(modifiers.get(name, "0"), 0) * scale for name in names]
        if starts and max(int(start.max()) for start in starts) + width <= _LDS_BYTES:
            dwords = [(start + byte) >> 2 for start in starts for byte in range(0, width, 4)]
            waves = [np.concatenate([at[i : i + WAVE] for at in dwords]) for i in range(0, self.n, WAVE)]
            self._words[index] = _Words([_mask(numbers) for numbers in waves], whole)

    def _later(self, first: int) -> set[int]:
        return self._stores if first in self._reads else self._reads

    def _follow(self, first: int, waited_too: bool) -> Iterator[Early]:
        """Reads on all paths behind a store, and stores behind a read, until a barrier behind the wait for it.

        waited_too: also behind the wait without a barrier.
        """
        counter, waits, flow = VM if self.waits.accesses[first].to_lds else LGKM, self.waits, self.flow
        later, gap = self._later(first), self._behind_another(first)
        seen: dict[tuple[int, Stack, bool, bool, bool], int] = {}
        pending: list[tuple[int, Stack, int, bool, bool, bool, Path]] = []
        waits.go_on(pending, first, (), (0, False, False, False), ())
        while pending:
            index, stack, age, waited, crossed, parted, path = pending.pop()
            while True:
                if index in flow.leaders:
                    key = (index, stack, waited, crossed, parted)
                    if seen.get(key, 1 << 30) <= age:
                        break
                    seen[key] = age
                waits.steps -= 1
                if waits.steps < 0:
                    waits.unfinished.append(first)
                    return
                if index in later:
                    doubt = self._too_early(first, index, counter, waited, crossed, parted)
                    if doubt is not None:
                        left, reads = min(age, MOST_NAMED[counter]), later is self._reads
                        yield Early(index, first, reads, counter, left, waited, crossed, doubt, steps_of(path))
                        break
                if index in self._barriers:
                    if waited:
                        break
                    crossed = True
                count = waits.waits.get(index, (255, 255, 255))[counter]
                waited |= count == 0 or age >= count or (counter == VM and age >= 63)
                if waited and not (crossed or waited_too):
                    break
                parted |= not (waited or crossed) and age < count <= age + gap
                age += counter in waits.accesses[index].ordered
                if flow.leaves[index]:
                    waits.go_on(pending, index, stack, (age, waited, crossed, parted), path)
                    break
                index += 1

    def _behind_another(self, index: int) -> int:
        """How many accesses of vmcnt further back the load to LDS before this one is, of those issued together."""
        gap, accesses = 1, self.waits.accesses
        for at in range(index - 1, -1, -1) if accesses[index].to_lds else ():
            if at in self._barriers or at in self.waits.waits or self.flow.leaves[at] or at + 1 in self.flow.leaders:
                return 0
            if accesses[at].to_lds:
                return gap
            gap += VM in accesses[at].counters
        return 0

    def _too_early(
        self, first: int, later: int, counter: int, waited: bool, crossed: bool, parted: bool
    ) -> bool | None:
        """None: it is not, as far as anybody can say; False: it is; True: it is if both touch the same words."""
        mine, theirs = self._words.get(first), self._words.get(later)
        several = self.n > WAVE
        if mine is None or theirs is None:
            return True if crossed and several and (counter == LGKM or parted) else None
        own = counter == VM and not waited and mine.same_wave(theirs)
        if not own and not (several and mine.other_wave(theirs)):
            return None
        sure = mine.whole and theirs.whole and self._always_executed(first) and self._always_executed(later)
        return False if sure else True if crossed else None

    def _always_executed(self, index: int) -> bool:
        """Whether no path ends without it: what only some waves execute is not judged by all of their addresses."""
        if index not in self._always:
            seen, pending, ends = set[int](), [self.entry], False
            while pending and not ends:
                at = pending.pop()
                while at != index and at not in seen:
                    seen.add(at)
                    if self.flow.leaves[at]:
                        behind = self.flow.after(at, ())
                        ends |= not behind
                        pending += [to for to, _ in behind]
                        break
                    at += 1
            self._always[index] = not ends
        return self._always[index]
