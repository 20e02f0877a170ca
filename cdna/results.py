"""What is said of launches, as plain data: in Python, in files, from one process to another."""

from __future__ import annotations

import linecache
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace


class ModelledTime(Struct, frozen=True, omit_defaults=True):
    """A modelled duration; never a measurement."""

    us: float  # with each launch's own time
    bound: str  # what it is spent on: observe/model.py
    parts_us: dict[str, float] = {}  # what each bound alone would take
    cycles: float = 0.0  # of the replay
    mhz: float = 0.0  # at which they pass
    clock: str = ""  # boost, or sustained where power lowers it
    unrecorded: float = 0.0  # share of the lines asked for that are not in it, for want of memory: too short a time
    others_cycles: float = 0.0  # of one launch's replay as if no workgroup did much more than the others
    low_us: float = 0.0  # nine of ten published times lie from here
    high_us: float = 0.0  # to here; 0: nobody knows how much longer it takes
    unsure: str = ""  # why the interval may not hold for this one
    pair: tuple[float, float] = (0.0, 0.0)  # a ratio to another modelled time may be off by: see ratio_error
    seen_by: str = ""  # which clock has so much of its launches: one of observe/model.py's CLOCKS
    kernels_us: float | None = None  # where operations that are not emulated are in it: the part of kernels
    torch_us: dict[str, float] = {}  # and theirs by name, at the card's roofline

    def rounded(self) -> ModelledTime:
        """For people and files."""
        parts_us, torch_us = ({name: round(us, 3) for name, us in by.items()} for by in (self.parts_us, self.torch_us))
        numbers = {name: round(getattr(self, name), 3) for name in ("us", "low_us", "high_us")}
        whole = {"cycles": round(self.cycles), "mhz": round(self.mhz)}
        return replace(self, parts_us=parts_us, torch_us=torch_us, **numbers, **whole)

    @property
    def interval(self) -> str:
        """Where nine of ten published times lie; "" of results that were kept before it was told."""
        high = f"{self.high_us:.3g}" if self.high_us else ""
        return f"{self.low_us:.3g}..{high}" if self.low_us else ""

    @property
    def lacking(self) -> str:
        """What to say of a time without some of a launch's lines; "" of a whole one."""
        text = "of the lines that a launch asks for could not be recorded for want of memory: too short a time"
        return f"{self.unrecorded:.2g} {text}" if self.unrecorded else ""


def ratio_error(a: ModelledTime, b: ModelledTime) -> float | None:
    """By what share the ratio of two times of one card may be off, in nine cases of ten; None where that is not known.

    Kernels with one bound err alike, and their ratio by less than either time."""
    if not (a.high_us and b.high_us):
        return None
    alike = a.bound == b.bound
    return max(time.pair[0 if alike else 1] for time in (a, b))


def added(times: Iterable[ModelledTime]) -> ModelledTime:
    """One after the other; the bound is the one that most of the time goes to. Intervals add up: errors are alike."""
    times = list(times)
    us = cycles = mhz = unrecorded = kernels_us = 0.0
    clock, parts_us, by_bound, torch_us = "boost", dict[str, float](), dict[str, float](), dict[str, float]()
    for one in times:
        us += one.us
        cycles += one.cycles
        kernels_us += one.us if one.kernels_us is None else one.kernels_us
        mhz = min(mhz or one.mhz, one.mhz)
        clock = "sustained" if one.clock == "sustained" else clock
        unrecorded = max(unrecorded, one.unrecorded)  # of the one that lacks most
        for total, parts in ((parts_us, one.parts_us), (torch_us, one.torch_us), (by_bound, {one.bound: one.us})):
            for name, part_us in parts.items():
                total[name] = total.get(name, 0.0) + part_us
    bound = max(by_bound, key=lambda name: by_bound[name], default="")
    own_us = kernels_us if torch_us else None
    low_us = sum(one.low_us for one in times)
    high_us = sum(one.high_us for one in times) if all(one.high_us for one in times) else 0.0
    pair = max((one.pair for one in times), default=(0.0, 0.0))
    whole = ModelledTime(us, bound, parts_us, cycles, mhz, clock, unrecorded, low_us=low_us, high_us=high_us, pair=pair)
    unsure = "; ".join(dict.fromkeys(why for one in times for why in one.unsure.split("; ") if why))
    seen_by = times[0].seen_by if len({one.seen_by for one in times}) == 1 else ""
    return replace(whole, unsure=unsure, seen_by=seen_by, kernels_us=own_us, torch_us=torch_us)


# How sure a finding is: a run has shown it; it holds in any order of waves; whatever the inputs are; nobody can say.
SEEN, ALL_ORDERS, ALL_INPUTS, UNDECIDED = "seen", "all orders", "all inputs", "undecided"


UNREACHED = "the card does not reach"  # as engine/checks/bounds.cpp and hip/runtime/checks.cpp say it


class Finding(Struct, frozen=True):
    """Something a check found, once for each source line and tensor; `count` says how often it did."""

    kind: str = ""  # of engine/checks/kinds.h, hazard or compiler
    kernel: str = ""  # as its source has it
    arch: str = ""
    message: str = ""  # what is wrong, in one sentence
    instruction: str = ""  # its text
    source: str = ""  # file:line
    workgroup: tuple[int, int, int] | None = None
    wave: int | None = None  # in its workgroup
    lane: int | None = None  # of the wave, 0 to 63
    address: int | None = None  # of memory, or a byte of LDS
    tensor: str = ""  # name and extent, where known
    other_instruction: str = ""  # the other one, of a race or a missing wait
    count: int = 1  # how often it was seen
    consequence: str = ""  # what becomes of it, where the kind does not say
    certainty: str = SEEN
    path: tuple[str, ...] = ()  # "file:line to file:line" where control went elsewhere than on

    def __str__(self) -> str:
        where = ""
        if self.workgroup is not None:
            where = f", workgroup {self.workgroup}, wave {self.wave}"
            where += f", lane {self.lane}" if self.lane is not None else ""
        where += f", the first of {self.count}" if self.count > 1 else ""
        where += f", on the path {', '.join(self.path)}" if self.path else ""
        what = f"{self.kernel} on {self.arch}: {self.kind}: {self.message}"
        what += f": {self.consequence}" if self.consequence else ""
        text = self.source_text
        place = f"\n  at `{self.instruction}` ({self.source}){where}" if self.instruction else ""
        return what + place + (f"\n  | {text}" if text else "")

    @property
    def ends_program(self) -> bool:
        """On a card: an access to what it does not reach is a memory access fault, whatever would come of it."""
        return self.kind == "bounds" and UNREACHED in self.message

    @property
    def line(self) -> str:
        """What and where in one line, for a list that says which kernel it is of."""
        return f"{self.kind}: `{self.instruction}` ({self.source}) {self.message}"

    @property
    def source_text(self) -> str:
        """The line that `source` names; "" where its file cannot be read."""
        file, _, line = self.source.rpartition(":")
        return linecache.getline(file, int(line)).strip() if file and line.isdecimal() else ""


class Gain(Struct, frozen=True):
    """What one reason at one line costs."""

    place: str  # file:line
    reason: str  # of counters' REASONS, or one of profile/gains.py's CAUSES
    us: float  # that the launch would be faster without it, modelled


class Advice(Struct, frozen=True):
    """One thing to change."""

    rule: str  # its name: idle CUs, tail, bank conflicts, ...
    text: str
    place: str = ""  # the source line, where one is to blame
    gain_us: float = 0.0  # that the launch would be faster, by a replay; 0 of results that were kept before it was told
    share: float = 0.0  # of the launch's modelled time

    def __str__(self) -> str:
        return f"{self.gain_us:.2f} us ({self.share:.0%}): {self.text}" if self.gain_us else self.text
