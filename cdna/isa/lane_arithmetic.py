"""What integer instructions make of their operands in each lane, as far as addresses are worked out with them."""

from collections.abc import Callable

import numpy as np

WAVE = 64
Lanes = np.ndarray  # of u32, one a work-item
MOVES_OF_PAIRS = frozenset({"s_mov_b64", "v_mov_b64"})
SAVES_OF_EXEC = frozenset(f"s_{what}_saveexec_b64" for what in ("and", "or", "andn2", "xor"))
SAVES_AND_ADDS, ORS_PAIRS, BY_TABLE = "s_or_saveexec_b64", "s_or_b64", "v_bitop3_b32"


def _shifted(a: Lanes, b: Lanes) -> Lanes:
    return a << (b & 31)


def _field(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    return a >> (b & 31) & ((np.uint32(1) << (c & 31)) - np.uint32(1))


def _scalar_field(a: Lanes, b: Lanes) -> Lanes:
    return _field(a, b, b >> 16)


def _product24(a: Lanes, b: Lanes) -> Lanes:
    return (a & 0xFFFFFF) * (b & 0xFFFFFF)


def _lanes_below(a: Lanes, b: Lanes, start: int) -> Lanes | None:
    """v_mbcnt of a mask of ones: the lane's number, in two halves."""
    lane: Lanes = np.arange(len(a), dtype=np.uint32) % WAVE
    return b + np.clip(lane.astype(np.int64) - start, 0, 32).astype(np.uint32) if (a == 0xFFFFFFFF).all() else None


OPERATIONS: dict[str, Callable[..., Lanes | None]] = {
    **dict.fromkeys(("v_mov_b32", "s_mov_b32", "s_movk_i32", "v_accvgpr_read_b32", "v_accvgpr_write_b32"), lambda a: a),
    "v_accvgpr_mov_b32": lambda a: a,
    **dict.fromkeys(("v_and_b32", "s_and_b32"), lambda a, b: a & b),
    **dict.fromkeys(("v_or_b32", "s_or_b32"), lambda a, b: a | b),
    **dict.fromkeys(("v_xor_b32", "s_xor_b32"), lambda a, b: a ^ b),
    "s_andn2_b32": lambda a, b: a & ~b,
    **dict.fromkeys(("v_not_b32", "s_not_b32"), lambda a: ~a),
    **dict.fromkeys(("v_add_u32", "s_add_u32", "s_add_i32"), lambda a, b: a + b),
    **dict.fromkeys(("v_sub_u32", "s_sub_u32", "s_sub_i32"), lambda a, b: a - b),
    "v_subrev_u32": lambda a, b: b - a,
    "v_lshlrev_b32": lambda a, b: _shifted(b, a),
    "s_lshl_b32": _shifted,
    "v_lshrrev_b32": lambda a, b: b >> (a & 31),
    "s_lshr_b32": lambda a, b: a >> (b & 31),
    **dict.fromkeys(("s_mul_i32", "v_mul_lo_u32"), lambda a, b: a * b),
    "v_mul_u32_u24": _product24,
    "v_mad_u32_u24": lambda a, b, c: _product24(a, b) + c,
    "v_lshl_add_u32": lambda a, b, c: _shifted(a, b) + c,
    "v_add_lshl_u32": lambda a, b, c: _shifted(a + b, c),
    "v_lshl_or_b32": lambda a, b, c: _shifted(a, b) | c,
    "v_and_or_b32": lambda a, b, c: a & b | c,
    "v_or3_b32": lambda a, b, c: a | b | c,
    "v_add3_u32": lambda a, b, c: a + b + c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_bfi_b32": lambda a, b, c: a & b | ~a & c,
    "v_bfe_u32": _field,
    "s_bfe_u32": _scalar_field,
    "v_readfirstlane_b32": lambda a: np.repeat(a[::WAVE], WAVE)[: len(a)],
    "v_mbcnt_lo_u32_b32": lambda a, b: _lanes_below(a, b, 0),
    "v_mbcnt_hi_u32_b32": lambda a, b: _lanes_below(a, b, 32),
}


def by_table(number: int, *sources: Lanes) -> Lanes:
    """Bit by bit, entry 4a + 2b + c of a truth table."""
    result = np.zeros_like(sources[0])
    for entry in range(8):
        if number >> entry & 1:
            a, b, c = (source if entry >> 2 - i & 1 else ~source for i, source in enumerate(sources))
            result |= a & b & c
    return result
