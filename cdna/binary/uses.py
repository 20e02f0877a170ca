"""Which registers an instruction reads and writes, from its text: what hazards and waits are told by."""

import re
from dataclasses import dataclass
from functools import cache

from ..isa import Facts, facts_of, instructions
from ..isa.signature import Signature

_REGISTER = re.compile(
    r"(?<![\w.])(?:([vas])(?:(\d+)|\[(\d+)(?::(\d+))?\])|(vcc|exec|m0)(?:_lo|_hi)?)(?!\w)"
)  # vcc_lo and its kin count as the whole pair
_DPP = re.compile(r"\b(quad_perm|row_\w+|wave_\w+|bank_mask)\b")
_PART_SELECT = re.compile(r"\bdst_sel:(?!DWORD)")
_OP_SEL = re.compile(r"\bop_sel:\[([01,]+)\]")
_HARDWARE_REGISTER = re.compile(r"hwreg\((\w+)")

Register = tuple[str, int]
Registers = frozenset[Register]
VCC: Register = ("vcc", 0)
EXEC: Register = ("exec", 0)
M0: Register = ("m0", 0)


@dataclass(frozen=True)
class Use:
    """Registers of a statement, and what the rules ask of it; `c` are those read as source C."""

    name: str
    unit: str
    writes: Registers = frozenset()
    reads: Registers = frozenset()
    c: Registers = frozenset()
    lane: Registers = frozenset()  # the lane select of v_readlane and v_writelane
    stored: Registers = frozenset()  # data of a store from more than two registers
    stays: int = 0  # for so many wait states it has to be left alone
    dpp: Registers = frozenset()  # read from other lanes
    trans: bool = False
    dot: bool = False
    part: bool = False  # writes a part of its register
    m0: bool = False
    hardware: str = ""  # register of s_setreg, s_getreg

    @property
    def vector(self) -> bool:
        return self.unit == "vector"

    @property
    def flags(self) -> frozenset[str]:
        return facts_of(self.name).flags


def registers_in(text: str) -> Registers:
    found: set[Register] = set()
    for file, one, first, last, special in _REGISTER.findall(text):
        if special:
            found.add((special, 0))
            continue
        low = int(one or first)
        found.update((file, n) for n in range(low, int(last or low) + 1))
    return frozenset(found)


@cache
def operands_in(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in re.split(r",(?![^\[]*\])", text))


def _results(signature: Signature, text: str) -> int:
    """How many of the operands an instruction writes."""
    returns = {"sc0", "glc"} & set(text.split())
    return 0 if " lds" in text else len(signature.types("D", "?D" if returns else "D"))


def _writes_part(text: str, signature: Signature) -> bool:
    """By SDWA's destination select, or by the bits of op_sel behind those of the sources."""
    if _PART_SELECT.search(text):
        return True
    select = _OP_SEL.search(text)
    return select is not None and "1" in select[1].split(",")[len(signature.types("S")) :]


def _wide_store(facts: Facts, parts: tuple[str, ...], results: int) -> tuple[Registers, int]:
    """Data of a store or atomic that a vector instruction may overwrite too soon, and for how many wait states.

    A buffer's with its offset in a register frees them earlier (LLVM pull request 197267, measured on an MI350X).
    """
    if facts.unit != "memory" or facts.does not in ("store", "atomic"):
        return frozenset(), 0
    buffer = facts.space == "buffer"
    data = registers_in(parts[0 if buffer else results + 1])
    stays = 1 if buffer and registers_in(parts[3].partition(" ")[0]) else 2
    return (data, stays) if len(data) > 2 else (frozenset(), 0)


@cache
def use_of(mnemonic: str, text: str) -> Use:
    parts = operands_in(text)
    facts, signature = facts_of(mnemonic), instructions()[mnemonic].signature
    if facts.unit == "matrix":
        writes = registers_in(parts[0])
        c = writes if "accumulates" in facts.flags else registers_in(parts[3].partition(" ")[0])
        return Use(mnemonic, "matrix", writes, registers_in(",".join([*parts[1:3], *parts[4:]])), c)
    results = _results(signature, text)
    writes = registers_in(",".join(parts[:results]))
    swaps = results == 2 and not signature.types("S")  # both operands are read too
    reads = registers_in(",".join(parts if swaps else parts[results:]))
    if "vcc_in" in facts.flags:
        reads |= {VCC}
    if facts.flow == "compares_to_exec":
        writes |= {EXEC}
    part = facts.unit == "vector" and _writes_part(text, signature)
    hardware = _HARDWARE_REGISTER.search(text)
    stored, stays = _wide_store(facts, parts, results)
    return Use(
        mnemonic,
        facts.unit,
        writes,
        reads | writes if part else reads,
        c=registers_in(parts[3]) if "dot" in facts.flags and len(parts) > 3 else frozenset(),
        lane=registers_in(parts[2]) if "selects_lane" in facts.flags else frozenset(),
        stored=stored,
        stays=stays,
        dpp=registers_in(parts[results]) if _DPP.search(text) else frozenset(),
        trans="trans" in facts.flags,
        dot="dot" in facts.flags,
        part=part,
        m0=not {"m0_in", "to_lds"}.isdisjoint(facts.flags) or " lds" in text,
        hardware=hardware[1] if hardware else "",
    )
