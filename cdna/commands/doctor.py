"""`python -m cdna doctor`: what was found of compilers, headers and device libraries, and what to install."""

import importlib.metadata
import os
import shutil
import tempfile
from pathlib import Path
from typing import TextIO

from ..binary.resources import read_resources
from ..cards import ARCHS
from ..engine.build import PREBUILT, cache_dir, engine_library, find_compiler
from ..errors import CdnaError, ToolchainError
from ..hip.compile.compilers import (
    INCLUDE_DIR,
    LIBRARIES_DIR,
    REMEDY,
    Compiler,
    choose,
    hip_version,
    search,
    triton_files,
)
from ..hip.compile.runner_clang import difference
from ..hip.compile.source import HipSource
from ..hip.compile.toolchain import Toolchain
from ..triton.versions import NEWEST, OLDEST, interface_of

PROBE = """#include <hip/hip_runtime.h>
#include <hip/hip_fp8.h>
__global__ void probe(float* x) { x[threadIdx.x] = expf(__shfl(x[threadIdx.x], 0)) + (float)__hip_fp8_e4m3_fnuz(x[0]); }
"""


def doctor(out: TextIO) -> int:
    """Print a line for each thing looked at; the exit code: 0 if HIP can be compiled and executed here."""
    well = True

    def line(state: str, what: str, said: str) -> None:
        nonlocal well
        well = well and state != "MISSING"
        print(f"{state:8} {what:18} {said}", file=out)

    for found in search():
        if isinstance(found, Compiler):
            line(
                "found",
                found.kind,
                f"{found.label}; C++ library {found.cxx_library}; HIP files of {found.hip}"
                f"{'' if found.wrapper == 'clang' else '; HIP wrapper headers of cdna'}",
            )
        else:
            line("no", found.kind, found.reason)
    try:
        files = triton_files()
        read_as = "" if hip_version() == 7 else f", read as ROCm {hip_version()}'s (CDNA_HIP_VERSION)"
        line(
            "found",
            "HIP headers",
            f"{files.version}{read_as}, {files.origin}; the rest in {INCLUDE_DIR} and {LIBRARIES_DIR}",
        )
    except ToolchainError as error:
        line("no", "HIP headers", str(error))
    line(*_compiles())
    line(*_difference())
    line(*_triton())
    gxx = shutil.which("g++")
    line("found" if gxx else "no", "g++", gxx or "PyTorch extensions need it (Debian, Ubuntu: apt-get install g++)")
    line(*_engine())
    line(
        "found" if os.access(_existing(cache_dir()), os.W_OK) else "MISSING",
        "cache folder",
        f"{cache_dir()} (set CDNA_CACHE_DIR to move it)",
    )
    return 0 if well else 1


def _compiles() -> tuple[str, str, str]:
    """Whether a small kernel compiles for each arch with the compiler that would be used."""
    try:
        toolchain = Toolchain(choose())
        with tempfile.TemporaryDirectory(prefix="cdna-doctor-") as folder:
            probe = Path(folder, "probe.hip")
            probe.write_text(PROBE)
            for arch in ARCHS:
                read_resources(toolchain.assembly(HipSource(probe, arch)))
    except CdnaError as error:
        return "MISSING", "compile HIP", f"{error}" if REMEDY in str(error) else f"{error}; to do: {REMEDY}"
    return "works", "compile HIP", f"for {' and '.join(ARCHS)} with {toolchain.compiler.label}"


def _difference() -> tuple[str, str, str]:
    """Of the compiler that would be used from the leaderboards'."""
    try:
        return "note", "leaderboard's HIP", difference(choose())
    except ToolchainError as error:
        return "no", "leaderboard's HIP", str(error).partition(". Remedy")[0]


def _triton() -> tuple[str, str, str]:
    spans = "{}.{} to {}.{}".format(*OLDEST, *NEWEST)
    # what eval.py has brought, as it names the folders; it takes the leaderboard's from there where nobody says another
    kept = sorted(folder.name for folder in (cache_dir() / "triton").glob("*-cp*") if folder.suffix != ".partial")
    spans += f"; in the cache: {', '.join(kept) or 'none'}"
    try:
        version = importlib.metadata.version("triton")
        interface_of(version)
    except (importlib.metadata.PackageNotFoundError, CdnaError) as error:
        return "no", "Triton", f"{error}; the emulated device takes {spans}"
    return "found", "Triton", f"{version}; the emulated device takes {spans}"


def _engine() -> tuple[str, str, str]:
    try:
        library = engine_library()
        how = "of cdna's wheel" if library.parent == PREBUILT else f"compiled by {' '.join(find_compiler()[0][:2])}"
        return "works", "emulated device", f"{library}, {how}"
    except CdnaError as error:
        said = str(error).splitlines()
        return "MISSING", "emulated device", " ".join([said[0], *(line for line in said[1:] if " error: " in line)])


def _existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder
