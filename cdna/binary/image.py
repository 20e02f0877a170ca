"""Program images: a decoded assembly file as one block of bytes that the engine loads without Python.

Layout (little endian; read by engine/program/image.cpp): magic, record size, counts, arch; data sections; addresses to
put into them; instruction records; addresses to put into those; kernels; data symbols; a text for each instruction;
matrix hazards.
"""

import re
import struct
from collections.abc import Mapping

from ..cards import check_arch, get_card
from ..engine import abi
from ..errors import UnsupportedInstruction
from ..isa import Facts, facts_of
from ..isa.signature import Signature
from .asm import AsmFile, arch_in, parse, source_line
from .decode import RECORD, Decoder, Symbolic
from .hazards import find_hazards, message
from .kernel_names import demangled

MAGIC = 0x38474D4941444E43
CODE = 0xFFFFFFFF  # "section" of an address in code; its offset counts instructions
NO_SGPR, ANY_KERNEL = map(abi.constant, ("NO_SGPR", "ANY_KERNEL"))
_CODE_KINDS = {
    ("abs32", "lo"): 0,
    ("abs32", "hi"): 1,
    ("rel32", "lo"): 2,
    ("rel32", "hi"): 3,
    ("gotpcrel32", "lo"): 4,
    ("gotpcrel32", "hi"): 5,
}
# LLVM adds to a pc-relative address the distance from the pc that s_getpc_b64 returned to the literal.
_LITERAL_DISTANCE = {"lo": 4, "hi": 12}
_SYMBOLIC = re.compile(r"^([\w.$]+)@(abs32|rel32|gotpcrel32)(?:@(lo|hi))?([+-]\d+)?$")
# Hidden arguments by the engine's name, where that is not LLVM's in capitals.
_ARGUMENT_KINDS = {
    "hidden_global_offset_x": "GLOBAL_OFFSET",
    "hidden_global_offset_y": "GLOBAL_OFFSET",
    "hidden_global_offset_z": "GLOBAL_OFFSET",
    "hidden_multigrid_sync_arg": "MULTIGRID_SYNC",
    "hidden_shared_base": "SHARED_BASE_HI",
    "hidden_private_base": "PRIVATE_BASE_HI",
}


def _argument_kind(value_kind: str) -> int:
    """An ArgumentKind (LLVM AMDGPUUsage, "Code Object V5 Metadata", .value_kind)."""
    kinds = abi.enumeration("ArgumentKind")
    if not value_kind.startswith("hidden_"):
        return kinds["EXPLICIT"]
    return kinds.get(_ARGUMENT_KINDS.get(value_kind, value_kind.removeprefix("hidden_").upper()), kinds["HIDDEN_OTHER"])


def _text(text: str) -> bytes:
    raw = text.encode() + b"\0"
    return struct.pack("<I", len(raw)) + raw


def _loads_arguments(facts: Facts) -> bool:
    """Whether an instruction stands where a kernel's arguments are loaded that may have been preloaded."""
    loads = facts.unit == "scalar_memory" and facts.does == "load"
    return loads or facts.unit in ("wait", "idle") or "trap" in facts.flags


class ImageBuilder:
    """Builds the image of one assembly file; `ops` is the engine's table for its arch (mnemonic -> (op, signature))."""

    def __init__(self, source: str | AsmFile, ops_of_arch: Mapping[str, Mapping[str, tuple[int, Signature]]]) -> None:
        self.asm: AsmFile = parse(source) if isinstance(source, str) else source
        self.arch = check_arch(arch_in(self.asm.target))
        self._sections = {name: i for i, name in enumerate(self.asm.sections)}
        self.decoder = Decoder(self.asm, dict(ops_of_arch[self.arch]), self._symbol)

    def build(self, hazards: bool = False) -> bytes:
        """The image; UnsupportedInstruction lists every instruction that the device does not implement.

        hazards: with the matrix hazards that hazards.py finds, for a launch that Python does not make.
        """
        asm = self.asm
        code = self.decoder.decode_all()
        out = [
            struct.pack(
                "<QIIII16s",
                MAGIC,
                RECORD.size,
                len(asm.statements),
                self.decoder.n_vgpr,
                self.decoder.max_vgpr + 1,
                self.arch.encode(),
            )
        ]
        out.append(struct.pack("<I", len(asm.sections)))
        for block in asm.sections.values():
            out += [struct.pack("<I", len(block.data)), bytes(block.data)]
        data_relocations = [
            (name, *relocation) for name, block in asm.sections.items() for relocation in block.relocations
        ]
        out.append(struct.pack("<I", len(data_relocations)))
        for name, offset, size, expression in data_relocations:
            to, address = self._data_target(expression)
            out.append(struct.pack("<IIIIq", self._sections[name], offset, size, to, address))
        out.append(code)
        out.append(struct.pack("<I", len(self.decoder.symbolic)))
        for index, operand, symbolic in self.decoder.symbolic:
            out.append(struct.pack("<IIIIq", index, operand, symbolic.kind, symbolic.section, symbolic.offset))
        out.append(struct.pack("<I", len(asm.descriptors)))
        for name, descriptor in asm.descriptors.items():
            out.append(self._kernel(name, descriptor))
        out.append(struct.pack("<I", len(asm.data_labels)))
        for name, (section, offset) in asm.data_labels.items():
            out.append(_text(name) + struct.pack("<III", self._sections[section], offset, asm.sizes.get(name, 0)))

        def where(index: int) -> str:
            statement = asm.statements[index]
            return f"`{statement}` ({source_line(asm, statement)})"

        out += [_text(where(i)) for i in range(len(asm.statements))]
        found = find_hazards(asm, get_card(self.arch)) if hazards else []
        out.append(struct.pack("<I", len(found)))
        numbers = {name: i for i, name in enumerate(asm.descriptors)}
        for hazard in found:
            out.append(struct.pack("<III", hazard.index, numbers.get(hazard.kernel, ANY_KERNEL), hazard.doubt))
            out.append(_text(message(hazard, where)))
        return b"".join(out)

    def _address(self, name: str) -> tuple[int, int]:
        if name in self.asm.labels:
            return CODE, self.asm.labels[name]
        if name in self.asm.data_labels:
            section, offset = self.asm.data_labels[name]
            return self._sections[section], offset
        raise UnsupportedInstruction(f"symbol {name} is defined nowhere in this file")

    def _data_target(self, expression: str) -> tuple[int, int]:
        name, sign, addend = re.split(r"([+-]|$)", expression, maxsplit=1)
        to, address = self._address(name.strip())
        return to, address + int(f"{sign}{addend}" or "0", 0)

    def _symbol(self, text: str) -> int | Symbolic | None:
        """A symbolic operand: `name@rel32@lo+4` and its kin, LDS symbols, .set names."""
        if "@" not in text:
            if text in self.asm.symbols:
                return self.asm.symbols[text]
            return self.asm.lds_symbols.get(text)
        found = _SYMBOLIC.match(text)
        if not found:
            return None
        name, kind, half, addend = (found.group(1), found.group(2), found.group(3) or "lo", int(found.group(4) or 0))
        if name in self.asm.lds_symbols and kind == "abs32":
            return self.asm.lds_symbols[name] if half == "lo" else 0
        address = self._address(name)
        extra = addend - (0 if kind == "abs32" else _LITERAL_DISTANCE[half])
        return Symbolic(
            _CODE_KINDS[kind, half],
            address[0],
            address[1] + (extra if address[0] != CODE and kind != "gotpcrel32" else 0),
        )

    def _entry(self, name: str, preload: int) -> int:
        """Where a wave starts. Firmware that has preloaded arguments passes over the first 256 bytes, which load
        them on older firmware, or trap there: LLVM, AMDGPUPreloadKernArgProlog.cpp.
        """
        entry, code = self.asm.labels[name], self.asm.statements
        if not preload:
            return entry
        after = entry
        while after < len(code) and _loads_arguments(facts_of(code[after].mnemonic)):
            after += 1
        if after < len(code) and facts_of(code[after].mnemonic).does == "jump":
            return self.asm.labels[code[after].operands.strip()]
        return after if "trap" in facts_of(code[entry].mnemonic).flags else entry

    def _kernel(self, name: str, d: dict[str, int]) -> bytes:
        """A KernelInfo (LLVM AMDGPUUsage, "Kernel Descriptor" and "Initial Kernel Execution State")."""
        metadata = self.asm.metadata.get(name, {})
        used = 0
        kernarg = dispatch = NO_SGPR
        for key, count in (
            ("private_segment_buffer", 4),
            ("dispatch_ptr", 2),
            ("queue_ptr", 2),
            ("kernarg_segment_ptr", 2),
            ("dispatch_id", 2),
            ("flat_scratch_init", 2),
            ("private_segment_size", 1),
        ):
            if d.get(f"user_sgpr_{key}"):
                kernarg = used if key == "kernarg_segment_ptr" else kernarg
                dispatch = used if key == "dispatch_ptr" else dispatch
                used += count
        preload = d.get("user_sgpr_kernarg_preload_length", 0)
        ids = sum(1 << i for i, axis in enumerate("xyz") if d.get(f"system_sgpr_workgroup_id_{axis}", int(axis == "x")))
        mode = (
            d.get("float_round_mode_32", 0)
            | d.get("float_round_mode_16_64", 0) << 2
            | d.get("float_denorm_mode_32", 0) << 4
            | d.get("float_denorm_mode_16_64", 3) << 6
            | d.get("dx10_clamp", 1) << 8
            | d.get("ieee_mode", 1) << 9
            | d.get("fp16_overflow", 0) << 23
        )
        arguments = [
            abi.structure("KernelArgument")(a[".offset"], a[".size"], _argument_kind(a[".value_kind"]))
            for a in metadata.get(".args", [])
        ]
        info = abi.structure("KernelInfo")(
            entry=self._entry(name, preload),
            user_sgprs=max(used + preload, d.get("user_sgpr_count", 0)),
            kernarg_sgpr=kernarg,
            dispatch_sgpr=dispatch,
            preload_sgpr=used,
            preload_dwords=preload,
            preload_offset=d.get("user_sgpr_kernarg_preload_offset", 0),
            workgroup_id_mask=ids,
            static_lds_bytes=metadata.get(".group_segment_fixed_size", d.get("group_segment_fixed_size", 0)),
            scratch_bytes=metadata.get(".private_segment_fixed_size", d.get("private_segment_fixed_size", 0)),
            kernarg_bytes=metadata.get(".kernarg_segment_size", d.get("kernarg_size", 0)),
            mode=mode,
            max_work_items=metadata.get(".max_flat_workgroup_size", 1024),
            vgprs=metadata.get(".vgpr_count", 0),
            agprs=metadata.get(".agpr_count", 0),
            sgprs=metadata.get(".sgpr_count", 0),
            dynamic_stack=bool(metadata.get(".uses_dynamic_stack", d.get("uses_dynamic_stack", 0))),
            n_arguments=len(arguments),
        )
        return b"".join([bytes(info), _text(name), _text(demangled(name)), *map(bytes, arguments)])
