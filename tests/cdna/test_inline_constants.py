"""Inline constants and literals: whichever the instruction, an operand reads what the assembler takes one for."""

import random
from collections.abc import Iterator

import pytest

from cdna.binary.operands import TYPES
from cdna.cards import ARCHS
from cdna.engine.build import zig_binary
from cdna.errors import UnsupportedInstruction
from cdna.testing.snippet import State, run
from tests.support.exactfloat import encode
from tests.support.inline_constants import (
    FLOATS,
    INTEGERS,
    Form,
    answers,
    as_printed,
    forms,
    registers,
    value,
)

pytestmark = pytest.mark.skipif(zig_binary() is None, reason="needs ziglang's assembler")

WAVE = 64
M32 = 0xFFFFFFFF
INVERSE_2PI_F64 = "0.15915494309189532"
CONSTANTS = (*FLOATS, *INTEGERS)
SCALARS, MASKS = 16, 52  # scalar registers: of what constants stand for, of masks that are written


def dwords_of(text: str, kind: str, type_name: str) -> list[int]:
    """The registers of an operand that holds what a constant stands for there."""
    count = TYPES[type_name][0]
    bits = value(text, kind if "." in text else "f64")
    return [bits & M32, bits >> 32] * (count // 2) if kind == "f64" else [bits & M32] * count


def selects(form: Form) -> Iterator[tuple[str, list[int]]]:
    """Ways to select halves: the words behind the operands, and op_sel_hi. Not every instruction takes each."""
    ones, zeros = [1] * len(form.sources), [0] * len(form.sources)
    yield "", zeros
    if not any("16" in kind or kind in ("p32", "mix") for kind in form.sources):
        return
    for low in (zeros, ones):
        for high in (ones, zeros):
            words = "".join(
                f" {name}:{bits}".replace(", ", ",") for name, bits in (("op_sel", low), ("op_sel_hi", high))
            )
            yield words, high


def states(arch: str, form: Form, kinds: dict[int, str], words: str, values: list[list[int]]) -> list[State]:
    """After the instruction, once for each constant in each source that takes any; and with registers in their place.

    kinds: what a constant is in a source. values: of the vector registers that are read.
    """
    firsts = [sum(TYPES[kind][0] for kind in form.sources[:source]) for source in range(len(form.sources) + 1)]
    free, mask = firsts[-1], MASKS
    v, s = dict(enumerate(values[:free])), dict[int, int]()
    texts: tuple[list[str], list[str]] = ([], [])
    for source, kind in kinds.items():
        dwords = TYPES[form.sources[source]][0]
        for which, text in enumerate(CONSTANTS):
            operands = []
            for place, type_name in enumerate(form.results):
                if form.is_mask(place) or form.is_scalar(place):
                    operands.append(registers(mask, TYPES[type_name][0], "s"))
                    mask += 2
                else:
                    operands.append(registers(free, TYPES[type_name][0]))
                    free += TYPES[type_name][0]
            for number, type_name in enumerate(form.sources):
                is_mask = form.is_mask(len(form.results) + number)
                operands.append("vcc" if is_mask else registers(firsts[number], TYPES[type_name][0]))
            held = dwords_of(text, kind, form.sources[source])
            if form.is_matrix:
                register = registers(free, dwords)
                v |= {free + k: [dword] * WAVE for k, dword in enumerate(held)}
                free += dwords
            else:
                first = SCALARS + 12 * source + 2 * which
                register = registers(first, dwords, "s")
                s |= {first + k: dword for k, dword in enumerate(held)}
            constant = INVERSE_2PI_F64 if kind == "f64" and text == FLOATS[-1] else text
            for lines, operand in zip(texts, (constant, register)):
                operands[len(form.results) + source] = operand
                lines += [f"{form.name} {', '.join(operands)}{words}", "s_mov_b64 exec, -1"]
    v.setdefault(free, [0] * WAVE)  # both programs have these registers
    return [run(arch, "\n".join(lines), v, s, vcc=0x5A5A1234_0FF0CCAA) for lines in texts]


def some_values() -> list[list[int]]:
    """Of 64 lanes each: any bits, an f32, two f16."""
    rng = random.Random(1)

    def f16() -> int:
        return encode(rng.uniform(-4, 4), "f16")

    draws = (lambda: rng.getrandbits(32), lambda: encode(rng.uniform(-4, 4), "f32"), lambda: f16() << 16 | f16())
    return [[draws[lane % 3]() for lane in range(WAVE)] for _ in range(64)]


@pytest.mark.parametrize("arch", ARCHS)
def test_a_constant_is_what_the_assembler_takes_it_for(arch: str) -> None:
    """In each source of each instruction: the same as a register that holds that, with op_sel and op_sel_hi."""
    table = answers(arch)
    wrong, tried = set(), 0
    values = some_values()
    for form in forms(arch):
        for words, high in selects(form):
            kinds = {source: kind for source in range(len(form.sources)) if (kind := table.get((form.name, source)))}
            for source, kind in kinds.items():
                if form.sources[source] == "mix" and not high[source] or kind == "text":
                    kinds[source] = "f32"
            try:
                with_constants, with_registers = states(arch, form, kinds, words, values)
            except UnsupportedInstruction:
                assert words, form
                continue
            tried += 1
            if with_constants != with_registers:
                wrong.add(f"{form.name}{words}")
    assert not sorted(wrong)
    assert tried > 600


# (type, text, the dword that the assembler writes behind the instruction)
LITERALS = [
    ("f16", "1.5", 0x3E00),
    ("f16", "0.1", 0x2E66),
    ("i16", "1.5", 0x3FC00000),
    ("u16", "0x8000", 0x8000),
    ("f32", "0.1", 0x3DCCCCCD),
    ("i32", "100", 100),
    ("f64", "0.1", 0x3FB99999),
    ("f64", "100", 100),
    ("f64", "lit(0x10)", 0x10),
    ("f64", "0x40490000", 0x40490000),
    ("i64", "0x80000001", 0x80000001),
    ("i64", "-40000", 0xFFFF63C0),
    ("u64", "0x80000001", 0x80000001),
    ("u64", "-40000", 0xFFFF63C0),
    ("u64", "0xffffffff80000001", 0x80000001),
]


def literal_line(type_name: str, text: str) -> str:
    return f"v_cmp_eq_{type_name} vcc, {text}, {registers(0, TYPES[type_name][0])}"


@pytest.mark.parametrize(("type_name", "text", "dword"), LITERALS)
def test_a_literal_is_a_dword(type_name: str, text: str, dword: int) -> None:
    """Of 64 bits, it is the high half of a float, and the low half of an integer, with its sign where that has one."""
    high = dword if type_name == "f64" else M32 * (type_name == "i64" and dword >> 31)
    held = {0: [0 if type_name == "f64" else dword] * WAVE, 1: [high] * WAVE}
    assert run("gfx942", literal_line(type_name, text), held, vcc=0).vcc == (1 << WAVE) - 1


def test_small_numbers_in_hex_are_inline_constants() -> None:
    texts = ["v_mov_b64 v[0:1], 0x10", "v_mov_b64 v[2:3], 0xfffffffffffffff0", "v_cvt_f32_bf16 v4, 0.1"]
    state = run("gfx950", "\n".join(texts))
    assert [state.v[k][0] for k in range(5)] == [16, 0, M32 - 15, M32, 0x3DCD0000]


def test_the_literals_are_the_assemblers() -> None:
    printed = as_printed("gfx942", [literal_line(type_name, text) for type_name, text, _ in LITERALS])
    for place, (_, text, dword) in enumerate(LITERALS):
        written = ",".join(f"0x{byte:02x}" for byte in dword.to_bytes(4, "little"))
        assert printed[place].endswith(f",{written}]"), text
