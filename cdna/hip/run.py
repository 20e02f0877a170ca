"""Compiles a whole HIP program, host and device, and runs it: `python -m cdna run`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import CdnaError, ToolchainError
from .container import container
from .library import runtime_library
from .toolchain import find

_UNDEFINED = re.compile(r"undefined: (.*)$")


def build_program(source: Path, arch: str, include_dirs: Sequence[Path] = (), defines: Sequence[str] = (),
                  std: str = "", extra: Sequence[str] = ()) -> Path:
    """The executable of a HIP source with main(), in the cache."""
    toolchain, library = find(), runtime_library()
    assembly = toolchain.device_asm(source, arch, include_dirs, defines, std, extra)
    host = toolchain.host_object(source, container({arch: assembly}), arch, include_dirs, defines, std, extra)
    folder = library.parent
    try:
        return toolchain.link_executable([host], [f"-L{folder}", "-lamdhip64", f"-Wl,-rpath,{folder}", "-lpthread"])
    except ToolchainError as error:
        found = _UNDEFINED.search(str(error))
        missing = [name for name in found[1].split(", ") if re.match(r"(__)?hip", name)] if found else []
        if missing:
            raise CdnaError(f"{source}: {', '.join(missing)} is not part of the emulated runtime") from None
        raise


def compile_code_object(source: Path, output: Path, arch: str, include_dirs: Sequence[Path] = (),
                        defines: Sequence[str] = (), std: str = "", extra: Sequence[str] = ()) -> None:
    """Write the kernels of a source as a file that hipModuleLoad takes."""
    code = container({arch: find().device_asm(source, arch, include_dirs, defines, std, extra)})
    try:
        output.write_bytes(code)
    except OSError as error:
        raise CdnaError(f"cannot write {output}: {error.strerror}") from None


def run_program(source: Path, arguments: Sequence[str], arch: str, include_dirs: Sequence[Path] = (),
                defines: Sequence[str] = (), std: str = "", extra: Sequence[str] = ()) -> int:
    """Build and run; replaces this process by the program, whose exit code it thus has.

    The program sees $CDNA_DEVICES cards, two if that is not set: enough for those that copy between cards.
    """
    program = build_program(source, arch, include_dirs, defines, std, extra)
    environment = {"CDNA_DEVICES": "2", **os.environ, "CDNA_ARCH": arch, "CDNA_DETACH": "1"}
    os.execve(program, [str(source), *arguments], environment)
