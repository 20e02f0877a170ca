"""A code object as the statements, labels, data and descriptors that the decoder takes from assembly text."""

import re
import struct
from typing import Any

from ..errors import UnsupportedInstruction
from ..isa import flagged
from .asm import AsmFile, Datum, Statement
from .disassembler import Instruction, disassemble
from .elf import CodeObject, CodeObjectError

_PAIR = re.compile(r"s\[(\d+):(\d+)\]")


def instructions_of(code: CodeObject) -> list[tuple[int, Instruction]]:
    """(address, instruction) of all the code that can be decoded.

    What is no instruction is left out: data in code, and what pads it. A branch there is an error later on.
    """
    found = []
    at = 0
    while at < len(code.code):
        instruction = disassemble(code.code, code.arch, at)
        if instruction is not None:
            found.append((code.code_address + at, instruction))
        at += instruction.size_bytes if instruction is not None else 4
    return found


def statements_of(code: CodeObject) -> AsmFile:
    """The code object as a parsed assembly file. CodeObjectError where a kernel has no code or no description."""
    out = AsmFile(target=f"amdgcn-amd-amdhsa--{code.arch}", linked=True)
    decoded = instructions_of(code)
    index_at = {address: index for index, (address, _) in enumerate(decoded)}
    files: dict[str, int] = {}
    targets = _targets(decoded)
    for section, (address, content) in code.data.items():
        out.sections[section] = Datum(bytearray(content))
        out.data_labels[_label(address)] = (section, 0)
    for symbol in code.symbols:
        if symbol.address in index_at and symbol.is_function:
            out.labels[symbol.name] = index_at[symbol.address]
            out.functions.append(symbol.name)
        elif (place := _place(code, symbol.address)) is not None:
            out.data_labels[symbol.name] = place
            out.sizes[symbol.name] = symbol.size
    for pointer, target in code.relocations.items():
        if (where := _place(code, pointer)) is not None:
            out.sections[where[0]].relocations.append((where[1], 8, _reference(code, out, index_at, target)))
    addresses = _addresses(decoded)
    file, line = "", 0
    for index, (address, instruction) in enumerate(decoded):
        if index + 1 < len(decoded) and decoded[index + 1][0] != address + instruction.size_bytes:
            out.gaps.add(index)
        if address in targets:
            out.labels[_label(address)] = index
        operands = instruction.operands
        if instruction.target is not None:
            target = address + instruction.target
            operands = ", ".join([*operands.split(", ")[:-1], _label(target)])
        elif index in addresses:
            half, target, addend = addresses[index]
            name = _reference(code, out, index_at, target)
            operands = f"{operands.rpartition(', ')[0]}, {name}@rel32@{half}+{addend}"
        file, line = code.lines.get(address, (file, line))
        number = files.setdefault(file, len(files) + 1) if file else 0
        out.statements.append(Statement(instruction.mnemonic, operands, address, (number, line)))
    out.files = {number: file for file, number in files.items()}
    for name, descriptor in code.descriptors.items():
        entry = struct.unpack_from("<q", descriptor, 16)[0] + _descriptor_address(code, name)
        if entry not in index_at:
            raise CodeObjectError(f"kernel {name}: no instruction at its entry, {entry:#x}")
        out.labels[name] = index_at[entry]
        out.descriptors[name] = descriptor_keys(descriptor)
        out.metadata[name] = code.metadata.get(name, {})
    return out


def _label(address: int) -> str:
    return f"L_{address:x}"


def _descriptor_address(code: CodeObject, name: str) -> int:
    return next(symbol.address for symbol in code.symbols if symbol.name == f"{name}.kd")


def _targets(decoded: list[tuple[int, Instruction]]) -> set[int]:
    return {address + i.target for address, i in decoded if i.target is not None}


def _place(code: CodeObject, address: int) -> tuple[str, int] | None:
    """(section, offset) of an address in data, or of the end of some: code compares with that."""
    places = [
        (section, address - start)
        for section, (start, content) in code.data.items()
        if start <= address <= start + len(content)
    ]
    return min(places, key=lambda place: place[1], default=None)


def _reference(code: CodeObject, out: AsmFile, index_at: dict[int, int], target: int) -> str:
    """A label for an address in code or data, made where there is none."""
    label = _label(target)
    if target in index_at:
        out.labels[label] = index_at[target]
    elif (place := _place(code, target)) is not None:
        out.data_labels[label] = place
    else:
        raise CodeObjectError(f"an address, {target:#x}, that is neither code nor data of the file")
    return label


def _addresses(decoded: list[tuple[int, Instruction]]) -> dict[int, tuple[str, int, int]]:
    """Literals that make an address of what s_getpc_b64 returned: index -> (lo or hi, address, addend).

    The pair `s_add_u32 s4, s4, literal` and `s_addc_u32 s5, s5, literal` behind `s_getpc_b64 s[4:5]`, with anything
    between that leaves the registers alone, is how every compiler and AMD's own assembly take an address.
    """
    found: dict[int, tuple[str, int, int]] = {}
    for index, (address, instruction) in enumerate(decoded):
        if instruction.mnemonic not in flagged("pc"):
            continue
        pair = _PAIR.fullmatch(instruction.operands)
        if pair is None:
            raise UnsupportedInstruction(f"{instruction}: an address in a register that is not an SGPR pair")
        low, high = f"s{pair[1]}", f"s{pair[2]}"
        carries = flagged("adds") & flagged("scc_in")
        lo = _next_add(decoded, index, flagged("adds") - carries, low)
        hi = _next_add(decoded, index, carries, high)
        if lo is None or hi is None:
            continue  # the address itself is what the code wants
        (lo_index, lo_value), (hi_index, hi_value) = lo, hi
        distance = (hi_value << 32 | lo_value & 0xFFFFFFFF) & (1 << 64) - 1
        target = (address + 4 + distance) & (1 << 64) - 1
        found[lo_index] = ("lo", target, 4)
        found[hi_index] = ("hi", target, 12)
    return found


def _next_add(
    decoded: list[tuple[int, Instruction]], index: int, mnemonics: frozenset[str], register: str
) -> tuple[int, int] | None:
    for near in range(index + 1, min(index + 6, len(decoded))):
        instruction = decoded[near][1]
        parts = instruction.operands.split(", ")
        if instruction.mnemonic in mnemonics and parts[:2] == [register, register]:
            try:
                return near, int(parts[2], 0)
            except ValueError:
                return None
    return None


def descriptor_keys(descriptor: bytes) -> dict[str, int]:
    """A kernel descriptor as assembly text has it, .amdhsa_ keys (LLVM AMDGPUUsage, "Kernel Descriptor")."""
    lds, private, kernarg = struct.unpack_from("<III", descriptor, 0)
    rsrc1, rsrc2 = struct.unpack_from("<II", descriptor, 48)
    properties, preload = struct.unpack_from("<HH", descriptor, 56)
    keys: dict[str, Any] = {
        "group_segment_fixed_size": lds,
        "private_segment_fixed_size": private,
        "kernarg_size": kernarg,
        "user_sgpr_count": rsrc2 >> 1 & 31,
        "user_sgpr_kernarg_preload_length": preload & 127,
        "user_sgpr_kernarg_preload_offset": preload >> 7,
        "float_round_mode_32": rsrc1 >> 12 & 3,
        "float_round_mode_16_64": rsrc1 >> 14 & 3,
        "float_denorm_mode_32": rsrc1 >> 16 & 3,
        "float_denorm_mode_16_64": rsrc1 >> 18 & 3,
        "dx10_clamp": rsrc1 >> 21 & 1,
        "ieee_mode": rsrc1 >> 23 & 1,
        "fp16_overflow": rsrc1 >> 26 & 1,
        "system_vgpr_workitem_id": rsrc2 >> 11 & 3,
        "uses_dynamic_stack": properties >> 11 & 1,
    }
    keys |= {f"system_sgpr_workgroup_id_{axis}": rsrc2 >> 7 + i & 1 for i, axis in enumerate("xyz")}
    names = (
        "private_segment_buffer dispatch_ptr queue_ptr kernarg_segment_ptr dispatch_id flat_scratch_init "
        "private_segment_size"
    )
    keys |= {f"user_sgpr_{name}": properties >> i & 1 for i, name in enumerate(names.split())}
    return keys
