"""Scalar arithmetic, logic, compares, exec masks and program flow of the emulated device, against Python.

A definition takes the sources (unsigned of their width) and SCC, and gives (result, SCC); an SCC of None is
left as it was.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

from cdna.errors import KernelFault
from cdna.testing.snippet import run
from tests.support.valu_cases import M32, M64, leading, signed
from tests.support.valu_inputs import EDGES, WAVE

Definition = Callable[..., tuple[int, "int | bool | None"]]


def s32(x: int) -> int:
    return signed(x & M32, 32)


def s64(x: int) -> int:
    return signed(x & M64, 64)


def nonzero(x: int, mask: int) -> tuple[int, bool]:
    """A result that also sets SCC if it is not zero."""
    return x & mask, x & mask != 0


def overflowing(exact: int) -> tuple[int, bool]:
    return exact & M32, s32(exact) != exact


def carrying(exact: int) -> tuple[int, bool]:
    return exact & M32, not 0 <= exact <= M32


def field(x: int, control: int, width: int, sign: bool) -> tuple[int, bool]:
    offset, size = control & width - 1, min(control >> 16 & 127, width)
    bits = x >> offset & (1 << size) - 1
    if sign and size and offset + size <= width:
        bits = signed(bits, size)
    elif sign and size:  # a field that leaves the register is as wide as what is left of it
        bits = signed(bits, width - offset)
    return nonzero(bits, (1 << width) - 1)


def first(x: int, width: int, bit: int) -> int:
    return next((i for i in range(width) if x >> i & 1 == bit), -1)


def sign_run(x: int, width: int) -> int:
    return leading(x ^ (signed(x, width) >> width - 1) & (1 << width) - 1, width)


def quads(x: int, width: int) -> list[bool]:
    return [bool(x >> 4 * k & 15) for k in range(width // 4)]


def logic(width: int) -> dict[str, Definition]:
    mask = (1 << width) - 1
    ops: dict[str, Callable[[int, int], int]] = {
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "andn2": lambda a, b: a & ~b,
        "orn2": lambda a, b: a | ~b,
        "nand": lambda a, b: ~(a & b),
        "nor": lambda a, b: ~(a | b),
        "xnor": lambda a, b: ~(a ^ b),
    }
    return {f"s_{name}_b{width}": lambda a, b, scc, op=op: nonzero(op(a, b), mask) for name, op in ops.items()}


# operand widths (result first) -> instruction -> definition
OPS: dict[str, dict[str, Definition]] = {
    "32 32": {
        "s_mov_b32": lambda a, scc: (a, None),
        "s_not_b32": lambda a, scc: nonzero(~a, M32),
        "s_brev_b32": lambda a, scc: (int(f"{a:032b}"[::-1], 2), None),
        "s_bcnt0_i32_b32": lambda a, scc: nonzero(32 - a.bit_count(), M32),
        "s_bcnt1_i32_b32": lambda a, scc: nonzero(a.bit_count(), M32),
        "s_ff0_i32_b32": lambda a, scc: (first(a, 32, 0), None),
        "s_ff1_i32_b32": lambda a, scc: (first(a, 32, 1), None),
        "s_flbit_i32_b32": lambda a, scc: (leading(a), None),
        "s_flbit_i32": lambda a, scc: (sign_run(a, 32), None),
        "s_sext_i32_i8": lambda a, scc: (signed(a & 255, 8), None),
        "s_sext_i32_i16": lambda a, scc: (signed(a & 0xFFFF, 16), None),
        "s_abs_i32": lambda a, scc: nonzero(abs(s32(a)), M32),
        "s_quadmask_b32": lambda a, scc: nonzero(sum(q << k for k, q in enumerate(quads(a, 32))), M32),
        "s_wqm_b32": lambda a, scc: nonzero(sum(15 * q << 4 * k for k, q in enumerate(quads(a, 32))), M32),
    },
    "64 64": {
        "s_mov_b64": lambda a, scc: (a, None),
        "s_not_b64": lambda a, scc: nonzero(~a, M64),
        "s_brev_b64": lambda a, scc: (int(f"{a:064b}"[::-1], 2), None),
        "s_quadmask_b64": lambda a, scc: nonzero(sum(q << k for k, q in enumerate(quads(a, 64))), M64),
        "s_wqm_b64": lambda a, scc: nonzero(sum(15 * q << 4 * k for k, q in enumerate(quads(a, 64))), M64),
    },
    "32 64": {
        "s_bcnt0_i32_b64": lambda a, scc: nonzero(64 - a.bit_count(), M32),
        "s_bcnt1_i32_b64": lambda a, scc: nonzero(a.bit_count(), M32),
        "s_ff0_i32_b64": lambda a, scc: (first(a, 64, 0), None),
        "s_ff1_i32_b64": lambda a, scc: (first(a, 64, 1), None),
        "s_flbit_i32_b64": lambda a, scc: (leading(a, 64), None),
        "s_flbit_i32_i64": lambda a, scc: (sign_run(a, 64), None),
    },
    "64 32": {"s_bitreplicate_b64_b32": lambda a, scc: (sum((a >> k & 1) * 3 << 2 * k for k in range(32)), None)},
    "32 32 32": {
        **logic(32),
        "s_add_u32": lambda a, b, scc: carrying(a + b),
        "s_sub_u32": lambda a, b, scc: carrying(a - b),
        "s_addc_u32": lambda a, b, scc: carrying(a + b + scc),
        "s_subb_u32": lambda a, b, scc: carrying(a - b - scc),
        "s_add_i32": lambda a, b, scc: overflowing(s32(a) + s32(b)),
        "s_sub_i32": lambda a, b, scc: overflowing(s32(a) - s32(b)),
        "s_mul_i32": lambda a, b, scc: (a * b, None),
        "s_mul_hi_u32": lambda a, b, scc: (a * b >> 32, None),
        "s_mul_hi_i32": lambda a, b, scc: (s32(a) * s32(b) >> 32, None),
        "s_min_i32": lambda a, b, scc: (min(s32(a), s32(b)), s32(a) < s32(b)),
        "s_max_i32": lambda a, b, scc: (max(s32(a), s32(b)), s32(a) >= s32(b)),
        "s_min_u32": lambda a, b, scc: (min(a, b), a < b),
        "s_max_u32": lambda a, b, scc: (max(a, b), a >= b),
        "s_cselect_b32": lambda a, b, scc: (a if scc else b, None),
        "s_lshl_b32": lambda a, b, scc: nonzero(a << (b & 31), M32),
        "s_lshr_b32": lambda a, b, scc: nonzero(a >> (b & 31), M32),
        "s_ashr_i32": lambda a, b, scc: nonzero(s32(a) >> (b & 31), M32),
        "s_bfm_b32": lambda a, b, scc: (((1 << (a & 31)) - 1) << (b & 31), None),
        "s_bfe_u32": lambda a, b, scc: field(a, b, 32, False),
        "s_bfe_i32": lambda a, b, scc: field(a, b, 32, True),
        "s_absdiff_i32": lambda a, b, scc: nonzero(abs(s32(a - b)), M32),
        "s_lshl1_add_u32": lambda a, b, scc: carrying(2 * a + b),
        "s_lshl2_add_u32": lambda a, b, scc: carrying(4 * a + b),
        "s_lshl3_add_u32": lambda a, b, scc: carrying(8 * a + b),
        "s_lshl4_add_u32": lambda a, b, scc: carrying(16 * a + b),
        "s_pack_ll_b32_b16": lambda a, b, scc: (a & 0xFFFF | b << 16, None),
        "s_pack_lh_b32_b16": lambda a, b, scc: (a & 0xFFFF | b & 0xFFFF0000, None),
        "s_pack_hh_b32_b16": lambda a, b, scc: (a >> 16 | b & 0xFFFF0000, None),
    },
    "64 64 64": {**logic(64), "s_cselect_b64": lambda a, b, scc: (a if scc else b, None)},
    "64 64 32": {
        "s_lshl_b64": lambda a, b, scc: nonzero(a << (b & 63), M64),
        "s_lshr_b64": lambda a, b, scc: nonzero(a >> (b & 63), M64),
        "s_ashr_i64": lambda a, b, scc: nonzero(s64(a) >> (b & 63), M64),
        "s_bfe_u64": lambda a, b, scc: field(a, b, 64, False),
        "s_bfe_i64": lambda a, b, scc: field(a, b, 64, True),
    },
    "64 32 32": {"s_bfm_b64": lambda a, b, scc: (((1 << (a & 63)) - 1) << (b & 63), None)},
}
CASES = [(widths, name) for widths, ops in OPS.items() for name in ops]


def value(width: int, rng: random.Random) -> int:
    return rng.choice(EDGES[f"u{width}"]) if rng.random() < 0.5 else rng.getrandbits(width)


def pair(register: int, x: int) -> dict[int, int]:
    return {register: x & M32, register + 1: x >> 32}


def name_of(register: int, width: int) -> str:
    return f"s{register}" if width == 32 else f"s[{register}:{register + 1}]"


@pytest.mark.parametrize(("widths", "name"), CASES, ids=[name for _, name in CASES])
def test_instruction(widths: str, name: str) -> None:
    rng = random.Random(name)
    out, *sources = map(int, widths.split())
    operands = ", ".join([name_of(10, out)] + [name_of(12 + 2 * k, w) for k, w in enumerate(sources)])
    for _ in range(40):
        values = [value(w, rng) for w in sources]
        if name.startswith("s_bfe"):
            values[1] = rng.choice([0, 5, 31, 63]) | rng.choice([0, 1, 8, 32, 64]) << 16
        if rng.random() < 0.3:
            values[-1] = values[0] & (1 << sources[-1]) - 1
        scc = rng.getrandbits(1)
        registers = {k: v for i, x in enumerate(values) for k, v in pair(12 + 2 * i, x).items()}
        state = run("gfx942", f"{name} {operands}", s=registers, scc=scc)
        result, new_scc = OPS[widths][name](*values, scc)
        got = state.s[10] if out == 32 else state.s64(10)
        assert got == result & (1 << out) - 1, (values, scc)
        assert state.scc == (scc if new_scc is None else int(new_scc)), (values, scc)


def test_compares() -> None:
    conditions: dict[str, Callable[[Any, Any], bool]] = {
        "eq": lambda a, b: a == b,
        "lg": lambda a, b: a != b,
        "gt": lambda a, b: a > b,
        "ge": lambda a, b: a >= b,
        "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b,
    }
    rng = random.Random(1)
    for _ in range(20):
        a, b, k = value(32, rng), value(32, rng), rng.getrandbits(15)
        b = a if rng.random() < 0.3 else b
        for condition, holds in conditions.items():
            for text, want in (
                (f"s_cmp_{condition}_u32 s4, s5", holds(a, b)),
                (f"s_cmp_{condition}_i32 s4, s5", holds(s32(a), s32(b))),
                (f"s_cmpk_{condition}_u32 s4, {k:#x}", holds(a, k)),
                (f"s_cmpk_{condition}_i32 s4, {hex(k - (1 << 14))}", holds(s32(a), k - (1 << 14))),
            ):
                assert run("gfx942", text, s={4: a, 5: b}).scc == int(want), (text, a, b)
    for a, b in ((5 << 32, 5), (7, 7)):
        for condition in ("eq", "lg"):
            state = run("gfx942", f"s_cmp_{condition}_u64 s[4:5], s[6:7]", s=pair(4, a) | pair(6, b))
            assert state.scc == int(conditions[condition](a, b))
    for bit in (0, 5, 31, 37):
        assert run("gfx942", "s_bitcmp1_b32 s4, s5", s={4: 0x80000021, 5: bit}).scc == 0x80000021 >> (bit & 31) & 1
        assert run("gfx942", "s_bitcmp0_b64 s[4:5], s6", s=pair(4, 33 << 32) | {6: bit}).scc == 1 - (
            33 << 32 >> bit & 1
        )


def test_constants_in_the_instruction() -> None:
    state = run(
        "gfx942",
        """s_movk_i32 s4, 0xfffe
s_mov_b32 s5, 7
s_addk_i32 s5, 0xfff0
s_mov_b32 s6, 3
s_mulk_i32 s6, 0x100
s_cmovk_i32 s7, 5
s_mov_b64 s[8:9], -1
s_mov_b64 s[10:11], 0xfffffff0
s_mov_b64 s[12:13], 1.0
s_bitset1_b32 s6, 31
s_bitset0_b64 s[8:9], 40""",
        s={7: 9},
        scc=0,
    )
    assert state.s[4:8] == [M32 - 1, M32 - 8, 0x80000300, 9]
    assert [state.s64(k) for k in (8, 10, 12)] == [M64 ^ 1 << 40, 0xFFFFFFF0, 0x3FF0 << 48]


SAVE: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, e: a & e,
    "or": lambda a, e: a | e,
    "xor": lambda a, e: a ^ e,
    "andn1": lambda a, e: ~a & e,
    "andn2": lambda a, e: a & ~e,
    "orn1": lambda a, e: ~a | e,
    "orn2": lambda a, e: a | ~e,
    "nand": lambda a, e: ~(a & e),
    "nor": lambda a, e: ~(a | e),
    "xnor": lambda a, e: ~(a ^ e),
}


@pytest.mark.parametrize("op", SAVE)
def test_saveexec(op: str) -> None:
    rng = random.Random(op)
    for a, e in ((rng.getrandbits(64), rng.getrandbits(64)), (0, 5), (5, 5)):
        state = run("gfx942", f"s_{op}_saveexec_b64 s[4:5], s[6:7]", s=pair(6, a), exec=e)
        want = SAVE[op](a, e) & M64
        assert (state.s64(4), state.exec, state.scc) == (e, want, int(want != 0))
        if op in ("andn1", "andn2"):
            state = run("gfx942", f"s_{op}_wrexec_b64 s[4:5], s[6:7]", s=pair(6, a), exec=e)
            assert (state.s64(4), state.exec, state.scc) == (want, want, int(want != 0))


@pytest.mark.parametrize(
    ("branch", "taken"),
    [
        ("s_branch", True),
        ("s_cbranch_scc0", False),
        ("s_cbranch_scc1", True),
        ("s_cbranch_vccz", False),
        ("s_cbranch_vccnz", True),
        ("s_cbranch_execz", False),
        ("s_cbranch_execnz", True),
    ],
)
def test_branches(branch: str, taken: bool) -> None:
    text = f"s_mov_b32 s4, 1\n{branch} there\ns_mov_b32 s4, 2\nthere:\ns_mov_b32 s5, s4"
    assert run("gfx942", text, scc=1, vcc=1 << 40, exec=1 << 63).s[5] == (1 if taken else 2)


def test_calls_and_loops() -> None:
    state = run(
        "gfx942",
        """s_mov_b32 s4, 0
s_getpc_b64 s[6:7]
next:
s_add_u32 s6, s6, function@rel32@lo+4
s_addc_u32 s7, s7, function@rel32@hi+12
again:
s_swappc_b64 s[30:31], s[6:7]
s_cmp_lt_u32 s4, 30
s_cbranch_scc1 again
s_call_b64 s[30:31], function
s_branch done
function:
s_add_u32 s4, s4, 10
s_setpc_b64 s[30:31]
done:
s_nop 0""",
    )
    assert state.s[4] == 40


def test_an_address_before_a_table() -> None:
    """What the compiler makes of table[i - 2], and the same as a pointer in data."""
    state = run(
        "gfx942",
        """s_getpc_b64 s[6:7]
s_add_u32 s6, s6, table@rel32@lo-4
s_addc_u32 s7, s7, table@rel32@hi+4
s_load_dword s4, s[6:7], 0x8
s_load_dwordx2 s[8:9], s[6:7], 0x10
s_waitcnt lgkmcnt(0)
s_load_dword s5, s[8:9], 0x8
s_waitcnt lgkmcnt(0)
s_endpgm
.section .data,"aw",@progbits
table:
.long 77
.long 78
.quad table-4
.text""",
    )
    assert (state.s[4], state.s[5]) == (77, 78)


def test_relative_registers() -> None:
    state = run(
        "gfx942",
        """s_mov_b32 m0, 3
s_movrels_b32 s20, s4
s_movreld_b64 s[10:11], s[4:5]""",
        s={4: 40, 5: 50, 7: 70},
    )
    assert (state.s[20], state.s[13], state.s[14]) == (70, 40, 50)
    with pytest.raises(KernelFault, match="s_movrel"):
        run("gfx942", "s_mov_b32 m0, 200\ns_movrels_b32 s20, s4", s={4: 1})
    v = {k: [10 * k] * WAVE for k in range(8)}
    state = run(
        "gfx942",
        """s_set_gpr_idx_on s5, gpr_idx(SRC0)
v_mov_b32_e32 v0, v1
s_set_gpr_idx_off
s_set_gpr_idx_on s5, gpr_idx(DST)
v_mov_b32_e32 v2, 7
s_set_gpr_idx_off
v_mov_b32_e32 v7, v0""",
        v,
        s={5: 3},
    )
    assert [r[0] for r in state.v] == [40, 10, 20, 30, 40, 7, 60, 40]
    state = run(
        "gfx942",
        """v_mov_b32_e32 v7, v7
s_set_gpr_idx_on s5, gpr_idx(SRC0)
v_cvt_f32_i32_e32 v0, v1
s_set_gpr_idx_off
s_mov_b32 s5, 2
s_set_gpr_idx_on s5, gpr_idx(SRC0,SRC1,DST)
v_pk_mul_f32 v[2:3], v[0:1], v[2:3]
v_writelane_b32 v4, 9, 2
s_set_gpr_idx_off""",
        {**v, 2: [0x40400000] * WAVE, 3: [0x40A00000] * WAVE, 4: [0x40E00000] * WAVE, 5: [0xC0000000] * WAVE},
        s={5: 5},
    )
    assert (state.v[0][0], state.v[4][0], state.v[5][0]) == (0x42700000, 0x41A80000, 0xC1200000)
    assert state.v[6] == [60, 60, 9] + [60] * 61
    with pytest.raises(KernelFault, match="past the last vector register"):
        run("gfx942", "s_set_gpr_idx_on s5, gpr_idx(SRC0)\nv_mov_b32_e32 v0, v1\ns_set_gpr_idx_off", v, s={5: 30})


def test_mode_register() -> None:
    """hwreg(MODE, offset, size): what a kernel reads back, and that f32 rounding follows a write at once."""
    state = run(
        "gfx942",
        """s_getreg_b32 s4, hwreg(HW_REG_MODE, 4, 4)
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1
v_add_f32 v2, v0, v1
s_getreg_b32 s5, hwreg(HW_REG_MODE, 0, 4)""",
        {0: [0x3F800000] * WAVE, 1: [0x33000000] * WAVE},
    )
    assert state.s[4:6] == [15, 1] and state.v[2][0] == 0x3F800001


def test_vskip_leaves_out_vector_instructions() -> None:
    """Until it is off; scalar ones and branches go on."""
    v = {k: [k] * WAVE for k in range(3)}
    body = """s_setvskip s4, {bit}
v_mov_b32_e32 v0, 7
s_add_u32 s6, s6, 1
s_branch over
v_mov_b32_e32 v1, 7
over:
v_readfirstlane_b32 s7, v2
s_setvskip 0, 0
v_add_u32_e32 v1, 5, v1"""
    state = run("gfx942", body.format(bit=1), v, s={4: 2, 6: 10, 7: 3})
    assert (state.v[0][0], state.v[1][0], state.s[6], state.s[7]) == (0, 6, 11, 3)
    state = run("gfx942", body.format(bit=0), v, s={4: 2, 6: 10, 7: 3})
    assert (state.v[0][0], state.v[1][0], state.s[6], state.s[7]) == (7, 6, 11, 2)
