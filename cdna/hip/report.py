"""`python -m cdna report FILE`: one aligned line a kernel, of what it takes of the card. Nothing is executed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from ..cards import get_card
from ..errors import CompileError, ToolchainError
from ..resources import WAVE_LANES, Resources, read_resources, read_target, waves_per_simd
from .names import demangled, template_arguments
from .submission import assembly_of_source, contents
from .toolchain import find

HEADER = (
    "kernel",
    "VGPR",
    "AGPR",
    "SGPR",
    "spills V/S",
    "scratch B",
    "LDS B",
    "threads",
    "waves/SIMD",
    "matrix",
    "code B",
)
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
        raise ToolchainError(
            f"{file}: report reads AMDGCN assembly (.s), HIP sources ({', '.join(HIP_SUFFIXES)}) "
            "and Python files that build HIP (.py)"
        )
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
    print(f"compiled for {arch} ({get_card(arch).product}); modelled from the assembly, not measured", file=out)
    for row in rows:
        cells = [
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ]
        print("  ".join(cells).rstrip(), file=out)
    limit = get_card(arch).lds_bytes
    return [
        f"{name} takes {kernel.lds_bytes + dynamic_lds_bytes} bytes of LDS a workgroup; {arch} has {limit}"
        for kernel, name in zip(kernels, names)
        if kernel.lds_bytes + dynamic_lds_bytes > limit
    ]


def report_python(file: Path, arch: str, out: TextIO, threads: int = 0, dynamic_lds_bytes: int = 0) -> list[str]:
    """Report each HIP source that a Python file builds, or holds; says what of the file is not compiled here."""
    if not file.is_file():
        raise ToolchainError(f"{file}: no such file")
    found = contents(file, arch)
    if found.problem:
        print(f"note: {file} was imported up to {found.problem}", file=out)
    wrong, failed = [], []
    for source in found.sources:
        try:
            text = assembly_of_source(source, arch)
        except CompileError as error:
            if source.built:
                raise
            failed.append(str(error))
            continue
        print(f"{source.name} in {file}", file=out)
        wrong += report(text, arch, out, threads, dynamic_lds_bytes)
    if failed and len(failed) == len(found.sources):
        raise CompileError(failed[0])
    for said in failed:
        print(f"note: not compiled as it stands: {said}", file=out)
    if found.triton:
        print(
            f"note: Triton kernels are compiled for what a launch gives them, and nothing is launched here: "
            f"{', '.join(found.triton)}",
            file=out,
        )
    if not found.sources and not found.triton:
        raise ToolchainError(f"{file}: builds no HIP (load_inline, load), and holds no text with a __global__ function")
    return wrong


def _cells(kernel: Resources, name: str, arch: str, threads: int, dynamic_lds_bytes: int) -> tuple[str, ...]:
    threads = min(threads or kernel.max_threads, kernel.max_threads)
    lds_bytes = kernel.lds_bytes + dynamic_lds_bytes
    waves = waves_per_simd(arch, kernel.vgprs, kernel.sgprs, lds_bytes, -(-threads // WAVE_LANES))
    spills = f"{kernel.vgpr_spills}/{kernel.sgpr_spills}"
    return (
        name,
        str(kernel.vgprs),
        str(kernel.agprs),
        str(kernel.sgprs),
        spills,
        str(kernel.scratch_bytes),
        str(lds_bytes),
        str(threads),
        f"{waves:g}",
        str(kernel.matrix_instructions),
        str(kernel.code_bytes),
    )


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
