"""`python -m cdna report FILE`: one aligned line per kernel, of what it takes of the card. Nothing is executed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from ..errors import ToolchainError
from ..resource_table import KernelUse, lds_error, table
from ..resources import read_resources, read_target
from .names import demangled, template_arguments
from .toolchain import find

HIP_SUFFIXES = (".hip", ".cu", ".cpp", ".cc", ".cxx", ".hpp", ".h")


def assembly_of(
    file: Path, arch: str, include_dirs: Sequence[Path], defines: Sequence[str], std: str, extra: Sequence[str]
) -> tuple[str, str]:
    """(arch, assembly text) of an assembly file, or of a HIP source compiled for `arch`."""
    if not file.is_file():
        raise ToolchainError(f"{file}: no such file")
    if file.suffix == ".s":
        text = file.read_text(errors="replace")
        try:
            return read_target(text), text
        except ToolchainError as error:
            raise ToolchainError(f"{file}: {error}") from None
    if file.suffix not in HIP_SUFFIXES:
        raise ToolchainError(f"{file}: report reads AMDGCN assembly (.s) and HIP sources ({', '.join(HIP_SUFFIXES)})")
    return arch, find().device_asm(file, arch, include_dirs, defines, std, extra)


def report(text: str, arch: str, out: TextIO, threads: int = 0, dynamic_lds_bytes: int = 0) -> list[str]:
    """Print the table; return what does not fit the card, one line each.

    `threads` of a workgroup, and LDS that a launch adds, are a launch's. 0 threads, and more than the kernel was
    compiled for (`__launch_bounds__`; 1024 without), count as that many.
    """
    kernels = read_resources(text)
    if not kernels:
        raise ToolchainError("no kernel (__global__ function) in it; a template counts once it is instantiated")
    uses = []
    for kernel, name in zip(kernels, short_names([kernel.kernel for kernel in kernels])):
        launched = min(threads or kernel.max_threads, kernel.max_threads)
        uses.append(KernelUse(kernel, launched, dynamic_lds_bytes, {"kernel": name, "threads": str(launched)}))
    print("\n".join(table(arch, uses)), file=out)
    return [error for use in uses if (error := lds_error(arch, use.labels["kernel"], use))]


def short_names(mangled: Sequence[str]) -> list[str]:
    """Kernels' own names out of their mangled ones; with a template's arguments where they are not distinct."""
    names = [_own_name(name) for name in mangled]
    for longer in (_with_arguments, str):
        names = [longer(whole) if names.count(name) > 1 else name for name, whole in zip(names, mangled)]
    return names


def _with_arguments(mangled: str) -> str:
    function, arguments = template_arguments(demangled(mangled))
    return f"{function}<{', '.join(arguments)}>" if arguments else function


def _own_name(mangled: str) -> str:
    """The innermost name of an Itanium-mangled one: `_ZN2ns4axpyEPf` and `_Z4axpyPf` are both axpy."""
    rest = mangled.removeprefix("_Z")
    if rest == mangled:
        return mangled
    nested = rest.startswith("N")
    rest, own = rest.removeprefix("N"), mangled
    while found := re.match(r"(?:12_GLOBAL__N_1|St|L)*(\d+)", rest):
        start, length = found.end(), int(found[1])
        own, rest = rest[start : start + length], rest[start + length :]
        if not nested:
            break
    return own
