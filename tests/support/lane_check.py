"""One vector instruction, lane by lane against its definition in Python."""

import random
from typing import Any

from cdna.testing.snippet import run
from tests.support.exactfloat import decode, encode
from tests.support.valu_cases import Case, bits_of, signed
from tests.support.valu_inputs import ALL, SOME, WAVE, dwords, registers, same, source


def value(bits: int, type_name: str, raw: bool = False) -> Any:
    if raw:
        return bits
    if type_name[0] == "f":
        return decode(bits, type_name)
    return signed(bits, bits_of(type_name)) if type_name[0] == "i" else bits


def result_bits(result: Any, case: Case) -> int:
    if case.dst[0] == "f" and not case.raw:
        return encode(result, case.dst)
    return int(result) & (1 << bits_of(case.dst)) - 1


def name(first: int, type_name: str) -> str:
    n = dwords(type_name)
    return f"v{first}" if n == 1 else f"v[{first}:{first + n - 1}]"


def matches(got: int, want: int, case: Case) -> bool:
    if case.halves:
        return same(got & 0xFFFF, want & 0xFFFF, "f16") and same(got >> 16, want >> 16, "f16")
    return same(got, want, case.dst, case.ulps) if case.dst[0] == "f" else got == want


def check_lanes(case: Case) -> None:
    """Runs the case on edge and random values, with all lanes on and with some off."""
    rng = random.Random(case.text)
    mnemonic, _, modifiers = case.text.partition(" ")
    for exec_mask in (ALL, SOME):
        sources = [source(t, rng, case.signalling, len(case.src) == 1) for t in case.src]
        old = source(case.dst, rng)
        v = registers(old, case.dst, 0, rng)
        for k, (values, type_name) in enumerate(zip(sources, case.src)):
            v |= registers(values, type_name, 4 + 4 * k, rng)
        operands = ", ".join([name(0, case.dst)] + [name(4 + 4 * k, t) for k, t in enumerate(case.src)])
        state = run(case.arch, f"{mnemonic} {operands} {modifiers}", v, exec=exec_mask)
        for lane in range(WAVE):
            before = sum(v[k][lane] << 32 * k for k in range(dwords(case.dst)))
            after = sum(state.v[k][lane] << 32 * k for k in range(dwords(case.dst)))
            if not exec_mask >> lane & 1:
                assert after == before, f"lane {lane} is off, but changed"
                continue
            arguments = [value(values[lane], t, case.raw) for values, t in zip(sources, case.src)]
            if case.old:
                arguments.append(value(old[lane], case.dst))
            want = result_bits(case.function(*arguments), case)
            got, upper = after & (1 << bits_of(case.dst)) - 1, after >> bits_of(case.dst)
            assert matches(got, want, case), f"lane {lane}: {arguments} -> {got:#x}, wanted {want:#x}"
            if bits_of(case.dst) == 16:
                assert upper == (before >> 16 if case.keep else 0), f"lane {lane}: upper half {upper:#x}"
