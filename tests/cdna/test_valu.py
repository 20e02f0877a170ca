"""Single vector instructions of the emulated device, lane by lane against valu_cases.py; modifiers and masks.

Every case runs edge and random values, with all lanes on and with some off.
"""

import math
import random
from collections import Counter
from fractions import Fraction

import pytest

from cdna.testing.snippet import POISON, run
from tests.support.exactfloat import decode, div, encode
from tests.support.lane_check import check_lanes, name, value
from tests.support.valu_cases import CASES, M32, M64, Case, bits_of, signed
from tests.support.valu_inputs import ALL, QUIET_BIT, SOME, WAVE, dwords, lane_bits, registers, same, source


@pytest.mark.parametrize("case", CASES, ids=str)
def test_instruction(case: Case) -> None:
    check_lanes(case)


# --- compares ---

INTEGER_CONDITIONS = {
    "f": lambda a, b: False,
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ne": lambda a, b: a != b,
    "ge": lambda a, b: a >= b,
    "t": lambda a, b: True,
}
FLOAT_CONDITIONS = {
    "f": lambda a, b: False,
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "lg": lambda a, b: a < b or a > b,
    "ge": lambda a, b: a >= b,
    "o": lambda a, b: a == a and b == b,
    "u": lambda a, b: a != a or b != b,
    "nge": lambda a, b: not a >= b,
    "nlg": lambda a, b: not (a < b or a > b),
    "ngt": lambda a, b: not a > b,
    "nle": lambda a, b: not a <= b,
    "neq": lambda a, b: not a == b,
    "nlt": lambda a, b: not a < b,
    "tru": lambda a, b: True,
}
TYPES = ["u16", "i16", "u32", "i32", "u64", "i64", "f16", "f32", "f64"]


@pytest.mark.parametrize("type_name", TYPES)
def test_compare(type_name: str) -> None:
    rng = random.Random(type_name)
    conditions = FLOAT_CONDITIONS if type_name[0] == "f" else INTEGER_CONDITIONS
    for condition, function in conditions.items():
        a, b = source(type_name, rng), source(type_name, rng)
        b[::3] = a[::3]
        v = registers(a, type_name, 0, rng) | registers(b, type_name, 2, rng)
        operands = f"{name(0, type_name)}, {name(2, type_name)}"
        want = lane_bits([function(value(x, type_name), value(y, type_name)) for x, y in zip(a, b)])
        for exec_mask in (ALL, SOME):
            text = f"{condition}_{type_name}"
            state = run("gfx942", f"v_cmp_{text}_e64 s[10:11], {operands}", v, exec=exec_mask)
            assert (state.s64(10), state.exec) == (want & exec_mask, exec_mask), condition
            state = run("gfx942", f"v_cmpx_{text}_e32 vcc, {operands}", v, exec=exec_mask)
            assert (state.vcc, state.exec) == (want & exec_mask, want & exec_mask), condition


@pytest.mark.parametrize("fmt", ["f16", "f32", "f64"])
def test_compare_class(fmt: str) -> None:
    rng = random.Random(fmt)
    width, mantissa = bits_of(fmt), {"f16": 10, "f32": 23, "f64": 52}[fmt]
    infinity = (1 << width - 1) - (1 << mantissa)
    positive = {
        0: [infinity + 1],
        1: [infinity | QUIET_BIT[fmt]],
        9: [infinity],
        8: [1 << mantissa, infinity - 1],
        7: [1, (1 << mantissa) - 1],
        6: [0],
    }
    values = {x: c for c, xs in positive.items() for x in xs}
    values |= {x | 1 << width - 1: c if c < 2 else 11 - c for x, c in values.items()}
    column = (list(values) * WAVE)[:WAVE]
    for _ in range(4):
        masks = [rng.getrandbits(10) for _ in range(WAVE)]
        v = registers(column, fmt, 0, rng) | {2: masks}
        state = run("gfx942", f"v_cmp_class_{fmt} vcc, {name(0, fmt)}, v2", v)
        assert state.vcc == lane_bits([m >> values[x] & 1 for x, m in zip(column, masks)])


# --- carries and masks ---


@pytest.mark.parametrize("exec_mask", [ALL, SOME])
def test_carries(exec_mask: int) -> None:
    rng = random.Random(1)
    a, b, mask = source("u32", rng), source("u32", rng), rng.getrandbits(64)
    for op, with_carry, exact in (
        ("add", "addc", lambda x, y, c: x + y + c),
        ("sub", "subb", lambda x, y, c: x - y - c),
        ("subrev", "subbrev", lambda x, y, c: y - x - c),
    ):
        for text, carried in (
            (f"v_{op}_co_u32_e64 v2, s[8:9], v0, v1", 0),
            (f"v_{with_carry}_co_u32_e32 v2, vcc, v0, v1, vcc", mask),
        ):
            state = run("gfx942", text, {0: a, 1: b}, vcc=mask, exec=exec_mask)
            results = [exact(x, y, carried >> i & 1) for i, (x, y) in enumerate(zip(a, b))]
            assert state.v[2] == [r & M32 if exec_mask >> i & 1 else POISON for i, r in enumerate(results)]
            carries = lane_bits([not 0 <= r <= M32 for r in results]) & exec_mask
            assert (state.s64(8) if "s[8:9]" in text else state.vcc) == carries


def test_mad_64_32() -> None:
    rng = random.Random(2)
    a, b, c = source("u32", rng), source("u32", rng), source("u64", rng)
    v = {0: a, 1: b} | registers(c, "u64", 2, rng)
    text = "v_mad_u64_u32 v[4:5], s[8:9], v0, v1, v[2:3]\nv_mad_i64_i32 v[6:7], vcc, v0, v1, v[2:3]"
    state = run("gfx942", text, v)
    for i in range(WAVE):
        unsigned, exact = a[i] * b[i] + c[i], signed(a[i], 32) * signed(b[i], 32) + signed(c[i], 64)
        assert state.v[4][i] | state.v[5][i] << 32 | (state.s64(8) >> i & 1) << 64 == unsigned
        assert state.v[6][i] | state.v[7][i] << 32 == exact & M64


def test_cndmask() -> None:
    rng = random.Random(3)
    a, b, mask = source("u32", rng), source("u32", rng), rng.getrandbits(64)
    picked = [y if mask >> i & 1 else x for i, (x, y) in enumerate(zip(a, b))]
    assert run("gfx942", "v_cndmask_b32_e32 v2, v0, v1, vcc", {0: a, 1: b}, vcc=mask).v[2] == picked
    state = run(
        "gfx942", "v_cndmask_b32_e64 v2, -v0, |v1|, s[4:5]", {0: a, 1: b}, {4: mask & M32, 5: mask >> 32}, exec=SOME
    )
    wanted = [y & 0x7FFFFFFF if mask >> i & 1 else x ^ 0x80000000 for i, (x, y) in enumerate(zip(a, b))]
    assert state.v[2] == [w if SOME >> i & 1 else POISON for i, w in enumerate(wanted)]


# --- lanes ---


def test_lane_moves() -> None:
    v = {0: range(100, 164), 1: range(200, 264)}
    state = run(
        "gfx942",
        """v_readlane_b32 s4, v0, 9
v_readlane_b32 s5, v0, s8
v_readfirstlane_b32 s6, v1
v_writelane_b32 v1, s8, 3
v_swap_b32 v0, v1""",
        v,
        {8: 70},
        exec=0b1100,
    )
    assert state.s[4:7] == [109, 106, 202]
    assert state.v[0][:5] == [100, 101, 202, 70, 104] and state.v[1][:5] == [200, 201, 102, 103, 204]
    state = run("gfx942", "v_mbcnt_lo_u32_b32 v2, -1, 0\nv_mbcnt_hi_u32_b32 v2, -1, v2", v)
    assert state.v[2] == list(range(64))
    text = "v_accvgpr_write_b32 a1, v0\nv_accvgpr_mov_b32 a2, a1\nv_accvgpr_read_b32 v3, a2"
    state = run("gfx942", text, v)
    assert state.v[3] == list(v[0])


@pytest.mark.parametrize("rows", [16, 32])
def test_permlane_swap(rows: int) -> None:
    a, b = list(range(100, 164)), list(range(200, 264))
    state = run("gfx950", f"v_permlane{rows}_swap_b32 v0, v1", {0: a, 1: b})
    for i in range(WAVE):
        assert state.v[0][i] == (b[i - rows] if i & rows else a[i])
        assert state.v[1][i] == (b[i] if i & rows else a[i + rows])


# --- division ---

DIVIDE = {
    "f32": """v_div_scale_f32 v4, s[4:5], v1, v1, v0
v_div_scale_f32 v5, vcc, v0, v1, v0
v_rcp_f32 v6, v4
v_fma_f32 v7, -v4, v6, 1.0
v_fma_f32 v6, v7, v6, v6
v_mul_f32 v7, v5, v6
v_fma_f32 v8, -v4, v7, v5
v_fma_f32 v7, v8, v6, v7
v_fma_f32 v4, -v4, v7, v5
v_div_fmas_f32 v4, v4, v6, v7
v_div_fixup_f32 v4, v4, v1, v0""",
    "f64": """v_div_scale_f64 v[4:5], s[4:5], v[2:3], v[2:3], v[0:1]
v_rcp_f64 v[6:7], v[4:5]
v_fma_f64 v[8:9], -v[4:5], v[6:7], 1.0
v_fma_f64 v[6:7], v[6:7], v[8:9], v[6:7]
v_fma_f64 v[8:9], -v[4:5], v[6:7], 1.0
v_fma_f64 v[6:7], v[6:7], v[8:9], v[6:7]
v_div_scale_f64 v[8:9], vcc, v[0:1], v[2:3], v[0:1]
v_mul_f64 v[10:11], v[8:9], v[6:7]
v_fma_f64 v[4:5], -v[4:5], v[10:11], v[8:9]
v_div_fmas_f64 v[4:5], v[4:5], v[6:7], v[10:11]
v_div_fixup_f64 v[4:5], v[4:5], v[2:3], v[0:1]""",
}


@pytest.mark.parametrize("fmt", ["f32", "f64"])
def test_division_sequence_rounds_correctly(fmt: str) -> None:
    """LLVM's expansion of fdiv, over all magnitudes: denormals, overflow, quotients near either limit."""
    rng = random.Random(fmt)
    top, mantissa = {"f32": (254, 23), "f64": (2046, 52)}[fmt]

    def anywhere() -> int:
        sign = rng.getrandbits(1) << bits_of(fmt) - 1
        return sign | rng.randint(0, top) << mantissa | rng.getrandbits(mantissa)

    def near(target: int) -> tuple[int, int]:
        """Numerator and denominator of a quotient whose exponent field is about `target`."""
        exponent = rng.randint(1, top)
        other = min(top, max(0, exponent + target - top // 2 + rng.randint(-3, 3)))
        return other << mantissa | rng.getrandbits(mantissa), exponent << mantissa | rng.getrandbits(mantissa)

    for round_ in range(24):
        n, d = ([anywhere() for _ in range(WAVE)] for _ in range(2))
        if round_ < 8:
            n, d = source(fmt, rng), source(fmt, rng)
        elif round_ < 16:  # about the smallest normal number and the largest one
            pairs = [near(1 if round_ % 2 else top) for _ in range(WAVE)]
            n, d = [x for x, _ in pairs], [y for _, y in pairs]
        second = 1 if fmt == "f32" else 2
        state = run("gfx942", DIVIDE[fmt], registers(n, fmt, 0, rng) | registers(d, fmt, second, rng))
        for i in range(WAVE):
            want = encode(div(decode(n[i], fmt), decode(d[i], fmt)), fmt)
            got = sum(state.v[4 + k][i] << 32 * k for k in range(dwords(fmt)))
            assert same(got, want, fmt), f"{n[i]:#x} / {d[i]:#x} = {got:#x}, wanted {want:#x}"


def test_a_scaled_back_quotient_is_rounded_once() -> None:
    """v_div_fmas_f64 to denormals, where S2 lies half-way between two of them: S0 * S1 decides."""
    rng = random.Random(2)
    c = [rng.choice((1, -1)) * (2 * rng.getrandbits(rng.randint(1, 51)) + 1) * 2.0**-947 for _ in range(WAVE)]
    a = [rng.choice((1, -1, 0)) * rng.random() * 2.0 ** rng.choice((-10, -300, -1000)) for _ in range(WAVE)]
    b = [rng.random() * 2.0 ** rng.choice((-1000, -1010, -1022)) for _ in range(WAVE)]
    values = {0: a, 2: b, 4: c}
    registers = {
        first + half: [encode(x, "f64") >> 32 * half & 0xFFFFFFFF for x in numbers]
        for first, numbers in values.items()
        for half in range(2)
    }
    code = "s_mov_b64 vcc, -1; v_div_fmas_f64 v[6:7], v[0:1], v[2:3], v[4:5]"
    state = run("gfx942", code.replace("; ", "\n"), registers)
    for i in range(WAVE):
        exact = (Fraction(a[i]) * Fraction(b[i]) + Fraction(c[i])) * 2 ** (1074 - 128)
        assert decode(state.v[6][i] | state.v[7][i] << 32, "f64") == math.ldexp(round(exact), -1074), i


def test_div_fixup_f16() -> None:
    one, two, inf, nan = 0x3C00, 0x4000, 0x7C00, 0x7E00
    rows = [
        (two, one, 0x8000 | two, 0xC000),
        (0, 0, one, inf),
        (0, inf, one, 0),
        (0, 0, 0, 0xFE00),
        (0, one, nan, nan),
        (0, inf, inf, 0xFE00),
    ]
    a, b, c, want = ([row[k] for row in rows] + [one] * (WAVE - len(rows)) for k in range(4))
    assert run("gfx942", "v_div_fixup_legacy_f16 v3, v0, v1, v2", {0: a, 1: b, 2: c}).v[3] == want


def test_trig_preop() -> None:
    """Pieces of 2/pi, 53 bits each, against 2/pi from Machin's formula."""
    one = 1 << 1400

    def arctan(x: int) -> int:
        term, total, n = one // x, one // x, 3
        while term:
            term //= -x * x
            total += term // n
            n += 2
        return total

    two_over_pi = 2 * one * one // (4 * (4 * arctan(5) - arctan(239)))
    state = run(
        "gfx942",
        "v_trig_preop_f64 v[4:5], v[0:1], v2",
        {0: [0] * WAVE, 1: [0x3FF << 20] * WAVE, 2: [i % 20 for i in range(WAVE)]},
    )
    for i in range(20):
        piece = two_over_pi >> 1400 - 53 * (i + 1) & (1 << 53) - 1
        assert decode(state.v[4][i] | state.v[5][i] << 32, "f64") == piece * 2.0 ** (-53 * (i + 1))


def test_cases_are_distinct() -> None:
    assert not [text for text, n in Counter(case.text for case in CASES).items() if n > 1]
