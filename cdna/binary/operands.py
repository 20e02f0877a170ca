"""Operand text to encoded operands: registers, inline constants, literals, symbols.

The operand kinds and special register numbers are those of engine/isa/core.h.
"""

import functools
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import UnsupportedInstruction
from ..isa.signature import TYPES
from .spelling import NAMED, NAMED_PAIRS

NONE, VGPR, SGPR, CONST, SPECIAL = range(5)
NEG, ABS, SEXT = 1, 2, 4

ACCUMULATION = 1024  # accumulation registers are numbered from here until the program's VGPR count is known

_NULL = 125
# name -> (number of the first dword, dwords)
_NAMED = {name: (number, 1) for number, name in NAMED.items() if number < 128 and number != _NULL}
_NAMED |= {name: (number, 2) for number, name in NAMED_PAIRS.items() if number != _NULL}
_SPECIAL = {NAMED[number]: number for number in (235, 236, 237, 238, 251, 252, 253)}
_SPECIAL |= {name.removeprefix("src_"): _SPECIAL[name] for name in ("src_vccz", "src_execz", "src_scc")}
_FORMATS = {"f16": "<e", "f32": "<f", "bf16": "<f", "f64": "<d"}
_INVERSE_2PI = "0.15915494"  # how the one inline constant that is not exact in text begins
_REGISTER = re.compile(r"^([vsa])(?:(\d+)|\[(\d+)(?::(\d+))?\])$|^(ttmp)(?:(\d+)|\[(\d+):(\d+)\])$")
_INTEGER = re.compile(r"^-?(0x[0-9a-fA-F]+|\d+)$")
_FLOAT = re.compile(r"^-?\d+\.\d*(e[+-]?\d+)?$")


@dataclass(frozen=True)
class Symbolic:
    """An address that loading fills in: how it is used (CodeRelocation of program/image.cpp), section, offset."""

    kind: int
    section: int
    offset: int


@dataclass(frozen=True)
class Operand:
    """One encoded operand; `dwords` is its width as written (0: a constant of any width)."""

    kind: int = NONE
    mods: int = 0
    reg: int = 0
    lo: int = 0
    hi: int = 0
    dwords: int = 0
    symbolic: Symbolic | None = None

    def packed(self) -> tuple[int, int, int, int, int]:
        return self.kind, self.mods, self.reg, self.lo, self.hi


@functools.lru_cache(maxsize=1 << 15)
def _register(text: str) -> Operand | None:
    found = _REGISTER.match(text)
    if found:
        file = found.group(1) or "ttmp"
        first = int(next(g for g in (found.group(2), found.group(3), found.group(6), found.group(7)) if g is not None))
        last = int(found.group(4) or found.group(8) or first)
        base = {"v": 0, "a": ACCUMULATION, "s": 0, "ttmp": 108}[file]
        return Operand(VGPR if file in "va" else SGPR, 0, base + first, dwords=last - first + 1)
    if text in _NAMED:
        number, dwords = _NAMED[text]
        return Operand(SGPR, 0, number, dwords=dwords)
    if text in _SPECIAL:
        return Operand(SPECIAL, 0, _SPECIAL[text])
    return None


@functools.lru_cache(maxsize=1 << 15)
def _constant(text: str, type_name: str, literal: bool) -> Operand | None:
    """Value of a number as an operand of that type reads it (CDNA3 ISA, "Constants" and "Literals").

    literal: it is written as a dword behind the instruction, though it might be an inline constant.
    """
    constant = TYPES[type_name][2]
    wide = constant == "f64"
    if _INTEGER.match(text):
        value = int(text, 0)
        value -= 1 << 64 if value >> 63 == 1 else 0
        if type_name == "k16" and value > 0x7FFF:
            value -= 0x10000
        if wide and (literal or not -16 <= value <= 64) and -(1 << 31) <= value < 1 << 32:
            value &= 0xFFFFFFFF  # a literal: the high half of a double, extended for integers
            if type_name.startswith("f"):
                value <<= 32
            elif type_name == "i64" and value >> 31:
                value -= 1 << 32
    elif _FLOAT.match(text):
        exact = text.lstrip("-").startswith(f"{_INVERSE_2PI}3")
        number = 0.15915494309189532 * (-1 if text.startswith("-") else 1) if exact else float(text)
        value = int.from_bytes(struct.pack(_FORMATS[constant], number), "little")
        if constant == "bf16":  # the inline constant is cut, a literal rounded
            value += 0 if _INVERSE_2PI in text else 0x7FFF + (value >> 16 & 1)
            value >>= 16
        elif wide and not exact:
            value &= ~0xFFFFFFFF  # no literal has a low half, and no other inline constant
    else:
        return None
    low = value & 0xFFFFFFFF
    return Operand(CONST, lo=low, hi=value >> 32 & 0xFFFFFFFF if wide else low if type_name == "p32" else 0)


def parse_operand(text: str, type_name: str, symbol: Callable[[str], int | Symbolic | None]) -> Operand:
    """Encode one source or destination operand; `symbol` resolves names that are neither register nor number."""
    mods = 0
    literal = False
    while True:
        if text.startswith(("-|", "-v", "-s", "-a", "-[")):
            mods, text = mods ^ NEG, text[1:]
        elif text.startswith("|") and text.endswith("|"):
            mods, text = mods | ABS, text[1:-1]
        elif text.startswith("sext(") and text.endswith(")"):
            mods, text = mods | SEXT, text[5:-1]
        elif text.startswith("neg(") and text.endswith(")"):
            mods, text = mods ^ NEG, text[4:-1]
        elif text.startswith("abs(") and text.endswith(")"):
            mods, text = mods | ABS, text[4:-1]
        elif text.startswith("lit(") and text.endswith(")"):
            literal, text = True, text[4:-1]
        else:
            break
    found = _register(text) or _constant(text, type_name, literal)
    if found is None:
        value = symbol(text)
        if value is None:
            raise UnsupportedInstruction(f"operand {text!r} is not understood")
        if isinstance(value, Symbolic):
            return Operand(CONST, symbolic=value)
        found = Operand(CONST, lo=value & 0xFFFFFFFF, hi=value >> 32 & 0xFFFFFFFF)
    return Operand(found.kind, mods, found.reg, found.lo, found.hi, found.dwords) if mods else found
