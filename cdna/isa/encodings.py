"""How each instruction is encoded: its format and opcode stand in the table, and what follows from its operands' types
follows here. A cell is format:opcode, and behind slashes what is otherwise than that:

    bits=, e64=     the modifier bits, see Row; of VOP1, VOP2 and VOPC those of the form in VOP3
    sdwa=, dpp=     bits of the second dword that must be 0, and that are ignored
    operands=       letters, see _OPERANDS
    lds, lds=archs  it has a form to the LDS (there)

with "-" where there is no such form.

scaled=name: no opcode of its own, but a load of scales and that product.

What follows and what does not was asked of LLVM 22's disassembler, opcode by opcode; tests/cdna/test_encodings.py asks
its assembler again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from . import Instruction, instructions
from .signature import FLOATS, HALVES, TYPES, Signature

# The letters of operands; a number behind one is its width in dwords.
_OPERANDS = """
    d vdst (VGPR)            D vdst (SGPR)            s sdst, sdata (SGPR)     e sdst of VOP3B
    x y z src0 src1 src2     v vsrc1 of VOP2, VOPC    X src0, always an AGPR   A vdst, always an AGPR
    a b ssrc0 ssrc1          k simm16 as hex          K simm16 as a number     H simm16 as hwreg
    L branch target          W s_waitcnt              N simm16 in decimal      G gpr_idx(...)
    p address (VGPR)         q r data0 data1 (VGPR)   t saddr of FLAT          i 7-bit number in sdata
    u sbase                  o offset of SMEM         w srsrc                  n soffset
    l 32-bit literal         =word itself
"""
_SCALAR = ("sop1", "sop2", "sopc", "sopk", "sopp", "smem")
_FLAT = ("flat", "scratch", "global")
_BUFFER = ("mubuf", "mubuf_lds", "mtbuf")
# Of opcodes in VOP3 that VOPC, VOP2 and VOP1 have as well, the first.
_IN_VOP3 = {"vopc": 0, "vop2": 0x100, "vop1": 0x140}
_SCALED = "scaled="  # instead of format and opcode: the product that a load of scales stands before
_NEGATED = FLOATS - {"pi16"} | {"f16x2", "bf16x2"}
_SOURCES = ("vop1", "vop2", "vopc", "vop3", "vop3p")


class Operand(NamedTuple):
    letter: str  # "=": `word` itself
    dwords: int
    word: str = ""


def _operand(text: str) -> Operand:
    return Operand("=", 0, text[1:]) if text[0] == "=" else Operand(text[0], int(text[1:] or 1))


@dataclass(frozen=True)
class Row:
    """One opcode of one format. `modifiers` has a letter for each modifier bit of it, lowest bit first: E the bit
    means something, I it is ignored, X it must be 0. Of VOP3: abs of three sources, op_sel of them and of the result,
    clamp, omod, neg of three sources."""

    format: str
    mnemonic: str
    instruction: Instruction
    operands: tuple[Operand, ...]
    modifiers: str = ""
    sdwa: tuple[int, int] | None = None  # of the second dword: bits that must be 0, bits that are ignored
    dpp: tuple[int, int] | None = None

    def has(self, letter: str) -> bool:
        return any(operand.letter == letter for operand in self.operands)


def _letters(form: str, signature: Signature, lane_order: bool) -> Iterator[str]:
    """The operands of a format."""
    data = iter("qr" if lane_order or form in _FLAT else "pqr")
    sources = iter("ab" if form in _SCALAR else "xyz")
    kinds = [kind for kind, _ in signature.slots]
    results = 0
    for place, (kind, type_name) in enumerate(signature.slots):
        dwords = TYPES[type_name.partition("|")[0]][0] if type_name else 1
        width = str(dwords) if dwords > 1 else ""
        mask = type_name == "b64" and form in _SOURCES  # of lanes: VCC, where it has no field of its own
        if kind == "D":
            names_vcc = form == "vopc" or mask and results > 0 and form != "vop3"
            carry = mask and results > 0
            yield "=vcc" if names_vcc else "e2" if carry else ("s" if form in _SCALAR else "d") + width
            results += 1
        elif kind == "S" and form == "smem":
            yield ("u" if kinds[place + 1 : place + 2] == ["M"] else "s") + width
        elif kind == "S" and form == "sopk":
            yield "k" if type_name == "k16" or kinds.index("S") < place else "s" + width
        elif kind == "S" and form in _BUFFER:
            yield "d" + width if place == 0 else "w4" if type_name == "b128" else "n"
        elif kind == "S":
            letter = next(data if form == "ds" or form in _FLAT else sources)
            yield "=vcc" if mask and letter == "z" and form == "vop2" else letter + width
        elif kind == "I":
            yield "i" if form == "smem" else "K"
        elif kind != "?D":
            yield {"A": "p", "G": "t", "M": "o", "X": "N"}.get(kind, kind)


def _modifiers(form: str, instruction: Instruction) -> str:
    """What the modifier bits of a format mean."""
    facts, signature, flags = instruction.facts, instruction.signature, instruction.flags
    sources, results = signature.types("S"), signature.types("D")
    if form == "smem":
        return "E" if facts is not None and facts.does in ("load", "store", "atomic") else ""
    if form == "ds":
        return "I"
    if form in _FLAT:
        return "X" if "to_lds" in flags else "E"
    if form == "vop3p":
        sparse = "EEEEEEEEEEXXX" if "accumulates" in flags else ""
        matrix = facts is not None and facts.unit == "matrix"
        return sparse if matrix else "E" * 13 if len(sources) == 3 else "EEXEEXIEEEEEX"
    if form not in _SOURCES or not signature.slots:
        return "I" * 13 if form in _SOURCES else ""
    floats = "".join("E" if type_name in _NEGATED else "X" for type_name in sources[:3]).ljust(3, "X")
    selects = form == "vop3" and (not HALVES.isdisjoint(results + sources) or "op_sel" in (signature.modifiers or ()))
    carry = form != "vopc" and results[1:] == ["b64"]
    select = ("E" * len(sources)).ljust(3, "X") + "E" if selects else "IIII"
    rounds = form == "vop1" and "E" in floats
    scales = results[:1] and results[0] in FLOATS or rounds
    compares_floats = form == "vopc" and "E" in floats and sources[0] == sources[-1]
    clamp = "E" if scales or "saturates" in flags or compares_floats else "X"
    return ("IEEEEEE" if carry else floats + select) + clamp + ("EE" if scales else "XX") + floats


def _second_dwords(form: str, instruction: Instruction, modifiers: str) -> Iterator[tuple[str, tuple[int, int] | None]]:
    """The forms with SDWA and DPP of VOP1, VOP2 and VOPC: negated and absolute values as in VOP3, none of 64 bits."""
    signature = instruction.signature
    results = signature.types("D")[:1] if form != "vopc" else []
    wide = any(TYPES[type_name][0] == 2 and type_name != "p32" for type_name in results + signature.types("S")[:2])
    sdwa, dpp, dpp_ignored = 0, 0, 0x7FF if wide else 0x600
    for k, letter in enumerate(modifiers[10:12] if form != "vop1" else f"{modifiers[10]}-"):
        sdwa |= {"X": 0x30, "-": 0xBF}.get(letter, 8) << 8 * (k + 1)
        dpp |= 0x3000 << 2 * k if letter in "X-" else 0
        dpp_ignored |= 0x3000 << 2 * k if letter == "I" else 0
    if form != "vopc" and modifiers[8] != "E":
        sdwa |= 0xC0
    yield (
        "sdwa",
        None
        if wide or "accumulates" in instruction.flags
        else (sdwa << 8, (0x40407F if form == "vopc" else 0x404000) << 8),
    )
    yield "dpp", None if form == "vopc" else (dpp << 8, dpp_ignored << 8)


def _in_vop3(operand: str, place: int) -> str:
    """What names VCC there has a field of its own here: vdst of a comparison, a carry out, a carry in."""
    return operand if operand != "=vcc" else {0: "D2", 1: "e2"}.get(place, "z2")


def _pair(text: str) -> tuple[int, int] | None:
    zero, _, ignored = text.partition(":")
    return (int(zero, 16) << 8, int(ignored, 16) << 8) if text != "-" else None


def _rows(one: Instruction, arch: str) -> Iterator[tuple[int, Row]]:
    """The opcodes of an instruction: of VOP1, VOP2 and VOPC also the form in VOP3, of loads also the one to the LDS."""
    place, *exceptions = one.encoding.split("/")
    form, _, number = place.partition(":")
    opcode = int(number, 16)
    told = dict(word.partition("=")[::2] for word in exceptions)
    derived = _letters(form, one.signature, "lane_order" in one.flags)
    letters = told["operands"].split(",") if "operands" in told else derived
    operands, mnemonic, forms = tuple(letters), one.name, dict[str, tuple[int, int] | None]()
    modifiers = told.get("bits", told.get("e64", _modifiers(form, one)))
    if form in _IN_VOP3 and modifiers != "-":
        wide = tuple(_operand(_in_vop3(operand, place)) for place, operand in enumerate(operands))
        yield _IN_VOP3[form] + opcode, Row("vop3", f"{mnemonic}_e64", one, wide, modifiers)
        if operands:
            mnemonic += "_e32"
            forms = dict(_second_dwords(form, one, modifiers))
            forms |= {name: _pair(told[name]) for name in forms if name in told}
    if "lds" in told and arch in (told["lds"] or arch):
        to_lds = tuple(map(_operand, _letters("mubuf_lds", one.signature.to_lds(), False)))
        yield opcode, Row("mubuf_lds", mnemonic, one, to_lds)
    yield (
        opcode,
        Row(form, mnemonic, one, tuple(map(_operand, operands)), "" if form in _IN_VOP3 else modifiers, **forms),
    )


@cache
def encodings(arch: str) -> dict[tuple[str, int], Row]:
    """(format, opcode) -> row, for the opcodes that the arch has."""
    own = (one for one in instructions().values() if arch in one.archs and ":" in one.encoding)
    return {(row.format, opcode): row for one in own for opcode, row in _rows(one, arch)}


@cache
def with_scales() -> dict[str, str]:
    """Of a product that a load of scales may stand before, the instruction that both are then."""
    told = ((one.name, one.encoding.rpartition(_SCALED)) for one in instructions().values())
    return {product: name for name, (_, scaled, product) in told if scaled}
