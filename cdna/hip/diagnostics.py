"""A compiler's messages to one clear error that names the user's own file and line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_MESSAGE = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<text>.*)$")
_PLACE = re.compile(r"^(?:In file included from )?(?P<file>[^\s:][^:\n]*):(?P<line>\d+):")
_MISSING = re.compile(r"'(?P<header>[^']+)' file not found$")
# Folders and headers of libraries, none of which this package has: of ROCm, in PyTorch's image of it, and others.
ROCM_LIBRARIES = {
    "hiprand": "hipRAND", "rocrand": "rocRAND", "hipcub": "hipCUB", "rocprim": "rocPRIM", "rocthrust": "rocThrust",
    "hipblas": "hipBLAS", "hipblas-common": "hipBLAS", "rocblas": "rocBLAS", "hipblaslt": "hipBLASLt",
    "hipsparse": "hipSPARSE", "hipsolver": "hipSOLVER", "hipfft": "hipFFT", "rocwmma": "rocWMMA", "rccl": "RCCL",
    "miopen": "MIOpen", "ck": "Composable Kernel", "ck_tile": "Composable Kernel",
}
_LIBRARIES = {
    **ROCM_LIBRARIES, "cub": "CUB", "thrust": "rocThrust", "cuda": "libcu++", "nccl": "NCCL", "mpi": "MPI",
    "rocsparse": "rocSPARSE", "rocsolver": "rocSOLVER", "rocfft": "rocFFT", "hiptensor": "hipTensor",
    "roctracer": "ROCTracer", "rocm_smi": "ROCm SMI", "hsa": "ROCr", "rocprofiler": "ROCprofiler",
}
_BARE = re.compile(r"^(?:.*: )?(?:fatal )?error: (?P<text>.*)$")


def explain(said: str, source: Path, folders: tuple[Path, ...] = ()) -> str:
    """The first error in `said`, at its place, and how many more there are.

    `source` is what the user compiles, `folders` where headers of the user's are: an error elsewhere (a template of
    a library's) is told at the line of the user's that led there. `#line` directives have been obeyed by the compiler.
    """
    lines = said.splitlines()
    errors = [(number, found) for number, line in enumerate(lines) if (found := _MESSAGE.match(line))]
    if not errors:
        bare = [found["text"] for line in lines if (found := _BARE.match(line))]
        return f"{source}: {(bare or said.strip().splitlines()[-1:] or ['no message'])[0]}"
    number, first = errors[0]
    place = f"{first['file']}:{first['line']}:{first['column']}"
    if _is_library(first["file"], source, folders):
        end = errors[1][0] if len(errors) > 1 else len(lines)
        own = _own_line(lines[number + 1:end], source, folders) or _own_line(reversed(lines[:number]), source, folders)
        message = f"{own}: error: {first['text']} (in {place})" if own else f"{place}: error: {first['text']}"
    else:
        message = f"{place}: error: {first['text']}"
        shown = lines[number + 1:number + 2]
        if shown and (code := re.match(r"^\s*\d+ \| (.*)$", shown[0])):
            message += f": {code[1].strip()}"
    message += _about_missing(first["text"])
    if "constant expression" in first["text"] and "warpSize" in " ".join(lines[number:number + 8]):
        message += "; since ROCm 7 warpSize is none: write 64"
    more = len(errors) - 1
    return message + (f" (and {more} more error{'s' * (more > 1)})" if more else "")


def _about_missing(text: str) -> str:
    """What to do about a header that was not found, where it is a library's."""
    found = _MISSING.search(text)
    library = _LIBRARIES.get(re.split(r"[/.]", found["header"])[0].lower()) if found else None
    if library is None:
        return ""
    return f"; {library} is not part of the emulated device: give its headers with -I, or leave it out"


def _is_library(file: str, source: Path, folders: tuple[Path, ...]) -> bool:
    """Whether a file is neither the source, nor in a folder of the user's, nor named by a #line directive."""
    path = Path(file)
    roots = [source.resolve().parent, *(folder.resolve() for folder in folders)]
    return path.is_absolute() and path.exists() and not any(path.resolve().is_relative_to(root) for root in roots)


def _own_line(lines: Iterable[str], source: Path, folders: tuple[Path, ...]) -> str | None:
    for line in lines:
        found = _PLACE.match(line)
        if found and not _is_library(found["file"], source, folders):
            return f"{found['file']}:{found['line']}"
    return None
