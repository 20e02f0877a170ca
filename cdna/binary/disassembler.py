"""Machine code of gfx942 and gfx950 to assembly text, as LLVM's assembler takes it.

The encodings are those of AMD's "AMD Instinct MI300" and "CDNA4" instruction set architecture references (chapter
"Microcode Formats"); the table of instructions has each one's (isa/encodings.py).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import UnsupportedInstruction
from ..isa.encodings import Row, encodings, with_scales
from ..isa.signature import HALVES

_SPECIAL = {
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
_PAIRS = {102: "flat_scratch", 104: "xnack_mask", 106: "vcc", 126: "exec", 125: "null"}
_FLOATS = ("0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494")
_FIRST_TTMP, _LAST_TTMP, _LAST_SGPR, _LAST_OF_TUPLE = 108, 123, 101, 103
_LAST_VGPR = 255
_LITERAL, _SDWA, _DPP, _LDS_DIRECT = 255, 249, 250, 254
_SEL = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")
_UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")
_LOW_PRECISION_DWORDS = {0: 8, 1: 8, 2: 6, 3: 6, 4: 4}  # by cbsz or blgp: fp8, bf8, fp6, bf6, fp4
_OMOD = ("", " mul:2", " mul:4", " div:2")
_DATA_FORMATS = (
    "INVALID 8 16 8_8 32 16_16 10_11_11 11_11_10 10_10_10_2 2_10_10_10 8_8_8_8 32_32 16_16_16_16 32_32_32 32_32_32_32 "
    "RESERVED_15"
).split()
_NUMBER_FORMATS = "UNORM SNORM USCALED SSCALED UINT SINT RESERVED_6 FLOAT".split()


@dataclass(frozen=True)
class Instruction:
    """One decoded instruction. `target` is a branch's, in bytes from its own start; None if it is no branch."""

    mnemonic: str
    operands: str
    size_bytes: int
    target: int | None = None

    def __str__(self) -> str:
        return f"{self.mnemonic} {self.operands}".rstrip()


class _Invalid(Exception):
    """The bits are no instruction."""


def _bits(word: int, low: int, width: int) -> int:
    return word >> low & (1 << width) - 1


def _signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) & 1 else value


def _range(letter: str, first: int, dwords: int) -> str:
    if letter in "va" and (first + dwords - 1 > _LAST_VGPR or dwords > 1 and first % 2):
        raise _Invalid  # tuples of VGPRs begin at even ones
    return f"{letter}{first}" if dwords == 1 else f"{letter}[{first}:{first + dwords - 1}]"


def _scalar(code: int, dwords: int) -> str:
    """An SGPR, a trap temporary or a special register, as destination or address."""
    if code <= _LAST_SGPR:
        code &= ~(min(dwords, 4) - 1) if dwords > 1 else ~0
        if code + dwords - 1 > (_LAST_SGPR if dwords < 3 else _LAST_OF_TUPLE):
            raise _Invalid
        return _range("s", code, dwords)
    if _FIRST_TTMP <= code <= _LAST_TTMP:
        code -= (code - _FIRST_TTMP) % min(dwords, 4)
        if code + dwords - 1 > _LAST_TTMP:
            raise _Invalid
        return _range("ttmp", code - _FIRST_TTMP, dwords)
    if dwords == 1 and code in _SPECIAL:
        return _SPECIAL[code]
    if dwords == 2 and code in _PAIRS:
        return _PAIRS[code]
    raise _Invalid


def _constant(code: int, dwords: int) -> str | None:
    """An inline constant or a special value that sources alone can be."""
    if 128 <= code <= 192:
        return str(code - 128)
    if 193 <= code <= 208:
        return str(192 - code)
    if 240 <= code <= 248:
        return "0.15915494309189532" if code == 248 and dwords == 2 else _FLOATS[code - 240]
    if code == 231 and dwords == 2:
        raise _Invalid
    if code in (230, 231, 235, 236, 237, 238, 239, 251, 252, 253) or code == 254 and dwords == 1:
        return _SPECIAL[code]
    return None


def _literal(value: int, dwords: int) -> str:
    """A dword behind the instruction; of 64 bits, one that has an inline constant's number stands for another value."""
    return f"lit({value:#x})" if dwords == 2 and value <= 64 else hex(value)


class _Decoder:
    """Decodes one instruction; `words` are the dwords from its first on, `pc` its address."""

    def __init__(self, rows: dict[tuple[str, int], Row], words: tuple[int, ...]) -> None:
        self.rows, self.words = rows, words
        self.size = 4
        self.target: int | None = None

    def word(self, index: int) -> int:
        if index >= len(self.words):
            raise _Invalid
        self.size = max(self.size, 4 * (index + 1))
        return self.words[index]

    # ------------------------------------------------------------------ which format

    def decode(self) -> Instruction:
        w = self.word(0)
        if not w >> 31:
            return self.vop12c(w)
        if w >> 30 == 0b10:
            return self.sop(w)
        form = {
            0b110000: self.smem,
            0b110100: self.vop3,
            0b110110: self.ds,
            0b110111: self.flat,
            0b111000: self.mubuf,
            0b111010: self.mtbuf,
        }.get(w >> 26)
        if form is None:
            raise _Invalid
        return form(w, self.word(1))

    def row(self, form: str, opcode: int) -> Row:
        try:
            return self.rows[form, opcode]
        except KeyError:
            raise _Invalid from None

    def text(self, row: Row, operands: list[str], tail: str = "", mnemonic: str = "") -> Instruction:
        return Instruction(mnemonic or row.mnemonic, ", ".join(operands) + tail, self.size, self.target)

    # ------------------------------------------------------------------ scalar formats

    def sop(self, w: int) -> Instruction:
        if w >> 23 == 0b101111111:
            row = self.row("sopp", _bits(w, 16, 7))
        elif w >> 23 == 0b101111110:
            row = self.row("sopc", _bits(w, 16, 7))
        elif w >> 23 == 0b101111101:
            row = self.row("sop1", _bits(w, 8, 8))
        elif w >> 28 == 0b1011:
            row = self.row("sopk", _bits(w, 23, 5))
        else:
            row = self.row("sop2", _bits(w, 23, 7))
        simm = w & 0xFFFF
        out = []
        for name in row.operands:
            letter, dwords = name[0], int(name[1:] or 1) if name[0] != "=" else 0
            if letter == "s":
                out.append(_scalar(_bits(w, 16, 7), dwords))
            elif letter in "ab":
                out.append(self.scalar_source(_bits(w, 0 if letter == "a" else 8, 8), dwords))
            elif letter == "k":
                out.append(hex(simm))
            elif letter == "K":
                out.append(_number(simm))
            elif letter == "N":
                if simm or row.instruction.signature.slots:
                    out.append(str(simm))
            elif letter == "H":
                out.append(f"hwreg({_bits(simm, 0, 6)}, {_bits(simm, 6, 5)}, {_bits(simm, 11, 5) + 1})")
            elif letter == "L":
                self.target = 4 + 4 * _signed(simm, 16)
                out.append(str(simm))
            elif letter == "W":
                out.append(_waitcnt(simm))
            elif letter == "G":
                out.append(_gpr_idx(_bits(w, 8, 8) if row.format == "sopc" else simm))
            elif letter == "l":
                out.append(hex(self.word(1)))
            else:
                raise AssertionError(name)
        return self.text(row, out)

    def scalar_source(self, code: int, dwords: int, literal: bool = True) -> str:
        if code == _LITERAL and literal:
            return _literal(self.word(1), dwords)
        if code == _LDS_DIRECT:
            raise _Invalid
        return _constant(code, dwords) or _scalar(code, dwords)

    def smem(self, w: int, hi: int) -> Instruction:
        row = self.row("smem", _bits(w, 18, 8))
        imm, soe = _bits(w, 17, 1), _bits(w, 14, 1)
        out = []
        tail = ""
        for name in row.operands:
            letter, dwords = name[0], int(name[1:] or 1)
            if letter == "s":
                out.append(_scalar(_bits(w, 6, 7), dwords))
            elif letter == "i":
                out.append(_number(_bits(w, 6, 7)))
            elif letter == "u":
                out.append(_scalar(_bits(w, 0, 6) << 1, dwords))
            elif letter == "o":
                offset = _signed(_bits(hi, 0, 21), 21)
                shown = hex(offset)
                if imm and not soe:
                    out.append(shown)
                else:
                    out.append(_scalar(_bits(hi, 25, 7) if soe else _bits(hi, 0, 7), 1))
                    tail = f" offset:{shown}" if imm else ""
            else:
                raise AssertionError(name)
        if row.modifiers == "E" and _bits(w, 16, 1):
            tail += " glc"
        return self.text(row, out, tail)

    # ------------------------------------------------------------------ vector ALU

    def source(self, code: int, dwords: int, accumulation: bool = False) -> str:
        """A 9-bit source of a VALU instruction."""
        if code >= 256:
            return _range("a" if accumulation else "v", code - 256, dwords)
        if dwords > 2 and (230 <= code <= 239 or code > 248):
            raise _Invalid  # apertures and flags are 32 and 64 bits wide
        return _constant(code, dwords) or _scalar(code, dwords)

    def vop12c(self, w: int) -> Instruction:
        top = _bits(w, 25, 6)
        if top == 0x3F:
            row = self.row("vop1", _bits(w, 9, 8))
        elif top == 0x3E:
            row = self.row("vopc", _bits(w, 17, 8))
        else:
            row = self.row("vop2", top)
        code = _bits(w, 0, 9)
        if code == _SDWA:
            return self.sdwa(row, w, self.word(1))
        if code == _DPP:
            return self.dpp(row, w, self.word(1))
        out = []
        for name in row.operands:
            letter, dwords = name[0], int(name[1:] or 1) if name[0] != "=" else 0
            if letter == "d":
                out.append(_range("v", _bits(w, 17, 8), dwords))
            elif letter == "D":
                out.append(_scalar(_bits(w, 17, 8), dwords))
            elif letter == "A":
                out.append(_range("a", _bits(w, 17, 8), dwords))
            elif letter == "X":
                if code < 256:
                    raise _Invalid
                out.append(self.source(code, dwords, accumulation=True))
            elif letter == "x":
                if code == _LITERAL:
                    half = HALVES - {"bf16"} >= set(row.instruction.signature.types("S")[:1] or ["b32"])
                    out.append(_literal(self.word(1) & (0xFFFF if half else 0xFFFFFFFF), dwords))
                else:
                    out.append(self.source(code, dwords))
            elif letter in "yv":
                out.append(_range("v", _bits(w, 9, 8), dwords))
            elif letter == "l":
                out.append(hex(self.word(1)))
            else:
                out.append(name[1:])
        return self.text(row, out)

    def sdwa(self, row: Row, w: int, hi: int) -> Instruction:
        compare = row.format == "vopc"
        if row.sdwa is None or hi & row.sdwa[0]:
            raise _Invalid
        if not compare:  # a compare's ignored bits are its destination where that is vcc
            hi &= ~row.sdwa[1]

        def select(low: int) -> str:
            value = _bits(hi, low, 3)
            if value >= len(_SEL):
                raise _Invalid
            return _SEL[value]

        def operand(code: int, low: int, scalar: bool, dwords: int) -> str:
            text = (_constant(code, 1) or _scalar(code, dwords)) if scalar else _range("v", code, dwords)
            if _bits(hi, low + 1, 1) and _bits(hi, low, 1):
                raise _Invalid
            if _bits(hi, low, 1):
                return f"sext({text})"
            text = f"|{text}|" if _bits(hi, low + 2, 1) else text
            return _negative(text) if _bits(hi, low + 1, 1) else text

        out = []
        for name in row.operands:
            letter, dwords = name[0], int(name[1:] or 1) if name[0] != "=" else 0
            if letter == "d":
                out.append(_range("v", _bits(w, 17, 8), dwords))
            elif letter == "x":
                out.append(operand(_bits(hi, 0, 8), 19, bool(_bits(hi, 23, 1)), dwords))
            elif letter in "yv":
                out.append(operand(_bits(w, 9, 8), 27, bool(_bits(hi, 31, 1)), dwords))
            elif compare and name == "=vcc" and not out:
                out.append(_scalar(_bits(hi, 8, 7), 2) if _bits(hi, 15, 1) else "vcc")
            else:
                out.append(name[1:])
        tail = ""
        if not compare:
            if _bits(hi, 11, 2) >= len(_UNUSED):
                raise _Invalid
            tail += " clamp" * _bits(hi, 13, 1) + _OMOD[_bits(hi, 14, 2)]
            if not row.sdwa[1] >> 8 & 1:
                tail += f" dst_sel:{select(8)} dst_unused:{_UNUSED[_bits(hi, 11, 2)]}"
        tail += f" src0_sel:{select(16)}"
        if row.format != "vop1":
            tail += f" src1_sel:{select(24)}"
        return self.text(row, out, tail, row.instruction.name + "_sdwa")

    def dpp(self, row: Row, w: int, hi: int) -> Instruction:
        if row.dpp is None or hi & row.dpp[0]:
            raise _Invalid
        if row.dpp[1] >> 8 & 1 and _bits(hi, 12, 5) != 0x15:
            raise _Invalid  # 64-bit operations know row_newbcast alone
        hi &= ~(row.dpp[1] & ~0x1FF00)

        def operand(code: int, low: int, dwords: int) -> str:
            text = _range("v", code, dwords)
            text = f"|{text}|" if _bits(hi, low + 1, 1) else text
            return _negative(text) if _bits(hi, low, 1) else text

        out = []
        for name in row.operands:
            letter, dwords = name[0], int(name[1:] or 1) if name[0] != "=" else 0
            if letter == "d":
                out.append(_range("v", _bits(w, 17, 8), dwords))
            elif letter == "x":
                out.append(operand(_bits(hi, 0, 8), 20, dwords))
            elif letter in "yv":
                out.append(operand(_bits(w, 9, 8), 22, dwords))
            else:
                out.append(name[1:])
        tail = f" {_dpp_control(_bits(hi, 8, 9))} row_mask:{_bits(hi, 28, 4):#x} bank_mask:{_bits(hi, 24, 4):#x}"
        tail += " bound_ctrl:1" * _bits(hi, 19, 1)
        return self.text(row, out, tail, row.instruction.name + "_dpp")

    def modifier_bits(self, row: Row, w: int, hi: int) -> None:
        """Refuses bits that must be 0."""
        bits = _bits(w, 8, 8) | _bits(hi, 27, 5) << 8
        for index, letter in enumerate(row.modifiers):
            if letter == "X" and bits >> index & 1:
                raise _Invalid

    def vop3(self, w: int, hi: int) -> Instruction:
        if w >> 23 == 0b110100111:
            row = self.row("vop3p", _bits(w, 16, 7))
            self.modifier_bits(row, w, hi)
            if "loads_scales" in row.instruction.flags:
                return self.scaled(w, hi)
            if row.instruction.unit == "matrix":
                return self.matrix(row, w, hi)
            return self.packed(row, w, hi)
        row = self.row("vop3", _bits(w, 16, 10))
        if "e2" not in row.operands:
            self.modifier_bits(row, w, hi)
        elif any(letter == "X" and hi >> 27 + i & 1 for i, letter in enumerate(row.modifiers[8:])):
            raise _Invalid
        if "truth_table" in row.instruction.flags:
            return self.bitop3(row, w, hi)
        negate = _bits(hi, 29, 3) if "E" in row.modifiers[10:13] else 0
        absolute = _bits(w, 8, 3) if "e2" not in row.operands and "E" in row.modifiers[:3] else 0
        out = []
        for name in row.operands:
            letter, dwords = name[0], int(name[1:] or 1) if name[0] != "=" else 0
            if letter == "d":
                out.append(_range("v", _bits(w, 0, 8), dwords))
            elif letter == "D":
                out.append(_scalar(_bits(w, 0, 8), dwords))
            elif letter == "e":
                out.append(_scalar(_bits(w, 8, 7), dwords))
            elif letter in "xyz":
                index = "xyz".index(letter)
                text = self.source(_bits(hi, 9 * index, 9), dwords)
                text = f"|{text}|" if absolute >> index & 1 else text
                out.append(_negative(text) if negate >> index & 1 else text)
            else:
                out.append(name[1:])
        tail = ""
        if "e2" not in row.operands and "E" in row.modifiers[3:7]:
            selects = [_bits(w, 11 + i, 1) for i in range(3) if row.modifiers[3 + i] == "E"]
            if row.modifiers[6] == "E":
                selects.append(_bits(w, 14, 1))
            if any(selects):
                tail += f" op_sel:[{','.join(map(str, selects))}]"
        tail += " clamp" * (_bits(w, 15, 1) if row.modifiers[7] == "E" else 0)
        tail += _OMOD[_bits(hi, 27, 2)] if row.modifiers[8] == "E" else ""
        return self.text(row, out, tail)

    def bitop3(self, row: Row, w: int, hi: int) -> Instruction:
        """The truth table of three operands lies where other instructions have omod, abs and neg."""
        out = [_range("v", _bits(w, 0, 8), 1), *(self.source(_bits(hi, 9 * i, 9), 1) for i in range(3))]
        truth = _bits(hi, 27, 2) << 6 | _bits(w, 8, 3) << 3 | _bits(hi, 29, 3)
        selects = _bits(w, 11, 4) if row.modifiers[3] == "E" else 0
        tail = f" op_sel:[{','.join(str(selects >> i & 1) for i in range(4))}]" if selects else ""
        return self.text(row, out, f"{tail} bitop3:{truth:#x}" if truth else tail)

    def packed(self, row: Row, w: int, hi: int) -> Instruction:
        mixes = "mix" in row.instruction.signature.types("S")  # fp32 or fp16, with the modifiers of single values
        out = []
        for name in row.operands:
            letter, dwords = name[0], int(name[1:] or 1)
            if letter == "d":
                out.append(_range("v", _bits(w, 0, 8), dwords))
            elif letter == "A":
                out.append(_range("a", _bits(w, 0, 8), dwords))
            elif letter == "X":
                out.append(self.source(_bits(hi, 0, 9), dwords, accumulation=True))
            else:
                index = "xyz".index(letter)
                text = self.source(_bits(hi, 9 * index, 9), dwords)
                if mixes:
                    text = f"|{text}|" if w >> 8 + index & 1 else text
                    text = _negative(text) if hi >> 29 + index & 1 else text
                out.append(text)
        n = sum(name[0] in "xyz" for name in row.operands)
        tail = ""
        fields = (
            ("op_sel", _bits(w, 11, 3), 0, row.modifiers[3]),
            ("op_sel_hi", _bits(hi, 27, 2) | _bits(w, 14, 1) << 2, (1 << n) - 1, row.modifiers[8]),
            ("neg_lo", _bits(hi, 29, 3), 0, row.modifiers[10]),
            ("neg_hi", _bits(w, 8, 3), 0, row.modifiers[0]),
        )
        for label, value, usual, meaning in fields:
            usual = 0 if mixes else usual
            if mixes and label.startswith("neg"):
                continue
            if meaning == "E" and value & (1 << n) - 1 != usual:
                tail += f" {label}:[{','.join(str(value >> i & 1) for i in range(n))}]"
        tail += " clamp" * (_bits(w, 15, 1) if row.modifiers[7] == "E" else 0)
        return self.text(row, out, tail)

    def scaled(self, w: int, hi: int) -> Instruction:
        """v_mfma_scale_*: a load of two scales and the product that takes them, 16 bytes that are one instruction."""
        product_w, product_hi = self.word(2), self.word(3)
        row = self.row("vop3p", _bits(product_w, 16, 7))
        if product_w >> 23 != 0b110100111 or row.mnemonic not in with_scales():
            raise _Invalid
        product = self.matrix(row, product_w, product_hi)
        operands, _, formats = product.operands.partition(" cbsz:")
        formats = f" cbsz:{formats}" if formats else ""
        if not formats and " blgp:" in operands:
            operands, _, formats = operands.partition(" blgp:")
            formats = f" blgp:{formats}"
        scales = [self.source(_bits(hi, 9 * i, 9), 1) for i in range(2)]
        tail = ""
        if _bits(w, 11, 2):
            tail += f" op_sel:[{_bits(w, 11, 1)},{_bits(w, 12, 1)},0]"
        tail += f" op_sel_hi:[{_bits(hi, 27, 1)},{_bits(hi, 28, 1)},0]"
        return self.text(row, [operands, *scales], tail + formats, with_scales()[row.mnemonic])

    def matrix(self, row: Row, w: int, hi: int) -> Instruction:
        accumulators = _bits(w, 15, 1)
        flags = row.instruction.flags
        low_precision = "formats" in flags
        out = []
        for name in row.operands:
            letter, dwords = name[0], int(name[1:] or 1)
            if letter == "d":
                out.append(_range("a" if accumulators else "v", _bits(w, 0, 8), dwords))
            elif letter == "z":
                code = _bits(hi, 18, 9)
                sparse = "accumulates" in flags
                constant = None if sparse or code >= 256 else _constant(code, 1)
                if code < 256 and (constant is None or not 128 <= code <= 248 or 230 <= code <= 239):
                    raise _Invalid
                out.append(constant or self.source(code, dwords, bool(accumulators) and not sparse))
            else:
                index = "xy".index(letter)
                code = _bits(hi, 9 * index, 9)
                if code < 256:
                    raise _Invalid  # matrices come from vector registers
                if low_precision:
                    dwords = _LOW_PRECISION_DWORDS.get(_bits(w, 8, 3) if letter == "x" else _bits(hi, 29, 3), 0)
                    if not dwords:
                        raise _Invalid
                out.append(self.source(code, dwords, bool(_bits(hi, 27 + index, 1))))
        tail = ""
        blgp = _bits(hi, 29, 3)
        for label, value in (("cbsz", _bits(w, 8, 3)), ("abid", _bits(w, 11, 4)), ("blgp", blgp)):
            if label == "blgp" and "dgemm" in flags:
                tail += f" neg:[{blgp & 1},{blgp >> 1 & 1},{blgp >> 2}]" if blgp else ""
            elif not (low_precision and label == "abid"):  # there abid says that scales stand before
                tail += f" {label}:{value}" if value else ""
        return self.text(row, out, tail)

    # ------------------------------------------------------------------ memory

    def ds(self, w: int, hi: int) -> Instruction:
        row = self.row("ds", _bits(w, 17, 8))
        data = "a" if _bits(w, 25, 1) else "v"
        fields = {"p": _bits(hi, 0, 8), "q": _bits(hi, 8, 8), "r": _bits(hi, 16, 8), "d": _bits(hi, 24, 8)}
        letters = {name[0] for name in row.operands}
        if any(value and letter not in letters for letter, value in fields.items()):
            raise _Invalid
        if row.modifiers == "X" and _bits(w, 16, 1):
            raise _Invalid
        out = []
        for name in row.operands:
            letter, dwords = name[0], int(name[1:] or 1)
            out.append(_range("v" if letter == "p" else data, fields[letter], dwords))
        tail = ""
        modifiers = row.instruction.signature.modifiers or ()
        if "offset1" in modifiers:
            for label, value in (("offset0", _bits(w, 0, 8)), ("offset1", _bits(w, 8, 8))):
                tail += f" {label}:{value}" if value else ""
        elif w & 0xFFFF:
            tail += f" offset:{w & 0xFFFF}"
        if "gds" in modifiers:
            tail += " gds"
        return self.text(row, out, tail)

    def flat(self, w: int, hi: int) -> Instruction:
        segment = _bits(w, 14, 2)
        if segment == 3:
            raise _Invalid
        row = self.row(("flat", "scratch", "global")[segment], _bits(w, 18, 7))
        data = "a" if _bits(hi, 23, 1) else "v"
        saddr = _bits(hi, 16, 7)
        has_scalar = saddr != 0x7F and segment > 0
        returns = row.instruction.does == "atomic" and bool(_bits(w, 16, 1))
        if segment == 0 and saddr or segment != 1 and _bits(w, 13, 1) or row.modifiers == "X" and _bits(hi, 23, 1):
            raise _Invalid
        out = []
        if returns:  # as wide as the data, of which a compare-and-swap has twice as much
            width = next(int(name[1:] or 1) for name in row.operands if name[0] == "q")
            out.append(_range(data, _bits(hi, 24, 8), width // 2 if "swap" in row.instruction.flags else width))
        for name in row.operands:
            letter, dwords = name[0], int(name[1:] or 1) if name[0] != "=" else 0
            if letter == "d":
                out.append(_range(data, _bits(hi, 24, 8), dwords))
            elif letter == "q":
                out.append(_range(data, _bits(hi, 8, 8), dwords))
            elif letter == "p":
                if segment == 1:
                    out.append(_range("v", _bits(hi, 0, 8), 1) if _bits(w, 13, 1) else "off")
                else:
                    out.append(_range("v", _bits(hi, 0, 8), 1 if has_scalar else 2))
            elif letter == "t":
                out.append(_scalar(saddr, 1 if segment == 1 else 2) if has_scalar else "off")
            else:
                raise AssertionError(name)
        offset = _bits(w, 0, 12) if segment == 0 else _signed(_bits(w, 0, 13), 13)
        tail = f" offset:{offset}" if offset else ""
        tail += " sc0" * _bits(w, 16, 1) + " nt" * _bits(w, 17, 1) + " sc1" * _bits(w, 25, 1)
        return self.text(row, out, tail)

    def buffer_operands(self, row: Row, w: int, hi: int) -> list[str]:
        offen, idxen = _bits(w, 12, 1), _bits(w, 13, 1)
        data = "a" if _bits(hi, 23, 1) else "v"
        out = []
        for name in row.operands:
            letter, dwords = name[0], int(name[1:] or 1)
            if letter == "d":
                out.append(_range(data, _bits(hi, 8, 8), dwords))
            elif letter == "p":
                first = _bits(hi, 0, 8)
                out.append(f"v[{first}:{first + 1}]" if offen and idxen else f"v{first}" if offen or idxen else "off")
            elif letter == "w":
                out.append(_scalar(_bits(hi, 16, 5) << 2, 4))
            elif letter == "n":
                out.append(self.scalar_source(_bits(hi, 24, 8), 1, literal=False))
            else:
                raise AssertionError(name)
        return out

    def mubuf(self, w: int, hi: int) -> Instruction:
        to_lds = _bits(w, 16, 1)
        opcode = _bits(w, 18, 7)
        row = self.row("mubuf", opcode)
        if to_lds:
            row = self.rows.get(("mubuf_lds", opcode), row)
            if row.format != "mubuf_lds":
                raise _Invalid
            if _bits(hi, 23, 1):
                raise _Invalid
        if not row.operands:  # buffer_inv, buffer_wbl2
            if to_lds or _bits(w, 12, 2) or _bits(hi, 23, 1):
                raise _Invalid
            return self.text(row, [], (" sc0" * _bits(w, 14, 1) + " sc1" * _bits(w, 15, 1)).strip())
        out = self.buffer_operands(row, w, hi)
        tail = " idxen" * _bits(w, 13, 1) + " offen" * _bits(w, 12, 1)
        tail += f" offset:{_bits(w, 0, 12)}" if _bits(w, 0, 12) else ""
        tail += " sc0" * _bits(w, 14, 1) + " nt" * _bits(w, 17, 1) + " sc1" * _bits(w, 15, 1) + " lds" * to_lds
        return self.text(row, out, tail)

    def mtbuf(self, w: int, hi: int) -> Instruction:
        row = self.row("mtbuf", _bits(w, 15, 4))
        out = self.buffer_operands(row, w, hi)
        data, number = _bits(w, 19, 4), _bits(w, 23, 3)
        parts = [f"BUF_DATA_FORMAT_{_DATA_FORMATS[data]}"] * (data != 1)
        parts += [f"BUF_NUM_FORMAT_{_NUMBER_FORMATS[number]}"] * (number != 0)
        tail = f" format:[{','.join(parts)}]" if parts else ""
        tail += " idxen" * _bits(w, 13, 1) + " offen" * _bits(w, 12, 1)
        tail += f" offset:{_bits(w, 0, 12)}" if _bits(w, 0, 12) else ""
        tail += " sc0" * _bits(w, 14, 1) + " nt" * _bits(hi, 22, 1) + " sc1" * _bits(hi, 21, 1)
        return self.text(row, out, tail)


def _negative(text: str) -> str:
    """A source that is negated: -44 would be another constant than the negative of the constant 44."""
    return f"neg({text})" if text[0].isdigit() or text[0] == "-" else f"-{text}"


def _number(value: int) -> str:
    """As LLVM prints it: in decimal where an inline constant could hold it."""
    return str(value) if value <= 64 else hex(value)


def _waitcnt(simm: int) -> str:
    vm, exp, lgkm = _bits(simm, 0, 4) | _bits(simm, 14, 2) << 4, _bits(simm, 4, 3), _bits(simm, 8, 4)
    parts = [f"vmcnt({vm})"] * (vm != 63) + [f"expcnt({exp})"] * (exp != 7) + [f"lgkmcnt({lgkm})"] * (lgkm != 15)
    return " ".join(parts or ["vmcnt(63) expcnt(7) lgkmcnt(15)"])


def _gpr_idx(mask: int) -> str:
    if mask >= 16:
        return hex(mask)
    return f"gpr_idx({','.join(name for i, name in enumerate(('SRC0', 'SRC1', 'SRC2', 'DST')) if mask >> i & 1)})"


def _dpp_control(value: int) -> str:
    fixed = {
        0x130: "wave_shl:1",
        0x134: "wave_rol:1",
        0x138: "wave_shr:1",
        0x13C: "wave_ror:1",
        0x140: "row_mirror",
        0x141: "row_half_mirror",
        0x142: "row_bcast:15",
        0x143: "row_bcast:31",
    }
    if value < 0x100:
        return f"quad_perm:[{','.join(str(value >> 2 * i & 3) for i in range(4))}]"
    if value in fixed:
        return fixed[value]
    named = {0x100: "row_shl", 0x110: "row_shr", 0x120: "row_ror", 0x150: "row_newbcast"}
    name, amount = named.get(value & ~15), value & 15
    if name is None or (amount == 0 and name != "row_newbcast"):
        raise _Invalid
    return f"{name}:{amount}"


def disassemble(code: bytes, arch: str, at: int = 0) -> Instruction | None:
    """The instruction at byte `at` of the code; None if the bytes there are none of the arch."""
    words = struct.unpack_from(f"<{min(4, (len(code) - at) // 4)}I", code, at)
    try:
        return _Decoder(encodings(arch), words).decode() if words else None
    except _Invalid:
        return None


def instructions(code: bytes, arch: str) -> Iterator[tuple[int, Instruction]]:
    """(offset in bytes, instruction) of all the code. UnsupportedInstruction names the first bytes that are none."""
    at = 0
    while at < len(code):
        found = disassemble(code, arch, at)
        if found is None:
            raise UnsupportedInstruction(f"no instruction of {arch} at {at:#x}: {code[at : at + 8].hex(' ', 4)}")
        yield at, found
        at += found.size_bytes
