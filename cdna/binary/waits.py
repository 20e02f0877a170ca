"""Registers used while what loads them may be under way, on any path through a program.

Counters (CDNA3 ISA, "Manually Inserted Wait States" and "Data dependency resolution"; engine/checks/check_wave.cpp has
the same rules for the path that runs): vmcnt falls in the order of issue, loads and stores alike; lgkmcnt does for LDS
alone, and scalar loads return in any order, so that only lgkmcnt(0) waits for one. Flat accesses count in both; that
lgkmcnt(0) has to wait for one is a doubt, as compilers know when none goes to LDS. expcnt is for data that the global
wave sync takes.

What orders memory counts as a register: a load of the device's scope, and an atomic, bring what an invalidation of
caches behind them reads (LLVM's AMDGPUUsage, "Memory Model gfx942"). A write-back counts nowhere, as LLVM has it.

Each load is followed from where it is issued until something has waited for it, with the fewest accesses behind it that
any path has: paths do not hide each other.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from ..isa import facts_of, flagged
from .asm import AsmFile
from .decode import wait_counts
from .flow import Flow, Stack
from .uses import M0, Register, Registers, operands_in, registers_in, use_of

COUNTERS = ("vmcnt", "lgkmcnt", "expcnt")
VM, LGKM, EXP = range(3)
_MOST = (63, 1 << 30, 1 << 30)  # further accesses are held back; of LDS as well, but no compiler counts on that
MOST_NAMED = (63, 15, 7)  # of a counter in an instruction: it asks for no wait
_SHIFTS = {"v": 0, "a": 256, "s": 512, "vcc": 618, "m0": 636, "exec": 638}  # of a register's bit in a mask
_SEEN = 1 << 640  # what an invalidation of caches must not come before
_VECTOR_REGISTERS = (1 << 512) - 1
_RETURNS = re.compile(r"\b(sc0|glc)\b")
_OF_DEVICE = re.compile(r"\bsc1\b")
MOST_STEPS = 3_000_000  # instructions looked at for one program

Path = tuple  # (path before, instruction that went elsewhere than on, to which); () at the load


@dataclass(frozen=True)
class Unwaited:
    """`index` reads or overwrites `registers`, which `load` may not have brought: `left` of its counter are younger.
    Without registers the order of memory depends on it. doubt: if it goes to LDS.

    path: where control went otherwise than on between the two: (instruction, the next one).
    """

    index: int
    load: int
    registers: Registers
    reads: bool
    counter: int
    left: int
    doubt: bool
    path: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Access:
    """What an instruction counts in, and the registers that it brings later."""

    counters: tuple[int, ...] = ()
    ordered: tuple[int, ...] = ()  # those in which it returns in the order of issue
    brings: int = 0  # a mask, as the following
    keeps: int = 0  # that it may still read: until expcnt says that it has
    to_lds: bool = False


def message(unwaited: Unwaited, where: Callable[[int], str]) -> str:
    """What is wrong, in words. where: text and source line of an instruction."""
    needs = f"s_waitcnt {COUNTERS[unwaited.counter]}({unwaited.left})"
    needs += ", if it may go to LDS" if unwaited.doubt else ""
    if not unwaited.registers:
        return f"comes before the wait for {where(unwaited.load)}, behind which it belongs: needs {needs}"
    does = "is read" if unwaited.reads else "is overwritten"
    brings = "takes" if unwaited.counter == EXP else "loads"
    name = _name(unwaited.registers)
    return f"{name} {does} before the wait for it: {where(unwaited.load)} {brings} it and needs {needs}"


def _name(registers: Registers) -> str:
    file, first = min(registers)
    if file not in "vas":
        return file
    last = max(number for other, number in registers if other == file)
    return f"{file}{first}" if first == last else f"{file}[{first}:{last}]"


def bit_of(register: Register) -> int:
    """The place of a register in masks of them."""
    return _SHIFTS[register[0]] + register[1]


@cache
def bits_of(mnemonic: str, text: str) -> tuple[int, ...]:
    """Of all that an instruction writes, at once or later."""
    mask = touched(mnemonic, text)[1] & (_SEEN - 1)
    return tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)


@cache
def _mask(registers: Registers) -> int:
    return sum(1 << bit_of(register) for register in registers)


def _registers(mask: int) -> Registers:
    found = set()
    for file, start in _SHIFTS.items():
        size = 256 if file in "va" else 102 if file == "s" else 1
        found |= {(file, n) for n in range(size) if mask >> start + n & 1}
    return frozenset(found)


@cache
def touched(mnemonic: str, text: str) -> tuple[int, int]:
    """Masks of what an instruction reads and writes at once or later."""
    use = use_of(mnemonic, text)
    reads = use.reads | use.c | use.lane | use.stored | ({M0} if use.m0 else frozenset())
    seen = _SEEN if facts_of(mnemonic).does == "acquire" else 0
    return _mask(reads) | seen, _mask(use.writes) | access(mnemonic, text).brings


@cache
def access(mnemonic: str, text: str) -> _Access:
    facts, use = facts_of(mnemonic), use_of(mnemonic, text)
    if facts.unit == "scalar_memory":
        return _Access((LGKM,), (), _mask(use.writes))
    if facts.unit == "lds":
        if "gds" in text.split():
            return _Access((LGKM, EXP), (), 0, _mask(use.reads))
        return _Access((LGKM,), (LGKM,), _mask(use.writes))
    if facts.unit != "memory" or facts.does in ("acquire", "release"):
        return _Access()
    brings = use.writes
    if facts.does == "atomic" and facts.space == "buffer" and _RETURNS.search(text):
        data = sorted(registers_in(operands_in(text)[0]))
        brings = frozenset(data[: len(data) // 2] if "swap" in facts.flags else data)
    flag = facts.does == "atomic" or (facts.does == "load" and _OF_DEVICE.search(text) is not None)
    to_lds = "to_lds" in facts.flags or " lds" in f" {text} ".replace(" lds ", " lds")
    return _Access((VM, LGKM) if facts.space == "flat" else (VM,), (VM,), _mask(brings) | flag * _SEEN, to_lds=to_lds)


class Waits:
    """Follows the loads of a program. `unfinished`: those that were not, for want of steps; `relative`: instructions
    that name their registers by an index while some vector register is on its way."""

    def __init__(self, asm: AsmFile, flow: Flow | None = None, steps: int = MOST_STEPS) -> None:
        self.flow = flow or Flow(asm)
        self.asm = asm
        self.steps = steps
        self.unfinished: list[int] = []
        self.relative: set[int] = set()
        nothing = (0, 0)
        pairs = list(zip(self.flow.mnemonics, (statement.operands for statement in asm.statements)))
        known = [i not in self.flow.unknown for i in range(len(pairs))]
        self.touched = [touched(*pair) if ok else nothing for pair, ok in zip(pairs, known)]
        self.any = [reads | writes for reads, writes in self.touched]
        self.accesses = [access(*pair) if ok else _Access() for pair, ok in zip(pairs, known)]
        waits = [i for i, name in enumerate(self.flow.mnemonics) if known[i] and facts_of(name).unit == "wait"]
        self.waits = {
            i: [255 if n >= most else n for n, most in zip(wait_counts(pairs[i][1]), MOST_NAMED)] for i in waits
        }
        self.indexed = self._indexed()
        # What a walk has to stop at; all else is looked at for its registers alone.
        self.stops = [
            leaves or i in self.waits or bool(self.accesses[i].counters) or i in self.flow.leaders or i in self.indexed
            for i, leaves in enumerate(self.flow.leaves)
        ]

    def _indexed(self) -> set[int]:
        starts, ends, own = flagged("index_on"), flagged("index_off"), flagged("indexing")
        found, on = set(), False
        for i, name in enumerate(self.flow.mnemonics):
            on = name in starts or (on and name not in ends)
            if (on or name in own) and facts_of(name).unit in ("vector", "matrix"):
                found.add(i)
        return found

    def find(self, among: set[int] | None = None) -> Iterator[Unwaited]:
        """Each use that comes too early, once. among: the instructions that are executed at all."""
        told: set[int] = set()
        for load, made in enumerate(self.accesses):
            if among is not None and load not in among:
                continue
            for counter in made.counters:
                mask = made.keeps if counter == EXP else made.brings
                for found in self._follow(load, counter, mask) if mask else ():
                    if found.index not in told:
                        told.add(found.index)
                        yield found

    def _follow(self, load: int, counter: int, mask: int) -> Iterator[Unwaited]:
        """Uses of what one load brings, on all paths behind it."""
        ordered, most = counter in self.accesses[load].ordered, _MOST[counter]
        seen: dict[tuple[int, Stack], list[tuple[int, int]]] = {}
        pending: list[tuple[int, Stack, int, int, Path]] = []
        self.go_on(pending, load, (), (0, mask), ())
        while pending:
            index, stack, age, mask, path = pending.pop()
            while True:
                if self.stops[index] and index in self.flow.leaders:
                    known = seen.setdefault((index, stack), [])
                    if any(old <= age and mask & others == mask for old, others in known):
                        break
                    known.append((age, mask))
                self.steps -= 1
                if self.any[index] & mask:
                    found, mask = self._used(index, load, counter, age, mask, path)
                    if found is not None:
                        yield found
                    if not mask:
                        break
                if self.stops[index]:
                    if self.steps < 0:
                        self.unfinished.append(load)
                        return
                    if index in self.indexed and mask & _VECTOR_REGISTERS:
                        self.relative.add(index)
                    waited = self.waits.get(index)
                    if waited is not None and (waited[counter] == 0 or (ordered and age >= waited[counter])):
                        break
                    age += counter in self.accesses[index].ordered
                    if ordered and age >= most:
                        break
                    if self.flow.leaves[index]:
                        self.go_on(pending, index, stack, (age, mask), path)
                        break
                index += 1

    def go_on(self, pending: list, index: int, stack: Stack, state: tuple, path: Path) -> None:
        """Add where a walk goes behind an instruction that leaves."""
        for at, calls in self.flow.after(index, stack):
            pending.append((at, calls, *state, path if at == index + 1 else (path, index, at)))

    def _used(
        self, index: int, load: int, counter: int, age: int, mask: int, path: Path
    ) -> tuple[Unwaited | None, int]:
        """What is wrong where an instruction touches registers on their way, and which of them still are behind it."""
        reads, writes = self.touched[index]
        if counter == EXP:
            reads = 0  # what is taken may be read
            if not writes & mask:
                return None, mask
        by, to = self.accesses[load], self.accesses[index]
        if not reads & mask and to.brings & mask and (set(by.ordered) & set(to.ordered)):
            return None, mask & ~writes  # loads of one kind may overwrite each other's results: they return in order
        left = min(age, MOST_NAMED[counter]) if counter in by.ordered else 0
        hit = (reads or writes) & mask or writes & mask
        doubt = counter == LGKM and VM in by.counters
        return Unwaited(index, load, _registers(hit), bool(reads & mask), counter, left, doubt, steps_of(path)), 0


def steps_of(path: Path) -> tuple[tuple[int, int], ...]:
    found = []
    while path:
        path, index, at = path
        found.append((index, at))
    return tuple(reversed(found))
