"""Code objects as Python sees them: `cdna.load(...)`, kernels by name, launches with tensors and numbers."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..binary.elf import CodeObject, CodeObjectError, read
from ..binary.statements import statements_of
from ..errors import LaunchError
from ..observe.records import LaunchRecord
from .program import Kernel, Program
from .tensors import memory_of

_INTEGERS = {1: "b", 2: "h", 4: "i", 8: "q"}
_FLOATS = {2: "<e", 4: "<f", 8: "<d"}


class Module:
    """A loaded code object: `kernels` maps a name to a kernel that can be launched."""

    def __init__(self, code: CodeObject) -> None:
        self.code = code
        self.arch = code.arch
        self.program = Program(statements_of(code))
        self.kernels: Mapping[str, ObjectKernel] = {
            name: ObjectKernel(kernel) for name, kernel in self.program.kernels.items()
        }

    def kernel(self, name: str | None = None) -> ObjectKernel:
        """The kernel of that name; without one the only kernel there is. CodeObjectError lists them."""
        if name is None and len(self.kernels) == 1:
            return next(iter(self.kernels.values()))
        if name is None or name not in self.kernels:
            missing = f"no kernel {name}" if name else "several kernels: name one"
            raise CodeObjectError(f"{missing}; the code object has {', '.join(sorted(self.kernels)) or 'none'}")
        return self.kernels[name]


class ObjectKernel:
    """One kernel of a code object."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.name = kernel.name
        self.launch = kernel.launch

    @property
    def arguments(self) -> list[dict[str, Any]]:
        """The explicit arguments as the metadata has them: .name, .offset and .size in bytes, .value_kind."""
        return [a for a in self.kernel.arguments if not a[".value_kind"].startswith("hidden_")]

    def __call__(self, grid: Sequence[int], block: Sequence[int], *values: Any, lds_bytes: int = 0) -> LaunchRecord:
        """Launches the kernel with one value for each of its arguments.

        grid: workgroups, block: work-items of a workgroup, in up to three dimensions. values: tensors (their addresses
        are handed over), integers, floats, None (a null pointer), bytes as they are. lds_bytes: dynamic LDS.
        LaunchError names the argument that does not fit.
        """
        kernarg, named = self.pack(values)
        return self.kernel.launch(
            _three("grid", grid), _three("block", block), kernarg, lds_bytes, memory=lambda: memory_of(named)
        )

    def pack(self, values: Sequence[Any]) -> tuple[bytes, list[tuple[str, Any, str]]]:
        """(kernel argument bytes, what memory_of wants to know of each argument)."""
        arguments = self.arguments
        if not arguments and values:
            raise LaunchError(
                f"{self.name}: its metadata names no argument; hand all of them over as bytes to launch()"
            )
        if len(values) != len(arguments):
            raise LaunchError(f"{self.name} takes {len(arguments)} arguments, got {len(values)}")
        kernarg = bytearray(max(self.kernel.kernarg_bytes, *(a[".offset"] + a[".size"] for a in arguments), 0))
        named = []
        for number, (argument, value) in enumerate(zip(arguments, values)):
            name = argument.get(".name") or f"argument {number}"
            content, type_name = _packed(f"{self.name}: {name}", argument, value)
            kernarg[argument[".offset"] : argument[".offset"] + len(content)] = content
            named.append((name, value, type_name))
        return bytes(kernarg), named


def _packed(who: str, argument: Mapping[str, Any], value: Any) -> tuple[bytes, str]:
    """(bytes, type as Triton names it) of one argument."""
    size = argument[".size"]
    pointer = argument[".value_kind"] in ("global_buffer", "dynamic_shared_pointer")
    if hasattr(value, "data_ptr"):
        if size < 8:
            raise LaunchError(f"{who} takes {size} bytes, and a tensor's address has 8")
        return value.data_ptr().to_bytes(8, "little"), "*"
    if value is None or (pointer and isinstance(value, int)):
        return int(value or 0).to_bytes(8, "little"), "i64"
    if isinstance(value, bytes):
        if len(value) != size:
            raise LaunchError(f"{who} takes {size} bytes, got {len(value)}")
        return value, f"bytes[{size}]"
    if isinstance(value, float):
        if pointer or size not in _FLOATS:
            raise LaunchError(f"{who} takes {'an address' if pointer else f'{size} bytes'}, got the float {value}")
        return struct.pack(_FLOATS[size], value), f"fp{8 * size}"
    if isinstance(value, int) and size in _INTEGERS:
        if not -(1 << 8 * size - 1) <= value < 1 << 8 * size:
            raise LaunchError(f"{who} takes {size} bytes, and {value} needs more")
        return (value & (1 << 8 * size) - 1).to_bytes(size, "little"), f"i{8 * size}"
    raise LaunchError(f"{who} takes {'an address' if pointer else f'{size} bytes'}, got {type(value).__name__}")


def _three(name: str, counts: Sequence[int]) -> tuple[int, int, int]:
    if not 1 <= len(counts) <= 3 or any(count < 1 for count in counts):
        raise LaunchError(f"{name} must be one to three numbers above 0, got {tuple(counts)}")
    x, y, z = (*counts, 1, 1)[:3]
    return x, y, z


def load(source: str | Path | bytes, arch: str | None = None) -> Module:
    """Loads a code object: a .co or .hsaco file, a bundle, or its bytes. arch: which of a bundle's, if it has several.

    CodeObjectError says in a line what is wrong with the file; UnsupportedInstruction lists what is not emulated.
    """
    if isinstance(source, bytes):
        return Module(read(source, arch))
    path = Path(source)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CodeObjectError(f"{path}: {error.strerror}") from None
    try:
        return Module(read(content, arch))
    except CodeObjectError as error:
        raise CodeObjectError(f"{path}: {error}") from None
