"""Exact float arithmetic on bit patterns, for checking single instructions: f16, f32 and f64 in Fractions.

Values are Python floats (every f16, f32 and f64 is one) or Fractions; `encode` rounds once, to nearest even.
"""

import math
import struct
from fractions import Fraction

# name -> (exponent bits, mantissa bits)
FORMATS = {"f16": (5, 10), "f32": (8, 23), "f64": (11, 52), "bf16": (8, 7)}
_STRUCT = {"f16": "e", "f32": "f", "f64": "d"}
_INTEGER = {"f16": "H", "f32": "I", "f64": "Q"}
QUIET_NAN = {"f16": 0x7E00, "f32": 0x7FC00000, "f64": 0x7FF8 << 48}


def decode(bits: int, fmt: str) -> float:
    """The value of a bit pattern; NaNs of every kind become Python's."""
    if fmt == "bf16":
        return decode(bits << 16, "f32")
    return struct.unpack("<" + _STRUCT[fmt], struct.pack("<" + _INTEGER[fmt], bits))[0]


def is_nan(bits: int, fmt: str) -> bool:
    exponent_bits, mantissa_bits = FORMATS[fmt]
    return bits & (1 << exponent_bits + mantissa_bits) - 1 > ((1 << exponent_bits) - 1) << mantissa_bits


def is_snan(bits: int, fmt: str) -> bool:
    return is_nan(bits, fmt) and not bits >> FORMATS[fmt][1] - 1 & 1


def encode(value: float | Fraction, fmt: str) -> int:
    """Bits of a value rounded to nearest even; a NaN becomes the quiet one. A zero Fraction is +0."""
    exponent_bits, mantissa_bits = FORMATS[fmt]
    sign = 1 << exponent_bits + mantissa_bits
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    if isinstance(value, float):
        if math.isnan(value):
            return QUIET_NAN[fmt]
        negative = math.copysign(1, value) < 0
        if math.isinf(value) or value == 0:
            return (sign if negative else 0) | (infinity if value else 0)
        value = Fraction(value)
    negative, magnitude = value < 0, abs(value)
    if not magnitude:
        return 0
    bias = (1 << exponent_bits - 1) - 1
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    exponent = max(exponent, 1 - bias)  # denormals share the smallest exponent
    steps = round(magnitude / Fraction(2) ** (exponent - mantissa_bits))  # Python's round is to nearest even
    bits = steps + ((exponent + bias - 1) << mantissa_bits)
    return min(bits, infinity) | (sign if negative else 0)


def fma(a: float, b: float, c: float) -> float | Fraction:
    """a * b + c, exact."""
    if not all(map(math.isfinite, (a, b, c))):
        return _times(a, b) + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact:
        return exact
    return math.copysign(0.0, a) * math.copysign(1.0, b) + c if (a == 0 or b == 0) and c == 0 else 0.0


def _times(a: float, b: float) -> float:
    """A product with an infinite or NaN factor, or that only its sign and infinity matter of."""
    if math.isfinite(a) and math.isfinite(b):
        return math.copysign(0.0, a) * math.copysign(1.0, b)
    return a * b


def add(a: float, b: float) -> float | Fraction:
    return fma(a, 1.0, b)


def mul(a: float, b: float) -> float | Fraction:
    if not (math.isfinite(a) and math.isfinite(b)) or a == 0 or b == 0:
        return a * b
    return Fraction(a) * Fraction(b)


def div(a: float, b: float) -> float | Fraction:
    if math.isnan(a) or math.isnan(b) or (a == 0 and b == 0) or (math.isinf(a) and math.isinf(b)):
        return math.nan
    sign = math.copysign(1, a) * math.copysign(1, b)
    if b == 0 or math.isinf(a):
        return sign * math.inf
    if a == 0 or math.isinf(b):
        return sign * 0.0
    return Fraction(a) / Fraction(b)


def sqrt(a: float) -> float | Fraction:
    """Square root to far more bits than any format has; exact where it is rational."""
    if math.isnan(a) or a < 0:
        return math.nan
    if a == 0 or math.isinf(a):
        return a
    x = Fraction(a)
    scale = 1 << 600
    root = math.isqrt(x.numerator * x.denominator * scale * scale)
    exact = root * root == x.numerator * x.denominator * scale * scale
    return Fraction(2 * root + (0 if exact else 1), 2 * scale * x.denominator)


def scale(a: float, exponent: int) -> float | Fraction:
    """a * 2^exponent."""
    return Fraction(a) * Fraction(2) ** max(-5000, min(5000, exponent)) if a and math.isfinite(a) else a
