"""`python -m cdna report FILE`: one aligned line per kernel, of what it takes of the card. Nothing is executed."""

from typing import TextIO

from ..binary.kernel_names import short_names
from ..binary.resource_table import KernelUse, lds_error, table
from ..binary.resources import read_resources, read_target
from ..errors import ToolchainError
from ..hip.compile.source import HipSource
from ..hip.compile.toolchain import find

HIP_SUFFIXES = (".hip", ".cu", ".cpp", ".cc", ".cxx", ".hpp", ".h")


def assembly_of(source: HipSource) -> tuple[str, str]:
    """(arch, assembly text) of an assembly file, or of a HIP source."""
    file = source.path
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
    return source.arch, find().assembly(source)


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
