"""Runs a few instructions on one wave with given registers: how single instructions are tested and explored.

state = run("gfx942", "v_add_u32 v2, v0, v1", v={0: range(64), 1: [5] * 64})
state.v[2]          # 64 dwords
"""

import ctypes
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..binary.decode import base_mnemonic
from ..engine.library import engine
from ..errors import KernelFault
from ..launch.program import Program

POISON = 0x7FC5A5A5
DEFAULT_MODE = 0x3F0  # what compilers set for compute kernels: nearest even, denormals kept, DX10_CLAMP, IEEE


@dataclass
class State:
    """Registers after the run: v[register][lane], s[register], as dwords."""

    v: list[list[int]]
    s: list[int]
    scc: int
    lds: bytes

    @property
    def vcc(self) -> int:
        return self.s[106] | self.s[107] << 32

    @property
    def exec(self) -> int:
        return self.s[126] | self.s[127] << 32

    def s64(self, register: int) -> int:
        return self.s[register] | self.s[register + 1] << 32


def split64(values: Iterable[int]) -> tuple[list[int], list[int]]:
    """Low and high dwords of 64-bit values, such as host addresses for a pair of vector registers."""
    values = [int(x) for x in values]
    return [x & 0xFFFFFFFF for x in values], [x >> 32 & 0xFFFFFFFF for x in values]


def _record(program: Program) -> None:
    """Add the snippet's instructions to $CDNA_COVERAGE_FILE, where set: a line with the arch and each mnemonic once."""
    file = os.environ.get("CDNA_COVERAGE_FILE")
    if file:
        names = dict.fromkeys(base_mnemonic(s.mnemonic) for s in program.asm.statements[:-1])
        with open(file, "a") as lines:  # one write a line: test processes may share the file
            lines.write(f"{program.arch} {' '.join(names)}\n")


def run(
    arch: str,
    text: str,
    v: Mapping[int, Iterable[int]] | None = None,
    s: Mapping[int, int] | None = None,
    exec: int = (1 << 64) - 1,
    scc: int = 0,
    lds: bytes = b"",
    scratch_bytes: int = 0,
    mode: int = DEFAULT_MODE,
    vcc: int | None = None,
) -> State:
    """Execute `text` (statements, one a line) on one wave and return its registers.

    v: dwords of vector registers, 64 each. s: dwords of scalar registers by encoding (106 vcc, 124 m0). Accumulation
    registers a0.. follow the highest architectural register that the text names. lds: contents of the LDS allocation.
    scratch_bytes: scratch of each lane. KernelFault if the wave faults. What ran without one is noted in the file that
    $CDNA_COVERAGE_FILE names, if it names one.
    """
    program = Program(f'.amdgcn_target "amdgcn-amd-amdhsa--{arch}"\n.text\nsnippet:\n{text}\ns_endpgm\n')
    n_vgpr = max(program.n_vgpr, *(r + 1 for r in v), 1) if v else max(program.n_vgpr, 1)
    raw = ctypes.create_string_buffer(n_vgpr * 256 + 64)
    base = ctypes.addressof(raw) + (-ctypes.addressof(raw) % 64)
    registers = (ctypes.c_uint32 * (n_vgpr * 64)).from_address(base)
    registers[:] = [POISON] * (n_vgpr * 64)
    for number, values in (v or {}).items():
        registers[number * 64 : number * 64 + 64] = [x & 0xFFFFFFFF for x in values]
    scalars = (ctypes.c_uint32 * 128)(*[POISON] * 128)
    scalars[126], scalars[127] = exec & 0xFFFFFFFF, exec >> 32
    if vcc is not None:
        scalars[106], scalars[107] = vcc & 0xFFFFFFFF, vcc >> 32
    for number, value in (s or {}).items():
        scalars[number] = value & 0xFFFFFFFF
    shared = ctypes.create_string_buffer(lds, len(lds) + 64)
    flag = ctypes.c_uint32(scc)
    message = ctypes.create_string_buffer(256)
    stop = engine().lib.cdna_run_wave(
        ctypes.c_void_p(program._handle),
        registers,
        scalars,
        ctypes.byref(flag),
        shared,
        ctypes.c_uint32(len(lds)),
        ctypes.c_uint32(scratch_bytes),
        ctypes.c_uint32(mode),
        message,
    )
    if stop == 4:
        raise KernelFault(message.value.decode())
    _record(program)
    return State(
        [list(registers[r * 64 : r * 64 + 64]) for r in range(n_vgpr)],
        list(scalars),
        flag.value,
        shared.raw[: len(lds)],
    )
