"""What is known of each instruction beside how to execute it: the table beside this file, which the engine is built
from too. Decoder, disassembler, counters, costs, checks and hazards read it; nothing is told from a name."""

import functools
import math
from dataclasses import dataclass, replace
from pathlib import Path

from ..cards import ARCHS
from ..errors import CdnaError
from .rows import TABLE, TESTED, read_rows
from .signature import Signature, parse

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
    "scaled trans dot m0_in saturates loads_scales truth_table eight_bits lower reads_lane selects_lane swaps_lanes "
    "compares combines adds sets_bit pc high_product exchanges counts zero_keeps execz trap setreg vskip indexing"
).split()
FLAGS_OF_PYTHON = "index_on index_off converts".split()  # which the engine does not read
_COLUMNS = 11
_UNKNOWN, _COLUMNS_OF_UNKNOWN = "?", 5  # instead of all facts: not executed
_SAME_AS, _COLUMNS_OF_ALIAS = "=", 4
_CACHE_MODIFIERS = ("sc0", "sc1", "nt", "glc", "slc", "scc")


@dataclass(frozen=True)
class Facts:
    """One instruction's; the head of the table says what each means."""

    unit: str
    cycles: tuple[int, ...]  # by arch; 0: depends on addresses
    flops: int  # of a lane
    shape: tuple[int, ...]  # of a matrix instruction: rows, columns, depth, blocks
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
    facts: Facts | None = None
    encoding: str = ""  # see encodings.py
    signature: Signature = Signature()
    first_name: str = ""  # of an instruction with several, under which it has its row; "": this is that

    @property
    def flags(self) -> frozenset[str]:
        return self.facts.flags if self.facts else frozenset()

    @property
    def unit(self) -> str:
        return self.facts.unit if self.facts else ""

    @property
    def does(self) -> str:
        return self.facts.does if self.facts else ""


def _one_of(known: list[str], text: str) -> str:
    text = "none" if text == "-" else text
    if text not in known:
        raise ValueError(f"{text!r} is none of {', '.join(known)}")
    return text


def _product_flops(shape: tuple[int, ...], sparse: bool) -> int:
    """Of a lane: of all blocks over 64; of a sparse product those that it does."""
    return 2 * math.prod(shape) // 64 // (2 if sparse else 1)


def _facts(unit: str, cycles: str, space: str, does: str, size: str, flow: str, flags: str) -> Facts:
    cycles, _, work = cycles.partition(":")
    shape = tuple(map(int, work.split("x"))) if "x" in work else ()
    each = [0] if cycles == "-" else [int(n) for n in cycles.split("/")]
    if len(each) not in (1, len(ARCHS)):
        raise ValueError(f"cycles {cycles!r} are not one figure, or one for each arch")
    width, _, rest = size.partition("x")
    elements, _, stride = rest.partition("*")
    flow, _, bits = flow.partition(":")
    return Facts(
        _one_of(UNITS, unit),
        tuple(each * len(ARCHS) if len(each) == 1 else each),
        _product_flops(shape, "accumulates" in flags) if shape else int(work or 0),
        shape,
        _one_of(SPACES, space),
        _one_of(ACTIONS, does),
        None if width == "format" else 0 if width == "-" else int(width),
        int(elements or 1),
        int(stride or 1),
        _one_of(FLOWS, flow),
        tuple(_one_of(BITS, bit) for bit in bits.split("+") if bit),
        frozenset(_one_of([*FLAGS, *FLAGS_OF_PYTHON], flag) for flag in flags.split(",") if flag != "-"),
    )


def _usual_modifiers(facts: Facts | None) -> frozenset[str] | None:
    """Those that every instruction of a kind honours."""
    if (
        facts is None
        or facts.unit not in ("matrix", "memory", "lds")
        or (facts.unit, facts.space) == ("memory", "none")
    ):
        return None
    if facts.unit == "matrix":
        return frozenset()
    if facts.unit == "lds":
        return frozenset(("offset0", "offset1") if facts.elements == 2 else ("offset",))
    of_buffers = ("offen", "idxen") if facts.space == "buffer" else ()
    own_format = ("format", "dfmt", "nfmt") if "own_format" in facts.flags else ()
    return frozenset(("offset", *of_buffers, *_CACHE_MODIFIERS, *own_format))


def _instruction(name: str, archs_column: str, *columns: str, known: dict[str, Instruction]) -> Instruction:
    archs = frozenset(arch.rstrip(TESTED) for arch in archs_column.split(","))
    if not archs <= set(ARCHS):
        raise ValueError(f"expected a mnemonic, then archs of {', '.join(ARCHS)}")
    tested = frozenset(arch[:-1] for arch in archs_column.split(",") if arch.endswith(TESTED))
    kind, *_ = *columns, ""
    expected = {_UNKNOWN: _COLUMNS_OF_UNKNOWN, _SAME_AS: _COLUMNS_OF_ALIAS}.get(kind, _COLUMNS)
    if 2 + len(columns) != expected:
        raise ValueError(f"{name} has {2 + len(columns)} columns, not {expected}")
    if kind == _SAME_AS:
        first = known[columns[1]]
        return replace(first, name=name, archs=archs, tested=tested, encoding="", first_name=first.name)
    facts = None if kind == _UNKNOWN else _facts(*columns[:-2])
    operands, encoding = columns[-2:]
    return Instruction(
        name, archs, tested, facts, "" if encoding == "-" else encoding, parse(operands, _usual_modifiers(facts))
    )


def read_table(file: Path = TABLE) -> dict[str, Instruction]:
    """Mnemonic -> instruction; CdnaError names file and line of what is wrong."""
    table: dict[str, Instruction] = {}
    for number, (name, *columns) in sorted(read_rows(file), key=lambda row: (_SAME_AS in row[1], row[1][0])):
        try:
            if name in table:
                raise ValueError(f"{name} stands there twice")
            table[name] = _instruction(name, *columns or [""], known=table)
        except KeyError as error:
            raise CdnaError(f"{file}:{number}: no row of {error}") from None
        except ValueError as error:
            raise CdnaError(f"{file}:{number}: {error}") from None
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
def flagged(flag: str) -> frozenset[str]:
    """The instructions that have a flag."""
    return frozenset(name for name, instruction in instructions().items() if flag in instruction.flags)
