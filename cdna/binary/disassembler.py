"""Machine code of gfx942 and gfx950 to assembly text, as LLVM's assembler takes it.

The encodings are those of AMD's "AMD Instinct MI300" and "CDNA4" instruction set architecture references (chapter
"Microcode Formats"); the table of instructions has each one's (isa/encodings.py).
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..errors import UnsupportedInstruction
from ..isa.encodings import Row, encodings, with_scales
from ..isa.signature import HALVES
from . import spelling
from .spelling import (
    InvalidBits,
    bits_of,
    constant_text,
    dpp_control,
    gpr_idx,
    literal_text,
    negated,
    number_text,
    omod,
    register_range,
    scalar_register,
    signed,
    waitcnt,
)

Field = Callable[[int], str]  # the text of an operand that is so many dwords wide

_LITERAL, _SDWA, _DPP, _LDS_DIRECT = 255, 249, 250, 254
_LOW_PRECISION_DWORDS = {0: 8, 1: 8, 2: 6, 3: 6, 4: 4}  # by cbsz or blgp: fp8, bf8, fp6, bf6, fp4


def _register(letter: str, word: int, low: int) -> Field:
    """A vector register by the 8 bits of a field."""
    return lambda dwords: register_range(letter, bits_of(word, low, 8), dwords)


def _scalar(word: int, low: int, width: int, scale: int = 1) -> Field:
    return lambda dwords: scalar_register(bits_of(word, low, width) * scale, dwords)


@dataclass(frozen=True)
class Instruction:
    """One decoded instruction. `target` is a branch's, in bytes from its own start; None if it is no branch."""

    mnemonic: str
    operands: str
    size_bytes: int
    target: int | None = None

    def __str__(self) -> str:
        return f"{self.mnemonic} {self.operands}".rstrip()


class _Decoder:
    """Decodes one instruction; `words` are the dwords from its first on, `pc` its address."""

    def __init__(self, rows: dict[tuple[str, int], Row], words: tuple[int, ...]) -> None:
        self.rows, self.words = rows, words
        self.size = 4
        self.target: int | None = None

    def word(self, index: int) -> int:
        if index >= len(self.words):
            raise InvalidBits
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
            raise InvalidBits
        return form(w, self.word(1))

    def row(self, form: str, opcode: int) -> Row:
        try:
            return self.rows[form, opcode]
        except KeyError:
            raise InvalidBits from None

    def text(self, row: Row, operands: list[str], tail: str = "", mnemonic: str = "") -> Instruction:
        return Instruction(mnemonic or row.mnemonic, ", ".join(operands) + tail, self.size, self.target)

    def operands(self, row: Row, fields: dict[str, Field]) -> list[str]:
        """Of a row, each as the field of its letter has it."""
        return [word if letter == "=" else fields[letter](dwords) for letter, dwords, word in row.operands]

    # ------------------------------------------------------------------ scalar formats

    def sop(self, w: int) -> Instruction:
        if w >> 23 == 0b101111111:
            row = self.row("sopp", bits_of(w, 16, 7))
        elif w >> 23 == 0b101111110:
            row = self.row("sopc", bits_of(w, 16, 7))
        elif w >> 23 == 0b101111101:
            row = self.row("sop1", bits_of(w, 8, 8))
        elif w >> 28 == 0b1011:
            row = self.row("sopk", bits_of(w, 23, 5))
        else:
            row = self.row("sop2", bits_of(w, 23, 7))
        simm = w & 0xFFFF
        fields: dict[str, Field] = {
            "s": _scalar(w, 16, 7),
            "a": lambda dwords: self.scalar_source(bits_of(w, 0, 8), dwords),
            "b": lambda dwords: self.scalar_source(bits_of(w, 8, 8), dwords),
            "k": lambda _: hex(simm),
            "K": lambda _: number_text(simm),
            "N": lambda _: str(simm) if simm or row.instruction.signature.slots else "",
            "H": lambda _: f"hwreg({bits_of(simm, 0, 6)}, {bits_of(simm, 6, 5)}, {bits_of(simm, 11, 5) + 1})",
            "L": lambda _: str(simm),
            "W": lambda _: waitcnt(simm),
            "G": lambda _: gpr_idx(bits_of(w, 8, 8) if row.format == "sopc" else simm),
            "l": lambda _: hex(self.word(1)),
        }
        if row.has("L"):
            self.target = 4 + 4 * signed(simm, 16)
        return self.text(row, [text for text in self.operands(row, fields) if text])

    def scalar_source(self, code: int, dwords: int, literal: bool = True) -> str:
        if code == _LITERAL and literal:
            return literal_text(self.word(1), dwords)
        if code == _LDS_DIRECT:
            raise InvalidBits
        return constant_text(code, dwords) or scalar_register(code, dwords)

    def smem(self, w: int, hi: int) -> Instruction:
        row = self.row("smem", bits_of(w, 18, 8))
        imm, soe = bits_of(w, 17, 1), bits_of(w, 14, 1)
        offset = hex(signed(bits_of(hi, 0, 21), 21))
        register = _scalar(hi, 25, 7) if soe else _scalar(hi, 0, 7)
        in_register = not imm or soe
        fields: dict[str, Field] = {
            "s": _scalar(w, 6, 7),
            "i": lambda _: number_text(bits_of(w, 6, 7)),
            "u": _scalar(w, 0, 6, 2),
            "o": lambda _: register(1) if in_register else offset,
        }
        out = self.operands(row, fields)
        tail = f" offset:{offset}" if row.has("o") and in_register and imm else ""
        if row.modifiers == "E" and bits_of(w, 16, 1):
            tail += " glc"
        return self.text(row, out, tail)

    # ------------------------------------------------------------------ vector ALU

    def source(self, code: int, dwords: int, accumulation: bool = False) -> str:
        """A 9-bit source of a VALU instruction."""
        if code >= 256:
            return register_range("a" if accumulation else "v", code - 256, dwords)
        if dwords > 2 and (230 <= code <= 239 or code > 248):
            raise InvalidBits  # apertures and flags are 32 and 64 bits wide
        return constant_text(code, dwords) or scalar_register(code, dwords)

    def vop12c(self, w: int) -> Instruction:
        top = bits_of(w, 25, 6)
        if top == 0x3F:
            row = self.row("vop1", bits_of(w, 9, 8))
        elif top == 0x3E:
            row = self.row("vopc", bits_of(w, 17, 8))
        else:
            row = self.row("vop2", top)
        code = bits_of(w, 0, 9)
        if code == _SDWA:
            return self.sdwa(row, w, self.word(1))
        if code == _DPP:
            return self.dpp(row, w, self.word(1))

        def first(dwords: int) -> str:
            if code != _LITERAL:
                return self.source(code, dwords)
            half = HALVES - {"bf16"} >= set(row.instruction.signature.types("S")[:1] or ["b32"])
            return literal_text(self.word(1) & (0xFFFF if half else 0xFFFFFFFF), dwords)

        fields: dict[str, Field] = {
            "d": _register("v", w, 17),
            "D": _scalar(w, 17, 8),
            "A": _register("a", w, 17),
            "X": lambda dwords: self.source(code, dwords, accumulation=True),
            "x": first,
            "y": _register("v", w, 9),
            "v": _register("v", w, 9),
            "l": lambda _: hex(self.word(1)),
        }
        if row.has("X") and code < 256:
            raise InvalidBits
        return self.text(row, self.operands(row, fields))

    def sdwa(self, row: Row, w: int, hi: int) -> Instruction:
        compare = row.format == "vopc"
        if row.sdwa is None or hi & row.sdwa[0]:
            raise InvalidBits
        if not compare:  # a compare's ignored bits are its destination where that is vcc
            hi &= ~row.sdwa[1]

        def select(low: int) -> str:
            value = bits_of(hi, low, 3)
            if value >= len(spelling.SELECTS):
                raise InvalidBits
            return spelling.SELECTS[value]

        def operand(code: int, low: int, scalar: bool, dwords: int) -> str:
            of_scalar = (constant_text(code, 1) or scalar_register(code, dwords)) if scalar else ""
            text = of_scalar or register_range("v", code, dwords)
            if bits_of(hi, low + 1, 1) and bits_of(hi, low, 1):
                raise InvalidBits
            if bits_of(hi, low, 1):
                return f"sext({text})"
            text = f"|{text}|" if bits_of(hi, low + 2, 1) else text
            return negated(text) if bits_of(hi, low + 1, 1) else text

        def second(dwords: int) -> str:
            return operand(bits_of(w, 9, 8), 27, bool(bits_of(hi, 31, 1)), dwords)

        fields: dict[str, Field] = {
            "d": _register("v", w, 17),
            "x": lambda dwords: operand(bits_of(hi, 0, 8), 19, bool(bits_of(hi, 23, 1)), dwords),
            "y": second,
            "v": second,
        }
        out = self.operands(row, fields)
        if compare and row.operands[0].word == "vcc" and bits_of(hi, 15, 1):
            out[0] = scalar_register(bits_of(hi, 8, 7), 2)
        tail = ""
        if not compare:
            if bits_of(hi, 11, 2) >= len(spelling.UNUSED):
                raise InvalidBits
            tail += " clamp" * bits_of(hi, 13, 1) + omod(bits_of(hi, 14, 2))
            if not row.sdwa[1] >> 8 & 1:
                tail += f" dst_sel:{select(8)} dst_unused:{spelling.UNUSED[bits_of(hi, 11, 2)]}"
        tail += f" src0_sel:{select(16)}"
        if row.format != "vop1":
            tail += f" src1_sel:{select(24)}"
        return self.text(row, out, tail, row.instruction.name + "_sdwa")

    def dpp(self, row: Row, w: int, hi: int) -> Instruction:
        if row.dpp is None or hi & row.dpp[0]:
            raise InvalidBits
        if row.dpp[1] >> 8 & 1 and bits_of(hi, 12, 5) != 0x15:
            raise InvalidBits  # 64-bit operations know row_newbcast alone
        hi &= ~(row.dpp[1] & ~0x1FF00)

        def operand(code: int, low: int, dwords: int) -> str:
            text = register_range("v", code, dwords)
            text = f"|{text}|" if bits_of(hi, low + 1, 1) else text
            return negated(text) if bits_of(hi, low, 1) else text

        fields: dict[str, Field] = {
            "d": _register("v", w, 17),
            "x": lambda dwords: operand(bits_of(hi, 0, 8), 20, dwords),
            "y": lambda dwords: operand(bits_of(w, 9, 8), 22, dwords),
            "v": lambda dwords: operand(bits_of(w, 9, 8), 22, dwords),
        }
        out = self.operands(row, fields)
        tail = f" {dpp_control(bits_of(hi, 8, 9))} row_mask:{bits_of(hi, 28, 4):#x} bank_mask:{bits_of(hi, 24, 4):#x}"
        tail += " bound_ctrl:1" * bits_of(hi, 19, 1)
        return self.text(row, out, tail, row.instruction.name + "_dpp")

    def modifier_bits(self, row: Row, w: int, hi: int) -> None:
        """Refuses bits that must be 0."""
        bits = bits_of(w, 8, 8) | bits_of(hi, 27, 5) << 8
        for index, letter in enumerate(row.modifiers):
            if letter == "X" and bits >> index & 1:
                raise InvalidBits

    def vop3(self, w: int, hi: int) -> Instruction:
        if w >> 23 == 0b110100111:
            row = self.row("vop3p", bits_of(w, 16, 7))
            self.modifier_bits(row, w, hi)
            if "loads_scales" in row.instruction.flags:
                return self.scaled(w, hi)
            if row.instruction.unit == "matrix":
                return self.matrix(row, w, hi)
            return self.packed(row, w, hi)
        row = self.row("vop3", bits_of(w, 16, 10))
        if not row.has("e"):
            self.modifier_bits(row, w, hi)
        elif any(letter == "X" and hi >> 27 + i & 1 for i, letter in enumerate(row.modifiers[8:])):
            raise InvalidBits
        if "truth_table" in row.instruction.flags:
            return self.bitop3(row, w, hi)
        negate = bits_of(hi, 29, 3) if "E" in row.modifiers[10:13] else 0
        absolute = bits_of(w, 8, 3) if not row.has("e") and "E" in row.modifiers[:3] else 0

        def source(index: int) -> Field:
            def text(dwords: int) -> str:
                plain = self.source(bits_of(hi, 9 * index, 9), dwords)
                plain = f"|{plain}|" if absolute >> index & 1 else plain
                return negated(plain) if negate >> index & 1 else plain

            return text

        fields: dict[str, Field] = {"d": _register("v", w, 0), "D": _scalar(w, 0, 8), "e": _scalar(w, 8, 7)}
        out = self.operands(row, fields | {letter: source(index) for index, letter in enumerate("xyz")})
        tail = ""
        if not row.has("e") and "E" in row.modifiers[3:7]:
            selects = [bits_of(w, 11 + i, 1) for i in range(3) if row.modifiers[3 + i] == "E"]
            if row.modifiers[6] == "E":
                selects.append(bits_of(w, 14, 1))
            if any(selects):
                tail += f" op_sel:[{','.join(map(str, selects))}]"
        tail += " clamp" * (bits_of(w, 15, 1) if row.modifiers[7] == "E" else 0)
        tail += omod(bits_of(hi, 27, 2)) if row.modifiers[8] == "E" else ""
        return self.text(row, out, tail)

    def bitop3(self, row: Row, w: int, hi: int) -> Instruction:
        """The truth table of three operands lies where other instructions have omod, abs and neg."""
        out = [register_range("v", bits_of(w, 0, 8), 1), *(self.source(bits_of(hi, 9 * i, 9), 1) for i in range(3))]
        truth = bits_of(hi, 27, 2) << 6 | bits_of(w, 8, 3) << 3 | bits_of(hi, 29, 3)
        selects = bits_of(w, 11, 4) if row.modifiers[3] == "E" else 0
        tail = f" op_sel:[{','.join(str(selects >> i & 1) for i in range(4))}]" if selects else ""
        return self.text(row, out, f"{tail} bitop3:{truth:#x}" if truth else tail)

    def packed(self, row: Row, w: int, hi: int) -> Instruction:
        mixes = "mix" in row.instruction.signature.types("S")  # fp32 or fp16, with the modifiers of single values

        def source(index: int) -> Field:
            def text(dwords: int) -> str:
                plain = self.source(bits_of(hi, 9 * index, 9), dwords)
                plain = f"|{plain}|" if mixes and w >> 8 + index & 1 else plain
                return negated(plain) if mixes and hi >> 29 + index & 1 else plain

            return text

        fields: dict[str, Field] = {
            "d": _register("v", w, 0),
            "A": _register("a", w, 0),
            "X": lambda dwords: self.source(bits_of(hi, 0, 9), dwords, accumulation=True),
        }
        out = self.operands(row, fields | {letter: source(index) for index, letter in enumerate("xyz")})
        n = sum(letter in "xyz" for letter, _, _ in row.operands)
        tail = ""
        modifiers = (
            ("op_sel", bits_of(w, 11, 3), 0, row.modifiers[3]),
            ("op_sel_hi", bits_of(hi, 27, 2) | bits_of(w, 14, 1) << 2, (1 << n) - 1, row.modifiers[8]),
            ("neg_lo", bits_of(hi, 29, 3), 0, row.modifiers[10]),
            ("neg_hi", bits_of(w, 8, 3), 0, row.modifiers[0]),
        )
        for label, value, usual, meaning in modifiers:
            usual = 0 if mixes else usual
            if mixes and label.startswith("neg"):
                continue
            if meaning == "E" and value & (1 << n) - 1 != usual:
                tail += f" {label}:[{','.join(str(value >> i & 1) for i in range(n))}]"
        tail += " clamp" * (bits_of(w, 15, 1) if row.modifiers[7] == "E" else 0)
        return self.text(row, out, tail)

    def scaled(self, w: int, hi: int) -> Instruction:
        """v_mfma_scale_*: a load of two scales and the product that takes them, 16 bytes that are one instruction."""
        product_w, product_hi = self.word(2), self.word(3)
        row = self.row("vop3p", bits_of(product_w, 16, 7))
        if product_w >> 23 != 0b110100111 or row.mnemonic not in with_scales():
            raise InvalidBits
        product = self.matrix(row, product_w, product_hi)
        operands, _, formats = product.operands.partition(" cbsz:")
        formats = f" cbsz:{formats}" if formats else ""
        if not formats and " blgp:" in operands:
            operands, _, formats = operands.partition(" blgp:")
            formats = f" blgp:{formats}"
        scales = [self.source(bits_of(hi, 9 * i, 9), 1) for i in range(2)]
        tail = ""
        if bits_of(w, 11, 2):
            tail += f" op_sel:[{bits_of(w, 11, 1)},{bits_of(w, 12, 1)},0]"
        tail += f" op_sel_hi:[{bits_of(hi, 27, 1)},{bits_of(hi, 28, 1)},0]"
        return self.text(row, [operands, *scales], tail + formats, with_scales()[row.mnemonic])

    def matrix(self, row: Row, w: int, hi: int) -> Instruction:
        accumulators = bits_of(w, 15, 1)
        flags = row.instruction.flags
        low_precision = "formats" in flags
        out = []
        for letter, dwords, _ in row.operands:
            if letter == "d":
                out.append(register_range("a" if accumulators else "v", bits_of(w, 0, 8), dwords))
            elif letter == "z":
                code = bits_of(hi, 18, 9)
                sparse = "accumulates" in flags
                constant = None if sparse or code >= 256 else constant_text(code, 1)
                if code < 256 and (constant is None or not 128 <= code <= 248 or 230 <= code <= 239):
                    raise InvalidBits
                out.append(constant or self.source(code, dwords, bool(accumulators) and not sparse))
            else:
                index = "xy".index(letter)
                code = bits_of(hi, 9 * index, 9)
                if code < 256:
                    raise InvalidBits  # matrices come from vector registers
                if low_precision:
                    dwords = _LOW_PRECISION_DWORDS.get(bits_of(w, 8, 3) if letter == "x" else bits_of(hi, 29, 3), 0)
                    if not dwords:
                        raise InvalidBits
                out.append(self.source(code, dwords, bool(bits_of(hi, 27 + index, 1))))
        tail = ""
        blgp = bits_of(hi, 29, 3)
        for label, value in (("cbsz", bits_of(w, 8, 3)), ("abid", bits_of(w, 11, 4)), ("blgp", blgp)):
            if label == "blgp" and "dgemm" in flags:
                tail += f" neg:[{blgp & 1},{blgp >> 1 & 1},{blgp >> 2}]" if blgp else ""
            elif not (low_precision and label == "abid"):  # there abid says that scales stand before
                tail += f" {label}:{value}" if value else ""
        return self.text(row, out, tail)

    # ------------------------------------------------------------------ memory

    def ds(self, w: int, hi: int) -> Instruction:
        row = self.row("ds", bits_of(w, 17, 8))
        data = "a" if bits_of(w, 25, 1) else "v"
        fields = {"p": bits_of(hi, 0, 8), "q": bits_of(hi, 8, 8), "r": bits_of(hi, 16, 8), "d": bits_of(hi, 24, 8)}
        if any(value and not row.has(letter) for letter, value in fields.items()):
            raise InvalidBits
        if row.modifiers == "X" and bits_of(w, 16, 1):
            raise InvalidBits
        registers = {letter: "v" if letter == "p" else data for letter in fields}
        out = [register_range(registers[letter], fields[letter], dwords) for letter, dwords, _ in row.operands]
        tail = ""
        modifiers = row.instruction.signature.modifiers or ()
        if "offset1" in modifiers:
            for label, value in (("offset0", bits_of(w, 0, 8)), ("offset1", bits_of(w, 8, 8))):
                tail += f" {label}:{value}" if value else ""
        elif w & 0xFFFF:
            tail += f" offset:{w & 0xFFFF}"
        if "gds" in modifiers:
            tail += " gds"
        return self.text(row, out, tail)

    def flat(self, w: int, hi: int) -> Instruction:
        segment = bits_of(w, 14, 2)
        if segment == 3:
            raise InvalidBits
        row = self.row(("flat", "scratch", "global")[segment], bits_of(w, 18, 7))
        data = "a" if bits_of(hi, 23, 1) else "v"
        saddr = bits_of(hi, 16, 7)
        has_scalar = saddr != 0x7F and segment > 0
        returns = row.instruction.does == "atomic" and bool(bits_of(w, 16, 1))
        if segment == 0 and saddr or segment != 1 and bits_of(w, 13, 1) or row.modifiers == "X" and bits_of(hi, 23, 1):
            raise InvalidBits
        out = []
        if returns:  # as wide as the data, of which a compare-and-swap has twice as much
            width = next(dwords for letter, dwords, _ in row.operands if letter == "q")
            dwords = width // 2 if "swap" in row.instruction.flags else width
            out.append(register_range(data, bits_of(hi, 24, 8), dwords))
        address = _register("v", hi, 0)
        in_scratch = segment == 1
        fields: dict[str, Field] = {
            "d": _register(data, hi, 24),
            "q": _register(data, hi, 8),
            "p": lambda _: address(1 if has_scalar or in_scratch else 2) if not in_scratch or w >> 13 & 1 else "off",
            "t": lambda _: scalar_register(saddr, 1 if in_scratch else 2) if has_scalar else "off",
        }
        out += self.operands(row, fields)
        offset = bits_of(w, 0, 12) if segment == 0 else signed(bits_of(w, 0, 13), 13)
        tail = f" offset:{offset}" if offset else ""
        tail += " sc0" * bits_of(w, 16, 1) + " nt" * bits_of(w, 17, 1) + " sc1" * bits_of(w, 25, 1)
        return self.text(row, out, tail)

    def buffer_operands(self, row: Row, w: int, hi: int) -> list[str]:
        offen, idxen = bits_of(w, 12, 1), bits_of(w, 13, 1)
        first = bits_of(hi, 0, 8)
        address = f"v[{first}:{first + 1}]" if offen and idxen else f"v{first}" if offen or idxen else "off"
        fields: dict[str, Field] = {
            "d": _register("a" if bits_of(hi, 23, 1) else "v", hi, 8),
            "p": lambda _: address,
            "w": lambda _: scalar_register(bits_of(hi, 16, 5) << 2, 4),
            "n": lambda _: self.scalar_source(bits_of(hi, 24, 8), 1, literal=False),
        }
        return self.operands(row, fields)

    def mubuf(self, w: int, hi: int) -> Instruction:
        to_lds = bits_of(w, 16, 1)
        opcode = bits_of(w, 18, 7)
        row = self.row("mubuf", opcode)
        if to_lds:
            row = self.rows.get(("mubuf_lds", opcode), row)
            if row.format != "mubuf_lds":
                raise InvalidBits
            if bits_of(hi, 23, 1):
                raise InvalidBits
        if not row.operands:  # buffer_inv, buffer_wbl2
            if to_lds or bits_of(w, 12, 2) or bits_of(hi, 23, 1):
                raise InvalidBits
            return self.text(row, [], (" sc0" * bits_of(w, 14, 1) + " sc1" * bits_of(w, 15, 1)).strip())
        out = self.buffer_operands(row, w, hi)
        tail = " idxen" * bits_of(w, 13, 1) + " offen" * bits_of(w, 12, 1)
        tail += f" offset:{bits_of(w, 0, 12)}" if bits_of(w, 0, 12) else ""
        tail += " sc0" * bits_of(w, 14, 1) + " nt" * bits_of(w, 17, 1) + " sc1" * bits_of(w, 15, 1) + " lds" * to_lds
        return self.text(row, out, tail)

    def mtbuf(self, w: int, hi: int) -> Instruction:
        row = self.row("mtbuf", bits_of(w, 15, 4))
        out = self.buffer_operands(row, w, hi)
        data, number = bits_of(w, 19, 4), bits_of(w, 23, 3)
        parts = [f"BUF_DATA_FORMAT_{spelling.DATA_FORMATS[data]}"] * (data != 1)
        parts += [f"BUF_NUM_FORMAT_{spelling.NUMBER_FORMATS[number]}"] * (number != 0)
        tail = f" format:[{','.join(parts)}]" if parts else ""
        tail += " idxen" * bits_of(w, 13, 1) + " offen" * bits_of(w, 12, 1)
        tail += f" offset:{bits_of(w, 0, 12)}" if bits_of(w, 0, 12) else ""
        tail += " sc0" * bits_of(w, 14, 1) + " nt" * bits_of(hi, 22, 1) + " sc1" * bits_of(hi, 21, 1)
        return self.text(row, out, tail)


def disassemble(code: bytes, arch: str, at: int = 0) -> Instruction | None:
    """The instruction at byte `at` of the code; None if the bytes there are none of the arch."""
    words = struct.unpack_from(f"<{min(4, (len(code) - at) // 4)}I", code, at)
    try:
        return _Decoder(encodings(arch), words).decode() if words else None
    except InvalidBits:
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
