"""What LLVM's assembler takes a float constant of each vector instruction's operand for.

The assembler encodes a number that a constant stands for as that constant, whichever way it is written. So of 0x3c00,
0x3f80, 0x3f800000 and 0x3ff0000000000000, the one that it encodes as 1.0 is the value that the operand reads there.
"""

import re
import struct
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cdna.binary.operands import TYPES
from cdna.engine.build import zig_binary
from cdna.engine.library import engine
from cdna.isa import instructions

FLOATS = ("1.0", "-4.0", "0.5", "0.15915494")
INTEGERS = ("64", "-16")
KINDS = ("f16", "bf16", "f32", "f64")
MIX = "op_sel_hi:[1,1,1]"  # without it v_fma_mix reads f32, which the assembler takes no number for


def value(text: str, kind: str) -> int:
    """What a constant stands for, of 64 bits; of f16 and bf16 in the low ones. kind: one of KINDS, or an integer's."""
    if "." not in text:
        return int(text) & (1 << 64) - 1
    number = 0.15915494309189532 if text == "0.15915494" else float(text)
    if kind == "bf16":
        return value(text, "f32") >> 16
    return int.from_bytes(struct.pack({"f16": "<e", "f32": "<f", "f64": "<d"}[kind], number), "little")


@dataclass(frozen=True)
class Form:
    """An instruction with its operands' types: of its results, then of its sources."""

    name: str
    results: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def is_matrix(self) -> bool:
        return self.name.startswith(("v_mfma", "v_smfmac"))

    def is_mask(self, place: int) -> bool:
        """Whether an operand, counted from the first result, is a pair of scalar registers with a bit for each lane."""
        if self.name.startswith("v_cmp"):
            return place == 0
        return (
            place == 1 == len(self.results) - 1
            or place == 4
            and "_co_" in self.name
            or "cndmask" in self.name
            and place == 3
        )

    def is_scalar(self, place: int) -> bool:
        """Whether an operand is a scalar register."""
        return self.name.startswith(("v_readlane", "v_readfirst")) and place == 0


def forms(arch: str) -> Iterator[Form]:
    """The vector and matrix instructions of an arch."""
    for name, (_, signature) in sorted(engine().ops[arch].items()):
        row = instructions().get(name)
        if row is None or row.facts is None or row.facts.unit not in ("vector", "matrix") or arch not in row.archs:
            continue
        if name == "v_mfma_ld_scale_b32":  # no instruction by itself
            continue
        yield Form(
            name,
            tuple(kind.partition("|")[0] for kind in signature.types("D")),
            tuple(kind.partition("|")[0] for kind in signature.types("S")),
        )


def registers(first: int, dwords: int, file: str = "v") -> str:
    return f"{file}{first}" if dwords == 1 else f"{file}[{first}:{first + dwords - 1}]"


FIRST, APART = 8, 40  # vector registers of the first operand in `line`, and from one's to the next one's


def line(form: Form, source: int | None = None, text: str = "") -> str:
    """The instruction on registers, or with a constant as one of its sources."""
    operands = []
    for place, kind in enumerate(form.results + form.sources):
        if source is not None and place == len(form.results) + source:
            operands.append(text)
        elif form.is_mask(place):
            operands.append("vcc" if place or not source else "s[2:3]")
        elif form.is_scalar(place) or form.name in ("v_readlane_b32", "v_writelane_b32") and place == 1:
            operands.append("s4")
        else:
            accumulation = "accvgpr" in form.name and ("write" in form.name) == (place == 0)
            operands.append(registers(FIRST + APART * place, TYPES[kind][0], "a" if accumulation else "v"))
    return f"{form.name} {', '.join(operands)} {MIX if 'mix' in form.sources else ''}"


def as_printed(arch: str, lines: list[str]) -> dict[int, str]:
    """How the assembler prints the lines that it takes, by their place, inline constants as such; and the bytes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "lines.s"

        def ask(places: list[int]) -> subprocess.CompletedProcess[str]:
            file.write_text("".join(f"{lines[place]}\n" for place in places))
            command = [str(zig_binary()), "clang", "-cc1as", "-triple", "amdgcn-amd-amdhsa", "-target-cpu", arch]
            command += ["-filetype", "asm", "-show-encoding", str(file), "-o", "-"]
            return subprocess.run(command, capture_output=True, text=True, check=False)

        refused = {int(line) - 1 for line in re.findall(r"\.s:(\d+):\d+: error:", ask(list(range(len(lines)))).stderr)}
        taken = [place for place in range(len(lines)) if place not in refused]
        printed = [line for line in ask(taken).stdout.splitlines() if line.startswith("\tv_")]
    assert len(printed) == len(taken)
    return dict(zip(taken, printed, strict=True))


def answers(arch: str) -> dict[tuple[str, int], str]:
    """(name, source) -> what a float constant stands for there, of KINDS; `text`: no number is encoded as one."""
    asked = [
        (form.name, source, kind, text, line(form, source, hex(value(text, kind)) if kind else text))
        for form in forms(arch)
        for source in range(len(form.sources))
        for kind in (*KINDS, "")
        for text in FLOATS
    ]
    printed = as_printed(arch, [line for *_, line in asked])
    inline = Counter[tuple[str, int, str]]()
    for place, (name, source, kind, text, _) in enumerate(asked):
        words = re.split(r"[\s,]+", printed.get(place, ""))
        if any(word.startswith(text) for word in words) and "Invalid" not in printed[place]:
            inline[name, source, kind] += 1
    found: dict[tuple[str, int], str] = {}
    for (name, source, kind), count in inline.items():
        if count == len(FLOATS):  # the text comes last, and 1/(2 pi) of 64 bits has another
            known = found.setdefault((name, source), kind or "text")
            assert kind in (known, ""), (name, source)
    return found
