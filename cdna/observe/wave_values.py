"""Values of a wave by name: `v3:f32`, `a[0:1]:f64`, `s[4:5]:u64`, `exec`, `lds[64]:f32`, a kernel's argument, and
conditions on them (`v3:f32 > 1e6`)."""

import operator
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import CdnaError

LANES = 64
_REGISTER = re.compile(r"([vas])(?:(\d+)|\[(\d+):(\d+)\])")
_LDS = re.compile(r"lds\[(\w+)\]")
_COMPARISON = re.compile(r"\s*([^\s=!<>]+)\s*(==|!=|<=|>=|<|>)\s*(\S+)\s*")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
# Type -> (bytes, struct's letter); bf16 and the packed ones are put together below.
TYPES = {
    "u8": (1, "B"),
    "i8": (1, "b"),
    "u16": (2, "H"),
    "i16": (2, "h"),
    "f16": (2, "e"),
    "bf16": (2, ""),
    "u32": (4, "I"),
    "i32": (4, "i"),
    "f32": (4, "f"),
    "f16x2": (4, ""),
    "bf16x2": (4, ""),
    "u64": (8, "Q"),
    "i64": (8, "q"),
    "f64": (8, "d"),
}
_FIXED = {"exec": 126, "vcc": 106}  # pairs of scalar registers
_SINGLE = {"m0": 124, "scc": -1, "mode": -2}
HEX = ""  # no type: shown as hexadecimal words


class Registers(Protocol):
    """What a wave holds: watching.Stop."""

    first_accumulation: int
    n_vgpr: int

    def scalar(self, register: int) -> int: ...
    def vector(self, register: int) -> Sequence[int]: ...
    def lds(self, offset: int, size: int) -> bytes: ...
    def argument(self, name: str) -> bytes | None: ...
    def argument_names(self) -> list[str]: ...


def decoded(raw: bytes, type_name: str) -> Any:
    """A number of little-endian bytes, of which the type takes the first."""
    if type_name == HEX:
        return int.from_bytes(raw, "little")
    size, letter = TYPES[type_name]
    if type_name.endswith("x2"):
        return decoded(raw[:2], type_name[:-2]), decoded(raw[2:4], type_name[:-2])
    if type_name == "bf16":
        return struct.unpack("<f", b"\0\0" + raw[:2])[0]
    return struct.unpack(f"<{letter}", raw[:size])[0]


@dataclass(frozen=True)
class Value:
    """One value as it was written, `name:type`."""

    name: str
    type_name: str

    @property
    def by_lane(self) -> bool:
        return self.name[0] in "va" and _REGISTER.fullmatch(self.name) is not None

    def __str__(self) -> str:
        return f"{self.name}:{self.type_name}" if self.type_name else self.name

    def of(self, wave: Registers, lane: int = 0) -> Any:
        """The value; of a vector register, a lane's. CdnaError where there is no such thing."""
        return decoded(self._bytes(wave, lane), self.type_name)

    def _bytes(self, wave: Registers, lane: int) -> bytes:
        if self.name in _FIXED:
            first = _FIXED[self.name]
            return _words([wave.scalar(first), wave.scalar(first + 1)])
        if self.name in _SINGLE:
            return _words([wave.scalar(_SINGLE[self.name])])
        if found := _LDS.fullmatch(self.name):
            return wave.lds(int(found[1], 0), TYPES[self.type_name or "u32"][0])
        if found := _REGISTER.fullmatch(self.name):
            first, last = _span(found)
            if found[1] == "s":
                return _words([wave.scalar(i) for i in range(first, last + 1)])
            shift, end = (wave.first_accumulation, wave.n_vgpr) if found[1] == "a" else (0, wave.first_accumulation)
            if last + shift >= end:
                raise CdnaError(f"{self.name}: the kernel has {end - shift} registers of this file")
            return _words([wave.vector(shift + i)[lane] for i in range(first, last + 1)])
        raw = wave.argument(self.name)
        if raw is None:
            raise CdnaError(f"{self.name}: not one of the kernel's arguments ({', '.join(wave.argument_names())})")
        if self.type_name and len(raw) < TYPES[self.type_name][0]:
            raise CdnaError(f"{self}: the argument has {len(raw)} bytes")
        return raw


def _words(words: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


def _span(found: re.Match[str]) -> tuple[int, int]:
    return (int(found[2]), int(found[2])) if found[2] else (int(found[3]), int(found[4]))


def parse_value(text: str) -> Value:
    """A value from its text; CdnaError says what is understood."""
    name, _, type_name = text.strip().rpartition(":")
    if type_name not in TYPES or name.endswith(":"):
        name, type_name = text.strip(), HEX
    found = _REGISTER.fullmatch(name)
    understood = (
        f"{text!r} is no value: v3, a[0:3], s[4:5], exec, vcc, m0, scc, mode, lds[BYTE] or the name of an argument, "
        f"with :TYPE behind it or not ({', '.join(TYPES)})"
    )
    if not found and not _LDS.fullmatch(name) and not re.fullmatch(r"\w+", name):
        raise CdnaError(understood)
    dwords = 1
    if found:
        first, last = _span(found)
        dwords = last - first + 1
        if dwords < 1 or found[1] == "s" and last > 127:
            raise CdnaError(understood)
    elif name in _FIXED:
        dwords = 2
    if (found or name in _FIXED or name in _SINGLE) and type_name and TYPES[type_name][0] > 4 * dwords:
        raise CdnaError(f"{text!r}: {type_name} takes two registers, as in v[2:3]:{type_name}")
    if _LDS.fullmatch(name):
        try:
            int(_LDS.fullmatch(name)[1], 0)  # type: ignore[index]
        except ValueError:
            raise CdnaError(understood) from None
    return Value(name, type_name)


def shown(number: Any, type_name: str) -> str:
    """A number as it is printed: without a type in hexadecimal."""
    if isinstance(number, tuple):
        return "(" + ", ".join(shown(part, type_name[:-2]) for part in number) + ")"
    if type_name == HEX:
        return f"{number:#x}"
    return f"{number:.8g}" if isinstance(number, float) else str(number)


def shown_lanes(wave: Registers, value: Value, lanes: Sequence[int]) -> str:
    """`v3:f32 = 1.5 2.5` of these lanes; a scalar's one value."""
    which = lanes if value.by_lane else [0]
    return f"{value} = {' '.join(shown(value.of(wave, lane), value.type_name) for lane in which)}"


@dataclass(frozen=True)
class Condition:
    """`VALUE OPERATOR NUMBER`: true where any of the lanes fulfils it."""

    text: str
    value: Value
    sign: str
    number: float

    def holds(self, wave: Registers, lanes: Sequence[int]) -> bool:
        which = lanes if self.value.by_lane else [0]
        return any(_OPERATORS[self.sign](self.value.of(wave, lane), self.number) for lane in which)


def parse_condition(text: str) -> Condition:
    """A condition from its text; CdnaError says what is understood."""
    found = _COMPARISON.fullmatch(text)
    if found is None:
        raise CdnaError(f"{text!r} is no condition: VALUE == NUMBER (or !=, <, <=, >, >=), as in v3:f32 > 1e6")
    try:
        number: float = int(found[3], 0)
    except ValueError:
        try:
            number = float(found[3])
        except ValueError:
            raise CdnaError(f"{text!r}: {found[3]!r} is no number") from None
    value = parse_value(found[1])
    if value.type_name.endswith("x2"):
        raise CdnaError(f"{text!r}: {value.type_name} is two numbers, and a condition compares one")
    return Condition(text.strip(), value, found[2], number)
