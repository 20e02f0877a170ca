"""Operands of an instruction: what each is, of which type, and the modifiers behind them."""

from __future__ import annotations

from dataclasses import dataclass

# Results of several numbers, as f32x16 and f16x2, or of one that clamp and omod have no say in, as f32x1.
_DWORDS = {"f16": 0.5, "bf16": 0.5, "i16": 0.5, "u16": 0.5, "f32": 1, "i32": 1, "u32": 1, "f64": 2}
_VECTORS = {
    f"{element}x{count}": (max(1, int(dwords * count)), 0, element if element[-3:] in ("f16", "f64") else "f32")
    for element, dwords in _DWORDS.items()
    for count in (1, 2, 4, 16, 32)
}
# Of each type: dwords, float width (0: integer; packed pairs are 15, of 16 bits, and 31, of f32), and what a float
# constant stands for, as the assembler encodes it (tests/support/inline_constants.py): integers of 16 bits, packed or
# not, read the f32; a constant of 16 bits is the low half of its dword.
TYPES = _VECTORS | {
    "b16": (1, 0, "f32"),
    "i16": (1, 0, "f32"),
    "u16": (1, 0, "f32"),
    "f16": (1, 16, "f16"),
    "bf16": (1, 16, "bf16"),
    "b32": (1, 0, "f32"),
    "i32": (1, 0, "f32"),
    "u32": (1, 0, "f32"),
    "f32": (1, 32, "f32"),
    "k16": (1, 0, "f32"),
    "p16": (1, 15, "f16"),
    "pb16": (1, 15, "bf16"),
    "pi16": (1, 15, "f32"),
    "p32": (2, 31, "f32"),
    "b64": (2, 0, "f64"),
    "i64": (2, 0, "f64"),
    "u64": (2, 0, "f64"),
    "f64": (2, 64, "f64"),
    "b96": (3, 0, "f32"),
    "b128": (4, 0, "f32"),
    "b192": (6, 0, "f32"),
    "b256": (8, 0, "f32"),
    "b512": (16, 0, "f32"),
    "b1024": (32, 0, "f32"),
    "f64x4": (8, 64, "f64"),
    "mix": (1, 32, "f32"),  # v_fma_mix: f32, or with its bit of op_sel_hi the f16 half that op_sel picks
}
FLOATS = {name for name, (_, width, _) in TYPES.items() if width}
HALVES = {"f16", "bf16", "b16", "i16", "u16"}
# What an operand is, in the table and for the engine; of the first three a type follows.
SLOTS = {
    "D": "destination",
    "?D": "returned",  # a destination only if the instruction returns (sc0, glc)
    "S": "source",
    "A": "vector_address",  # VGPR, VGPR pair, or `off`
    "G": "scalar_address",  # SGPR pair or `off`
    "M": "scalar_offset",  # of a scalar load: SGPR, constant, or both
    "L": "label",
    "I": "immediate",
    "W": "counters",  # of s_waitcnt
    "H": "hardware_register",
    "X": "ignored",
}


@dataclass(frozen=True)
class Signature:
    """The operands in the assembler's order, results first, each with its type ("" where there is none; "b256|b192": of
    either width); the modifiers that are honoured behind them. None: those that mean something for these types."""

    slots: tuple[tuple[str, str], ...] = ()
    modifiers: frozenset[str] | None = None

    def types(self, *kinds: str) -> list[str]:
        """Of its destinations, D, or sources, S, or both."""
        return [type_name for kind, type_name in self.slots if kind in kinds]

    def to_lds(self) -> Signature:
        """Of the form of a load that goes to the LDS: without the result."""
        return Signature(
            tuple(slot for slot in self.slots if slot[0] != "D"), (self.modifiers or frozenset()) | {"lds"}
        )

    def __str__(self) -> str:
        return " ".join(f"{kind}:{type_name}" if type_name else kind for kind, type_name in self.slots)


def parse(text: str, usual: frozenset[str] | None) -> Signature:
    """results=sources+modifiers, as the table has them. usual: the modifiers of all instructions of the kind."""
    operands, plus, modifiers = text.partition("+")
    results, _, sources = ("" if operands == "-" else operands).rpartition("=")
    slots = []
    for kind, words in (("D", results), ("S", sources)):
        for word in filter(None, words.split(",")):
            if word not in SLOTS and not set(word.lstrip("?").split("|")) <= TYPES.keys():
                raise ValueError(f"operand {word!r} is none of {', '.join([*SLOTS, *TYPES])}")
            slots.append((word, "") if word in SLOTS else ("?" * word.startswith("?") + kind, word.lstrip("?")))
    return Signature(tuple(slots), frozenset(modifiers.split(",")) if plus else usual)
