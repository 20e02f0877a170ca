"""Where control goes behind an instruction: branches, calls and returns, as far as the program itself says."""

import re
from bisect import bisect_right
from collections.abc import Iterator

from ..isa import flagged, instructions
from .asm import AsmFile
from .decode import base_mnemonic, split_operands
from .uses import registers_in, use_of

Stack = tuple[int, ...]  # instructions that calls return to, the innermost last
Place = tuple[int, Stack]
_DEEPEST = 24  # calls; a function that calls itself is not followed for ever
_ABORTS = "2"  # of s_trap: the wave does not come back


class Flow:
    """The paths of one file. An instruction is known by its number."""

    def __init__(self, asm: AsmFile) -> None:
        self.asm = asm
        self.mnemonics = [base_mnemonic(statement.mnemonic) for statement in asm.statements]
        self._functions = sorted(
            (asm.labels[name], name) for name in {*asm.functions, *asm.descriptors} if name in asm.labels
        )
        starts = {start for start, _ in self._functions}
        last = len(self.mnemonics) - 1
        self.unknown = {i for i, name in enumerate(self.mnemonics) if not self._known(name)}
        self.leaves = [  # does not simply go on with the next one
            i in self.unknown
            or instructions()[name].unit in ("branch", "end")
            or "trap" in instructions()[name].flags
            or i == last
            or i in asm.gaps
            or i + 1 in starts
            for i, name in enumerate(self.mnemonics)
        ]
        self.leaders = {*asm.labels.values()}  # where paths may meet
        self._targets: dict[int, int | None] = {}
        self._known_after: dict[Place, list[Place]] = {}
        self._returns: dict[int, list[int]] = {}  # function's first instruction -> where its calls return to
        for i in (i for i, leaves in enumerate(self.leaves) if leaves and self._calls(i)):
            if (target := self.target(i)) is not None:
                self._returns.setdefault(target, []).append(i + 1)
            self.leaders.add(i + 1)

    @staticmethod
    def _known(name: str) -> bool:
        return name in instructions() and instructions()[name].facts is not None

    def _calls(self, index: int) -> bool:
        instruction = instructions().get(self.mnemonics[index])
        return instruction is not None and instruction.unit == "branch" and bool(instruction.signature.types("D"))

    def _indirect(self, index: int) -> bool:
        return bool(instructions()[self.mnemonics[index]].signature.types("S"))

    def function_of(self, index: int) -> tuple[int, str]:
        """(first instruction, name) of the function or kernel that it is in; (0, "") before all."""
        before = bisect_right(self._functions, index, key=lambda function: function[0])
        return self._functions[before - 1] if before else (0, "")

    def kernel_of(self, index: int) -> str:
        """The kernel whose code it is; "" in a function, which several may call."""
        name = self.function_of(index)[1]
        return name if name in self.asm.descriptors else ""

    def after(self, index: int, stack: Stack) -> list[Place]:
        """What may be executed next; nothing where a wave ends, and where `undecided` says why it is not known."""
        place = (index, stack)
        if place not in self._known_after:
            self._known_after[place] = [] if self.undecided(index, stack) else self._after(index, stack)
        return self._known_after[place]

    def undecided(self, index: int, stack: Stack) -> str:
        """Why it is not known where control goes; "" where it is."""
        if index in self.unknown:
            return "an instruction that is not known"
        if not self.leaves[index]:
            return ""
        name = self.mnemonics[index]
        unit = instructions()[name].unit
        if unit == "branch" and self._indirect(index):
            if self.target(index) is None and not (self._returns_from(index) and (stack or self._callers(index))):
                return "an indirect call" if self._calls(index) else "an indirect branch"
        elif unit == "branch" and self.target(index) is None:
            return "a branch to what is no known instruction"
        if self._calls(index) and len(stack) >= _DEEPEST:
            return "a function that calls itself, or too many calls in calls"
        if self._ends(index) or instructions()[name].does == "jump":
            return ""
        if index in self.asm.gaps:
            return "bytes that are no known instruction"
        ends = index + 1 == len(self.mnemonics) or self.function_of(index) != self.function_of(index + 1)
        return "code that runs out of its function" if ends else ""

    def _ends(self, index: int) -> bool:
        instruction = instructions()[self.mnemonics[index]]
        aborts = "trap" in instruction.flags and self.asm.statements[index].operands == _ABORTS
        return instruction.unit == "end" or aborts

    def _after(self, index: int, stack: Stack) -> list[Place]:
        instruction = instructions()[self.mnemonics[index]]
        if self._ends(index):
            return []
        if instruction.unit != "branch":
            return [(index + 1, stack)]
        target = self.target(index)
        if target is None:  # a return
            return [(stack[-1], stack[:-1])] if stack else [(at, ()) for at in self._callers(index)]
        if self._calls(index):
            return [(target, (*stack, index + 1))]
        taken = [(target, stack)]
        return taken if instruction.does == "jump" else [*taken, (index + 1, stack)]

    def _callers(self, index: int) -> list[int]:
        return self._returns.get(self.function_of(index)[0], [])

    def _returns_from(self, index: int) -> bool:
        """Whether it jumps to where the function was called from: by the registers that calls leave that in."""
        pair = registers_in(self.asm.statements[index].operands)
        return not self._calls(index) and any(pair == self._links(at - 1) for at in self._callers(index) or ())

    def _links(self, call: int) -> frozenset:
        return registers_in(split_operands(self.asm.statements[call].operands)[0])

    def target(self, index: int) -> int | None:
        """Where a branch or call goes when taken; None where it is not known."""
        if index not in self._targets:
            *_, last = split_operands(self.asm.statements[index].operands) or [""]
            label = self._address_in(index, last) if self._indirect(index) else last
            at = self.asm.labels.get(label or "")
            self._targets[index] = at if at is not None and at < len(self.mnemonics) else None
        return self._targets[index]

    def _address_in(self, index: int, registers: str, depth: int = 8) -> str | None:
        """The label whose address a register pair holds: behind s_getpc_b64 and an addition, moved, or loaded from a
        table of addresses."""
        pair = sorted(registers_in(registers))
        if not pair or not depth:
            return None
        for at in self._definitions(index, pair[0]):
            parts = split_operands(self.asm.statements[at].operands)
            name = self.mnemonics[at]
            if name in flagged("adds") and re.search("@(got)?(pc)?rel32@", parts[-1]):
                return parts[-1].partition("@")[0]
            if instructions()[name].unit == "scalar_memory" and len(parts) > 2:
                label = self._address_in(at, parts[1], depth - 1)
                return self._pointer_at(label, parts[2]) if label in self.asm.data_labels else label
            moves = len(parts) == 2 and not instructions()[name].flags and registers_in(parts[1])
            return self._address_in(at, parts[1], depth - 1) if moves else None
        return None

    def _pointer_at(self, label: str, offset: str) -> str | None:
        section, start = self.asm.data_labels[label]
        try:
            place = start + int(offset, 0)
        except ValueError:
            return None
        return next((name for at, _, name in self.asm.sections[section].relocations if at == place), None)

    def _definitions(self, index: int, register: tuple[str, int]) -> Iterator[int]:
        """The instruction that last wrote a register: in the same run of code, or the only one of the function."""
        first = self.function_of(index)[0]
        at = index
        while at > first and at not in self.leaders:
            at -= 1
            if self._writes(at, register):
                yield at
                return
        all_of_it = [i for i in range(first, self._end_of(first)) if self._writes(i, register)]
        if len(all_of_it) == 1:
            yield all_of_it[0]

    def _end_of(self, first: int) -> int:
        return next((start for start, _ in self._functions if start > first), len(self.mnemonics))

    def _writes(self, index: int, register: tuple[str, int]) -> bool:
        if index in self.unknown:
            return False
        return register in use_of(self.mnemonics[index], self.asm.statements[index].operands).writes

    def reached(self, start: int) -> tuple[set[int], dict[int, str]]:
        """All that a kernel may execute, and at which of it where to go on is not known."""
        found: set[int] = set()
        undecided: dict[int, str] = {}
        seen: set[Place] = set()
        pending: list[Place] = [(start, ())]
        while pending:
            index, stack = place = pending.pop()
            while place not in seen:
                if index in self.leaders:
                    seen.add(place)
                found.add(index)
                if self.leaves[index]:
                    if why := self.undecided(index, stack):
                        undecided[index] = why
                    pending += self.after(index, stack)
                    break
                index += 1
                place = (index, stack)
        return found, undecided
