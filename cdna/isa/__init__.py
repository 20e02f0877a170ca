"""What is known of each instruction beside how to execute it: the table beside this file, which the engine is built
from too. Counters, costs, checks and hazards read it; nothing is told from a name."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..cards import ARCHS
from ..errors import CdnaError

TABLE = Path(__file__).with_name("instructions.txt")
UNITS = "scalar vector matrix memory lds scalar_memory branch wait barrier idle end".split()
SPACES = "none global flat buffer scratch lds".split()
ACTIONS = "none load store atomic release acquire lanes time sleep jump".split()
FLOWS = (
    "defines moves computes carries low_first compares compares_to_exec selects multiplies scalar scalar_low_first "
    "scalar_selects bits branch_scc branch_vcc scratch pulls"
).split()
BITS = "and or xor not_a not_b not_result to_exec".split()  # of flow bits: an operation and what is inverted
FLAGS = (
    "scc_in scc_out vcc_in to_lds lane_order upper swap all_lanes accumulates formats sgemm dgemm own_format packed "
    "scaled trans dot m0_in"
).split()
_COLUMNS = 9
_UNKNOWN = "?"  # instead of all facts: not executed
_TESTED = "*"
_BY_FORMAT = 255


@dataclass(frozen=True)
class Facts:
    """One instruction's; the head of the table says what each means."""

    unit: str
    cycles: tuple[int, ...]  # by arch; 0: depends on addresses
    flops: int  # of a lane
    space: str
    does: str
    bytes: int | None  # of a lane's element; None: as the buffer's format says
    elements: int
    stride: int  # of their offsets, in elements
    flow: str
    bits: tuple[str, ...]
    flags: frozenset[str]


@dataclass(frozen=True)
class Instruction:
    """A row of the table; without facts the device does not execute it."""

    name: str
    archs: frozenset[str]
    tested: frozenset[str]  # archs on which a test of it alone has compared it with a definition
    facts: Facts | None


def _one_of(known: list[str], text: str) -> str:
    text = "none" if text == "-" else text
    if text not in known:
        raise ValueError(f"{text!r} is none of {', '.join(known)}")
    return text


def _facts(unit: str, cycles: str, space: str, does: str, size: str, flow: str, flags: str) -> Facts:
    cycles, _, flops = cycles.partition(":")
    each = [0] if cycles == "-" else [int(n) for n in cycles.split("/")]
    if len(each) not in (1, len(ARCHS)):
        raise ValueError(f"cycles {cycles!r} are not one figure, or one for each arch")
    width, _, rest = size.partition("x")
    elements, _, stride = rest.partition("*")
    flow, _, bits = flow.partition(":")
    return Facts(
        _one_of(UNITS, unit),
        tuple(each * len(ARCHS) if len(each) == 1 else each),
        int(flops or 0),
        _one_of(SPACES, space),
        _one_of(ACTIONS, does),
        None if width == "format" else 0 if width == "-" else int(width),
        int(elements or 1),
        int(stride or 1),
        _one_of(FLOWS, flow),
        tuple(_one_of(BITS, bit) for bit in bits.split("+") if bit),
        frozenset(_one_of(FLAGS, flag) for flag in flags.split(",") if flag != "-"),
    )


def read_rows(file: Path = TABLE) -> Iterator[tuple[int, list[str]]]:
    """(line number, columns) of each row; an instruction that is not executed has three."""
    try:
        lines = file.read_text().splitlines()
    except OSError as error:
        raise CdnaError(f"{file}: {error.strerror}: the installation is incomplete") from None
    for number, line in enumerate(lines, 1):
        if line and not line.startswith("#"):
            yield number, line.split()


def write_rows(rows: Iterable[list[str]], file: Path = TABLE) -> None:
    """Replace the table's rows, columns aligned; its head stays."""
    head = [line for line in file.read_text().splitlines() if line.startswith("#")]
    sorted_rows = sorted(rows)
    widths = [max(len(row[i]) for row in sorted_rows if len(row) > i) for i in range(_COLUMNS)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in sorted_rows]
    file.write_text("\n".join([*head, *lines, ""]))


def archs_text(archs: Iterable[str], tested: Iterable[str]) -> str:
    """The second column."""
    return ",".join(arch + _TESTED * (arch in set(tested)) for arch in sorted(archs))


def read_table(file: Path = TABLE) -> dict[str, Instruction]:
    """Mnemonic -> instruction; CdnaError names file and line of what is wrong."""
    table: dict[str, Instruction] = {}
    for number, (name, *columns) in read_rows(file):
        try:
            if name in table:
                raise ValueError(f"{name} stands there twice")
            archs = frozenset(arch.rstrip(_TESTED) for arch in columns[0].split(",")) if columns else frozenset[str]()
            if not archs or not archs <= set(ARCHS):
                raise ValueError(f"expected a mnemonic, then archs of {', '.join(ARCHS)}")
            tested = frozenset(arch[:-1] for arch in columns[0].split(",") if arch.endswith(_TESTED))
            facts = None
            if columns[1:] != [_UNKNOWN]:
                if len(columns) != _COLUMNS - 1:
                    raise ValueError(f"{name} has {1 + len(columns)} columns, not {_COLUMNS}")
                facts = _facts(*columns[1:])
        except ValueError as error:
            raise CdnaError(f"{file}:{number}: {error}") from None
        table[name] = Instruction(name, archs, tested, facts)
    return table


@functools.cache
def instructions() -> dict[str, Instruction]:
    """The table."""
    return read_table()


def facts_of(name: str) -> Facts:
    """Facts of a mnemonic without its encoding's suffix; CdnaError if it has none."""
    instruction = instructions().get(name)
    if instruction is None or instruction.facts is None:
        raise CdnaError(f"{TABLE}: no facts of {name}: add its row")
    return instruction.facts


@functools.cache
def header() -> str:
    """The names that the table uses, as C++ enumerations."""

    def enum(kind: str, prefix: str, suffix: str, names: Iterable[str]) -> str:
        return f"enum {kind} : u8 {{ {', '.join(f'{prefix}{name}{suffix}'.upper() for name in names)} }};"

    def masks(kind: str, prefix: str, names: Iterable[str]) -> str:
        values = (f"{prefix}{name}".upper() + f" = {1 << i}" for i, name in enumerate(names))
        return f"enum {kind} : u32 {{ {', '.join(values)} }};"

    archs = ", ".join(f'"{arch}"' for arch in ARCHS)
    return "\n".join(
        [
            "// Generated from cdna/isa.",
            "#pragma once",
            enum("Unit", "", "_unit", UNITS),
            enum("MemorySpace", "", "_space", SPACES),
            enum("Action", "does_", "", ACTIONS),
            enum("FlowKind", "flow_", "", FLOWS),
            masks("BitsFlag", "bits_", BITS),
            masks("FactFlag", "fact_", FLAGS),
            f"constexpr u8 BY_FORMAT = {_BY_FORMAT};",
            f"constexpr u32 N_ARCHS = {len(ARCHS)}, N_UNITS = {len(UNITS)};",
            f"constexpr const char* ARCHS[N_ARCHS] = {{{archs}}};",
            "",
        ]
    )


@functools.cache
def rows() -> str:
    """The table as C++: initialisers of Facts, sorted by name."""
    lines = []
    for name, instruction in sorted(instructions().items()):
        if (facts := instruction.facts) is None:
            continue
        cycles = ", ".join(map(str, facts.cycles))
        bits = sum(1 << BITS.index(bit) for bit in facts.bits)
        flags = sum(1 << FLAGS.index(flag) for flag in facts.flags)
        size = _BY_FORMAT if facts.bytes is None else facts.bytes
        unit, space, does = f"{facts.unit}_unit".upper(), f"{facts.space}_space".upper(), f"does_{facts.does}".upper()
        lines.append(
            f'{{"{name}", {unit}, {{{cycles}}}, {facts.flops}, {space}, {does}, {size}, {facts.elements}, '
            f"{facts.stride}, {f'flow_{facts.flow}'.upper()}, {bits}, {flags}}},"
        )
    return "\n".join([*lines, ""])
