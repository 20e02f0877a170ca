"""Fields of machine code as words of assembly text, and the words that stand for numbers of a field: the disassembler
writes them, the decoder reads them."""

SELECTS = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")  # of SDWA
UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")
OUTPUT_MODIFIERS = ("", "mul:2", "mul:4", "div:2")
DATA_FORMATS = (
    "INVALID 8 16 8_8 32 16_16 10_11_11 11_11_10 10_10_10_2 2_10_10_10 8_8_8_8 32_32 16_16_16_16 32_32_32 32_32_32_32 "
    "RESERVED_15"
).split()
NUMBER_FORMATS = "UNORM SNORM USCALED SSCALED UINT SINT RESERVED_6 FLOAT".split()
INDEX_OPERANDS = ("SRC0", "SRC1", "SRC2", "DST")  # by s_set_gpr_idx_on
DPP_FIXED = {
    0x130: "wave_shl:1",
    0x134: "wave_rol:1",
    0x138: "wave_shr:1",
    0x13C: "wave_ror:1",
    0x140: "row_mirror",
    0x141: "row_half_mirror",
    0x142: "row_bcast:15",
    0x143: "row_bcast:31",
}
DPP_ROWS = {0x100: "row_shl", 0x110: "row_shr", 0x120: "row_ror", 0x150: "row_newbcast"}  # and the lanes, of 16
NAMED = {
    102: "flat_scratch_lo",
    103: "flat_scratch_hi",
    104: "xnack_mask_lo",
    105: "xnack_mask_hi",
    106: "vcc_lo",
    107: "vcc_hi",
    124: "m0",
    125: "null",
    126: "exec_lo",
    127: "exec_hi",
    230: "src_flat_scratch_base_lo",
    231: "src_flat_scratch_base_hi",
    235: "src_shared_base",
    236: "src_shared_limit",
    237: "src_private_base",
    238: "src_private_limit",
    239: "src_pops_exiting_wave_id",
    251: "src_vccz",
    252: "src_execz",
    253: "src_scc",
    254: "src_lds_direct",
}
NAMED_PAIRS = {102: "flat_scratch", 104: "xnack_mask", 106: "vcc", 126: "exec", 125: "null"}
_FLOATS = ("0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494")
_FIRST_TTMP, _LAST_TTMP, _LAST_SGPR, _LAST_OF_TUPLE = 108, 123, 101, 103
_LAST_VGPR = 255


class InvalidBits(Exception):
    """The bits are no instruction."""


def bits_of(word: int, low: int, width: int) -> int:
    return word >> low & (1 << width) - 1


def signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) & 1 else value


def register_range(letter: str, first: int, dwords: int) -> str:
    if letter in "va" and (first + dwords - 1 > _LAST_VGPR or dwords > 1 and first % 2):
        raise InvalidBits  # tuples of VGPRs begin at even ones
    return f"{letter}{first}" if dwords == 1 else f"{letter}[{first}:{first + dwords - 1}]"


def scalar_register(code: int, dwords: int) -> str:
    """An SGPR, a trap temporary or a special register, as destination or address."""
    if code <= _LAST_SGPR:
        code &= ~(min(dwords, 4) - 1) if dwords > 1 else ~0
        if code + dwords - 1 > (_LAST_SGPR if dwords < 3 else _LAST_OF_TUPLE):
            raise InvalidBits
        return register_range("s", code, dwords)
    if _FIRST_TTMP <= code <= _LAST_TTMP:
        code -= (code - _FIRST_TTMP) % min(dwords, 4)
        if code + dwords - 1 > _LAST_TTMP:
            raise InvalidBits
        return register_range("ttmp", code - _FIRST_TTMP, dwords)
    if dwords == 1 and code in NAMED:
        return NAMED[code]
    if dwords == 2 and code in NAMED_PAIRS:
        return NAMED_PAIRS[code]
    raise InvalidBits


def constant_text(code: int, dwords: int) -> str | None:
    """An inline constant or a special value that sources alone can be."""
    if 128 <= code <= 192:
        return str(code - 128)
    if 193 <= code <= 208:
        return str(192 - code)
    if 240 <= code <= 248:
        return "0.15915494309189532" if code == 248 and dwords == 2 else _FLOATS[code - 240]
    if code == 231 and dwords == 2:
        raise InvalidBits
    if code in (230, 231, 235, 236, 237, 238, 239, 251, 252, 253) or code == 254 and dwords == 1:
        return NAMED[code]
    return None


def literal_text(value: int, dwords: int) -> str:
    """A dword behind the instruction; of 64 bits, one that has an inline constant's number stands for another value."""
    return f"lit({value:#x})" if dwords == 2 and value <= 64 else hex(value)


def negated(text: str) -> str:
    """A source that is negated: -44 would be another constant than the negative of the constant 44."""
    return f"neg({text})" if text[0].isdigit() or text[0] == "-" else f"-{text}"


def number_text(value: int) -> str:
    """As LLVM prints it: in decimal where an inline constant could hold it."""
    return str(value) if value <= 64 else hex(value)


def waitcnt(simm: int) -> str:
    vm, exp, lgkm = bits_of(simm, 0, 4) | bits_of(simm, 14, 2) << 4, bits_of(simm, 4, 3), bits_of(simm, 8, 4)
    parts = [f"vmcnt({vm})"] * (vm != 63) + [f"expcnt({exp})"] * (exp != 7) + [f"lgkmcnt({lgkm})"] * (lgkm != 15)
    return " ".join(parts or ["vmcnt(63) expcnt(7) lgkmcnt(15)"])


def gpr_idx(mask: int) -> str:
    if mask >= 16:
        return hex(mask)
    return f"gpr_idx({','.join(name for i, name in enumerate(INDEX_OPERANDS) if mask >> i & 1)})"


def dpp_control(value: int) -> str:
    if value < 0x100:
        return f"quad_perm:[{','.join(str(value >> 2 * i & 3) for i in range(4))}]"
    if value in DPP_FIXED:
        return DPP_FIXED[value]
    name, amount = DPP_ROWS.get(value & ~15), value & 15
    if name is None or (amount == 0 and name != "row_newbcast"):
        raise InvalidBits
    return f"{name}:{amount}"


def omod(number: int) -> str:
    return f" {OUTPUT_MODIFIERS[number]}" if number else ""
