"""Single vector instructions of the emulated device, lane by lane against valu_cases.py; modifiers and masks.

Every case runs edge and random values, with all lanes on and with some off.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from exactfloat import add, decode, div, encode, fma, is_nan
from valu_cases import CASES, M32, M64, Case, bits_of, signed
from valu_inputs import QUIET_BIT, WAVE, dwords, registers, source

from cdna.errors import UnsupportedInstruction
from cdna.snippet import POISON, run

ALL = (1 << WAVE) - 1
SOME = 0xF0F0_1234_8001_FFFE


def value(bits: int, type_name: str, raw: bool = False) -> Any:
    if raw:
        return bits
    if type_name[0] == "f":
        return decode(bits, type_name)
    return signed(bits, bits_of(type_name)) if type_name[0] == "i" else bits


def result_bits(result: Any, case: Case) -> int:
    if case.dst[0] == "f" and not case.raw:
        return encode(result, case.dst)
    return int(result) & (1 << bits_of(case.dst)) - 1


def ordered(bits: int, fmt: str) -> int:
    """Integers in the order of the floats, so that a difference counts ulps."""
    top = 1 << bits_of(fmt) - 1
    return -(bits - top) if bits & top else bits


def name(first: int, type_name: str) -> str:
    n = dwords(type_name)
    return f"v{first}" if n == 1 else f"v[{first}:{first + n - 1}]"


def same(got: int, want: int, fmt: str, ulps: int = 0) -> bool:
    """Equal floats, any NaN as good as another."""
    if is_nan(want, fmt) or is_nan(got, fmt):
        return is_nan(want, fmt) and is_nan(got, fmt)
    return got == want if not ulps else abs(ordered(got, fmt) - ordered(want, fmt)) <= ulps


def matches(got: int, want: int, case: Case) -> bool:
    if case.halves:
        return same(got & 0xFFFF, want & 0xFFFF, "f16") and same(got >> 16, want >> 16, "f16")
    return same(got, want, case.dst, case.ulps) if case.dst[0] == "f" else got == want


@pytest.mark.parametrize("case", CASES, ids=str)
def test_instruction(case: Case) -> None:
    rng = random.Random(case.text)
    mnemonic, _, modifiers = case.text.partition(" ")
    for exec_mask in (ALL, SOME):
        sources = [source(t, rng, case.signalling, len(case.src) == 1) for t in case.src]
        old = source(case.dst, rng)
        v = registers(old, case.dst, 0, rng)
        for k, (values, type_name) in enumerate(zip(sources, case.src)):
            v |= registers(values, type_name, 4 + 4 * k, rng)
        operands = ", ".join([name(0, case.dst)] + [name(4 + 4 * k, t) for k, t in enumerate(case.src)])
        state = run(case.arch, f"{mnemonic} {operands} {modifiers}", v, exec=exec_mask)
        for lane in range(WAVE):
            before = sum(v[k][lane] << 32 * k for k in range(dwords(case.dst)))
            after = sum(state.v[k][lane] << 32 * k for k in range(dwords(case.dst)))
            if not exec_mask >> lane & 1:
                assert after == before, f"lane {lane} is off, but changed"
                continue
            arguments = [value(values[lane], t, case.raw) for values, t in zip(sources, case.src)]
            if case.old:
                arguments.append(value(old[lane], case.dst))
            want = result_bits(case.function(*arguments), case)
            got, upper = after & (1 << bits_of(case.dst)) - 1, after >> bits_of(case.dst)
            assert matches(got, want, case), f"lane {lane}: {arguments} -> {got:#x}, wanted {want:#x}"
            if bits_of(case.dst) == 16:
                assert upper == (before >> 16 if case.keep else 0), f"lane {lane}: upper half {upper:#x}"


# --- compares ---

INTEGER_CONDITIONS = {"f": lambda a, b: False, "lt": lambda a, b: a < b, "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
                      "gt": lambda a, b: a > b, "ne": lambda a, b: a != b, "ge": lambda a, b: a >= b,
                      "t": lambda a, b: True}
FLOAT_CONDITIONS = {
    "f": lambda a, b: False, "lt": lambda a, b: a < b, "eq": lambda a, b: a == b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "lg": lambda a, b: a < b or a > b, "ge": lambda a, b: a >= b, "o": lambda a, b: a == a and b == b,
    "u": lambda a, b: a != a or b != b,
    "nge": lambda a, b: not a >= b, "nlg": lambda a, b: not (a < b or a > b), "ngt": lambda a, b: not a > b,
    "nle": lambda a, b: not a <= b,
    "neq": lambda a, b: not a == b, "nlt": lambda a, b: not a < b, "tru": lambda a, b: True}
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
        want = sum(bool(function(value(x, type_name), value(y, type_name))) << i for i,
            (x, y) in enumerate(zip(a, b)))
        for exec_mask in (ALL, SOME):
            state = run("gfx942",
                f"v_cmp_{condition}_{type_name}_e64 s[10:11], {operands}", v, exec=exec_mask)
            assert (state.s64(10), state.exec) == (want & exec_mask, exec_mask), condition
            state = run("gfx942", f"v_cmpx_{condition}_{type_name}_e32 vcc, {operands}", v, exec=exec_mask)
            assert (state.vcc, state.exec) == (want & exec_mask, want & exec_mask), condition


@pytest.mark.parametrize("fmt", ["f16", "f32", "f64"])
def test_compare_class(fmt: str) -> None:
    rng = random.Random(fmt)
    width, mantissa = bits_of(fmt), {"f16": 10, "f32": 23, "f64": 52}[fmt]
    infinity = (1 << width - 1) - (1 << mantissa)
    positive = {0: [infinity + 1], 1: [infinity | QUIET_BIT[fmt]], 9: [infinity],
        8: [1 << mantissa, infinity - 1], 7: [1, (1 << mantissa) - 1], 6: [0]}
    values = {x: c for c, xs in positive.items() for x in xs}
    values |= {x | 1 << width - 1: c if c < 2 else 11 - c for x, c in values.items()}
    column = (list(values) * WAVE)[:WAVE]
    for _ in range(4):
        masks = [rng.getrandbits(10) for _ in range(WAVE)]
        state = run("gfx942",
            f"v_cmp_class_{fmt} vcc, {name(0, fmt)}, v2", registers(column, fmt, 0, rng) | {2: masks})
        assert state.vcc == sum((m >> values[x] & 1) << i for i, (x, m) in enumerate(zip(column, masks)))


# --- carries and masks ---

def lane_bits(flags: list[bool]) -> int:
    return sum(bool(flag) << i for i, flag in enumerate(flags))


@pytest.mark.parametrize("exec_mask", [ALL, SOME])
def test_carries(exec_mask: int) -> None:
    rng = random.Random(1)
    a, b, mask = source("u32", rng), source("u32", rng), rng.getrandbits(64)
    for op, exact in {"add": lambda x, y, c: x + y + c, "sub": lambda x, y, c: x - y - c,
        "subrev": lambda x, y, c: y - x - c}.items():
        with_carry = {"add": "addc", "sub": "subb", "subrev": "subbrev"}[op]
        for text, carried in ((f"v_{op}_co_u32_e64 v2, s[8:9], v0, v1", 0),
            (f"v_{with_carry}_co_u32_e32 v2, vcc, v0, v1, vcc", mask)):
            state = run("gfx942", text, {0: a, 1: b}, vcc=mask, exec=exec_mask)
            results = [exact(x, y, carried >> i & 1) for i, (x, y) in enumerate(zip(a, b))]
            assert state.v[2] == [r & M32 if exec_mask >> i & 1 else POISON for i, r in enumerate(results)]
            carries = lane_bits([not 0 <= r <= M32 for r in results]) & exec_mask
            assert (state.s64(8) if "s[8:9]" in text else state.vcc) == carries


def test_mad_64_32() -> None:
    rng = random.Random(2)
    a, b, c = source("u32", rng), source("u32", rng), source("u64", rng)
    v = {0: a, 1: b} | registers(c, "u64", 2, rng)
    state = run("gfx942",
        "v_mad_u64_u32 v[4:5], s[8:9], v0, v1, v[2:3]\nv_mad_i64_i32 v[6:7], vcc, v0, v1, v[2:3]", v)
    for i in range(WAVE):
        unsigned, exact = a[i] * b[i] + c[i], signed(a[i], 32) * signed(b[i], 32) + signed(c[i], 64)
        assert state.v[4][i] | state.v[5][i] << 32 | (state.s64(8) >> i & 1) << 64 == unsigned
        assert state.v[6][i] | state.v[7][i] << 32 == exact & M64


def test_cndmask() -> None:
    rng = random.Random(3)
    a, b, mask = source("u32", rng), source("u32", rng), rng.getrandbits(64)
    picked = [y if mask >> i & 1 else x for i, (x, y) in enumerate(zip(a, b))]
    assert run("gfx942", "v_cndmask_b32_e32 v2, v0, v1, vcc", {0: a, 1: b}, vcc=mask).v[2] == picked
    state = run("gfx942",
        "v_cndmask_b32_e64 v2, -v0, |v1|, s[4:5]", {0: a, 1: b}, {4: mask & M32, 5: mask >> 32}, exec=SOME)
    wanted = [y & 0x7FFFFFFF if mask >> i & 1 else x ^ 0x80000000 for i, (x, y) in enumerate(zip(a, b))]
    assert state.v[2] == [w if SOME >> i & 1 else POISON for i, w in enumerate(wanted)]


# --- lanes ---

def test_lane_moves() -> None:
    v = {0: range(100, 164), 1: range(200, 264)}
    state = run("gfx942", """v_readlane_b32 s4, v0, 9
v_readlane_b32 s5, v0, s8
v_readfirstlane_b32 s6, v1
v_writelane_b32 v1, s8, 3
v_swap_b32 v0, v1""", v, {8: 70}, exec=0b1100)
    assert state.s[4:7] == [109, 106, 202]
    assert state.v[0][:5] == [100, 101, 202, 70, 104] and state.v[1][:5] == [200, 201, 102, 103, 204]
    state = run("gfx942", "v_mbcnt_lo_u32_b32 v2, -1, 0\nv_mbcnt_hi_u32_b32 v2, -1, v2", v)
    assert state.v[2] == list(range(64))
    state = run("gfx942",
        "v_accvgpr_write_b32 a1, v0\nv_accvgpr_mov_b32 a2, a1\nv_accvgpr_read_b32 v3, a2", v)
    assert state.v[3] == list(v[0])


@pytest.mark.parametrize("rows", [16, 32])
def test_permlane_swap(rows: int) -> None:
    a, b = list(range(100, 164)), list(range(200, 264))
    state = run("gfx950", f"v_permlane{rows}_swap_b32 v0, v1", {0: a, 1: b})
    for i in range(WAVE):
        assert state.v[0][i] == (b[i - rows] if i & rows else a[i])
        assert state.v[1][i] == (b[i] if i & rows else a[i + rows])


DPP = {
    "quad_perm:[3,0,0,1]": lambda i: i & ~3 | (3, 0, 0, 1)[i & 3],
    "row_shl:3": lambda i: i + 3 if (i & 15) + 3 < 16 else None,
    "row_shr:1": lambda i: i - 1 if i & 15 else None, "row_ror:5": lambda i: i & ~15 | (i - 5) & 15,
    "row_mirror": lambda i: i ^ 15,
    "row_half_mirror": lambda i: i ^ 7, "row_bcast:15": lambda i: (i & ~15) - 1 if i >= 16 else None,
    "row_bcast:31": lambda i: 31 if i >= 32 else None,
    "row_newbcast:7": lambda i: i & ~15 | 7, "wave_shr:1": lambda i: i - 1 if i else None,
    "wave_rol:1": lambda i: (i + 1) & 63}


@pytest.mark.parametrize("control", DPP)
@pytest.mark.parametrize("exec_mask", [ALL, SOME])
@pytest.mark.parametrize("masks", ["row_mask:0xf bank_mask:0xf", "row_mask:0xa bank_mask:0xf",
    "row_mask:0xf bank_mask:0x5 bound_ctrl:1"])
def test_dpp(control: str, exec_mask: int, masks: str) -> None:
    a, old = list(range(100, 164)), list(range(500, 564))
    state = run("gfx942",
        f"v_add_u32_dpp v2, v0, v1 {control} {masks}", {0: a, 1: [1000] * WAVE, 2: old}, exec=exec_mask)
    rows, banks = int(masks.split()[0][9:], 16), int(masks.split()[1][10:], 16)
    for i in range(WAVE):
        origin = DPP[control](i)
        valid = origin is not None and exec_mask >> origin & 1
        on = exec_mask >> i & rows >> (i >> 4) & banks >> (i >> 2 & 3) & 1 and (valid or "bound_ctrl" in masks)
        assert state.v[2][i] == ((a[origin] if valid else 0) + 1000 if on else old[i]), i


# --- modifiers ---

def test_source_and_output_modifiers() -> None:
    rng = random.Random(4)
    a, b = source("f32", rng), source("f32", rng)
    forms = {"-v0, v1": (-1, 1), "|v0|, -|v1|": (abs, lambda x: -abs(x))}
    for operands, (fa, fb) in forms.items():
        for suffix, after in (("", lambda x: x), ("mul:2", lambda x: 2 * x), ("mul:4", lambda x: 4 * x),
            ("div:2", lambda x: x / 2),
                              ("clamp", lambda x: min(1.0, x) if x > 0 else 0.0)):
            state = run("gfx942", f"v_add_f32_e64 v2, {operands} {suffix}", {0: a, 1: b})
            for i in range(WAVE):
                x, y = ((f * decode(bits, "f32") if isinstance(f, int) else f(decode(bits, "f32"))) for f,
                    bits in ((fa, a[i]), (fb, b[i])))
                want = encode(after(decode(encode(add(x, y), "f32"), "f32")), "f32")
                assert same(state.v[2][i], want, "f32"), (operands, suffix, i)


def test_sdwa() -> None:
    rng = random.Random(5)
    a, b, old = (source("u32", rng) for _ in range(3))

    def part(x: int, sel: str, sext: bool = False) -> int:
        width, k = {"B": (8, 8), "W": (16, 16), "D": (32, 0)}[sel[0]]
        y = x >> k * int(sel[-1] if k else 0) & (1 << width) - 1
        return signed(y, width) & M32 if sext else y
    for sel0, sel1 in (("BYTE_3", "DWORD"), ("WORD_1", "BYTE_0"), ("DWORD", "WORD_0")):
        selects = f"dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:{sel0} src1_sel:{sel1}"
        state = run("gfx942", f"v_add_u32_sdwa v2, v0, sext(v1) {selects}", {0: a, 1: b})
        assert state.v[2] == [part(x, sel0) + part(y, sel1, True) & M32 for x, y in zip(a, b)]
    for dst, unused, want in (("WORD_1", "PAD", lambda x, o: (x & 0xFFFF) << 16),
                              ("BYTE_1", "PRESERVE", lambda x, o: o & 0xFFFF00FF | (x & 0xFF) << 8),
                              ("BYTE_1", "SEXT", lambda x, o: (x & 0xFF) << 8 | (0xFFFF0000 if x & 0x80 else 0))):
        state = run("gfx942", f"v_mov_b32_sdwa v2, v0 dst_sel:{dst} dst_unused:UNUSED_{unused} src0_sel:WORD_0",
                    {0: a, 2: old})
        assert state.v[2] == [want(x, o) for x, o in zip(a, old)], unused
    state = run("gfx942", "v_cmp_eq_u16_sdwa s[4:5], v0, v1 src0_sel:WORD_1 src1_sel:WORD_0", {0: a, 1: b})
    assert state.s64(4) == lane_bits([x >> 16 == y & 0xFFFF for x, y in zip(a, b)])


def test_packed_selects() -> None:
    rng = random.Random(6)
    a, b = ([encode(rng.uniform(-9, 9), "f16") | encode(rng.uniform(-9, 9),
        "f16") << 16 for _ in range(WAVE)] for _ in range(2))

    def half(x: int, k: int) -> float:
        return decode(x >> 16 * k & 0xFFFF, "f16")
    state = run("gfx942", "v_pk_mul_f16 v2, v0, v1 op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[1,0]", {0: a, 1: b})
    for x, y, got in zip(a, b, state.v[2]):
        assert got == encode(-half(x, 1) * half(y, 0), "f16") | encode(half(x, 0) * half(y, 1), "f16") << 16
    state = run("gfx942", "v_pk_add_f16 v2, v0, 1.0 op_sel_hi:[1,0]", {0: a})
    assert state.v[2] == [encode(half(x, 0) + 1, "f16") | encode(half(x, 1) + 1, "f16") << 16 for x in a]
    state = run("gfx942",
        "v_pk_fma_f32 v[4:5], v[0:1], v[2:3], 1.0 op_sel:[0,1,0] op_sel_hi:[1,0,0] neg_hi:[1,0,0]",
                {0: [encode(2.0, "f32")] * WAVE, 1: [encode(3.0, "f32")] * WAVE,
                    2: [encode(5.0, "f32")] * WAVE, 3: [encode(7.0, "f32")] * WAVE})
    assert [decode(state.v[k][0], "f32") for k in (4, 5)] == [2 * 7 + 1, -3 * 5 + 1]
    state = run("gfx942", "v_mad_u16 v2, v0, v1, v1 op_sel:[1,0,1,1]", {0: a, 1: b, 2: [0x5555] * WAVE})
    assert state.v[2] == [(((x >> 16) * (y & 0xFFFF) + (y >> 16)) & 0xFFFF) << 16 | 0x5555 for x,
        y in zip(a, b)]


def test_fma_mix() -> None:
    rng = random.Random(7)
    h = [encode(rng.uniform(-9, 9), "f16") | encode(rng.uniform(-9, 9), "f16") << 16 for _ in range(WAVE)]
    f = [encode(rng.uniform(-9, 9), "f32") for _ in range(WAVE)]
    old = [rng.getrandbits(32) for _ in range(WAVE)]
    operands = "v0, -v1, |v0| op_sel:[1,0,0] op_sel_hi:[1,0,1]"
    state = run("gfx942",
        f"v_fma_mix_f32 v2, {operands}\nv_fma_mixlo_f16 v3, {operands}\nv_fma_mixhi_f16 v4, {operands}",
        {0: h, 1: f, 3: old, 4: old})
    for i in range(WAVE):
        want = encode(fma(decode(h[i] >> 16, "f16"), -decode(f[i], "f32"), abs(decode(h[i] & 0xFFFF, "f16"))),
            "f32")
        half = encode(decode(want, "f32"), "f16")
        assert (state.v[2][i], state.v[3][i], state.v[4][i]) == (want, old[i] & 0xFFFF0000 | half,
            old[i] & 0xFFFF | half << 16)


@pytest.mark.parametrize(("text", "want"), [
    ("v_add_u32 v0, 64, v1", 64 + 7), ("v_add_u32 v0, -16, v1", -16 + 7 & M32),
    ("v_add_u32 v0, 0xabcd1234, v1", 0xABCD1234 + 7),
    ("v_mov_b32 v0, 0.15915494", 0x3E22F983), ("v_mov_b32 v0, -4.0", 0xC0800000),
    ("v_cvt_f32_f16 v0, 1.0", 0x3F800000),
    ("v_cvt_f32_f64 v0, 0.5", 0x3F000000), ("v_cvt_f32_f64 v0, 0x40080000", 0x40400000),
    ("v_cvt_f32_f64 v0, s[4:5]", 0x40000000),
    ("v_add_u32 v0, s6, v1", 12), ("v_fmaak_f32 v0, 2.0, v2, 0x40400000", 0x40A00000),
    ("v_fmamk_f32 v0, 2.0, 0x40400000, v2", 0x40E00000),
])
def test_constants_and_scalars(text: str, want: int) -> None:
    assert run("gfx942", text, {1: [7] * WAVE, 2: [0x3F800000] * WAVE},
        {4: 0, 5: 0x40000000, 6: 5}).v[0] == [want] * WAVE


# --- mode ---

def test_f32_denormals_follow_the_mode() -> None:
    denormal, flush = 0x00400000, 0xC0
    v = {0: [denormal] * WAVE, 1: [0x3F800000] * WAVE, 2: [1] * WAVE, 3: [0] * WAVE}
    for text in ("v_mul_f32 v4, v0, v1", "v_add_f32 v4, v0, v3", "v_max_f32 v4, v0, v3",
        "v_fma_f32 v4, v0, v1, v3", "v_ldexp_f32 v4, v1, -127"):
        assert run("gfx942", text,
            v | {4: [9] * WAVE}).v[4][0] == (denormal if "ldexp" not in text else run("gfx942", text,
            v).v[4][0])
    for text in ("v_mul_f32 v4, v0, v1", "v_add_f32 v4, v0, v3", "v_max_f32 v4, v0, v3",
        "v_fma_f32 v4, v0, v1, v3"):
        assert run("gfx942", text, v, mode=flush).v[4][0] == 0
    # f64 and f16 denormals stay
    state = run("gfx942", "v_add_f64 v[4:5], v[2:3], v[2:3]\nv_add_f16 v6, v2, v2", v, mode=flush)
    assert (state.v[4][0], state.v[5][0], state.v[6][0]) == (2, 0, 2)


@pytest.mark.parametrize(("rounding", "sums"),
    [(0, (0x3F800000, 0xBF800000)), (1, (0x3F800001, 0xBF800000)), (2, (0x3F800000, 0xBF800001)),
                                                (3, (0x3F800000, 0xBF800000))])
def test_rounding_follows_the_mode(rounding: int, sums: tuple[int, int]) -> None:
    v = {0: [0x3F800000] * WAVE, 1: [0x33000000] * WAVE}
    state = run("gfx942", "v_add_f32 v2, v0, v1\nv_sub_f32 v3, -v0, v1", v, mode=0xF0 | rounding)
    assert (state.v[2][0], state.v[3][0]) == sums
    # the other field is that of f64 and f16: 1 + 2^-12 is half an f16 ulp of a half
    state = run("gfx942",
        "v_cvt_f16_f32 v2, v0", {0: [encode(1 + 2.0 ** -12, "f32")] * WAVE}, mode=0xF0 | rounding << 2)
    assert state.v[2][0] == (0x3C01 if rounding == 1 else 0x3C00)


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
        return rng.getrandbits(1) << bits_of(fmt) - 1 | rng.randint(0,
            top) << mantissa | rng.getrandbits(mantissa)
    for round_ in range(24):
        n, d = ([anywhere() for _ in range(WAVE)] for _ in range(2))
        if round_ < 8:
            n, d = source(fmt, rng), source(fmt, rng)
        elif round_ < 16:  # quotients about the smallest normal and the largest number
            target = 1 if round_ % 2 else top
            bias = top // 2
            for i in range(WAVE):
                e = rng.randint(1, top)
                f = min(top, max(0, e + target - bias + rng.randint(-3, 3)))
                d[i], n[i] = e << mantissa | rng.getrandbits(mantissa),
                f << mantissa | rng.getrandbits(mantissa)
        second = 1 if fmt == "f32" else 2
        state = run("gfx942", DIVIDE[fmt], registers(n, fmt, 0, rng) | registers(d, fmt, second, rng))
        for i in range(WAVE):
            want = encode(div(decode(n[i], fmt), decode(d[i], fmt)), fmt)
            got = sum(state.v[4 + k][i] << 32 * k for k in range(dwords(fmt)))
            assert same(got, want, fmt), f"{n[i]:#x} / {d[i]:#x} = {got:#x}, wanted {want:#x}"


def test_div_fixup_f16() -> None:
    one, two, inf, nan = 0x3C00, 0x4000, 0x7C00, 0x7E00
    rows = [(two, one, 0x8000 | two, 0xC000), (0, 0, one, inf), (0, inf, one, 0), (0, 0, 0, 0xFE00),
        (0, one, nan, nan), (0, inf, inf, 0xFE00)]
    columns = [[row[k] for row in rows] + [one] * (WAVE - len(rows)) for k in range(4)]
    assert run("gfx942",
        "v_div_fixup_legacy_f16 v3, v0, v1, v2",
        dict(enumerate(columns[:3]))).v[3][:len(rows)] == columns[3][:len(rows)]


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
    state = run("gfx942",
        "v_trig_preop_f64 v[4:5], v[0:1], v2",
        {0: [0] * WAVE, 1: [0x3FF << 20] * WAVE, 2: [i % 20 for i in range(WAVE)]})
    for i in range(20):
        piece = two_over_pi >> 1400 - 53 * (i + 1) & (1 << 53) - 1
        assert decode(state.v[4][i] | state.v[5][i] << 32, "f64") == piece * 2.0 ** (-53 * (i + 1))


# --- what is not supported is refused ---

@pytest.mark.parametrize("text", ["v_bogus_b32 v0, v1", "v_and_b32_e64 v0, v1, v2 clamp", "v_add_u32 v0, v1",
    "v_add_f64 v0, v[2:3], v[4:5]",
                                  "v_prng_b32 v0, v1", "v_add_f32 v0, v1, v2 fancy:1"])
def test_refusals(text: str) -> None:
    with pytest.raises(UnsupportedInstruction, match="v_"):
        run("gfx942", text)


def test_cases_are_distinct() -> None:
    repeated = [c for c, n in Counter((case.text, case.src,
        case.function) for case in CASES).items() if n > 1]
    assert not repeated
