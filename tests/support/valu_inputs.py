"""Inputs of instruction tests: edge and random values of every type, as bit patterns."""

import random
from collections.abc import Iterable

from tests.support.exactfloat import encode, is_nan
from tests.support.valu_cases import M32, M64, bits_of

WAVE = 64
ALL = (1 << WAVE) - 1  # exec masks: every lane, and some of every row
SOME = 0xF0F0_1234_8001_FFFE
# fmt: off
EDGES = {
    "u16": [0, 1, 2, 15, 16, 0xFF, 0x100, 0x7FFF, 0x8000, 0x8001, 0xFFFF],
    "u32": [0, 1, 2, 15, 31, 32, 33, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFF, 0x800000, 0xFFFFFF,
            0x1000000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF],
    "u64": [0, 1, 31, 32, 63, 64, 0xFFFFFFFF, 0x100000000, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, M64],
    # Floats: zeros, ones, what rounds to even, denormals, the largest, infinities, NaN, limits of integers.
    "f16": [0, 0x8000, 0x3C00, 0xBC00, 0x3800, 0x3E00, 0x4100, 0xC100, 1, 0x3FF, 0x8001, 0x400, 0x7BFF,
            0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x6400, 0x5BF8, 0x7800],
    "f32": [0, 0x80000000, 0x3F800000, 0xBF800000, 0x3F000000, 0x3FC00000, 0x40200000, 0xC0200000, 1,
            0x7FFFFF, 0x80000001, 0x800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000,
            0x4F000000, 0xCF000000, 0x4F800000, 0x4EFFFFFF, 0x477FE000, 0x477FF000, 0x33000000, 0x33000001, 0xBF000000,
            0x4B000001, 0x3EFFFFFF],
    "f64": [0, 1 << 63, 0x3FF0 << 48, 0xBFF0 << 48, 0x3FE0 << 48, 0x4004 << 48, 1, (1 << 52) - 1, 1 << 52,
            (0x7FF0 << 48) - 1, 0x7FF0 << 48, 0xFFF0 << 48, 0x7FF8 << 48, 0x41DFFFFFFFC00000, 0x41E0 << 48,
            0xC1E0 << 48, 0x41F0 << 48, 0x3690 << 48, 0x36A0 << 48, 0x47EF << 48],
}
# fmt: on
EDGES |= {"i16": EDGES["u16"], "i32": EDGES["u32"], "i64": EDGES["u64"], "u128": EDGES["u32"]}
QUIET_BIT = {"f16": 1 << 9, "f32": 1 << 22, "f64": 1 << 51}


def dwords(type_name: str) -> int:
    return max(1, bits_of(type_name) // 32)


def random_bits(type_name: str, rng: random.Random) -> int:
    """Any pattern; half of the floats are of moderate size, so that sums and products interact."""
    width = bits_of(type_name)
    if type_name[0] == "f" and rng.random() < 0.5:
        return encode(rng.choice([-1, 1]) * rng.uniform(0.5, 2) * 2.0 ** rng.randint(-8, 8), type_name)
    return rng.getrandbits(width if rng.random() < 0.7 else rng.randint(1, width))


def source(type_name: str, rng: random.Random, signalling: bool = False, edges_first: bool = False) -> list[int]:
    """64 values of a source operand."""
    pool = EDGES[type_name]
    values = [rng.choice(pool) if rng.random() < 0.5 else random_bits(type_name, rng) for _ in range(WAVE)]
    if edges_first:
        values[: len(pool)] = pool
    if type_name[0] == "f" and not signalling:
        values = [x | QUIET_BIT[type_name] if is_nan(x, type_name) else x for x in values]
    return values


def registers(values: list[int], type_name: str, first: int, rng: random.Random) -> dict[int, list[int]]:
    """Register number -> 64 dwords; what a 16-bit type does not use of its register is random."""
    if bits_of(type_name) == 16:
        return {first: [x | rng.getrandbits(16) << 16 for x in values]}
    return {first + k: [x >> 32 * k & M32 for x in values] for k in range(dwords(type_name))}


def lane_bits(flags: Iterable[object]) -> int:
    """The mask of the lanes whose flag is true."""
    return sum(bool(flag) << i for i, flag in enumerate(flags))


def same(got: int, want: int, fmt: str, ulps: int = 0) -> bool:
    """Equal floats, any NaN as good as another."""

    def ordered(bits: int) -> int:  # integers in the order of the floats, so that a difference counts ulps
        top = 1 << bits_of(fmt) - 1
        return top - bits if bits & top else bits

    if is_nan(want, fmt) or is_nan(got, fmt):
        return is_nan(want, fmt) and is_nan(got, fmt)
    return got == want if not ulps else abs(ordered(got) - ordered(want)) <= ulps


def masks(rng: random.Random) -> list[int]:
    """For exec: every lane, half of them, one, and any."""
    return [ALL, ALL >> 32, 1 << rng.randrange(WAVE), rng.getrandbits(WAVE)]


def active(mask: int) -> list[int]:
    return [i for i in range(WAVE) if mask >> i & 1]
