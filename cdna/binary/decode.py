"""Assembly statements to the records the engine executes.

The table of instructions has each one's signature, the engine's op table what executes it. An op named
`v_add_u32 clamp` is that instruction's saturating form: clamp means saturation to an integer result, and [0, 1] to a
float one, which the generic handlers apply. Destinations fill Inst.dst, sources and addresses Inst.src, in order.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter

from ..engine import abi
from ..errors import UnsupportedInstruction
from ..isa import facts_of, flagged
from ..isa.encodings import with_scales
from ..isa.signature import HALVES, TYPES, Signature
from . import spelling
from .asm import AsmFile, Statement, source_line
from .operands import ABS, ACCUMULATION, NEG, NONE, SEXT, VGPR, Operand, Symbolic, parse_operand
from .swizzle import swizzle_pattern

# fn, core, 7 operands, offset, offset1, flags, then the byte-sized modifiers, op.
RECORD = abi.record("Inst")
CLAMP, DPP, SDWA, OPSEL, GLC, LDS_DMA, OFFEN, IDXEN = (1 << i for i in range(8))
SLOW, PACKED_SEL, NT, SC1, HALF_DST, INDEXED = (1 << i for i in range(8, 14))
_FLAGS = 2 + 5 * 7 + 2  # place of the flags in a record: behind the operands and two offsets
# Of Modifiers, in a record's order from its offsets on.
_FIELDS = attrgetter(
    *"offset offset1 flags omod op_sel op_sel_hi neg_lo neg_hi cbsz abid blgp dpp_ctrl row_mask bank_mask".split(),
    *"bound_ctrl dst_sel dst_unused src0_sel src1_sel byte_sel".split(),
)
_CLAMP_WORD = re.compile(r"\bclamp\b")
_FLAG_WORDS = {
    "clamp": CLAMP,
    "glc": GLC,
    "sc0": GLC,
    "lds": LDS_DMA,
    "offen": OFFEN,
    "idxen": IDXEN,
    "nt": NT,
    "slc": NT,
    "sc1": SC1,
    "scc": SC1,
    "bound_ctrl": 0,
    "gds": 0,  # of ds_gws_*, which have no other form
}
_FLOAT_TYPES = {"f16": 16, "f32": 32, "f64": 64, "p16": 15, "p32": 32}  # Inst.float_type of a result
_PACKED_TYPES = {"p16", "pb16", "pi16", "p32"}
_OMOD = {word: number for number, word in enumerate(spelling.OUTPUT_MODIFIERS) if word}
_SEL = {word: number for number, word in enumerate(spelling.SELECTS)}
_UNUSED = {word: number for number, word in enumerate(spelling.UNUSED)}
_DPP_ROW = {name: number for number, name in spelling.DPP_ROWS.items()} | {"row_share": 0x150}
_DPP_FIXED = {word: number for number, word in spelling.DPP_FIXED.items()}
_HWREGS = {
    "HW_REG_MODE": 1,
    "HW_REG_STATUS": 2,
    "HW_REG_TRAPSTS": 3,
    "HW_REG_HW_ID": 4,
    "HW_REG_GPR_ALLOC": 5,
    "HW_REG_LDS_ALLOC": 6,
    "HW_REG_IB_STS": 7,
    "HW_REG_SH_MEM_BASES": 15,
    "HW_REG_TBA_LO": 16,
    "HW_REG_XCC_ID": 20,
}
# Newer tools have no name for number 6, which is reserved, and so refused where it is called that.
_NUMBER_FORMATS = [name.replace("RESERVED_6", "SNORM_OGL") for name in spelling.NUMBER_FORMATS]
_MFMA_FORMATS = {"MFMA_FORMAT_FP8": 0, "MFMA_FORMAT_BF8": 1}
_MATRIX_MODIFIERS = {"cbsz", "abid", "blgp", "matrix_a_fmt", "matrix_b_fmt"}
_SUFFIX = re.compile(r"_(e32|e64|dpp|sdwa|e64_dpp)$")
_SPLIT = re.compile(r",(?![^\[(]*[\])])")
_WORDS = re.compile(r"(?:\[[^\]]*\]|\S)+")  # a list in brackets may have spaces
_SPACE_IN_CALL = re.compile(r",\s+(?=[^()]*\))")  # hwreg(HW_REG_MODE, 23, 1) is one operand
_COUNTER = re.compile(r"(vmcnt|lgkmcnt|expcnt)\((\d+)\)")


def base_mnemonic(mnemonic: str) -> str:
    """The instruction's name without the encoding that LLVM appends to it."""
    return _SUFFIX.sub("", mnemonic)


class Modifiers:
    """The words after the operands, as fields of Inst."""

    def __init__(self) -> None:
        self.flags = self.offset = self.offset1 = self.omod = 0
        self.op_sel = self.neg_lo = self.neg_hi = self.cbsz = self.abid = self.blgp = 0
        self.op_sel_entries = 0
        self.op_sel_hi: int | None = None
        self.dpp_ctrl, self.row_mask, self.bank_mask, self.bound_ctrl = 0, 15, 15, 0
        self.dst_sel, self.dst_unused, self.src0_sel, self.src1_sel, self.byte_sel = 6, 0, 6, 6, 0
        self.seen: set[str] = set()

    def read(self, word: str) -> bool:
        """Take one word; False if it is no modifier."""
        self.seen.add(word.partition(":")[0])
        if word in _FLAG_WORDS:
            self.flags |= _FLAG_WORDS[word]
            return True
        if word in _OMOD:
            self.omod = _OMOD[word]
            return True
        if word in _DPP_FIXED:
            self.flags |= DPP
            self.dpp_ctrl = _DPP_FIXED[word]
            return True
        name, colon, value = word.partition(":")
        if not colon:
            return False
        if name in ("offset", "offset0"):
            self.offset = swizzle_pattern(value) if value.startswith("swizzle(") else int(value, 0)
        elif name == "offset1":
            self.offset1 = int(value, 0)
        elif name in ("op_sel", "op_sel_hi", "neg_lo", "neg_hi", "neg"):
            bits = sum(int(bit) << i for i, bit in enumerate(value.strip("[]").split(",")))
            setattr(self, "neg_lo" if name == "neg" else name, bits)
            if name == "op_sel":
                self.op_sel_entries = value.count(",") + 1
        elif name in ("cbsz", "abid", "blgp"):
            setattr(self, name, int(value, 0))
        elif name in ("matrix_a_fmt", "matrix_b_fmt"):
            setattr(self, "cbsz" if name == "matrix_a_fmt" else "blgp", _MFMA_FORMATS[value])
        elif name in _DPP_ROW:
            self.flags |= DPP
            self.dpp_ctrl = _DPP_ROW[name] | int(value, 0)
        elif name == "quad_perm":
            self.flags |= DPP
            self.dpp_ctrl = sum(int(lane) << 2 * i for i, lane in enumerate(value.strip("[]").split(",")))
        elif name in ("row_mask", "bank_mask"):
            setattr(self, name, int(value, 0))
        elif name == "bound_ctrl":
            self.bound_ctrl |= 1  # LLVM prints the set bit as 0 in older and 1 in newer versions
        elif name == "fi":
            self.bound_ctrl |= int(value) << 1
        elif name == "bitop3":
            self.offset = int(value, 0)
        elif name in ("dst_sel", "src0_sel", "src1_sel"):
            self.flags |= SDWA
            setattr(self, name, _SEL[value])
        elif name == "dst_unused":
            self.dst_unused = _UNUSED[value]
        elif name == "format":
            self.offset1 = _buffer_format(value)
        elif name == "dfmt":
            self.offset1 = self.offset1 & 0x70 | int(value, 0)
        elif name == "nfmt":
            self.offset1 = self.offset1 & 15 | int(value, 0) << 4
        elif name == "byte_sel":
            self.byte_sel = int(value, 0)
        else:
            return False
        return True


def wait_counts(text: str) -> tuple[int, int, int]:
    """s_waitcnt's vmcnt, lgkmcnt and expcnt; 255 of a counter that is not waited for."""
    counts = {name: int(value) for name, value in _COUNTER.findall(text)}
    if not counts and text:
        raw = int(text, 0)  # gfx9 encoding
        return raw & 15 | raw >> 10 & 0x30, raw >> 8 & 15, raw >> 4 & 7
    return counts.get("vmcnt", 255), counts.get("lgkmcnt", 255), counts.get("expcnt", 255)


def _waitcnt(text: str) -> int:
    vm, lgkm, exp = wait_counts(text)
    return vm | lgkm << 8 | exp << 16


def _buffer_format(text: str) -> int:
    """format:[...] of a typed buffer instruction, or its number: data format | number format << 4."""
    if not text.startswith("["):
        return int(text, 0)
    data, number = 1, 0  # 8, UNORM
    for part in text.strip("[]").split(","):
        kind, _, name = part.strip().partition("_FORMAT_")
        if kind == "BUF_DATA" and name in spelling.DATA_FORMATS:
            data = spelling.DATA_FORMATS.index(name)
        elif kind == "BUF_NUM" and name in _NUMBER_FORMATS:
            number = _NUMBER_FORMATS.index(name)
        else:
            raise UnsupportedInstruction(f"format {part!r} is not understood")
    return data | number << 4


def _hwreg(text: str) -> int:
    if not text.startswith("hwreg("):
        return int(text, 0)
    name, *rest = (part.strip() for part in text[6:-1].split(","))
    number = _HWREGS[name] if name in _HWREGS else int(name, 0)
    offset, size = (int(rest[0], 0), int(rest[1], 0)) if rest else (0, 32)
    return number | offset << 6 | (size - 1) << 11


def _immediate(text: str) -> int:
    """A number, or the operands that gpr_idx(...) makes relative."""
    if not text.startswith("gpr_idx("):
        return int(text, 0)
    return sum(1 << spelling.INDEX_OPERANDS.index(part.strip()) for part in text[8:-1].split(",") if part.strip())


def _meaningless(mods: Modifiers, dst_types: list[str], src_types: list[str], saturates: bool) -> set[str]:
    """Modifiers that say nothing about results and operands of these types, and so are not given a meaning.

    The assembler takes some of them. Clamp and omod are for float results (clamp for saturating forms too, omod for no
    packed ones), neg_lo and neg_hi for packed floats, op_sel for operands of 16 bits and packed ones.
    """
    float_result = bool(dst_types) and dst_types[0] in _FLOAT_TYPES
    refused = set()
    if mods.flags & CLAMP and not saturates and not float_result:
        refused.add("clamp")
    if mods.omod and (not float_result or _PACKED_TYPES.union(["mix"]).intersection(dst_types + src_types)):
        refused.add("mul or div")
    if (mods.neg_lo or mods.neg_hi) and not (float_result and _PACKED_TYPES.intersection(src_types)):
        refused.add("neg_lo or neg_hi")
    selectable = sum(1 << k for k, t in enumerate(src_types) if t in HALVES | _PACKED_TYPES | {"mix"})
    selectable |= 8 if dst_types and dst_types[0] in HALVES else 0
    if mods.op_sel & ~selectable:
        refused.add("op_sel")
    return refused


def split_operands(text: str) -> list[str]:
    """Operands and modifiers as separate words: top-level commas, then spaces."""
    words: list[str] = []
    for part in _SPLIT.split(text):
        words.append(part.strip())
    return words


def _words_and_slots(
    signature: Signature, mnemonic: str, text: str, mods: Modifiers
) -> tuple[list[str], tuple[tuple[str, str], ...]]:
    """An instruction's operands, and of what kind each is; modifiers go to `mods`."""
    slots = signature.slots
    parts = split_operands(_SPACE_IN_CALL.sub(",", text)) if text else []
    words: list[str] = []
    for part in parts:
        first, *rest = _WORDS.findall(part)
        if not first.startswith(("dfmt:", "nfmt:", "format:")) or not mods.read(first):
            words.append(first)
        for word in rest:
            if word and not mods.read(word):
                raise UnsupportedInstruction(f"{mnemonic} {text}: modifier {word!r} is not understood")
    if len(words) == 1 and not slots and mods.read(words[0]):
        words = []
    # Modifiers may stand alone where an instruction has no operands before them (`buffer_inv sc1`).
    slots = tuple(slot for slot in slots if slot[0] != "?D" or mods.flags & GLC)
    if len(words) != len(slots):
        if len(words) == len(slots) + 1 and mods.read(words[-1]):
            words.pop()
        elif slots or facts_of(base_mnemonic(mnemonic)).does not in ("acquire", "release"):
            raise UnsupportedInstruction(f"{mnemonic} {text}: expected {len(slots)} operands ({signature})")
    return words, slots


class Decoder:
    """Decodes the statements of one file; `ops` maps a mnemonic to (index, signature), `symbol` a name to its value.

    `symbolic` lists the operands whose value is an address, known only once the program is loaded: (instruction,
    operand of Inst counted through dst and src, address).
    """

    def __init__(
        self, asm: AsmFile, ops: dict[str, tuple[int, Signature]], symbol: Callable[[str], int | Symbolic | None]
    ) -> None:
        self.asm, self.ops, self.symbol = asm, ops, symbol
        self.symbolic: list[tuple[int, int, Symbolic]] = []
        self.max_vgpr = self.max_agpr = -1
        self._cache: dict[tuple[str, str, bool], list] = {}

    def decode_all(self) -> bytes:
        """Every statement; an error lists all instructions that are not supported, with where they stand."""
        records: list[list] = []
        missing: dict[str, str] = {}
        indexed, starts, ends = False, flagged("index_on"), flagged("index_off")
        for index, statement in enumerate(self.asm.statements):
            indexed = statement.mnemonic in starts or indexed and statement.mnemonic not in ends
            try:
                records.append(self.decode(self._with_scales(index), index, indexed))
            except UnsupportedInstruction as error:
                missing.setdefault(str(error), source_line(self.asm, statement))
        if missing:
            lines = "\n".join(f"  {what}  ({where})" for what, where in missing.items())
            raise UnsupportedInstruction(
                f"{self.asm.target or 'assembly'}: {len(missing)} not supported by the emulated device:\n{lines}"
            )
        for record in records:  # accumulation registers follow the architectural ones
            for k in range(7):
                if record[2 + 5 * k] == VGPR and record[4 + 5 * k] >= ACCUMULATION:
                    record[4 + 5 * k] += self.max_vgpr + 1 - ACCUMULATION
        return b"".join(RECORD.pack(*record) for record in records)

    @property
    def n_vgpr(self) -> int:
        """Registers a wave needs, architectural and accumulation; v0 starts with the work-item ids in any kernel."""
        return max(1, self.max_vgpr + self.max_agpr + 2)

    def _with_scales(self, index: int) -> Statement:
        """The statement; behind v_mfma_ld_scale_b32, the one instruction that the card executes the two as."""
        statement = self.asm.statements[index]
        if statement.mnemonic in flagged("loads_scales"):
            behind = self.asm.statements[index + 1].mnemonic if index + 1 < len(self.asm.statements) else "the end"
            if behind not in with_scales():
                products = " or ".join(with_scales())
                raise UnsupportedInstruction(f"{statement.mnemonic} before {behind}: must stand before {products}")
        before = self.asm.statements[index - 1].mnemonic if index else ""
        if before not in flagged("loads_scales") or statement.mnemonic not in with_scales():
            return statement
        *operands, last = split_operands(statement.operands)
        source_c, _, formats = last.partition(" ")
        scales = f"{', '.join([*operands, source_c])}, {self.asm.statements[index - 1].operands} {formats}"
        return replace(statement, mnemonic=with_scales()[statement.mnemonic], operands=scales)

    def decode(self, statement: Statement, index: int, indexed: bool = False) -> list:
        """The record of one statement. indexed: it stands between s_set_gpr_idx_on and s_set_gpr_idx_off."""
        mnemonic, text = statement.mnemonic, statement.operands
        key = (mnemonic, text, indexed)
        cached = self._cache.get(key)
        if cached is not None:
            return list(cached)
        name = mnemonic if mnemonic in self.ops else base_mnemonic(mnemonic)
        if f"{name} lds" in self.ops and " lds " in f"{text} ":
            name += " lds"  # to LDS: no data operand
        if f"{name} clamp" in self.ops and _CLAMP_WORD.search(text):
            name += " clamp"
        if name not in self.ops:
            raise UnsupportedInstruction(mnemonic)
        number, signature = self.ops[name]
        record, cacheable = self._encode(number, signature, mnemonic, text, index, name.endswith(" clamp"))
        if indexed and facts_of(base_mnemonic(mnemonic)).unit in ("vector", "matrix"):
            record[_FLAGS] |= INDEXED
        if cacheable:
            self._cache[key] = list(record)
        return record

    def _encode(
        self, number: int, signature: Signature, mnemonic: str, text: str, index: int, saturates: bool
    ) -> tuple[list, bool]:
        slots, honoured = signature.slots, signature.modifiers
        mods = Modifiers()
        cacheable = True
        if slots and slots[0][0] in ("W", "X"):
            mods.offset = _waitcnt(text) if slots[0][0] == "W" else 0
            return self._record(number, [], [], [], [], mods), True
        words, slots = _words_and_slots(signature, mnemonic, text, mods)
        dst: list[Operand] = []
        src: list[Operand] = []
        dst_types: list[str] = []
        src_types: list[str] = []
        for word, (slot, type_name) in zip(words, slots):
            if slot in ("D", "?D"):
                operand = self._operand(word, type_name, mnemonic, text)
                dst.append(operand)
                dst_types.append(type_name)
            elif slot == "S":
                half = type_name == "mix" and (mods.op_sel_hi or 0) >> len(src) & 1
                src.append(self._operand(word, "f16" if half else type_name, mnemonic, text))
                src_types.append(type_name.partition("|")[0])
                cacheable = cacheable and "@" not in word
            elif slot in ("A", "G"):
                off = word in ("off", "null")
                operand = Operand() if off else self._operand(word, "b64", mnemonic, text, any_width=True)
                src.append(operand)
                src_types.append("b64" if operand.dwords == 2 else "b32")
            elif slot == "M":
                if _is_number(word):
                    mods.offset += int(word, 0)
                    src.append(Operand())
                else:
                    src.append(self._operand(word, "b32", mnemonic, text))
                src_types.append("b32")
            elif slot == "L":
                cacheable = False
                if word in self.asm.labels:
                    mods.offset = self.asm.labels[word]
                else:
                    raise UnsupportedInstruction(f"{mnemonic} {text}: no such label")
            elif slot == "I":
                mods.offset = _immediate(word)
            elif slot == "H":
                mods.offset = _hwreg(word)
        if mods.op_sel_entries == len(src) + 1 <= 3:  # the destination's select comes last in text and is bit 3
            mods.op_sel = mods.op_sel & (1 << len(src)) - 1 | mods.op_sel >> len(src) << 3
        if mods.op_sel_hi is None and honoured and "op_sel_hi" in honoured:
            mods.op_sel_hi = 7
        if honoured is None:
            refused = mods.seen & _MATRIX_MODIFIERS | _meaningless(mods, dst_types[:1], src_types, saturates)
        else:
            refused = (
                mods.seen
                | {name for o in dst + src for bit, name in ((NEG, "-"), (ABS, "||"), (SEXT, "sext")) if o.mods & bit}
            ) - honoured
        if refused:
            raise UnsupportedInstruction(f"{mnemonic} {text}: {', '.join(sorted(refused))} not supported here")
        self.symbolic += [
            (index, 2 + k, operand.symbolic) for k, operand in enumerate(src) if operand.symbolic is not None
        ]
        self._note_registers(dst + src)
        return self._record(number, dst, src, dst_types, src_types, mods), cacheable

    def _operand(self, word: str, type_name: str, mnemonic: str, text: str, any_width: bool = False) -> Operand:
        type_name, *others = type_name.split("|")
        try:
            operand = parse_operand(word, type_name, self.symbol)
        except UnsupportedInstruction as error:
            raise UnsupportedInstruction(f"{mnemonic} {text}: {error}") from None
        if operand.dwords and not any_width and operand.dwords not in [TYPES[t][0] for t in (type_name, *others)]:
            raise UnsupportedInstruction(f"{mnemonic} {text}: {word} is not of type {type_name}")
        return operand

    def _note_registers(self, operands: list[Operand]) -> None:
        for operand in operands:
            if operand.kind == VGPR:
                last = operand.reg + operand.dwords - 1
                if operand.reg >= ACCUMULATION:
                    self.max_agpr = max(self.max_agpr, last - ACCUMULATION)
                else:
                    self.max_vgpr = max(self.max_vgpr, last)

    @staticmethod
    def _record(
        number: int, dst: list[Operand], src: list[Operand], dst_types: list[str], src_types: list[str], m: Modifiers
    ) -> list:
        packed = bool(_PACKED_TYPES.intersection(src_types))
        if m.op_sel_hi is None:
            m.op_sel_hi = 7 if packed else 0
        if packed:
            used = (1 << len(src)) - 1
            if m.op_sel & used or m.op_sel_hi & used != used or m.neg_lo or m.neg_hi:
                m.flags |= PACKED_SEL
        elif m.op_sel:
            m.flags |= OPSEL
            if dst_types and dst_types[0] in HALVES:
                m.flags |= HALF_DST
        if m.flags & (CLAMP | DPP | SDWA | OPSEL | PACKED_SEL) or m.omod or any(o.mods for o in src):
            m.flags |= SLOW
        none = Operand(NONE)
        fields: list[int] = [0, 0]
        for operand in [*(dst + [none, none])[:2], *(src + [none] * 5)[:5]]:
            fields += operand.packed()
        width, float_type = (TYPES[dst_types[0]][0], _FLOAT_TYPES.get(dst_types[0], 0)) if dst_types else (0, 0)
        widths, floats, _ = zip(*([TYPES[t] for t in src_types[:5]] + [(0, 0, "")] * 5)[:5])
        return [*fields, *_FIELDS(m), width, *widths, float_type, *floats, number]


def _is_number(word: str) -> bool:
    try:
        int(word, 0)
    except ValueError:
        return False
    return True
