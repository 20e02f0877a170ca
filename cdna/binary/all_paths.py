"""What a program's waits and hazards are on every path of every kernel, without running any of it.

Of each kernel: findings, each with the path that leads to it; what could not be decided, and why; else it is proven.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..cards import get_card
from ..results import ALL_INPUTS, UNDECIDED, Finding
from . import hazards, lds_order, stale_operands, waits
from .asm import AsmFile, arch_in, source_line
from .flow import Flow
from .kernel_names import demangled
from .lds_order import LdsOrder
from .waits import MOST_STEPS, Waits

_STEPS_SHOWN = 6  # of a path
_FINDINGS_SHOWN = 5  # of a kernel
_MANY_STEPS = "a kernel too large to follow all of its loads"
_RELATIVE = "registers named by an index while a load is under way"
_NO_CODE = "a kernel without code"
_MOST_WORK_ITEMS = 1024
_UNFILLED, _OVERWRITTEN = "what was there before may be read", "what comes later may be read"
_UNORDERED = "old lines may be read although the flag says that others have written"
_STALE = "what was in the register before is used"
_LATE = "what the load brings may arrive afterwards, in place of the new value"
_REUSES = (
    "which re-uses an operand of the matrix instruction before it: this card may read a stale register there, by one "
    "engineer's write-up (Triton's pull request 11169 works around it): unconfirmed"
)
_TOO_EARLY = "the hardware does not wait by itself: a stale or a mixed value is used"


@dataclass
class KernelPaths:
    """One kernel. instructions, loads: that some path executes."""

    kernel: str
    arch: str
    instructions: int
    loads: int
    findings: list[Finding] = field(default_factory=list)  # those of certainty UNDECIDED are doubts
    undecided: dict[str, list[str]] = field(default_factory=dict)  # reason -> where
    note: str = ""  # that takes nothing from the verdict
    unjudged: int = 0  # accesses to LDS whose addresses depend on more than the work-item's number

    @property
    def verdict(self) -> str:
        if any(one.certainty == ALL_INPUTS for one in self.findings):
            return "named"
        return UNDECIDED if self.undecided or self.findings else "proven"

    def lines(self) -> Iterator[str]:
        """For a person."""
        yield f"{self.kernel} on {self.arch}: {self.verdict} ({self.instructions} instructions, {self.loads} loads)"
        for finding in self.findings[:_FINDINGS_SHOWN]:
            says = str(finding).removeprefix(f"{finding.kernel} on {finding.arch}: ")
            yield from (f"  {line}" for line in says.split("\n"))
        if (more := len(self.findings) - _FINDINGS_SHOWN) > 0:
            yield f"  and {more} findings more"
        if self.unjudged:
            yield f"  LDS: addresses of {self.unjudged} accesses are not known: their order is not judged"
        if self.note:
            yield f"  note: {self.note}"
        for why, places in self.undecided.items():
            yield f"  undecided: {why}: {len(places)} times, first at {places[0]}"


def look_at(asm: AsmFile, steps: int = MOST_STEPS) -> list[KernelPaths]:
    """Every kernel of a program. steps: how much of it may be walked."""
    return _Look(asm, steps).kernels()


class _Look:
    def __init__(self, asm: AsmFile, steps: int) -> None:
        self.asm, self.arch = asm, arch_in(asm.target)
        self.flow = Flow(asm)
        self.waits = Waits(asm, self.flow, steps)

    def kernels(self) -> list[KernelPaths]:
        end = len(self.asm.statements)
        entries = {name: self.asm.labels.get(name, end) for name in self.asm.descriptors}
        reached = {name: self.flow.reached(start) for name, start in entries.items() if start < end}
        among: set[int] = set().union(*(instructions for instructions, _ in reached.values()))
        found = [*self._of_waits(among), *self._of_hazards(among)]
        self.suspects = list(stale_operands.suspects(self.flow, get_card(self.arch)))
        empty = [name for name in entries if name not in reached]
        return [
            *(self._kernel(name, *reached[name], found) for name in reached),
            *(KernelPaths(demangled(name), self.arch, 0, 0, [], {_NO_CODE: [name]}) for name in empty),
        ]

    def _kernel(
        self, name: str, reached: set[int], undecided: dict[int, str], found: Sequence[tuple[int, Finding]]
    ) -> KernelPaths:
        loads = sum(1 for i in reached if self.waits.accesses[i].brings)
        mine = [finding for index, finding in found if index in reached]
        order = self._order(name, reached)
        mine += [self._of_lds(one) for one in order.find()]
        reasons: dict[str, list[str]] = {}
        for index, why in sorted(undecided.items()):
            reasons.setdefault(why, []).append(self.where(index))
        for why, places in ((_RELATIVE, self.waits.relative), (_MANY_STEPS, self.waits.unfinished)):
            if here := [self.where(i) for i in sorted(places) if i in reached]:
                reasons[why] = here
        note = self._note([pair for pair in self.suspects if pair[0] in reached])
        return KernelPaths(demangled(name), self.arch, len(reached), loads, mine, reasons, note, len(order.unjudged))

    def _note(self, suspects: Sequence[tuple[int, int]]) -> str:
        if not suspects:
            return ""
        packed, matrix = map(self.where, suspects[0])
        return f"{packed} executes beside {matrix}, {_REUSES}; {len(suspects)} such places (docs/emulated-device.md)"

    def _order(self, name: str, reached: set[int]) -> LdsOrder:
        keys, metadata = self.asm.descriptors[name], self.asm.metadata.get(name, {})
        n = metadata.get(".max_flat_workgroup_size", _MOST_WORK_ITEMS)
        numbered = not keys.get("system_vgpr_workitem_id", 0)
        return LdsOrder(self.waits, self.asm.labels[name], reached, n, numbered)

    def _of_lds(self, one: lds_order.Early) -> Finding:
        without_barrier = not one.crossed and (one.waited or one.counter == waits.LGKM)
        kind, certainty = "race" if without_barrier else "wait", UNDECIDED if one.doubt else ALL_INPUTS
        says, path = lds_order.message(one, self.where), self._path(one.path)
        return self._finding(
            kind, one.index, one.first, says, _UNFILLED if one.reads else _OVERWRITTEN, certainty, path
        )

    def _of_waits(self, among: set[int]) -> Iterator[tuple[int, Finding]]:
        for one in self.waits.find(among):
            says, consequence = waits.message(one, self.where), _STALE if one.reads else _LATE
            consequence = consequence if one.registers else _UNORDERED
            certainty, path = UNDECIDED if one.doubt else ALL_INPUTS, self._path(one.path)
            yield one.index, self._finding("wait", one.index, one.load, says, consequence, certainty, path)

    def _of_hazards(self, among: set[int]) -> Iterator[tuple[int, Finding]]:
        for one in hazards.find_hazards(self.asm, get_card(self.arch), self.flow):
            if one.index in among and one.first in among:
                says, certainty = hazards.message(one, self.where), UNDECIDED if one.doubt else ALL_INPUTS
                yield one.index, self._finding("hazard", one.index, one.first, says, _TOO_EARLY, certainty)

    def _finding(
        self,
        kind: str,
        index: int,
        other: int,
        message: str,
        consequence: str,
        certainty: str,
        path: tuple[str, ...] = (),
    ) -> Finding:
        text, place = self.place(index)
        return Finding(
            kind, demangled(self.flow.function_of(index)[1]), self.arch, message, text, place,
            other_instruction=self.where(other), consequence=consequence, certainty=certainty, path=path,
        )  # fmt: skip

    def _path(self, path: tuple[tuple[int, int], ...]) -> tuple[str, ...]:
        """Source lines at which control went elsewhere than on, from the load to the use."""
        steps = [f"{self.place(index)[1]} to {self.place(at)[1]}" for index, at in path]
        if len(steps) > _STEPS_SHOWN:
            half = _STEPS_SHOWN // 2
            steps = [*steps[:half], f"{len(steps) - 2 * half} more", *steps[-half:]]
        return tuple(steps)

    def where(self, index: int) -> str:
        text, place = self.place(index)
        return f"`{text}` ({place})"

    def place(self, index: int) -> tuple[str, str]:
        statement = self.asm.statements[index]
        return str(statement), source_line(self.asm, statement)
