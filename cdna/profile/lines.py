"""What each source line of a kernel executed: its instructions, added up."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..binary.decode import base_mnemonic
from ..isa import facts_of, instructions
from ..observe.counters import SEGMENT_BYTES, InstructionCount, maintains_l2


@dataclass
class Access:
    """One kind of memory access of a line: loads, stores or atomics of global memory, or scratch."""

    executed: int = 0  # by waves
    lanes: int = 0
    bytes: int = 0
    segments: int = 0  # 64-byte pieces that were touched
    lines: int = 0  # of 128 bytes
    same_set_lines: int = 0  # see InstructionCount

    @property
    def ideal_segments(self) -> int:
        return -(-self.bytes // SEGMENT_BYTES)

    @property
    def wasted(self) -> int:
        """Pieces beyond the ideal ones."""
        return max(0, self.segments - self.ideal_segments)

    @property
    def coalesced(self) -> float:
        """Share of the bytes moved that was asked for; 1 where lanes lie side by side, or share their pieces."""
        return min(1.0, self.ideal_segments / self.segments) if self.segments else 1.0

    @property
    def in_one_set(self) -> bool:
        """Whether lanes lie a power of two apart, so that their lines compete for one set of the L1."""
        return self.same_set_lines > 0.75 * self.lines > 0

    @property
    def bytes_per_lane(self) -> float:
        return self.bytes / self.lanes if self.lanes else 0.0


@dataclass
class Line:
    """One source line over a launch. Cycles are those of units, summed over all waves."""

    place: str  # file:line
    executed: int = 0  # wave instructions
    cycles: dict[str, int] = field(default_factory=dict)  # by unit
    conflict_cycles: int = 0  # of the LDS's, lost to bank conflicts
    vector_lanes: int = 0
    vector_executed: int = 0
    products: int = 0  # multiply-adds on the vector lanes, by waves
    divisions: int = 0  # high halves of products of integers, which a division or a remainder takes one or two of
    doubles: int = 0  # instructions that compute in fp64, by waves
    to_and_from_doubles: int = 0  # conversions between fp32 and fp64
    fp32_matrix_cycles: int = 0
    fences: int = 0  # instructions that write back or invalidate the L2
    loads: int = 0  # by waves: of memory, of LDS, scalar ones
    accesses: dict[str, Access] = field(default_factory=dict)  # loads, stores, atomics, scratch
    spent: dict[str, float] = field(default_factory=dict)  # cycles of replayed waves, by reason (counters.REASONS)
    instructions: list[InstructionCount] = field(default_factory=list, repr=False)

    @property
    def is_triton(self) -> bool:
        """Whose compiler lays tiles out and orders atomics."""
        return self.place.rpartition(":")[0].endswith(".py")

    @property
    def active_lanes(self) -> float:
        return self.vector_lanes / (64 * self.vector_executed) if self.vector_executed else 1.0

    @property
    def conflict_ways(self) -> float:
        """How many times as long as without conflicts the line's LDS accesses take."""
        free = self.cycles.get("lds", 0) - self.conflict_cycles
        return self.cycles.get("lds", 0) / free if free > 0 else 1.0

    @property
    def worst_conflict(self) -> InstructionCount | None:
        """The LDS instruction that loses most cycles to conflicts."""
        worst = max(self.instructions, key=lambda one: one.conflict_cycles, default=None)
        return worst if worst is not None and worst.conflict_cycles else None

    @property
    def conflict_bytes(self) -> int:
        """Of a lane's LDS access that conflicts most: rows this much apart spread over the banks."""
        worst = self.worst_conflict
        return max(4, facts_of(base_mnemonic(worst.mnemonic)).bytes or 0) if worst is not None else 16

    @property
    def atomics_conflict(self) -> bool:
        """Whether it is atomics that conflict most: they may meet in one word, which no padding takes apart."""
        worst = self.worst_conflict
        return worst is not None and facts_of(base_mnemonic(worst.mnemonic)).does == "atomic"

    @property
    def spent_cycles(self) -> float:
        return sum(self.spent.values())

    def add(self, one: InstructionCount) -> None:
        self.instructions.append(one)
        self.executed += one.executed
        self.cycles[one.unit] = self.cycles.get(one.unit, 0) + one.cycles
        self.conflict_cycles += one.conflict_cycles
        for reason, cycles in one.spent.items():
            self.spent[reason] = self.spent.get(reason, 0.0) + cycles
        facts = facts_of(base_mnemonic(one.mnemonic))
        self.loads += one.executed * (facts.does == "load")
        if one.unit == "vector":
            self.vector_lanes += one.lanes
            self.vector_executed += one.executed
            signature = instructions()[base_mnemonic(one.mnemonic)].signature
            types, converts = set(signature.types("D", "S")), "converts" in facts.flags
            multiplies_and_adds = facts.flops > 1 and (signature.types("S")[2:] or "accumulates" in facts.flags)
            self.divisions += one.executed * ("high_product" in facts.flags)
            self.doubles += one.executed * ("f64" in types and not converts)
            self.to_and_from_doubles += one.executed * (converts and types == {"f64", "f32"})
            self.products += one.executed * bool(multiplies_and_adds)
        if "sgemm" in facts.flags:
            self.fp32_matrix_cycles += one.cycles
        if one.unit == "memory":
            self.fences += one.executed * maintains_l2(one)
            kind = {"load": "loads", "store": "stores", "atomic": "atomics"}.get(facts.does)
            if facts.space == "scratch":
                kind = "scratch"
            if kind:
                access = self.accesses.setdefault(kind, Access())
                access.executed += one.executed
                access.lanes += one.lanes
                access.bytes += one.bytes
                access.segments += one.segments
                access.lines += one.lines
                access.same_set_lines += one.same_set_lines


def is_scratch(one: InstructionCount) -> bool:
    return facts_of(base_mnemonic(one.mnemonic)).space == "scratch"


def lines_of(instructions: Iterable[InstructionCount]) -> list[Line]:
    """The lines of one launch, in the order of their first instruction."""
    lines: dict[str, Line] = {}
    for one in instructions:
        lines.setdefault(one.place, Line(one.place)).add(one)
    return list(lines.values())
