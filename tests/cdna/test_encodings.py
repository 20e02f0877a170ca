"""The encodings that the table states and those that follow from it, against LLVM's assembler."""

import random
import re
import struct
import subprocess
from pathlib import Path

import pytest

from cdna import ARCHS
from cdna.binary.disassembler import Instruction, disassemble
from cdna.engine.build import zig_binary
from cdna.isa.encodings import encodings

# The first dword of a format with its opcode, and which of its other bits and of the second dword's are drawn.
PLACES = {
    "sop2": (0b10 << 30, 23, 0x7FFFFF, 0),
    "sopk": (0b1011 << 28, 23, 0x7FFFFF, 0),
    "sop1": (0b101111101 << 23, 8, 0x7F00FF, 0),
    "sopc": (0b101111110 << 23, 16, 0xFFFF, 0),
    "sopp": (0b101111111 << 23, 16, 0xFFFF, 0),
    "smem": (0b110000 << 26, 18, 0x3FFFF, 0xFE1FFFFF),
    "vop2": (0, 25, 0x1FFFFFF, 0xFFFFFFFF),
    "vop1": (0x3F << 25, 9, 0x1FE01FF, 0xFFFFFFFF),
    "vopc": (0x3E << 25, 17, 0x1FFFF, 0xFFFFFFFF),
    "vop3": (0b110100 << 26, 16, 0xFFFF, 0xFFFFFFFF),
    "vop3p": (0b110100111 << 23, 16, 0xFFFF, 0xFFFFFFFF),
    "ds": (0b110110 << 26, 17, 0x201FFFF, 0xFFFFFFFF),
    "flat": (0b110111 << 26, 18, 0x2030FFF, 0x80FFFF),
    "scratch": (0b110111 << 26 | 1 << 14, 18, 0x2033FFF, 0xFFFFFFFF),
    "global": (0b110111 << 26 | 2 << 14, 18, 0x2031FFF, 0xFFFFFFFF),
    "mubuf": (0b111000 << 26, 18, 0x2FFFF, 0xFF9FFFFF),
    "mubuf_lds": (0b111000 << 26 | 1 << 16, 18, 0x2FFFF, 0xFF9FFFFF),
    "mtbuf": (0b111010 << 26, 15, 0x3FF7FFF, 0xFF7FFFFF),
}
NO_LINES = (
    "s_sendmsg s_sendmsghalt ds_nop ds_gws_sema_p ds_gws_sema_v ds_gws_sema_release_all v_mfma_ld_scale_b32".split()
)  # but for few
LITERAL = 0x1234567  # which no constant stands for
MANY, TRIES = 12, 2000  # of each form of an opcode
FEW = {"ds": ~0xFFFF, "sopc": 0xF7F, "sopp": 0xF}  # bits of which the assembler does not take all values
REGISTERS_OF_DS = (0, 0xFF, 0xFFFF, 0xFF0000FF, 0xFF00FFFF, 0xFF000000, 0xFFFFFFFF)
# What the assembler has no text for, or takes for another form.
NO_TEXT = re.compile(r"src_|ttmp|xnack_mask|flat_scratch|null|neg|_f64.* sc1|pk_fp4_f32 v\d+, \d|hwreg\(0,")


def words(rng: random.Random, form: str, opcode: int) -> tuple[int, int]:
    """Of an instruction with operands and modifiers as they come."""
    first, shift, free, second = PLACES[form]
    w, hi = first | opcode << shift | rng.getrandbits(32) & free & rng.choice((~0, FEW.get(form, ~0))), 0
    if form in ("vop3", "vop3p"):  # registers that begin at even ones, and few modifiers
        bits = rng.choice((0, rng.getrandbits(32) & rng.getrandbits(32)))
        w = w & (~0xFF00 | bits) & ~1 | (0x4000 if form == "vop3p" and not bits else 0)
        for k in range(3):
            register = 256 + 2 * rng.getrandbits(7)
            hi |= (
                rng.choice((register, *[register] * (k < 2), 128 + rng.getrandbits(5), 2 * rng.getrandbits(5))) << 9 * k
            )
        return w, hi | bits & 0xF8000000 | 0x18000000 * (form == "vop3p" and not bits)
    hi = rng.getrandbits(32) & second
    if form == "ds":
        hi &= 0xFEFEFEFE & rng.choice(REGISTERS_OF_DS)
    elif form in ("vop1", "vop2", "vopc"):
        w = w & ~0x1FF | rng.choice((249, 250, *(256 + 2 * rng.getrandbits(7) for _ in range(2)), rng.getrandbits(9)))
        hi &= rng.choice((~0, 0xFFFF, rng.getrandbits(32) & rng.getrandbits(32)))
    elif form in ("mubuf", "mubuf_lds", "mtbuf", "flat", "global", "scratch"):
        hi &= ~0x101
    return w, hi or LITERAL


def drawn(arch: str, form: str, opcode: int) -> list[Instruction]:
    """Instructions of one opcode, several of each of its forms."""
    rng = random.Random(f"{form} {opcode}")
    found: dict[str, Instruction] = {}
    forms: dict[str, int] = {}
    for _ in range(TRIES):
        one = disassemble(struct.pack("<4I", *words(rng, form, opcode), 0, 0), arch)
        if one is not None and one.target is None and not NO_TEXT.search(str(one)) and str(one) not in found:
            forms[one.mnemonic] = forms.get(one.mnemonic, 0) + 1
            if forms[one.mnemonic] <= MANY:
                found[str(one)] = one
        if forms and min(forms.values()) >= MANY and (len(forms) > 1 or form not in ("vop1", "vop2", "vopc")):
            break
    return list(found.values())


def assembled(lines: list[str], arch: str, folder: Path) -> list[bytes | None]:
    """The bytes of each line; None where the assembler does not take it."""
    source = folder / "lines.s"
    source.write_text("\n".join(lines) + "\n")
    command = [str(zig_binary()), "clang", "-cc1as", "-triple", "amdgcn-amd-amdhsa", "-target-cpu", arch]
    command += ["-filetype", "asm", "-show-encoding", str(source), "-o", "-"]
    done = subprocess.run(command, capture_output=True, text=True)
    refused = {int(number) - 1 for number in re.findall(r"\.s:(\d+):\d+: error:", done.stderr)}
    if refused:
        taken = iter(assembled([line for k, line in enumerate(lines) if k not in refused], arch, folder))
        return [None if k in refused else next(taken) for k in range(len(lines))]
    found = re.findall(r"encoding: \[(.*?)\]", done.stdout.replace("\n", " "))
    return [bytes(int(byte, 16) for byte in re.findall(r"0x(\w\w)", text)) for text in found]


@pytest.mark.skipif(zig_binary() is None, reason="needs ziglang's assembler")
@pytest.mark.parametrize("arch", ARCHS)
def test_the_assembler_makes_of_each_opcode_what_is_decoded_to_the_same_text(arch: str, tmp_path: Path) -> None:
    """It refuses some registers that hardware would take, as pairs that begin at odd ones, but no opcode."""
    rows = [row for row in encodings(arch).items() if not row[1].has("L") and row[1].mnemonic not in NO_LINES]
    asked = [(row.mnemonic, str(one)) for (form, opcode), row in rows for one in drawn(arch, form, opcode)]
    taken = [
        (*line, str(disassemble(code, arch)))
        for line, code in zip(asked, assembled([text for _, text in asked], arch, tmp_path), strict=True)
        if code is not None
    ]
    assert len(taken) > 0.95 * len(asked)
    assert [(text, again) for _, text, again in taken if again != text] == []
    assert {row.mnemonic for _, row in rows} - {mnemonic for mnemonic, _, _ in taken} == set()
