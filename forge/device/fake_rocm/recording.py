"""HIP extensions compiled as for an emulated GPU, and their launches noted instead of carried out.

What `gen_submission.py --check` knows of HIP: which kernels there are, what each takes, and what host code launches.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cdna.binary.asm import parse, source_line
from cdna.binary.kernel_names import demangled, template_arguments
from cdna.binary.resources import Resources, read_resources
from cdna.hip.compile.toolchain import DeviceCode
from forge.device.fake_rocm import hip, tags
from forge.device.pages import fresh
from forge.device.resources import paths_of

_CALLBACK = ctypes.CFUNCTYPE(
    None, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_uint32), ctypes.c_uint64
)


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel of a compiled HIP source; a template counts once for each set of arguments."""

    name: str  # mangled
    function: str  # as the source has it
    arguments: list[str]  # of a template
    place: str  # file:line of its first instruction
    resources: Resources
    compile_s: float | None  # of its whole file; None where the cache had it
    wrong: list[str]  # waits and hazards, on any path
    undecided: list[str]


@dataclass(frozen=True)
class Launch:
    kernel: str  # mangled
    threads: int  # of a workgroup
    dynamic_lds_bytes: int


class Recording:
    """From its making on, device code that is compiled is noted, and every launch goes to `launched`."""

    def __init__(self, arch: str, launched: Callable[[Launch], None]) -> None:
        self.kernels: dict[str, CompiledKernel] = {}  # by mangled name
        hip.load(arch)
        assert hip._library is not None
        hip.device_code_listeners.append(self.note)

        def record(kernel: bytes, groups: Any, threads: Any, dynamic_lds_bytes: int) -> None:
            launched(Launch(kernel.decode(), threads[0] * threads[1] * threads[2], dynamic_lds_bytes))

        self._callback = _CALLBACK(record)  # ctypes keeps no reference
        hip._library.cdna_record_launches(self._callback)

    def note(self, code: DeviceCode) -> None:
        assembly = code.assembly.read_text()
        asm = parse(assembly)
        paths = paths_of(asm)
        for resources in read_resources(assembly):
            name = resources.kernel
            first = asm.labels.get(name)
            place = source_line(asm, asm.statements[first]) if first is not None else ""
            function, arguments = template_arguments(demangled(name))
            self.kernels[name] = CompiledKernel(
                name, function, arguments, place, resources, code.compile_s, *paths[name]
            )


def unwritten(shape: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor on the GPU in memory that only its use would take: it may be larger than the machine's."""
    elements = 1 + sum((size - 1) * step for size, step in zip(shape, stride)) if all(shape) else 0
    memory = fresh(max(1, elements) * dtype.itemsize)
    with tags.quiet():
        flat = torch.frombuffer(memory, dtype=torch.uint8).view(dtype)
        return tags.mark(flat.as_strided(tuple(shape), tuple(stride)), tags.current.index)
