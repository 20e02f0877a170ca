"""Finds in compiled assembly what only an assembler or a linker would: bad inline assembly, undefined symbols; and puts
in place of inline assembly what the assembler makes of it."""

import re

from ...binary.asm import INLINE_ASSEMBLY, parse, source_line
from ...binary.disassembler import instructions

_USED = re.compile(r"([\w.$]+)@(?:rel32|gotpcrel32)@lo|^\s*\.quad\s+([A-Za-z_][\w.$]*)", re.MULTILINE)
_DEFINED = re.compile(r"^([\w.$]+):|^\s*\.(?:l?comm|set|amdgpu_lds)\s+([\w.$]+)", re.MULTILINE)
_LABELS = re.compile(r"^\s*([\w.$]+):", re.MULTILINE)
_DWORDS = re.compile(r"(?:^\s*\.long\s+\d+\n)+", re.MULTILINE)
_ASSEMBLER = re.compile(r"^.*?:(\d+):\d+: error: (.*)$", re.MULTILINE)


def has_inline_assembly(text: str) -> bool:
    """Whether a programmer wrote some of it: the compiler checks that only when it assembles."""
    return "ASMSTART" in text


def with_assembled(text: str, assembled: str, arch: str) -> str:
    """`text` with its inline assembly as the assembler wrote it back: without macros, repetitions, conditions and
    expressions, and with instructions for dwords. All else stays as it is, with its comments on lines of source.

    Labels that are numbers (`1:`, `1b`) get names, and the assembler gives names that the compiler has given too.
    """
    old, new = INLINE_ASSEMBLY.findall(text), INLINE_ASSEMBLY.findall(assembled)
    names = set(_LABELS.findall("".join(new))) - set(_LABELS.findall("".join(old)))
    blocks = (re.sub(r"\.Ltmp\d+\b", lambda name: name[0] + "_inline" * (name[0] in names), block) for block in new)
    decoded = (_DWORDS.sub(lambda dwords: _decoded(dwords[0], arch), block) for block in blocks)
    return INLINE_ASSEMBLY.sub(lambda _: next(decoded), text)


def _decoded(dwords: str, arch: str) -> str:
    code = b"".join(int(number).to_bytes(4, "little") for number in re.findall(r"\d+", dwords))
    return "".join(f"\t{instruction}\n" for _, instruction in instructions(code, arch))


def source_of_line(text: str, number: int) -> str:
    """`file:line` of the user's source that the instruction at assembly line `number` (from 1) came from, or ""."""
    # Without kernels' descriptors: their values are expressions where a function is undefined.
    code = re.sub(r"^\s*\.amdhsa_.*$", "", text, flags=re.MULTILINE).split("\n")[:number]
    asm = parse("\n".join(code))
    last = asm.statements[-1] if asm.statements else None
    return source_line(asm, last) if last and last.source[1] else ""


def undefined_symbol(text: str) -> str | None:
    """The first symbol that the code uses and nothing defines, as an error message; None if there is none."""
    defined = {name for pair in _DEFINED.findall(text) for name in pair}
    for use in _USED.finditer(text):
        name = use[1] or use[2]
        if name not in defined:
            place = source_of_line(text, text.count("\n", 0, use.start()) + 1)
            return f"{place + ': ' if place else ''}error: undefined device symbol {name}"
    return None


def assembler_error(text: str, said: str) -> str:
    """The assembler's first message about `text`, at the line of the source that the instruction came from."""
    found = _ASSEMBLER.search(said)
    if not found:
        return f"error: assembling failed: {(said.strip().splitlines() or ['no message'])[0]}"
    number = int(found[1])
    place = source_of_line(text, number)
    return f"{place + ': ' if place else ''}error: {found[2]}: {text.split(chr(10))[number - 1].strip()}"
