"""Programs and kernels on the emulated device: assembly text in, launches out.

`Program(asm_text)` decodes a whole assembly file for its arch; `Program.kernels[name].launch(...)` runs one.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
from collections import deque
from dataclasses import dataclass, field

from . import asm as asm_module
from .arch import ARCHS, Arch, get_arch
from .build import engine_library
from .decode import RECORD, Decoder
from .errors import CdnaError, KernelFault, LaunchError

CODE_BASE = 0x0004000000000000
NO_SGPR = 0xFFFFFFFF


class _Launch(ctypes.Structure):
    """Launch of engine/launch.cpp."""

    _fields_ = [
        ("groups", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("entry", ctypes.c_uint32),
        ("user_sgprs", ctypes.c_uint32), ("kernarg_sgpr", ctypes.c_uint32), ("dispatch_sgpr", ctypes.c_uint32),
        ("preload_sgpr", ctypes.c_uint32), ("preload_dwords", ctypes.c_uint32), ("preload_offset", ctypes.c_uint32),
        ("workgroup_id_mask", ctypes.c_uint32), ("lds_bytes", ctypes.c_uint32), ("lds_limit", ctypes.c_uint32),
        ("scratch_bytes", ctypes.c_uint32), ("mode", ctypes.c_uint32), ("n_threads", ctypes.c_uint32),
        ("max_live", ctypes.c_uint32), ("n_xcc", ctypes.c_uint32),
        ("kernarg", ctypes.c_void_p), ("dispatch_packet", ctypes.c_void_p), ("executed", ctypes.c_void_p), ("cancel", ctypes.c_void_p),
        ("status", ctypes.c_uint32), ("fault_pc", ctypes.c_uint32), ("fault_wave", ctypes.c_uint32), ("fault_group", ctypes.c_uint32 * 3),
        ("fault_address", ctypes.c_uint64), ("message", ctypes.c_char * 256),
    ]


class _Engine:
    def __init__(self) -> None:
        self.lib = ctypes.CDLL(str(engine_library()))
        self.lib.cdna_op_name.restype = self.lib.cdna_op_signature.restype = ctypes.c_char_p
        self.lib.cdna_program_create.restype = ctypes.c_void_p
        self.lib.cdna_program_create.argtypes = [ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint32]
        self.lib.cdna_program_destroy.argtypes = [ctypes.c_void_p]
        self.lib.cdna_launch.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Launch)]
        if self.lib.cdna_inst_bytes() != RECORD.size or self.lib.cdna_launch_bytes() != ctypes.sizeof(_Launch):
            raise CdnaError("the engine's records and Python's differ in size: cdna/engine and cdna/*.py are of different versions")
        # arch -> mnemonic -> (op, signature); `name@gfx950` in the engine's table stands for that arch alone
        self.ops: dict[str, dict[str, tuple[int, str]]] = {arch: {} for arch in ARCHS}
        for i in range(self.lib.cdna_op_count()):
            name, _, only = self.lib.cdna_op_name(i).decode().partition("@")
            for arch in [only] if only else ARCHS:
                if name in self.ops[arch]:
                    raise CdnaError(f"the engine lists {name} twice for {arch}")
                self.ops[arch][name] = (i, self.lib.cdna_op_signature(i).decode())


@functools.cache
def engine() -> _Engine:
    """The loaded engine; builds it on first use."""
    return _Engine()


def n_threads() -> int:
    """Host threads a launch uses: $CDNA_THREADS, else every core this process may run on."""
    return int(os.environ.get("CDNA_THREADS") or len(os.sched_getaffinity(0)))


@dataclass
class LaunchRecord:
    """What one launch executed."""

    kernel: str
    grid: tuple[int, int, int]        # workgroups
    block: tuple[int, int, int]       # work-items
    lds_bytes: int
    wave_instructions: int
    by_class: dict[str, int] = field(default_factory=dict)


# Launches since each reader last asked. Bounded: a program that never asks must not grow.
_records: dict[str, deque[LaunchRecord]] = {name: deque(maxlen=100_000) for name in ("user", "bench")}


def take_records(reader: str = "user") -> list[LaunchRecord]:
    """The launches since this reader's last call, in order; readers ("user", "bench") do not take from each other."""
    taken = list(_records[reader])
    _records[reader].clear()
    return taken


def instruction_class(mnemonic: str) -> str:
    """Coarse class of a mnemonic, as counters report it."""
    if mnemonic.startswith(("v_mfma", "v_smfmac")):
        return "matrix"
    if mnemonic.startswith("ds_"):
        return "lds"
    if mnemonic.startswith(("global_", "flat_", "buffer_", "scratch_")):
        return "memory"
    if mnemonic.startswith(("s_load", "s_buffer_load")):
        return "scalar memory"
    if mnemonic.startswith("v_"):
        return "vector"
    if mnemonic.startswith(("s_branch", "s_cbranch", "s_barrier", "s_waitcnt", "s_nop", "s_endpgm", "s_sleep", "s_setprio")):
        return "control"
    return "scalar"


class Program:
    """A decoded assembly file."""

    def __init__(self, text: str) -> None:
        self.asm = asm_module.parse(text)
        target = self.asm.target.rsplit("--", 1)[-1].split(":")[0]
        self.arch: Arch = get_arch(target)
        self._memory: dict[str, ctypes.Array] = {}
        self._got: dict[str, ctypes.c_uint64] = {}
        for name, block in self.asm.sections.items():
            self._memory[name] = ctypes.create_string_buffer(bytes(block.data), len(block.data) + 256)
        self._relocate()
        decoder = Decoder(self.asm, engine().ops[self.arch.name], self._symbol)
        code = decoder.decode_all()
        self.n_vgpr = decoder.n_vgpr
        self._handle = engine().lib.cdna_program_create(code, len(self.asm.statements), self.n_vgpr)
        self.classes = [instruction_class(s.mnemonic) for s in self.asm.statements]
        self.kernels = {name: Kernel(self, name, descriptor) for name, descriptor in self.asm.descriptors.items()}

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            engine().lib.cdna_program_destroy(self._handle)

    def address_of(self, name: str) -> int | None:
        """Address of a code or data symbol, None if the file has none of that name."""
        if name in self.asm.labels:
            return CODE_BASE + 8 * self.asm.labels[name]
        if name in self.asm.data_labels:
            section, offset = self.asm.data_labels[name]
            return self._section_base(section) + offset
        return None

    def _section_base(self, section: str) -> int:
        base = ctypes.addressof(self._memory[section])
        return base + (-base % 256)

    def _relocate(self) -> None:
        for name, block in self.asm.sections.items():
            ctypes.memmove(self._section_base(name), bytes(block.data), len(block.data))
            for offset, size, expression in block.relocations:
                symbol, _, addend = expression.partition("+")
                address = self.address_of(symbol.strip())
                if address is not None:
                    value = (address + int(addend or "0", 0)) & (1 << 8 * size) - 1
                    ctypes.memmove(self._section_base(name) + offset, value.to_bytes(size, "little"), size)

    def _symbol(self, text: str, index: int) -> int | None:
        """Value of a symbolic operand at statement `index`: `name@rel32@lo+4` and its kin, LDS symbols, .set names.

        The pair that follows s_getpc_b64 adds the distance from the pc it returned, which is the address of the
        s_add_u32: that statement itself for @lo, the one before for @hi.
        """
        name, _, kind = text.partition("@")
        if not kind:
            if name in self.asm.symbols:
                return self.asm.symbols[name]
            return 0 if name == "global_smem" else self.address_of(name)
        address = self.address_of(name)
        if kind.startswith("abs32"):
            address = 0 if address is None else address
            return (address if "@lo" in kind else address >> 32) & 0xFFFFFFFF
        if address is None:
            return None
        if kind.startswith("gotpcrel32"):
            slot = self._got.setdefault(name, ctypes.c_uint64(address))
            address = ctypes.addressof(slot)
        high = "@hi" in kind
        distance = (address - (CODE_BASE + 8 * (index - high))) & (1 << 64) - 1
        return distance >> 32 if high else distance & 0xFFFFFFFF

    def where(self, index: int) -> str:
        """Instruction text and source line of a statement."""
        statement = self.asm.statements[index]
        return f"`{statement.mnemonic} {statement.operands}` ({asm_module.source_line(self.asm, statement)})"


class Kernel:
    """One kernel of a program: its descriptor, its arguments, and how to launch it."""

    def __init__(self, program: Program, name: str, descriptor: dict[str, int]) -> None:
        self.program, self.name, self.descriptor = program, name, descriptor
        self.metadata = program.asm.metadata.get(name, {})
        self.arguments: list[dict] = self.metadata.get(".args", [])
        self.static_lds_bytes = descriptor.get("group_segment_fixed_size", 0)
        self.scratch_bytes = self.metadata.get(".private_segment_fixed_size", descriptor.get("private_segment_fixed_size", 0))
        self.kernarg_bytes = self.metadata.get(".kernarg_segment_size", descriptor.get("kernarg_size", 0))

    def _sgprs(self) -> dict[str, int]:
        """Where the user SGPRs are (LLVM AMDGPUUsage, "Initial Kernel Execution State")."""
        d, used = self.descriptor, 0
        where = {"kernarg_sgpr": NO_SGPR, "dispatch_sgpr": NO_SGPR}
        for key, count, slot in (("private_segment_buffer", 4, ""), ("dispatch_ptr", 2, "dispatch_sgpr"), ("queue_ptr", 2, ""),
                                 ("kernarg_segment_ptr", 2, "kernarg_sgpr"), ("dispatch_id", 2, ""), ("flat_scratch_init", 2, ""),
                                 ("private_segment_size", 1, "")):
            if d.get(f"user_sgpr_{key}"):
                if slot:
                    where[slot] = used
                used += count
        where["preload_sgpr"] = used
        where["preload_dwords"] = d.get("user_sgpr_kernarg_preload_length", 0)
        where["preload_offset"] = d.get("user_sgpr_kernarg_preload_offset", 0)
        where["user_sgprs"] = max(used + where["preload_dwords"], d.get("user_sgpr_count", 0))
        return where

    def _kernarg(self, values: bytes, grid: tuple[int, int, int], block: tuple[int, int, int], dynamic_lds_bytes: int) -> ctypes.Array:
        buffer = ctypes.create_string_buffer(max(self.kernarg_bytes, len(values)) + 64)
        buffer[:len(values)] = values
        hidden = {"hidden_block_count_x": ("<I", grid[0]), "hidden_block_count_y": ("<I", grid[1]), "hidden_block_count_z": ("<I", grid[2]),
                  "hidden_group_size_x": ("<H", block[0]), "hidden_group_size_y": ("<H", block[1]), "hidden_group_size_z": ("<H", block[2]),
                  "hidden_grid_dims": ("<H", 3 if grid[2] > 1 else 2 if grid[1] > 1 else 1), "hidden_dynamic_lds_size": ("<I", dynamic_lds_bytes)}
        for argument in self.arguments:
            if argument[".value_kind"] in hidden:
                fmt, value = hidden[argument[".value_kind"]]
                struct.pack_into(fmt, buffer, argument[".offset"], value)
        return buffer

    def launch(self, grid: tuple[int, int, int], block: tuple[int, int, int], kernarg: bytes, dynamic_lds_bytes: int = 0) -> LaunchRecord:
        """Run the kernel to its end.

        grid: workgroups per dimension. block: work-items of a workgroup. kernarg: the explicit arguments, laid out as
        the kernel's metadata says; hidden ones are filled in. Pointers in it are host addresses.
        KernelFault names kernel, instruction, source line, workgroup and wave; LaunchError tells what does not fit.
        """
        arch, d = self.program.arch, self.descriptor
        lds_bytes = self.static_lds_bytes + dynamic_lds_bytes
        if lds_bytes > arch.lds_bytes:
            raise LaunchError(f"{self.name}: needs {lds_bytes} bytes of LDS, {arch.name} has {arch.lds_bytes} per workgroup")
        threads = block[0] * block[1] * block[2]
        if not 1 <= threads <= 1024:
            raise LaunchError(f"{self.name}: a workgroup of {threads} work-items; {arch.name} takes 1 to 1024")
        entry = self.program.asm.labels[self.name]
        arguments = self._kernarg(kernarg, grid, block, dynamic_lds_bytes)
        packet = struct.pack("<HHHHHHIIIIIQQQQ", 0x1502, 3, *block, 0, *(g * b for g, b in zip(grid, block)), self.scratch_bytes, lds_bytes,
                             0, ctypes.addressof(arguments), 0, 0)
        packet_buffer = ctypes.create_string_buffer(packet)
        executed = (ctypes.c_uint64 * len(self.program.asm.statements))()
        launch = _Launch(
            groups=grid, block=block, entry=entry, **self._sgprs(),
            workgroup_id_mask=sum(1 << i for i, axis in enumerate("xyz") if d.get(f"system_sgpr_workgroup_id_{axis}", int(axis == "x"))),
            lds_bytes=lds_bytes, lds_limit=arch.lds_bytes, scratch_bytes=self.scratch_bytes,
            mode=d.get("float_round_mode_32", 0) | d.get("float_round_mode_16_64", 0) << 2
            | d.get("float_denorm_mode_32", 0) << 4 | d.get("float_denorm_mode_16_64", 3) << 6
            | d.get("dx10_clamp", 1) << 8 | d.get("ieee_mode", 1) << 9 | d.get("fp16_overflow", 0) << 23,
            n_threads=n_threads(), max_live=256, n_xcc=arch.xcds,
            kernarg=ctypes.addressof(arguments), dispatch_packet=ctypes.addressof(packet_buffer), executed=ctypes.addressof(executed))
        engine().lib.cdna_launch(self.program._handle, ctypes.byref(launch))
        if launch.status == 1:
            raise KernelFault(f"{self.name} on {arch.name}: {launch.message.decode(errors='replace')}\n"
                              f"  at {self.program.where(launch.fault_pc)}, workgroup {tuple(launch.fault_group)}, wave {launch.fault_wave}")
        by_class: dict[str, int] = {}
        for name, count in zip(self.program.classes, executed):
            if count:
                by_class[name] = by_class.get(name, 0) + count
        record = LaunchRecord(self.name, grid, block, lds_bytes, sum(by_class.values()), by_class)
        for records in _records.values():
            records.append(record)
        return record
