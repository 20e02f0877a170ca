"""Single instructions that the tests by family leave out: scalar loads, LDS exchanges, cube maps.

Definitions are of AMD's CDNA3 ISA document; `python -m cdna coverage` says what is still untested.
"""

import ctypes
import random

import numpy as np
import pytest

from cdna.testing.snippet import run
from tests.support.exactfloat import fma
from tests.support.lane_check import check_lanes
from tests.support.valu_cases import Case, best, flushing, group, packed_group, positive_log2, power_of_two, propagating

LANES = range(64)


def words(rng: random.Random, n: int = 64) -> list[int]:
    return [rng.getrandbits(32) for _ in range(n)]


# --- vector instructions ---


def major(a: float, b: float, c: float) -> int:
    """The axis of a cube map's face: z before y before x where two are equal."""
    if abs(c) >= abs(a) and abs(c) >= abs(b):
        return 2
    return 1 if abs(b) >= abs(a) else 0


CASES: list[Case] = [
    *group("u32", "u32", {"v_mul_lo_i32": lambda a, b: a * b}),
    *packed_group("f16", {"v_pk_fmac_f16": lambda a, b, old: fma(a, b, old)}, old=True),
    *group(
        "f32", "f32", {"v_exp_legacy_f32": flushing(power_of_two), "v_log_legacy_f32": flushing(positive_log2)}, ulps=1
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_vector(case: Case) -> None:
    check_lanes(case)


@pytest.mark.parametrize(
    "arch, name, largest, count",
    [
        ("gfx942", "v_pk_min_f16", False, 2),
        ("gfx942", "v_pk_max_f16", True, 2),
        ("gfx950", "v_pk_minimum3_f16", False, 3),
        ("gfx950", "v_pk_maximum3_f16", True, 3),
    ],
)
def test_packed_extremes(arch: str, name: str, largest: bool, count: int) -> None:
    rng = random.Random(name)
    half = [0, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 1, 0x8001, 0x7BFF]
    pick = [
        [rng.choice(half) if rng.random() < 0.5 else rng.getrandbits(16) | 0x200 for _ in range(128)]
        for _ in range(count)
    ]
    v = {k: [p[2 * i] | p[2 * i + 1] << 16 for i in LANES] for k, p in enumerate(pick)}
    state = run(arch, f"{name} v8, " + ", ".join(f"v{k}" for k in range(count)), v=v)
    for i in range(128):
        one = best if count == 2 else propagating
        want = one(pick[0][i], pick[1][i], "f16", largest)
        if count == 3:
            want = one(want, pick[2][i], "f16", largest)
        got = state.v[8][i // 2] >> 16 * (i % 2) & 0xFFFF
        both_nan = got & 0x7FFF > 0x7C00 and want & 0x7FFF > 0x7C00
        assert got == want or both_nan, (i, [hex(p[i]) for p in pick], hex(got), hex(want))


@pytest.mark.parametrize("name", ["v_pk_add_f32", "v_pk_mul_f32"])
def test_packed_f32(name: str) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal((2, 64)).astype(np.float32) for _ in range(2))
    v = {2 * k + half: x[half].view(np.uint32).tolist() for k, x in enumerate((a, b)) for half in range(2)}
    state = run("gfx942", f"{name} v[4:5], v[0:1], v[2:3]", v=v)
    want = a + b if name == "v_pk_add_f32" else a * b
    assert state.v[4:6] == want.view(np.uint32).tolist()
    state = run("gfx942", f"{name} v[4:5], v[0:1], v[2:3] op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[0,1]", v=v)
    want = np.stack([a[1] - b[0], a[0] + b[1]] if name == "v_pk_add_f32" else [-a[1] * b[0], a[0] * b[1]])
    assert state.v[4:6] == want.view(np.uint32).tolist()


def test_cube_maps() -> None:
    """The face that a direction points at, the coordinates on it, and twice the major axis."""
    rng = np.random.default_rng(6)
    xyz = rng.integers(-3, 4, (3, 64)).astype(np.float32)  # small integers: ties between axes are frequent
    v = {k: xyz[k].view(np.uint32).tolist() for k in range(3)}
    got = {
        name: np.array(run("gfx942", f"v_cube{name}_f32 v4, v0, v1, v2", v=v).v[4], np.uint32).view(np.float32)
        for name in ("id", "sc", "tc", "ma")
    }
    for i in LANES:
        x, y, z = (float(c) for c in xyz[:, i])
        axis = major(x, y, z)
        chosen = (x, y, z)[axis]
        want = {
            "id": 2 * axis + (chosen < 0),
            "ma": 2 * chosen,
            "sc": [z if x < 0 else -z, x, -x if z < 0 else x][axis],
            "tc": [-y, -z if y < 0 else z, -y][axis],
        }
        assert {name: values[i] for name, values in got.items()} == want, (x, y, z)


@pytest.mark.parametrize(
    "arch, name, kind",
    [
        ("gfx942", "v_dot2c_f32_f16", "f16"),
        ("gfx950", "v_dot2c_f32_bf16", "bf16"),
        ("gfx950", "v_dot2_f32_bf16", "bf16"),
    ],
)
def test_dot2(arch: str, name: str, kind: str) -> None:
    """Small integers, whose products and sums are exact in any order."""
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-9, 10, (64, 2)) for _ in range(2))
    c = rng.integers(-99, 100, 64)

    def packed(x: np.ndarray) -> list[int]:
        bits: np.ndarray = (
            x.astype(np.float16).view(np.uint16) if kind == "f16" else (x.astype(np.float32).view(np.uint32) >> 16)
        ).astype(np.uint32)
        return (bits[:, 0] | bits[:, 1] << 16).tolist()

    v = {0: packed(a), 1: packed(b), 2: c.astype(np.float32).view(np.uint32).tolist()}
    state = run(arch, f"{name} v2, v0, v1" + ("" if "dot2c" in name else ", v2"), v=v)
    assert np.array(state.v[2], np.uint32).view(np.float32).tolist() == ((a * b).sum(1) + c).tolist()


@pytest.mark.parametrize("name, text", [("v_madak_f16", "v2, v0, v1, 0x4200"), ("v_madmk_f16", "v2, v0, 0x4200, v1")])
def test_f16_with_a_constant(name: str, text: str) -> None:
    rng = np.random.default_rng(8)
    a, b = (rng.standard_normal(64).astype(np.float16) for _ in range(2))
    state = run("gfx942", f"{name} {text}", v={0: a.view(np.uint16).tolist(), 1: b.view(np.uint16).tolist()})
    three = np.float16(3)
    want = a * b + three if name == "v_madak_f16" else a * three + b
    assert [x & 0xFFFF for x in state.v[2]] == want.view(np.uint16).tolist()


def test_pack_accumulates_a_byte() -> None:
    values = np.linspace(-5, 300, 64).astype(np.float32)
    old = words(random.Random(9))
    v = {0: values.view(np.uint32).tolist(), 1: [i % 4 for i in LANES], 2: old}
    got = run("gfx942", "v_cvt_pkaccum_u8_f32 v2, v0, v1", v=v).v[2]
    plain = run("gfx942", "v_cvt_pk_u8_f32 v3, v0, v1, v2", v=v).v[3]  # tested by value elsewhere
    assert got == plain


@pytest.mark.parametrize("fmt", ["f16", "f32", "f64"])
def test_cmpx_class(fmt: str) -> None:
    """As v_cmp_class, which is tested by value elsewhere, and the result is the new exec."""
    rng = random.Random(fmt)
    special = {
        "f16": [0x7C00, 0x7E00, 0, 1],
        "f32": [0x7F800000, 0x7FC00000, 0, 1],
        "f64": [0x7FF00000, 0x7FF80000, 0, 0x80000000],
    }[fmt]
    upper = [rng.choice(special) if i % 2 else rng.getrandbits(32) for i in LANES]
    v = {0: [0] * 64, 1: upper, 2: [rng.getrandbits(10) for _ in LANES]}
    operand = "v[0:1]" if fmt == "f64" else "v1"
    exec_mask = rng.getrandbits(64)
    want = run("gfx942", f"v_cmp_class_{fmt} vcc, {operand}, v2", v, exec=exec_mask).vcc
    state = run("gfx942", f"v_cmpx_class_{fmt} vcc, {operand}, v2", v, exec=exec_mask)
    assert state.exec == state.vcc == want and 0 < want < exec_mask


# --- LDS ---


@pytest.mark.parametrize(
    ("verb", "form"),
    [("cmpst", "b32"), ("cmpst", "b64"), ("cmpst", "f32"), ("cmpst", "f64"), ("mskor", "b32"), ("mskor", "b64")],
)
def test_lds_two_operand_atomics(verb: str, form: str) -> None:
    """cmpst: the first operand is compared with, the second stored. mskor: the first's bits are cleared first."""
    rng, size = random.Random(verb + form), int(form[1:]) // 8
    dtype = {"b32": np.uint32, "b64": np.uint64, "f32": np.float32, "f64": np.float64}[form]
    cells = np.array([rng.randrange(3) for _ in LANES], dtype)
    first, second = (np.array([rng.randrange(1, 9) if k else rng.randrange(3) for _ in LANES], dtype) for k in (0, 1))
    if form == "f32":
        cells[:2], first[:2] = [0.0, np.nan], [-0.0, np.nan]  # equal as numbers; never equal
    n = size // 4

    def columns(at: int, x: np.ndarray) -> dict[int, list[int]]:
        dwords: np.ndarray = x.view(np.uint32).reshape(64, n)
        return {at + k: dwords[:, k].tolist() for k in range(n)}

    span = ["v4", "v8", "v12"] if n == 1 else ["v[4:5]", "v[8:9]", "v[12:13]"]
    v = {0: [i * size for i in LANES], **columns(4, first), **columns(8, second)}
    want = np.where(cells == first, second, cells) if verb == "cmpst" else cells & ~first | second
    for rtn in ("", "_rtn"):
        out = f"{span[2]}, " if rtn else ""
        state = run("gfx942", f"ds_{verb}{rtn}_{form} {out}v0, {span[0]}, {span[1]}", v=v, lds=cells.tobytes())
        assert state.lds == want.tobytes()
        if rtn:
            assert state.v[12 : 12 + n] == [*columns(0, cells).values()]


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("form", ["", "2", "2st64"])
def test_lds_exchanges(form: str, size: int) -> None:
    rng, n = random.Random(f"{form}{size}"), size // 4
    unit = size * (64 if form == "2st64" else 1)
    places = [[0], [64 * size, 0], [unit, 0]][["", "2", "2st64"].index(form)]
    where = "" if not form else f" offset0:{places[0] // unit} offset1:0"
    lds = rng.randbytes(128 * size + 64 * size)
    v = {r: words(rng) for r in range(4, 4 + 2 * n)} | {0: [i * size for i in LANES]}
    data = [f"v{4 + k}" if n == 1 else f"v[{4 + 2 * k}:{5 + 2 * k}]" for k in range(len(places))]
    n_out = n * len(places)
    out = "v12" if n_out == 1 else f"v[12:{11 + n_out}]"
    state = run("gfx942", f"ds_wrxchg{form}_rtn_b{8 * size} {out}, v0, {', '.join(data)}{where}", v=v, lds=lds)
    after, returned = bytearray(lds), [[0] * 64 for _ in range(n_out)]
    for e, place in enumerate(places):
        for i in LANES:
            at = place + i * size
            for k in range(n):
                returned[e * n + k][i] = int.from_bytes(after[at + 4 * k : at + 4 * k + 4], "little")
                after[at + 4 * k : at + 4 * k + 4] = v[4 + e * n + k][i].to_bytes(4, "little")
    assert state.lds == bytes(after)
    assert state.v[12 : 12 + n_out] == returned


# --- scratch and scalar memory ---


def test_scratch_load_of_three() -> None:
    v = {r: words(random.Random(r)) for r in (4, 5, 6)}
    text = "scratch_store_dwordx3 off, v[4:6], off offset:4\nscratch_load_dwordx3 v[8:10], off, off offset:4"
    assert run("gfx942", text, v=v, scratch_bytes=16).v[8:11] == [v[4], v[5], v[6]]


@pytest.mark.parametrize("n", [1, 2, 4, 8, 16])
def test_scalar_loads(n: int) -> None:
    """Low address bits are dropped; a buffer's dwords past its records read zero."""
    rng = random.Random(n)
    content = words(rng, 40)
    memory = (ctypes.c_uint32 * 40)(*content)
    base = ctypes.addressof(memory)
    suffix, out = ("", "s16") if n == 1 else (f"x{n}", f"s[16:{15 + n}]")
    s = {4: base & 0xFFFFFFFF, 5: base >> 32, 6: 4 * (8 + n), 7: 0x27000, 10: 12}
    for address, first in (("0x20", 8), ("s10", 3), ("s10 offset:0x8", 5)):
        state = run("gfx942", f"s_load_dword{suffix} {out}, s[4:5], {address}", s=s)
        assert state.s[16 : 16 + n] == content[first : first + n]
        assert state.s[16 + n] != content[first + n]
    assert run("gfx942", f"s_buffer_load_dword{suffix} {out}, s[4:7], 0x20", s=s).s[16 : 16 + n] == content[8 : 8 + n]
    assert run("gfx942", f"s_buffer_load_dword{suffix} {out}, s[4:7], 0x80", s=s).s[16 : 16 + n] == [0] * n


# --- scalar instructions and what changes no register ---


@pytest.mark.parametrize(
    "text",
    (
        "s_nop 3; v_nop; ds_nop; s_barrier; s_sleep 1; s_setprio 2; s_sethalt 0; s_wakeup; s_icache_inv; "
        "s_dcache_inv; s_dcache_wb; buffer_inv sc1; buffer_wbl2 sc1; s_waitcnt vmcnt(0) lgkmcnt(0); "
        "s_dcache_inv_vol; s_dcache_wb_vol; s_dcache_discard s[4:5], 0x0; s_dcache_discard_x2 s[4:5], 0x0; "
        "s_incperflevel 1; s_decperflevel 1; v_clrexcp; s_ttracedata; s_sendmsg sendmsg(MSG_INTERRUPT)"
    ).split("; "),
)
def test_what_changes_no_register(text: str) -> None:
    v, s = {r: words(random.Random(r)) for r in range(3)}, {r: 7 * r + 1 for r in range(106)}
    state = run("gfx942", text, v=v, s=s, scc=1, vcc=9)
    assert state.v == [v[0], v[1], v[2]] and state.s[:106] == list(s.values())
    assert (state.scc, state.vcc, state.exec) == (1, 9, (1 << 64) - 1)


def test_gpr_idx_mode() -> None:
    text = """v_mov_b32_e32 v6, v6
s_set_gpr_idx_on s5, gpr_idx()
s_set_gpr_idx_mode gpr_idx(SRC0)
v_mov_b32_e32 v0, v1
s_set_gpr_idx_mode gpr_idx(DST)
v_mov_b32_e32 v4, v1
s_set_gpr_idx_off"""
    v = {r: [10 * r] * 64 for r in range(7)}
    state = run("gfx942", text, v=v, s={5: 2})
    assert (state.v[0][0], state.v[4][0], state.v[6][0]) == (30, 40, 10)


def test_end_of_program() -> None:
    assert run("gfx942", "s_mov_b32 s4, 1\ns_endpgm\ns_mov_b32 s4, 2").s[4] == 1


def test_clocks_count_what_is_executed() -> None:
    end = "s_nop 9\ns_sleep 3\ns_memtime s[6:7]\ns_memrealtime s[8:9]"
    state = run("gfx942", "s_memtime s[4:5]\n" + "v_exp_f32 v0, v0\n" * 100 + end)
    # 16 cycles each on the quarter-rate unit, 10 times 4, three times 64 and the sleep's own, the clock's own
    assert state.s64(6) - state.s64(4) == 100 * 16 + 40 + 3 * 64 + 4 + 4
    assert state.s64(8) == (state.s64(6) + 4) * 100 // 2100
    assert run("gfx942", "s_memtime s[4:5]").s64(4) > state.s64(6)  # it goes on


def test_scalar_conditional_moves_and_bits() -> None:
    for scc in (0, 1):
        assert run("gfx942", "s_cmov_b32 s4, s5", s={4: 1, 5: 2}, scc=scc).s[4] == 1 + scc
        state = run("gfx942", "s_cmov_b64 s[4:5], s[6:7]", s={4: 1, 5: 1, 6: 2, 7: 2}, scc=scc)
        assert state.s[4:6] == [1 + scc] * 2
    x = 0x8000_0021_1234_5678
    pair = {4: x & 0xFFFFFFFF, 5: x >> 32}
    for bit in (0, 3, 31, 32, 37, 63, 64 + 3):
        s = pair | {6: bit}
        assert run("gfx942", "s_bitcmp1_b64 s[4:5], s6", s=s).scc == x >> (bit & 63) & 1
        assert run("gfx942", "s_bitcmp0_b32 s4, s6", s=s).scc == 1 - (x >> (bit & 31) & 1)
        assert run("gfx942", "s_bitset1_b64 s[4:5], s6", s=s).s64(4) == x | 1 << (bit & 63)
        assert run("gfx942", "s_bitset0_b32 s4, s6", s=s).s[4] == x & 0xFFFFFFFF & ~(1 << (bit & 31))


def test_relative_scalar_registers() -> None:
    s = {124: 4, 10: 1, 14: 2, 15: 3, 20: 5, 21: 6}
    assert run("gfx942", "s_movrels_b64 s[30:31], s[10:11]", s=s).s[30:32] == [2, 3]
    assert run("gfx942", "s_movreld_b32 s10, s20", s=s).s[14] == 5


def test_mode_is_set_from_a_register() -> None:
    state = run(
        "gfx942",
        "s_setreg_b32 hwreg(HW_REG_MODE, 4, 4), s4\ns_getreg_b32 s5, hwreg(HW_REG_MODE, 0, 8)",
        s={4: 0x3A5},
        mode=0xF3,
    )
    assert state.s[5] == 0x53


def test_div_fixup_keeps_the_upper_half() -> None:
    """The results of v_div_fixup_legacy_f16, tested by value elsewhere, without its zeros above."""
    rng = random.Random(12)
    v = {r: words(rng) for r in range(4)}
    legacy = run("gfx942", "v_div_fixup_legacy_f16 v3, v0, v1, v2", v=v).v[3]
    got = run("gfx942", "v_div_fixup_f16 v3, v0, v1, v2", v=v).v[3]
    assert got == [x & 0xFFFF | old & 0xFFFF0000 for x, old in zip(legacy, v[3])]


def test_index_of_relative_registers() -> None:
    text = """v_mov_b32_e32 v4, v4
s_set_gpr_idx_on s5, gpr_idx(SRC0)
s_set_gpr_idx_idx s6
v_mov_b32_e32 v0, v1
s_set_gpr_idx_off"""
    v = {r: [100 * r] * 64 for r in range(5)}
    assert run("gfx942", text, v, s={5: 1, 6: 3}).v[0] == [400] * 64
