"""A compiler's messages to one clear error that names the user's own file and line."""

import re
from collections.abc import Iterable
from pathlib import Path

from .compilers import LIBRARIES_DIR

_MESSAGE = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<text>.*)$")
_PLACE = re.compile(r"^(?:In file included from )?(?P<file>[^\s:][^:\n]*):(?P<line>\d+):")
_MISSING = re.compile(r"'(?P<header>[^']+)' file not found$")
# Folders and headers of libraries, of which this package has a part or nothing: of ROCm, in PyTorch's image of it, and
# others.
ROCM_LIBRARIES = {
    "hiprand": "hipRAND",
    "rocrand": "rocRAND",
    "hipcub": "hipCUB",
    "rocprim": "rocPRIM",
    "rocthrust": "rocThrust",
    "hipblas": "hipBLAS",
    "hipblas-common": "hipBLAS",
    "rocblas": "rocBLAS",
    "hipblaslt": "hipBLASLt",
    "hipsparse": "hipSPARSE",
    "hipsolver": "hipSOLVER",
    "hipfft": "hipFFT",
    "rocwmma": "rocWMMA",
    "rccl": "RCCL",
    "miopen": "MIOpen",
    "ck": "Composable Kernel",
    "ck_tile": "Composable Kernel",
}
_LIBRARIES = {
    **ROCM_LIBRARIES,
    "cub": "CUB",
    "thrust": "rocThrust",
    "cuda": "libcu++",
    "nccl": "NCCL",
    "mpi": "MPI",
    "rocsparse": "rocSPARSE",
    "rocsolver": "rocSOLVER",
    "rocfft": "rocFFT",
    "hiptensor": "hipTensor",
    "roctracer": "ROCTracer",
    "rocm_smi": "ROCm SMI",
    "hsa": "ROCr",
    "rocprofiler": "ROCprofiler",
}
# How the compiler says that an object stands where a constant or a number should.
_NO_NUMBER = re.compile(r"constant expression|variable.length array|no matching function|incompatible operand types")
_UNKNOWN = re.compile(
    r"(?:no [a-z ]+ named|undeclared identifier|unknown type name) '(\w+)'"
    r"(?:.* in (?:namespace )?'(\w+)\b)?"
)
_NAMESPACES = {"hipblaslt_ext": "hipBLASLt"}  # those that are not called as their headers' folder is
_HIPBLASLT_NAME = re.compile(r"hipblasLt[A-Z]|HIPBLASLT_")
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
        own = _own_line(lines[number + 1 : end], source, folders) or _own_line(
            reversed(lines[:number]), source, folders
        )
        message = f"{own}: error: {first['text']} (in {place})" if own else f"{place}: error: {first['text']}"
    else:
        message = f"{place}: error: {first['text']}"
        shown = lines[number + 1 : number + 2]
        if shown and (code := re.match(r"^\s*\d+ \| (.*)$", shown[0])):
            message += f": {code[1].strip()}"
    message += _about_missing(first["text"]) + _about_part(first["text"])
    if _NO_NUMBER.search(first["text"]) and "warpSize" in " ".join(lines[number : number + 8]):
        message += "; since ROCm 7 warpSize is no constant: write 64, or say CDNA_HIP_VERSION=6 for a source of ROCm 6"
    more = len(errors) - 1
    return message + (f" (and {more} more error{'s' * (more > 1)})" if more else "")


def _about_missing(text: str) -> str:
    """What to do about a header that was not found, where it is a library's."""
    found = _MISSING.search(text)
    folder = re.split(r"[/.]", found["header"])[0].lower() if found else ""
    if folder not in _LIBRARIES:
        return ""
    what = "is not part" if not (LIBRARIES_DIR / folder).is_dir() else "is, without this header, part"
    return f"; {_LIBRARIES[folder]} {what} of the emulated device: give its headers with -I, or leave it out"


def _about_part(text: str) -> str:
    """Where a name is a library's of which the emulated device has a part: which library, and what to do."""
    found = _UNKNOWN.search(text)
    if not found:
        return ""
    name, space = found.groups()
    library = _NAMESPACES.get(space) or ("hipBLASLt" if _HIPBLASLT_NAME.match(name) else ROCM_LIBRARIES.get(space))
    if library is None or not (LIBRARIES_DIR / library.lower()).is_dir() and not (LIBRARIES_DIR / str(space)).is_dir():
        return ""
    return f"; what the emulated device has of {library} is without {name}: give the library's headers with -I or CPATH"


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
