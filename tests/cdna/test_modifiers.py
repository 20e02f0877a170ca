"""Operand and instruction modifiers, constants, and the MODE register on the emulated device."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from cdna.binary.operands import TYPES
from cdna.cards import ARCHS
from cdna.errors import UnsupportedInstruction
from cdna.testing.snippet import DEFAULT_MODE, State, run
from tests.support.exactfloat import add, decode, encode, fma
from tests.support.inline_constants import APART, FIRST, forms, line
from tests.support.valu_cases import M32, signed
from tests.support.valu_inputs import ALL, SOME, WAVE, lane_bits, same, source

# control -> source lane of a lane, None where there is none
DPP: dict[str, Callable[[int], int | None]] = {
    "quad_perm:[3,0,0,1]": lambda i: i & ~3 | (3, 0, 0, 1)[i & 3],
    "row_shl:3": lambda i: i + 3 if (i & 15) + 3 < 16 else None,
    "row_shr:1": lambda i: i - 1 if i & 15 else None,
    "row_ror:5": lambda i: i & ~15 | (i - 5) & 15,
    "row_mirror": lambda i: i ^ 15,
    "row_half_mirror": lambda i: i ^ 7,
    "row_bcast:15": lambda i: (i & ~15) - 1 if i >= 16 else None,
    "row_bcast:31": lambda i: 31 if i >= 32 else None,
    "row_newbcast:7": lambda i: i & ~15 | 7,
    "wave_shr:1": lambda i: i - 1 if i else None,
    "wave_rol:1": lambda i: (i + 1) & 63,
}


@pytest.mark.parametrize("control", DPP)
@pytest.mark.parametrize("exec_mask", [ALL, SOME])
@pytest.mark.parametrize(("rows", "banks", "zero"), [(15, 15, False), (10, 15, False), (15, 5, True)])
def test_dpp(control: str, exec_mask: int, rows: int, banks: int, zero: bool) -> None:
    a, old = list(range(100, 164)), list(range(500, 564))
    modifiers = f"{control} row_mask:{rows:#x} bank_mask:{banks:#x}" + (" bound_ctrl:1" if zero else "")
    v = {0: a, 1: [1000] * WAVE, 2: old}
    state = run("gfx942", f"v_add_u32_dpp v2, v0, v1 {modifiers}", v, exec=exec_mask)
    for i in range(WAVE):
        origin = DPP[control](i)
        valid = origin is not None and exec_mask >> origin & 1
        on = exec_mask >> i & rows >> (i >> 4) & banks >> (i >> 2 & 3) & 1 and (valid or zero)
        moved = a[origin] if valid and origin is not None else 0
        assert state.v[2][i] == (moved + 1000 if on else old[i]), i


def test_source_modifiers() -> None:
    rng = random.Random(4)
    a, b = source("f32", rng), source("f32", rng)
    for operands, first, second in (("-v0, v1", lambda x: -x, lambda x: x), ("|v0|, -|v1|", abs, lambda x: -abs(x))):
        state = run("gfx942", f"v_add_f32_e64 v2, {operands}", {0: a, 1: b})
        for x, y, got in zip(a, b, state.v[2]):
            assert same(got, encode(add(first(decode(x, "f32")), second(decode(y, "f32"))), "f32"), "f32"), operands


def scaled(x: np.ndarray, factor: float) -> np.ndarray:
    least = np.finfo(x.dtype).smallest_normal
    once = np.where(np.abs(x) < least, x.dtype.type(0), x) * x.dtype.type(factor)
    return np.where(np.abs(once) < least, x.dtype.type(0), once)


def clamped(x: np.ndarray, keeps_nan: bool) -> np.ndarray:
    zero = x.dtype.type(0)
    return np.where(np.isnan(x), x if keeps_nan else zero, np.clip(x, 0, 1) + zero)


DX10_CLAMP, IEEE = 1 << 8, 1 << 9
OUTPUTS: list[tuple[str, int, Callable[[np.ndarray], np.ndarray]]] = [
    ("mul:2", DEFAULT_MODE, lambda x: x),  # kernels keep denormals
    ("mul:4", DEFAULT_MODE & ~IEEE, lambda x: x),
    ("mul:2", IEEE, lambda x: x),
    ("mul:2", 0x50, lambda x: scaled(x, 2)),  # of operands alone
    ("mul:2", 0x20, lambda x: x if x.dtype == np.float32 else scaled(x, 2)),  # of f32 alone
    ("mul:4", 0x80, lambda x: scaled(x, 4) if x.dtype == np.float32 else x),  # of f16 and f64 alone
    ("mul:4", 0, lambda x: scaled(x, 4)),
    ("div:2", 0, lambda x: scaled(x, 0.5)),
    ("clamp", DEFAULT_MODE, lambda x: clamped(x, False)),
    ("clamp", DEFAULT_MODE & ~DX10_CLAMP, lambda x: clamped(x, True)),
    ("mul:4 clamp", 0, lambda x: clamped(scaled(x, 4), True)),
]
FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "p16": np.float16, "p32": np.float32}


def floats(kind: str, state: State) -> np.ndarray:
    """[lane][number] of the first operand of `line`."""
    registers = np.array(state.v[FIRST : FIRST + TYPES[kind][0]], np.uint32)
    return np.ascontiguousarray(registers.T).view(FLOATS[kind])


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_output_modifiers(arch: str) -> None:
    """Of every instruction with a float result: they change the result as MODE says, or are refused."""
    rng = np.random.default_rng(4)
    pairs = rng.integers(0, 1 << 32, (64, WAVE), np.uint32)
    pairs[:, ::3] = rng.normal(size=pairs[:, ::3].shape).astype(np.float32).view(np.uint32)
    pairs[:, 1::3] = rng.normal(size=(64, 2 * pairs[:, 1::3].shape[1])).astype(np.float16).view(np.uint32)
    taken, wrong = set(), set()
    for form in forms(arch):
        kind = form.results[0] if form.results else ""
        if kind not in FLOATS or form.is_matrix:
            continue
        v = {
            FIRST + APART * place + r: pairs[8 * place + r].tolist()
            for place, name in enumerate((*form.results, *form.sources))
            for r in range(TYPES[name][0])
        }
        for words, mode, after in OUTPUTS:
            try:
                got = floats(kind, run(arch, f"{line(form)} {words}", v, mode=mode))
            except UnsupportedInstruction:
                assert kind[0] == "p" or "mul" in words or "div" in words, form
                continue
            want = floats(kind, run(arch, line(form), v, mode=mode))
            halves = slice(form.name == "v_fma_mixhi_f16", None, 2) if kind == "f16" else slice(None)
            want[:, halves] = after(want[:, halves])
            taken.add(form.name)
            if not (np.isnan(got) & np.isnan(want) | (got == want) & (np.signbit(got) == np.signbit(want))).all():
                wrong.add((form.name, words, hex(mode)))
    assert not sorted(wrong)
    assert len(taken) > 110


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
    for dst, unused, want in (
        ("WORD_1", "PAD", lambda x, o: (x & 0xFFFF) << 16),
        ("BYTE_1", "PRESERVE", lambda x, o: o & 0xFFFF00FF | (x & 0xFF) << 8),
        ("BYTE_1", "SEXT", lambda x, o: (x & 0xFF) << 8 | (0xFFFF0000 if x & 0x80 else 0)),
    ):
        text = f"v_mov_b32_sdwa v2, v0 dst_sel:{dst} dst_unused:UNUSED_{unused} src0_sel:WORD_0"
        assert run("gfx942", text, {0: a, 2: old}).v[2] == [want(x, o) for x, o in zip(a, old)], unused
    state = run("gfx942", "v_cmp_eq_u16_sdwa s[4:5], v0, v1 src0_sel:WORD_1 src1_sel:WORD_0", {0: a, 1: b})
    assert state.s64(4) == lane_bits(x >> 16 == y & 0xFFFF for x, y in zip(a, b))


def moderate(fmt: str, rng: random.Random) -> int:
    return encode(rng.uniform(-9, 9), fmt)


def test_packed_selects() -> None:
    rng = random.Random(6)
    a, b = ([moderate("f16", rng) | moderate("f16", rng) << 16 for _ in range(WAVE)] for _ in range(2))

    def half(x: int, k: int) -> float:
        return decode(x >> 16 * k & 0xFFFF, "f16")

    state = run("gfx942", "v_pk_mul_f16 v2, v0, v1 op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[1,0]", {0: a, 1: b})
    for x, y, got in zip(a, b, state.v[2]):
        assert got == encode(-half(x, 1) * half(y, 0), "f16") | encode(half(x, 0) * half(y, 1), "f16") << 16
    state = run("gfx942", "v_pk_add_f16 v2, v0, 1.0 op_sel_hi:[1,0]", {0: a})
    assert state.v[2] == [encode(half(x, 0) + 1, "f16") | encode(half(x, 1) + 1, "f16") << 16 for x in a]
    state = run("gfx942", "v_mad_u16 v2, v0, v1, v1 op_sel:[1,0,1,1]", {0: a, 1: b, 2: [0x5555] * WAVE})
    for x, y, got in zip(a, b, state.v[2]):
        assert got == ((x >> 16) * (y & 0xFFFF) + (y >> 16) & 0xFFFF) << 16 | 0x5555
    v = {k: [encode(x, "f32")] * WAVE for k, x in enumerate((2.0, 3.0, 5.0, 7.0))}
    selects = "op_sel:[0,1,0] op_sel_hi:[1,0,0] neg_hi:[1,0,0]"
    state = run("gfx942", f"v_pk_fma_f32 v[4:5], v[0:1], v[2:3], 1.0 {selects}", v)
    assert [decode(state.v[k][0], "f32") for k in (4, 5)] == [2 * 7 + 1, -3 * 5 + 1]


def test_dot_of_packed_floats() -> None:
    """v_dot2_f32_f16 selects halves of its packed sources only; the f32 addend is negated by neg_lo."""
    v = {
        0: [encode(2.0, "f16") | encode(3.0, "f16") << 16] * WAVE,
        1: [encode(5.0, "f16") | encode(7.0, "f16") << 16] * WAVE,
        2: [encode(100.0, "f32")] * WAVE,
    }
    for modifiers, want in (
        ("", 2 * 5 + 3 * 7 + 100),
        ("op_sel:[0,1,0] op_sel_hi:[1,0,1]", 2 * 7 + 3 * 5 + 100),
        ("neg_lo:[1,0,1] neg_hi:[0,1,0]", -2 * 5 - 3 * 7 - 100),
    ):
        assert decode(run("gfx942", f"v_dot2_f32_f16 v3, v0, v1, v2 {modifiers}", v).v[3][0], "f32") == want


def test_dot_of_packed_bf16_leaves_its_addend_alone() -> None:
    v = {0: [0x40404000] * WAVE, 1: [0x40E040A0] * WAVE, 2: [encode(100.0, "f32")] * WAVE}  # 2 and 3, 5 and 7
    state = run("gfx950", "v_dot2_f32_bf16 v3, v0, v1, v2 neg_lo:[1,0,1] neg_hi:[0,0,1]", v)
    assert decode(state.v[3][0], "f32") == -2 * 5 + 3 * 7 + 100


def test_fma_mix() -> None:
    rng = random.Random(7)
    h = [moderate("f16", rng) | moderate("f16", rng) << 16 for _ in range(WAVE)]
    f = [moderate("f32", rng) for _ in range(WAVE)]
    old = [rng.getrandbits(32) for _ in range(WAVE)]
    operands = "v0, -v1, |v0| op_sel:[1,0,0] op_sel_hi:[1,0,1]"
    text = f"v_fma_mix_f32 v2, {operands}\nv_fma_mixlo_f16 v3, {operands}\nv_fma_mixhi_f16 v4, {operands}"
    state = run("gfx942", text, {0: h, 1: f, 3: old, 4: old})
    for i in range(WAVE):
        high, low = decode(h[i] >> 16, "f16"), decode(h[i] & 0xFFFF, "f16")
        want = encode(fma(high, -decode(f[i], "f32"), abs(low)), "f32")
        half = encode(decode(want, "f32"), "f16")
        assert state.v[2][i] == want
        assert state.v[3][i] == old[i] & 0xFFFF0000 | half and state.v[4][i] == old[i] & 0xFFFF | half << 16


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("v_add_u32 v0, 64, v1", 64 + 7),
        ("v_add_u32 v0, -16, v1", -16 + 7 & M32),
        ("v_add_u32 v0, 0xabcd1234, v1", 0xABCD1234 + 7),
        ("v_add_u32 v0, s6, v1", 5 + 7),
        ("v_mov_b32 v0, 0.15915494", 0x3E22F983),
        ("v_mov_b32 v0, -4.0", 0xC0800000),
        ("v_cvt_f32_f16 v0, 1.0", 0x3F800000),
        ("v_cvt_f32_f64 v0, 0.5", 0x3F000000),
        ("v_cvt_f32_f64 v0, 0x40080000", 0x40400000),
        ("v_cvt_f32_f64 v0, s[4:5]", 0x40000000),
        ("v_fmaak_f32 v0, 2.0, v2, 0x40400000", 0x40A00000),
        ("v_fmamk_f32 v0, 2.0, 0x40400000, v2", 0x40E00000),
    ],
)
def test_constants_and_scalars(text: str, want: int) -> None:
    state = run("gfx942", text, {1: [7] * WAVE, 2: [0x3F800000] * WAVE}, {4: 0, 5: 0x40000000, 6: 5})
    assert state.v[0] == [want] * WAVE


FLUSH_F32 = 0xC0  # MODE: f32 denormals flushed, those of f64 and f16 kept


@pytest.mark.parametrize(
    "text",
    [
        "v_mul_f32 v4, v0, v1",
        "v_add_f32 v4, v0, v3",
        "v_max_f32 v4, v0, v3",
        "v_fma_f32 v4, v0, v1, v3",
        "v_ldexp_f32 v4, v1, -127",
    ],
)
def test_f32_denormals_follow_the_mode(text: str) -> None:
    denormal = 0x00400000
    v = {0: [denormal] * WAVE, 1: [0x3F800000] * WAVE, 3: [0] * WAVE}
    assert run("gfx942", text, v).v[4] == [denormal] * WAVE
    assert run("gfx942", text, v, mode=FLUSH_F32).v[4] == [0] * WAVE


@pytest.mark.parametrize("arch", ARCHS)
def test_halves_of_mixed_products_follow_the_mode_of_f32(arch: str) -> None:
    """As measured on gfx90a and gfx950; those of dot products stay, as measured on gfx950."""
    mixed, dot = "v_fma_mix_f32 v2, v0, v1, 0 op_sel_hi:[1,1,0]", "v_dot2_f32_f16 v2, v0, v1, 0"
    v = {0: [0x8001] * WAVE, 1: [0x0400] * WAVE}
    got = [run(arch, text, v, mode=mode).v[2][0] for text in (mixed, dot) for mode in (DEFAULT_MODE, FLUSH_F32)]
    assert got == [0xAC800000, 0, 0xAC800000, 0xAC800000]


def test_other_denormals_stay() -> None:
    text = "v_add_f64 v[4:5], v[2:3], v[2:3]\nv_add_f16 v6, v2, v2\nv_cmp_gt_f64 vcc, v[2:3], 0"
    state = run("gfx942", text, {2: [1] * WAVE, 3: [0] * WAVE}, mode=FLUSH_F32)
    assert (state.v[4][0], state.v[5][0], state.v[6][0], state.vcc) == (2, 0, 2, ALL)


@pytest.mark.parametrize(
    ("rounding", "up", "down"),
    [
        (0, 0x3F800000, 0xBF800000),
        (1, 0x3F800001, 0xBF800000),
        (2, 0x3F800000, 0xBF800001),
        (3, 0x3F800000, 0xBF800000),
    ],
)
def test_rounding_follows_the_mode(rounding: int, up: int, down: int) -> None:
    v = {0: [0x3F800000] * WAVE, 1: [0x33000000] * WAVE, 2: [encode(1 + 2.0**-12, "f32")] * WAVE}
    state = run("gfx942", "v_add_f32 v3, v0, v1\nv_sub_f32 v4, -v0, v1", v, mode=0xF0 | rounding)
    assert (state.v[3][0], state.v[4][0]) == (up, down)
    # f64 and f16 have a field of their own; 1 + 2^-12 lies a quarter of the way to the next f16
    state = run("gfx942", "v_cvt_f16_f32 v3, v2", v, mode=0xF0 | rounding << 2)
    assert state.v[3][0] == (0x3C01 if rounding == 1 else 0x3C00)
    v = {k: [encode(x, "f32")] * WAVE for k, x in enumerate((2.5, 3.5))}
    state = run("gfx942", "v_cvt_pk_u8_f32 v2, v0, 1, 0\nv_cvt_pk_u8_f32 v2, v1, 0, v2", v, mode=0xF0 | rounding)
    assert state.v[2][0] == (0x204, 0x304, 0x203, 0x203)[rounding]
    v = {0: [0x3F55A0AB] * WAVE, 1: [0x3F006601] * WAVE}  # less than an f32's step from 27343.5 and 16434.5
    state = run("gfx942", "v_cvt_pknorm_i16_f32 v2, v0, v1", v, mode=0xF0 | rounding)
    assert state.v[2][0] == 16435 << 16 | 27343


@pytest.mark.parametrize(
    "text",
    [
        "v_bogus_b32 v0, v1",
        "v_and_b32_e64 v0, v1, v2 clamp",
        "v_add_u32 v0, v1",
        "v_add_f64 v0, v[2:3], v[4:5]",
        "v_prng_b32 v0, v1",
        "v_add_f32 v0, v1, v2 fancy:1",
        "v_pk_mul_f32 v[0:1], v[2:3], v[4:5] mul:2",
        "v_fma_mix_f32 v0, v1, v2, v3 mul:2",
    ],
)
def test_what_is_not_supported_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedInstruction, match="v_"):
        run("gfx942", text)
