"""The table of instructions and its words as C++, for the engine's generated headers."""

import functools
from collections.abc import Iterable

from ..cards import ARCHS
from . import ACTIONS, BITS, FLAGS, FLOWS, SPACES, UNITS, Facts, Instruction, instructions
from .signature import SLOTS, TYPES

_BY_FORMAT = 255
_MOST_SLOTS = 6


@functools.cache
def header() -> str:
    """The names that the table uses, as C++ enumerations."""

    def enum(kind: str, prefix: str, suffix: str, names: Iterable[str]) -> str:
        return f"enum {kind} : u8 {{ {', '.join(f'{prefix}{name}{suffix}'.upper() for name in names)} }};"

    def masks(kind: str, prefix: str, names: Iterable[str]) -> str:
        values = (f"{prefix}{name}".upper() + f" = 1ull << {i}" for i, name in enumerate(names))
        return f"enum {kind} : u64 {{ {', '.join(values)} }};"

    archs = ", ".join(f'"{arch}"' for arch in ARCHS)
    return "\n".join(
        [
            "// Generated from cdna/isa.",
            "#pragma once",
            enum("Unit", "", "_unit", UNITS),
            enum("MemorySpace", "", "_space", SPACES),
            enum("Action", "does_", "", ACTIONS),
            enum("FlowKind", "flow_", "", FLOWS),
            enum("SlotKind", "is_", "", ["nothing", *SLOTS.values()]),
            masks("BitsFlag", "bits_", BITS),
            masks("FactFlag", "fact_", FLAGS),
            f"constexpr u8 BY_FORMAT = {_BY_FORMAT};",
            f"constexpr u32 N_ARCHS = {len(ARCHS)}, N_UNITS = {len(UNITS)}, MOST_SLOTS = {_MOST_SLOTS};",
            f"constexpr const char* ARCHS[N_ARCHS] = {{{archs}}};",
            "",
        ]
    )


@functools.cache
def rows() -> str:
    """The table as C++: initialisers of Facts, sorted by name."""
    executed = ((one, one.facts) for _, one in sorted(instructions().items()) if one.facts and not one.first_name)
    return "\n".join([*(_row(one, facts) for one, facts in executed), ""])


def _row(instruction: Instruction, facts: Facts) -> str:
    cycles = ", ".join(map(str, facts.cycles))
    bits = sum(1 << BITS.index(bit) for bit in facts.bits)
    flags = sum(1 << FLAGS.index(flag) for flag in facts.flags if flag in FLAGS)
    size = _BY_FORMAT if facts.bytes is None else facts.bytes
    unit, space, does = f"{facts.unit}_unit".upper(), f"{facts.space}_space".upper(), f"does_{facts.does}".upper()
    slots = (
        f"{{IS_{SLOTS[kind].upper()}, {TYPES[type_name.partition('|')[0]][0] if type_name else 0}}}"
        for kind, type_name in instruction.signature.slots
    )
    shape = ", ".join(map(str, facts.shape))
    return (
        f'{{"{instruction.name}", {unit}, {{{cycles}}}, {facts.flops}, {space}, {does}, {size}, {facts.elements}, '
        f"{facts.stride}, {f'flow_{facts.flow}'.upper()}, {bits}, {{{shape}}}, {flags}, {{{', '.join(slots)}}}}},"
    )
