"""`python -m cdna report FILE`: one aligned line a kernel, of what it takes of the card. Nothing is executed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from ..arch import get_arch
from ..errors import ToolchainError
from ..resources import WAVE_LANES, Resources, read_resources, read_target, waves_per_simd
from .toolchain import find

HEADER = ("kernel", "VGPR", "AGPR", "SGPR", "spills V/S", "scratch B", "LDS B", "threads", "waves/SIMD", "matrix",
          "code B")
HIP_SUFFIXES = (".hip", ".cu", ".cpp", ".cc", ".cxx", ".hpp", ".h")


def assembly_of(file: Path, arch: str, include_dirs: Sequence[Path], defines: Sequence[str], std: str,
                extra: Sequence[str]) -> tuple[str, str]:
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
    names = short_names([kernel.kernel for kernel in kernels])
    rows = [HEADER, *(_cells(kernel, name, arch, threads, dynamic_lds_bytes) for kernel, name in zip(kernels, names))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    print(f"compiled for {arch} ({get_arch(arch).product}); modelled from the assembly, not measured", file=out)
    for row in rows:
        cells = [cell.ljust(width) if not column else cell.rjust(width)
                 for column, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip(), file=out)
    limit = get_arch(arch).lds_bytes
    return [f"{name} takes {kernel.lds_bytes + dynamic_lds_bytes} bytes of LDS a workgroup; {arch} has {limit}"
            for kernel, name in zip(kernels, names) if kernel.lds_bytes + dynamic_lds_bytes > limit]


def _cells(kernel: Resources, name: str, arch: str, threads: int, dynamic_lds_bytes: int) -> tuple[str, ...]:
    threads = min(threads or kernel.max_threads, kernel.max_threads)
    lds_bytes = kernel.lds_bytes + dynamic_lds_bytes
    waves = waves_per_simd(arch, kernel.vgprs, kernel.sgprs, lds_bytes, -(-threads // WAVE_LANES))
    spills = f"{kernel.vgpr_spills}/{kernel.sgpr_spills}"
    return (name, str(kernel.vgprs), str(kernel.agprs), str(kernel.sgprs), spills, str(kernel.scratch_bytes),
            str(lds_bytes), str(threads), f"{waves:g}", str(kernel.matrix_instructions), str(kernel.code_bytes))


def short_names(mangled: Sequence[str]) -> list[str]:
    """Kernels' own names out of their mangled ones, where that leaves them distinct."""
    short = [_own_name(name) for name in mangled]
    return [name if short.count(name) == 1 else whole for name, whole in zip(short, mangled)]


def _own_name(mangled: str) -> str:
    """The innermost name of an Itanium-mangled one: `_ZN2ns4axpyEPf` and `_Z4axpyPf` are both axpy."""
    rest = mangled.removeprefix("_Z")
    if rest == mangled:
        return mangled
    nested = rest.startswith("N")
    rest, own = rest.removeprefix("N"), mangled
    while found := re.match(r"(?:12_GLOBAL__N_1|St|L)*(\d+)", rest):
        start, length = found.end(), int(found[1])
        own, rest = rest[start:start + length], rest[start + length:]
        if not nested:
            break
    return own
