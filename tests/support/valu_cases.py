"""What single vector instructions do, defined in Python: the cases of test_valu.py.

A definition takes its sources as unsigned (u..) or signed (i..) integers or as floats, and gives an integer,
of which
the result's low bits count, or a float or Fraction, which is rounded once to the result's format.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tests.support.exactfloat import add, decode, div, encode, fma, is_nan, is_snan, mul, scale, sqrt

M32, M64 = 0xFFFFFFFF, (1 << 64) - 1
BITS = {"u16": 16, "i16": 16, "f16": 16, "u64": 64, "i64": 64, "f64": 64, "u128": 128}


def bits_of(type_name: str) -> int:
    return BITS.get(type_name, 32)


def signed(x: int, width: int) -> int:
    return x - (1 << width) if x >> width - 1 & 1 else x


@dataclass(frozen=True)
class Case:
    """One instruction: `text` is the mnemonic and any modifiers; `function` maps sources to the result.

    raw: the function takes and gives bit patterns. halves: the result is two f16. keep: the upper half of the
    result's register is kept. old: the function also takes the destination's old value, last. ulps: how far a
    float result may be off. signalling: sources may be signalling NaNs.
    """

    text: str
    dst: str
    src: tuple[str, ...]
    function: Callable[..., Any]
    raw: bool = False
    halves: bool = False
    keep: bool = False
    old: bool = False
    ulps: int = 0
    arch: str = "gfx942"
    signalling: bool = False

    def __str__(self) -> str:
        return self.text.replace(" ", "_")


def group(dst: str, src: str, ops: dict[str, Callable[..., Any]], **options: Any) -> list[Case]:
    """Cases of one shape; `src` names one type for all sources of a function, or each of them."""
    names = src.split()
    cases = []
    for text, function in ops.items():
        arity = function.__code__.co_argcount - bool(options.get("old"))
        types = tuple(names * arity if len(names) == 1 else names)
        assert len(types) == arity, text
        cases.append(Case(text, dst, types, function, **options))
    return cases


def clamp(x: int, low: int, high: int) -> int:
    return max(low, min(high, x))


def u16(x: int) -> int:
    return clamp(x, 0, 0xFFFF)


def i16(x: int) -> int:
    return clamp(x, -0x8000, 0x7FFF)


def u32(x: int) -> int:
    return clamp(x, 0, M32)


def i32(x: int) -> int:
    return clamp(x, -1 << 31, (1 << 31) - 1)


def med3(a: Any, b: Any, c: Any) -> Any:
    return sorted((a, b, c))[1]


def s24(x: int) -> int:
    return signed(x & 0xFFFFFF, 24)


def u24(x: int) -> int:
    return x & 0xFFFFFF


def octets(x: int, n: int = 4) -> list[int]:
    return [x >> 8 * k & 0xFF for k in range(n)]


def sad(a: int, b: int) -> int:
    return sum(abs(x - y) for x, y in zip(octets(a), octets(b)))


def msad(a: int, b: int) -> int:
    return sum(abs(x - y) for x, y in zip(octets(a), octets(b)) if y)


def windows(f: Callable[[int, int], int], a: int, b: int, c: int, width: int, limit: bool = False) -> int:
    mask = (1 << width) - 1
    sums = [f(a >> 8 * k & M32, b) + (c >> width * k & mask) for k in range(4)]
    return sum((min(x, mask) if limit else x & mask) << width * k for k, x in enumerate(sums))


def average(a: int, b: int, c: int) -> int:
    columns = enumerate(zip(octets(a), octets(b), octets(c)))
    return sum((x + y + (z & 1) >> 1) << 8 * k for k, (x, y, z) in columns)


def perm(a: int, b: int, c: int) -> int:
    source = octets(b) + octets(a)

    def pick(s: int) -> int:
        if s < 8:
            return source[s]
        return 0xFF if s > 12 or s < 12 and source[2 * (s - 8) + 1] & 0x80 else 0
    return sum(pick(s) << 8 * k for k, s in enumerate(octets(c)))


def leading(x: int, width: int = 32) -> int:
    return width - x.bit_length() if x else -1


def field(a: int, offset: int, width: int) -> int:
    return (a & M32) >> (offset & 31) & (1 << (width & 31)) - 1


INTEGER = [
    *group("u32", "u32", {
        "v_mov_b32": lambda a: a, "v_not_b32": lambda a: ~a, "v_and_b32": lambda a, b: a & b,
        "v_or_b32": lambda a, b: a | b,
        "v_xor_b32": lambda a, b: a ^ b, "v_xnor_b32": lambda a, b: ~(a ^ b),
        "v_and_or_b32": lambda a, b, c: a & b | c,
        "v_or3_b32": lambda a, b, c: a | b | c, "v_xad_u32": lambda a, b, c: (a ^ b) + c,
        "v_bfi_b32": lambda a, b, c: a & b | ~a & c,
        "v_lshlrev_b32": lambda a, b: b << (a & 31), "v_lshrrev_b32": lambda a, b: b >> (a & 31),
        "v_lshl_add_u32": lambda a, b, c: (a << (b & 31)) + c,
        "v_add_lshl_u32": lambda a, b, c: (a + b) << (c & 31),
        "v_lshl_or_b32": lambda a, b, c: a << (b & 31) | c, "v_add3_u32": lambda a, b, c: a + b + c,
        "v_add_u32": lambda a, b: a + b, "v_sub_u32": lambda a, b: a - b, "v_subrev_u32": lambda a, b: b - a,
        "v_add_u32 clamp": lambda a, b: u32(a + b), "v_sub_u32 clamp": lambda a, b: u32(a - b),
        "v_subrev_u32 clamp": lambda a, b: u32(b - a),
        "v_mul_lo_u32": lambda a, b: a * b, "v_mul_hi_u32": lambda a, b: a * b >> 32,
        "v_mul_i32_i24": lambda a, b: s24(a) * s24(b), "v_mul_hi_i32_i24": lambda a, b: s24(a) * s24(b) >> 32,
        "v_mul_u32_u24": lambda a, b: u24(a) * u24(b), "v_mul_hi_u32_u24": lambda a, b: u24(a) * u24(b) >> 32,
        "v_mad_i32_i24": lambda a, b, c: s24(a) * s24(b) + c,
        "v_mad_u32_u24": lambda a, b, c: u24(a) * u24(b) + c,
        "v_mad_u32_u24 clamp": lambda a, b, c: u32(u24(a) * u24(b) + c),
        "v_mad_i32_i24 clamp": lambda a, b, c: i32(s24(a) * s24(b) + signed(c, 32)),
        "v_min_u32": lambda a, b: min(a, b), "v_max_u32": lambda a, b: max(a, b),
        "v_min3_u32": lambda a, b, c: min(a, b, c), "v_max3_u32": lambda a, b, c: max(a, b, c),
        "v_med3_u32": lambda a, b, c: med3(a, b, c),
        "v_bfe_u32": lambda a, b, c: field(a, b, c),
        "v_bfm_b32": lambda a, b: ((1 << (a & 31)) - 1) << (b & 31),
        "v_bfrev_b32": lambda a: int(f"{a:032b}"[::-1], 2), "v_bcnt_u32_b32": lambda a, b: a.bit_count() + b,
        "v_ffbh_u32": lambda a: leading(a), "v_ffbl_b32": lambda a: (a & -a).bit_length() - 1,
        "v_alignbit_b32": lambda a, b, c: (a << 32 | b) >> (c & 31),
        "v_alignbyte_b32": lambda a, b, c: (a << 32 | b) >> 8 * (c & 3),
        "v_perm_b32": lambda a, b, c: perm(a, b, c), "v_sad_u8": lambda a, b, c: sad(a, b) + c,
        "v_sad_u8 clamp": lambda a, b, c: u32(sad(a, b) + c),
        "v_sad_hi_u8": lambda a, b, c: (sad(a, b) << 16) + c,
        "v_sad_u16": lambda a, b, c: abs((a & 0xFFFF) - (b & 0xFFFF)) + abs((a >> 16) - (b >> 16)) + c,
        "v_sad_u32": lambda a, b, c: abs(a - b) + c, "v_sad_u32 clamp": lambda a, b, c: u32(abs(a - b) + c),
        "v_msad_u8": lambda a, b, c: msad(a, b) + c,
        "v_lerp_u8": lambda a, b, c: average(a, b, c),
        "v_cvt_pk_u16_u32": lambda a, b: u16(a) | u16(b) << 16,
    }),
    *group("i32", "i32", {
        "v_ashrrev_i32": lambda a, b: b >> (a & 31), "v_add_i32": lambda a, b: a + b,
        "v_sub_i32": lambda a, b: a - b,
        "v_add_i32 clamp": lambda a, b: i32(a + b), "v_sub_i32 clamp": lambda a, b: i32(a - b),
        "v_mul_hi_i32": lambda a, b: a * b >> 32,
        "v_min_i32": lambda a, b: min(a, b), "v_max_i32": lambda a, b: max(a, b),
        "v_min3_i32": lambda a, b, c: min(a, b, c), "v_max3_i32": lambda a, b, c: max(a, b, c),
        "v_med3_i32": lambda a, b, c: med3(a, b, c),
        "v_bfe_i32": lambda a, b, c: signed((a >> (b & 31)) & (1 << (c & 31)) - 1, c & 31) if c & 31 else 0,
        "v_ffbh_i32": lambda a: leading(a ^ (a >> 31)),
        "v_cvt_pk_i16_i32": lambda a, b: i16(a) & 0xFFFF | (i16(b) & 0xFFFF) << 16,
    }),
    *group("u32", "u16 u16 u32", {"v_mad_u32_u16": lambda a, b, c: a * b + c,
        "v_mad_u32_u16 clamp": lambda a, b, c: u32(a * b + c)}),
    *group("i32", "i16 i16 i32", {"v_mad_i32_i16": lambda a, b, c: a * b + c,
        "v_mad_i32_i16 clamp": lambda a, b, c: i32(a * b + c)}),
    *group("u64", "u64 u32 u64", {
        "v_qsad_pk_u16_u8": lambda a, b, c: windows(sad, a, b, c, 16),
        "v_qsad_pk_u16_u8 clamp": lambda a, b, c: windows(sad, a, b, c, 16, True),
        "v_mqsad_pk_u16_u8": lambda a, b, c: windows(msad, a, b, c, 16),
        "v_lshl_add_u64": lambda a, b, c: (a << (b if b <= 4 else 0)) + c}),
    *group("u128", "u64 u32 u128", {
        "v_mqsad_u32_u8": lambda a, b, c: windows(msad, a, b, c, 32),
        "v_mqsad_u32_u8 clamp": lambda a, b, c: windows(msad, a, b, c, 32, True)}),
    *group("u64", "u32 u64", {"v_lshlrev_b64": lambda a, b: b << (a & 63),
        "v_lshrrev_b64": lambda a, b: b >> (a & 63)}),
    *group("i64", "u32 i64", {"v_ashrrev_i64": lambda a, b: b >> (a & 63)}),
    *group("u64", "u64", {"v_mov_b64": lambda a: a, "v_pk_mov_b32": lambda a, b: a & M32 | (b & M32) << 32}),
    *group("u64", "u64", {"v_pk_mov_b32 op_sel:[1,0]": lambda a, b: a >> 32 | (b & M32) << 32}),
    *group("u16", "u16", {
        "v_add_u16": lambda a, b: a + b, "v_sub_u16": lambda a, b: a - b, "v_subrev_u16": lambda a, b: b - a,
        "v_mul_lo_u16": lambda a, b: a * b,
        "v_add_u16 clamp": lambda a, b: u16(a + b), "v_sub_u16 clamp": lambda a, b: u16(a - b),
        "v_subrev_u16 clamp": lambda a, b: u16(b - a),
        "v_mad_legacy_u16": lambda a, b, c: a * b + c,
        "v_mad_legacy_u16 clamp": lambda a, b, c: u16(a * b + c),
        "v_lshlrev_b16": lambda a, b: b << (a & 15), "v_lshrrev_b16": lambda a, b: b >> (a & 15),
        "v_min_u16": lambda a, b: min(a, b), "v_max_u16": lambda a, b: max(a, b)}),
    *group("u16", "u16", {
        "v_mad_u16": lambda a, b, c: a * b + c, "v_mad_u16 clamp": lambda a, b, c: u16(a * b + c),
        "v_min3_u16": lambda a, b, c: min(a, b, c),
        "v_max3_u16": lambda a, b, c: max(a, b, c), "v_med3_u16": lambda a, b, c: med3(a, b, c)}, keep=True),
    *group("i16", "i16", {
        "v_ashrrev_i16": lambda a, b: b >> (a & 15), "v_min_i16": lambda a, b: min(a, b),
        "v_max_i16": lambda a, b: max(a, b),
        "v_mad_legacy_i16": lambda a, b, c: a * b + c,
        "v_mad_legacy_i16 clamp": lambda a, b, c: i16(a * b + c)}),
    *group("i16", "i16", {
        "v_add_i16": lambda a, b: a + b, "v_sub_i16": lambda a, b: a - b,
        "v_add_i16 clamp": lambda a, b: i16(a + b),
        "v_sub_i16 clamp": lambda a, b: i16(a - b), "v_mad_i16": lambda a, b, c: a * b + c,
        "v_mad_i16 clamp": lambda a, b, c: i16(a * b + c),
        "v_min3_i16": lambda a, b, c: min(a, b, c), "v_max3_i16": lambda a, b, c: max(a, b, c),
        "v_med3_i16": lambda a, b, c: med3(a, b, c)}, keep=True),
    *group("u16",
        "u32", {"v_sat_pk_u8_i16": lambda a: clamp(signed(a & 0xFFFF, 16), 0,
        255) | clamp(signed(a >> 16, 16), 0, 255) << 8}),
    *group("u16", "i32 i32 u32", {
        "v_ashr_pk_i8_i32": lambda a, b, c: clamp(a >> (c & 31), -128,
            127) & 255 | (clamp(b >> (c & 31), -128, 127) & 255) << 8,
        "v_ashr_pk_u8_i32": lambda a, b, c: clamp(a >> (c & 31), 0, 255) | clamp(b >> (c & 31), 0, 255) << 8},
        keep=True, arch="gfx950"),
    *group("u32", "u32", {
        "v_prng_b32": lambda a: a << 1 ^ (197 if a >> 31 else 0),
        "v_bitop3_b32 bitop3:0x96": lambda a, b, c: a ^ b ^ c,
        "v_bitop3_b32 bitop3:0xe8": lambda a, b, c: a & b | b & c | a & c,
        "v_bitop3_b32 bitop3:0x2a": lambda a, b, c: ~(a & b) & c,
        "v_bitop3_b32 bitop3:0xca": lambda a, b, c: a & b | ~a & c}, arch="gfx950"),
    *group("u16", "u16", {"v_bitop3_b16 bitop3:0xf4": lambda a, b, c: a | b & ~c}, keep=True, arch="gfx950"),
]


def halves(x: int) -> tuple[int, int]:
    return x & 0xFFFF, x >> 16


def per_half(function: Callable[..., Any], in_type: str, out: Callable[[Any], int]) -> Callable[..., int]:
    """A packed instruction from what it does to one half."""
    def value(x: int) -> Any:
        return decode(x, "f16") if in_type == "f16" else signed(x, 16) if in_type == "i16" else x

    def packed(*sources: int) -> int:
        low, high = (out(function(*(value(halves(s)[k]) for s in sources))) for k in (0, 1))
        return low | high << 16
    two, three = (lambda a, b: packed(a, b)), (lambda a, b, c: packed(a, b, c))
    return two if function.__code__.co_argcount == 2 else three


def packed_group(in_type: str, ops: dict[str, Callable[..., Any]], **options: Any) -> list[Case]:
    def out(x: Any) -> int:
        return encode(x, "f16") if in_type == "f16" else x & 0xFFFF
    return group("u32", "u32", {text: per_half(function, in_type, out) for text, function in ops.items()},
        halves=in_type == "f16", **options)


def dot(a: int, b: int, width: int, is_signed: bool) -> int:
    def part(x: int, k: int) -> int:
        y = x >> k & (1 << width) - 1
        return signed(y, width) if is_signed else y
    return sum(part(a, k) * part(b, k) for k in range(0, 32, width))


PACKED = [
    *packed_group("u16", {
        "v_pk_add_u16": lambda a, b: a + b, "v_pk_sub_u16": lambda a, b: a - b,
        "v_pk_mul_lo_u16": lambda a, b: a * b, "v_pk_mad_u16": lambda a, b, c: a * b + c,
        "v_pk_add_u16 clamp": lambda a, b: u16(a + b), "v_pk_sub_u16 clamp": lambda a, b: u16(a - b),
        "v_pk_mad_u16 clamp": lambda a, b, c: u16(a * b + c),
        "v_pk_lshlrev_b16": lambda a, b: b << (a & 15), "v_pk_lshrrev_b16": lambda a, b: b >> (a & 15),
        "v_pk_min_u16": lambda a, b: min(a, b), "v_pk_max_u16": lambda a, b: max(a, b)}),
    *packed_group("i16", {
        "v_pk_add_i16": lambda a, b: a + b, "v_pk_sub_i16": lambda a, b: a - b,
        "v_pk_mad_i16": lambda a, b, c: a * b + c,
        "v_pk_add_i16 clamp": lambda a, b: i16(a + b), "v_pk_sub_i16 clamp": lambda a, b: i16(a - b),
        "v_pk_mad_i16 clamp": lambda a, b, c: i16(a * b + c),
        "v_pk_ashrrev_i16": lambda a, b: b >> (a & 15), "v_pk_min_i16": lambda a, b: min(a, b),
        "v_pk_max_i16": lambda a, b: max(a, b)}),
    *group("u32", "u32", {
        "v_dot2_u32_u16": lambda a, b, c: dot(a, b, 16, False) + c,
        "v_dot2_u32_u16 clamp": lambda a, b, c: u32(dot(a, b, 16, False) + c),
        "v_dot4_u32_u8": lambda a, b, c: dot(a, b, 8, False) + c,
        "v_dot8_u32_u4": lambda a, b, c: dot(a, b, 4, False) + c,
        "v_dot2_i32_i16": lambda a, b, c: dot(a, b, 16, True) + c,
        "v_dot4_i32_i8": lambda a, b, c: dot(a, b, 8, True) + c,
        "v_dot8_i32_i4": lambda a, b, c: dot(a, b, 4, True) + c,
        "v_dot4_i32_i8 clamp": lambda a, b, c: i32(dot(a, b, 8, True) + signed(c, 32)),
        "v_dot8_i32_i4 clamp": lambda a, b, c: i32(dot(a, b, 4, True) + signed(c, 32))}),
    *group("u32", "u32", {"v_dot4c_i32_i8": lambda a, b, old: dot(a, b, 8, True) + old,
        "v_dot2c_i32_i16": lambda a, b, old: dot(a, b, 16, True) + old,
                          "v_dot8c_i32_i4": lambda a, b, old: dot(a, b, 4, True) + old}, old=True),
]


def best(a: int, b: int, fmt: str, largest: bool) -> int:
    """v_min/v_max in IEEE mode: -0 < +0, a NaN gives the other operand, a signalling one a NaN."""
    for x in (a, b):
        if is_snan(x, fmt):
            return encode(math.nan, fmt)
    if is_nan(a, fmt) or is_nan(b, fmt):
        return b if is_nan(a, fmt) else a

    def key(x: int) -> tuple[float, float]:
        value = decode(x, fmt)
        return value, math.copysign(1, value)
    return max(a, b, key=key) if largest else min(a, b, key=key)


def middle(a: int, b: int, c: int, fmt: str) -> int:
    if any(is_nan(x, fmt) for x in (a, b, c)):
        return best(best(a, b, fmt, False), c, fmt, False)
    high, low = best(best(a, b, fmt, True), c, fmt, True), best(best(a, b, fmt, False), c, fmt, False)
    rest = [a, b, c]
    rest.remove(high)
    rest.remove(low)
    return rest[0]


def propagating(a: int, b: int, fmt: str, largest: bool) -> int:
    return encode(math.nan, fmt) if is_nan(a, fmt) or is_nan(b, fmt) else best(a, b, fmt, largest)


def min_max_group(fmt: str, **options: Any) -> list[Case]:
    return group(fmt, fmt, {f"v_min_{fmt}": lambda a, b: best(a, b, fmt, False),
        f"v_max_{fmt}": lambda a, b: best(a, b, fmt, True)},
                 raw=True, signalling=True, **options)


def three_group(fmt: str, **options: Any) -> list[Case]:
    return group(fmt, fmt, {
        f"v_min3_{fmt}": lambda a, b, c: best(best(a, b, fmt, False), c, fmt, False),
        f"v_max3_{fmt}": lambda a, b, c: best(best(a, b, fmt, True), c, fmt, True),
        f"v_med3_{fmt}": lambda a, b, c: middle(a, b, c, fmt)}, raw=True, **options)


def whole(a: float, rounding: Callable[[float], int]) -> float:
    """A rounding to integer that keeps infinities, NaN and the sign of zero."""
    return math.copysign(float(rounding(a)), a) if math.isfinite(a) else a


def fraction(a: float, below_one: float) -> float | Fraction:
    if not math.isfinite(a):
        return math.nan
    exact = Fraction(a) - math.floor(a)
    return min(exact, Fraction(below_one)) if exact else 0.0


def frexp_exponent(a: float) -> int:
    return math.frexp(a)[1] if math.isfinite(a) else 0


def float_group(fmt: str, below_one: float, integer: str) -> list[Case]:
    """What the three formats have in common."""
    return [
        *group(fmt, fmt, {
            f"v_add_{fmt}": lambda a, b: add(a, b), f"v_mul_{fmt}": lambda a, b: mul(a, b),
            f"v_trunc_{fmt}": lambda a: whole(a, math.trunc), f"v_ceil_{fmt}": lambda a: whole(a, math.ceil),
            f"v_floor_{fmt}": lambda a: whole(a, math.floor), f"v_rndne_{fmt}": lambda a: whole(a, round),
            f"v_fract_{fmt}": lambda a: fraction(a, below_one),
            f"v_frexp_mant_{fmt}": lambda a: math.frexp(a)[0] if math.isfinite(a) else a}),
        *group(fmt, fmt, {f"v_fma_{fmt}": lambda a, b, c: fma(a, b, c)}, keep=fmt == "f16"),
        *group(fmt, f"{fmt} {integer}", {f"v_ldexp_{fmt}": lambda a, b: scale(a, b)}),
        *group(integer, fmt, {f"v_frexp_exp_{integer}_{fmt}": lambda a: frexp_exponent(a)}),
        *min_max_group(fmt),
    ]


def positive_log2(a: float) -> float:
    return math.log2(a) if a > 0 else -math.inf if a == 0 else math.nan


def power_of_two(a: float) -> float:
    return a if math.isnan(a) else math.inf if a > 1000 else 0.0 if a < -1000 else 2.0 ** a


def sine(a: float) -> float:
    """sin of a turns; zero at half turns exactly. Beyond 256 turns 0, as cos gives 1."""
    if not math.isfinite(a):
        return math.nan
    r = math.remainder(a, 1.0)
    r = math.copysign(0.5, r) - r if abs(r) > 0.25 else r
    return math.sin(2 * math.pi * r) if abs(a) <= 256 else 0.0


def cosine(a: float) -> float:
    if not math.isfinite(a):
        return math.nan
    return math.sin(2 * math.pi * (0.25 - abs(math.remainder(a, 1.0)))) if abs(a) <= 256 else 1.0


def normal(x: float) -> float:
    """An f32 with its denormals flushed."""
    return math.copysign(0.0, x) if abs(x) < 2.0 ** -126 else x


def flushing(function: Callable[[float], Any]) -> Callable[[float], float]:
    """An f32 function that takes and gives no denormals."""
    return lambda a: normal(decode(encode(function(normal(a)), "f32"), "f32"))


FLOAT = [
    *float_group("f16", 1 - 2.0 ** -11, "i16"), *float_group("f32", 1 - 2.0 ** -24, "i32"),
    *float_group("f64", 1 - 2.0 ** -53, "i32"),
    *three_group("f32"), *three_group("f16", keep=True),
    *group("f32", "f32", {
        "v_sub_f32": lambda a, b: add(a, -b), "v_subrev_f32": lambda a, b: add(b, -a),
        "v_mul_legacy_f32": lambda a, b: 0.0 if a == 0 or b == 0 else mul(a, b)}),
    *group("f32", "f32", {"v_fmac_f32": lambda a, b, old: fma(a, b, old)}, old=True),
    *group("f64", "f64", {"v_fmac_f64": lambda a, b, old: fma(a, b, old)}, old=True),
    *group("f16", "f16", {
        "v_sub_f16": lambda a, b: add(a, -b), "v_subrev_f16": lambda a, b: add(b, -a),
        "v_fma_legacy_f16": lambda a, b, c: fma(a, b, c),
        "v_mad_legacy_f16": lambda a, b, c: add(decode(encode(mul(a, b), "f16"), "f16"), c),
        "v_sqrt_f16": lambda a: sqrt(a),
        "v_rcp_f16": lambda a: div(1.0, a)}),
    *group("f16",
        "f16", {"v_mad_f16": lambda a, b, c: add(decode(encode(mul(a, b), "f16"), "f16"), c)}, keep=True),
    *group("f16",
        "f16", {"v_mac_f16": lambda a, b, old: add(decode(encode(mul(a, b), "f16"), "f16"), old)}, old=True),
    *group("f32", "f32", {"v_rcp_f32": flushing(lambda a: div(1.0, a)),
        "v_rcp_iflag_f32": flushing(lambda a: div(1.0, a)),
                          "v_sqrt_f32": flushing(sqrt)}),
    *group("f64", "f64", {"v_rcp_f64": lambda a: div(1.0, a), "v_sqrt_f64": lambda a: sqrt(a)}),
    *group("f32", "f32", {
        "v_exp_f32": flushing(power_of_two), "v_log_f32": flushing(positive_log2),
        "v_rsq_f32": flushing(lambda a: div(1.0, float(sqrt(a)))),
        "v_sin_f32": flushing(sine), "v_cos_f32": flushing(cosine)}, ulps=1),
    *group("f16", "f16", {
        "v_exp_f16": lambda a: power_of_two(a), "v_log_f16": lambda a: positive_log2(a),
        "v_rsq_f16": lambda a: div(1.0, float(sqrt(a))),
        "v_sin_f16": sine, "v_cos_f16": cosine}, ulps=1),
    *group("f64", "f64", {"v_rsq_f64": lambda a: div(1.0, float(sqrt(a)))}, ulps=1),
    *packed_group("f16", {"v_pk_add_f16": lambda a, b: add(a, b), "v_pk_mul_f16": lambda a, b: mul(a, b),
        "v_pk_fma_f16": lambda a, b, c: fma(a, b, c)}),
    *group("f32", "f32", {
        "v_minimum3_f32": lambda a, b, c: propagating(propagating(a, b, "f32", False), c, "f32", False),
        "v_maximum3_f32": lambda a, b, c: propagating(propagating(a, b, "f32", True), c, "f32", True)},
        raw=True, signalling=True, arch="gfx950"),
]


def truncated(a: float, low: int, high: int) -> int:
    return 0 if math.isnan(a) else low if a <= low else high if a >= high else math.trunc(a)


def floored(a: float, low: int, high: int) -> int:
    if math.isnan(a):
        return low if math.copysign(1, a) < 0 else high
    return truncated(float(math.floor(a)) if math.isfinite(a) else a, low, high)


def nearest_byte(a: float) -> int:
    return 0 if math.isnan(a) else round(max(0.0, min(a, 255.0)))


def toward_zero(a: float) -> int:
    """f16 bits of a truncated value."""
    bits = encode(a, "f16")
    return bits - 1 if math.isfinite(a) and abs(decode(bits, "f16")) > abs(a) else bits


def norm(a: float, low: float, steps: int) -> int:
    x = 0.0 if math.isnan(a) else max(low, min(1.0, a))
    return round(x * steps) & 0xFFFF


I32, U32, I16, U16 = (-1 << 31, (1 << 31) - 1), (0, M32), (-0x8000, 0x7FFF), (0, 0xFFFF)
CONVERT = [
    *group("i32", "f32", {
        "v_cvt_i32_f32": lambda a: truncated(a, *I32), "v_cvt_flr_i32_f32": lambda a: floored(a, *I32),
        "v_cvt_rpi_i32_f32": lambda a: floored(a + 0.5, *I32)}),
    *group("u32", "f32", {"v_cvt_u32_f32": lambda a: truncated(a, *U32)}),
    *group("i32", "f64", {"v_cvt_i32_f64": lambda a: truncated(a, *I32)}),
    *group("u32", "f64", {"v_cvt_u32_f64": lambda a: truncated(a, *U32)}),
    *group("i16", "f16", {"v_cvt_i16_f16": lambda a: truncated(a, *I16)}),
    *group("u16", "f16", {"v_cvt_u16_f16": lambda a: truncated(a, *U16)}),
    *group("f32", "i32", {"v_cvt_f32_i32": lambda a: Fraction(a)}),
    *group("f32", "u32", {"v_cvt_f32_u32": lambda a: Fraction(a)}),
    *group("f64", "i32", {"v_cvt_f64_i32": lambda a: Fraction(a)}),
    *group("f64", "u32", {"v_cvt_f64_u32": lambda a: Fraction(a)}),
    *group("f16", "i16", {"v_cvt_f16_i16": lambda a: Fraction(a)}),
    *group("f16", "u16", {"v_cvt_f16_u16": lambda a: Fraction(a)}),
    *group("f32", "f16", {"v_cvt_f32_f16": lambda a: a}),
    *group("f16", "f32", {"v_cvt_f16_f32": lambda a: a}),
    *group("f64", "f32", {"v_cvt_f64_f32": lambda a: a}),
    *group("f32", "f64", {"v_cvt_f32_f64": lambda a: a}),
    *group("f32", "u32", {
        "v_cvt_f32_ubyte0": lambda a: Fraction(a & 255), "v_cvt_f32_ubyte1": lambda a: Fraction(a >> 8 & 255),
        "v_cvt_f32_ubyte2": lambda a: Fraction(a >> 16 & 255),
        "v_cvt_f32_ubyte3": lambda a: Fraction(a >> 24),
        "v_cvt_off_f32_i4": lambda a: Fraction(signed(a & 15, 4), 16)}),
    *group("u32", "f32", {
        "v_cvt_pkrtz_f16_f32": lambda a, b: toward_zero(a) | toward_zero(b) << 16}, halves=True),
    *group("u32", "f32", {
        "v_cvt_pk_f16_f32": lambda a, b: encode(a, "f16") | encode(b, "f16") << 16},
        halves=True, arch="gfx950"),
    *group("u32", "f32", {
        "v_cvt_pknorm_i16_f32": lambda a, b: norm(a, -1.0, 32767) | norm(b, -1.0, 32767) << 16,
        "v_cvt_pknorm_u16_f32": lambda a, b: norm(a, 0.0, 65535) | norm(b, 0.0, 65535) << 16}),
    *group("u32", "f16", {
        "v_cvt_pknorm_i16_f16": lambda a, b: norm(a, -1.0, 32767) | norm(b, -1.0, 32767) << 16,
        "v_cvt_pknorm_u16_f16": lambda a, b: norm(a, 0.0, 65535) | norm(b, 0.0, 65535) << 16}),
    *group("u16", "f16", {
        "v_cvt_norm_i16_f16": lambda a: norm(a, -1.0, 32767),
        "v_cvt_norm_u16_f16": lambda a: norm(a, 0.0, 65535)}),
    *group("u32", "f32 u32 u32", {
        "v_cvt_pk_u8_f32": lambda a, b, c: c & ~(255 << 8 * (b & 3)) | nearest_byte(a) << 8 * (b & 3)}),
    *group("u32", "f16", {"v_pack_b32_f16": lambda a, b: a | b << 16}, raw=True, signalling=True),
]

CASES = [*INTEGER, *PACKED, *FLOAT, *CONVERT]
