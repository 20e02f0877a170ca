"""A counted launch's recorded steps, to be replayed once more: without something, to learn what it costs, or for the
spans of time of one CU's waves. What the engine's time/replay.h has."""

import ctypes
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..engine import abi

# What a wave's time goes to, by the engine's name of it: it issues instructions, or waits for results of vector and
# matrix instructions, a unit (vector, matrix, the L1's queue), loads and stores, LDS, scalar loads, other waves at a
# barrier, the first fetch of instructions.
_REASONS = {
    "ISSUE_REASON": "issue",
    "OPERAND_REASON": "operands",
    "VECTOR_REASON": "vector",
    "MATRIX_REASON": "matrix",
    "L1_REASON": "L1",
    "MEMORY_REASON": "memory",
    "LDS_REASON": "LDS",
    "SCALAR_REASON": "scalar",
    "BARRIER_REASON": "barrier",
    "CODE_REASON": "code",
}
# Where the farthest line of a load was; "": no load.
_LEVELS = {
    "IN_L1": "L1",
    "IN_L2": "L2",
    "IN_MEMORY_SIDE": "memory side",
    "IN_MEMORY": "HBM",
    "IN_PEER": "peer",
    "N_LEVELS": "",
}
REASONS = [_REASONS[name] for name in abi.enumeration("Reason") if name != "N_REASONS"]
LEVELS = [_LEVELS[name] for name in abi.enumeration("Level")]
LEFT_OUT = {
    **{word: 1 << abi.constant(name) for name, word in _REASONS.items()},
    "conflicts": abi.constant("WITHOUT_CONFLICTS"),
    "waste": abi.constant("WITHOUT_WASTE"),
    "it": abi.constant("WITHOUT_IT"),
    "narrow": abi.constant("WIDER"),
}


@dataclass(frozen=True)
class Change:
    """What a launch would be: without what LEFT_OUT names at an instruction, or of other workgroups."""

    left_out: Mapping[int, str] = field(default_factory=dict)  # by instruction
    groups: float = 1.0  # as many workgroups
    steps: float = 1.0  # of which each does such a share of its steps, or all of them so many times
    loads: float = 1.0  # of the lines that an instruction loads
    wider: int = 1  # an instruction that is "narrow" no more stands for so many
    more_groups_per_cu: int = 0
    whole_rounds: bool = False  # no round is half empty
    alike: bool = False  # all workgroups do as much
    near: bool = False  # what another XCD's L2 has read, this one's has


@dataclass(frozen=True)
class ReplayedTime:
    """From a launch's first instruction to its last, at the clock that power leaves it."""

    cycles: float
    mhz: float
    matrix_share: float  # of the time, that the matrix cores are busy
    others_cycles: float = 0.0  # as if no workgroup did much more than the others
    non_temporal: float = 0.0  # share of what is read from HBM

    @property
    def us(self) -> float:
        return self.cycles / self.mhz


def replayed(time: Any) -> ReplayedTime:
    return ReplayedTime(time.cycles, time.mhz, time.matrix_share, time.others_cycles, time.non_temporal)


@dataclass(frozen=True)
class Left:
    """A launch with a change: its time, and the share of its lines that it still reads and writes."""

    time: ReplayedTime
    l2_read: float
    fabric_read: float
    hbm_read: float
    write: float
    links: float


@dataclass(frozen=True)
class Span:
    """What a wave of the CU did for some cycles."""

    wave: int  # its place on the CU; waves are on SIMD wave % 4
    start: float  # cycles since the launch began
    end: float
    instruction: int
    reason: str  # REASONS
    cause: int  # of a wait the instruction that it waited for, else `instruction`
    level: str  # LEVELS, of the cause


class Replay:
    """The steps that a launch's counters recorded. They are given up by `close`, or with the object."""

    def __init__(self, lib: ctypes.CDLL, source: int, n_instructions: int) -> None:
        self._lib, self._source, self.n_instructions = lib, source, n_instructions

    def changed(self, change: Change, warm: bool = False) -> Left | None:
        """The time with a change; None where the steps are gone."""
        what = (ctypes.c_uint16 * self.n_instructions)()
        for instruction, name in change.left_out.items():
            what[instruction] = LEFT_OUT[name]
        numbers = {name: value for name, value in vars(change).items() if name != "left_out"}
        made, left = abi.structure("Change")(what, **numbers), abi.structure("Left")()
        if not self._source or not self._lib.cdna_replay_with(
            self._source, warm, ctypes.byref(made), ctypes.byref(left)
        ):
            return None
        return Left(replayed(left.time), left.l2_read, left.fabric_read, left.hbm_read, left.write, left.links)

    def timeline(self, line_of: Sequence[int], warm: bool = False) -> list[Span]:
        """What one CU's waves did, in the order of `start` for each. line_of: a number for each instruction's source
        line; what follows in one line for one reason is one span. Empty where the steps are gone."""
        lines, n = (ctypes.c_uint32 * self.n_instructions)(*line_of), ctypes.c_uint64()
        if not self._source:
            return []
        spans = self._lib.cdna_replay_timeline(self._source, warm, lines, ctypes.byref(n))
        return [
            Span(s.wave, s.start, s.end, s.pc, REASONS[s.reason], s.cause, LEVELS[s.level]) for s in spans[: n.value]
        ]

    def spent(self, warm: bool) -> list[dict[str, float]]:
        """Cycles of one CU's waves by instruction and reason; empty where the steps are gone."""
        spans = self.timeline(range(self.n_instructions), warm)
        spent: list[dict[str, float]] = [{} for _ in range(self.n_instructions if spans else 0)]
        for span in spans:
            of = spent[span.instruction]
            of[span.reason] = of.get(span.reason, 0.0) + span.end - span.start
        return spent

    @property
    def bytes(self) -> int:
        return int(self._lib.cdna_replay_bytes(self._source)) if self._source else 0

    def close(self) -> None:
        if self._source:
            self._lib.cdna_counters_destroy(self._source)
            self._source = 0

    __del__ = close


_held: deque[tuple[weakref.ref[Replay], int]] = deque()  # with their bytes, oldest first
MOST_BYTES, MOST_REPLAYS = 256 << 20, 1000


def hold(replay: Replay) -> Replay:
    """Bound what replays hold: the oldest are closed where there is more, for records may be kept that nobody reads."""
    _held.append((weakref.ref(replay), replay.bytes))
    total = sum(size for alive, size in _held if alive() is not None)
    while (total > MOST_BYTES or len(_held) > MOST_REPLAYS) and len(_held) > 1:
        oldest, size = _held.popleft()
        if (old := oldest()) is not None:
            old.close()
            total -= size
    while _held and _held[0][0]() is None:
        _held.popleft()
    return replay
