"""Compiles a whole HIP program, host and device, and runs it: `python -m cdna run`."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import CdnaError, ToolchainError
from . import openmp
from .container import container
from .library import libraries_called_by, runtime_library
from .toolchain import find

# What hip_runtime.h includes up to HIP 6, which programs rely on, and HIP 7's, which is used here, does not.
_INCLUDED_BY_HIP_6 = ("-include", "stdio.h", "-include", "assert.h", "-include", "thread")
_UNDEFINED = re.compile(r"undefined: (.*)$")


def build_program(
    sources: Sequence[Path],
    arch: str,
    include_dirs: Sequence[Path] = (),
    defines: Sequence[str] = (),
    std: str = "",
    extra: Sequence[str] = (),
    shared: bool = False,
) -> Path:
    """The executable of HIP sources, one of them with main(), in the cache; `shared`: as a library, to be loaded.

    With -fgpu-rdc in `extra` kernels of one source may use device functions and variables of another.
    """
    toolchain, library = find(), runtime_library()
    libraries: list[str] = []
    if "-fopenmp" in extra:
        flags, libraries, note = openmp.flags_and_libraries(toolchain.compiler)
        extra = [*(flag for flag in extra if flag != "-fopenmp"), *flags]
        if note:
            print(f"cdna: {note}", file=sys.stderr, flush=True)
    extra = [*extra, *_INCLUDED_BY_HIP_6]
    given = (arch, include_dirs, defines, std, extra)
    if "-fgpu-rdc" in extra:
        assembly = toolchain.link_device([toolchain.device_bitcode(source, *given) for source in sources], arch)
        objects = [toolchain.host_object(source, None, *given) for source in sources]
        objects.append(toolchain.fat_binary_object(container({arch: assembly}), objects))
    else:
        objects = [
            toolchain.host_object(source, container({arch: toolchain.device_asm(source, *given)}), *given)
            for source in sources
        ]
    folder = library.parent
    try:
        link = toolchain.link_shared if shared else toolchain.link_executable
        return link(
            objects,
            [
                *libraries_called_by(objects),
                f"-L{folder}",
                "-lamdhip64",
                f"-Wl,-rpath,{folder}",
                "-lpthread",
                *libraries,
            ],
        )
    except ToolchainError as error:
        found = _UNDEFINED.search(str(error))
        missing = [name for name in found[1].split(", ") if re.match(r"(__)?hip", name)] if found else []
        if missing:
            raise CdnaError(f"{sources[0]}: {', '.join(missing)} is not part of the emulated runtime") from None
        raise


def compile_code_object(
    source: Path,
    output: Path,
    arch: str,
    include_dirs: Sequence[Path] = (),
    defines: Sequence[str] = (),
    std: str = "",
    extra: Sequence[str] = (),
) -> None:
    """Write the kernels of a source as a file that hipModuleLoad takes."""
    code = container({arch: find().device_asm(source, arch, include_dirs, defines, std, extra)})
    try:
        output.write_bytes(code)
    except OSError as error:
        raise CdnaError(f"cannot write {output}: {error.strerror}") from None


def compiler_of_the_program() -> dict[str, str]:
    """Environment in which a program's hipRTC finds this package."""
    return {"CDNA_PYTHON": sys.executable, "CDNA_ROOT": str(Path(__file__).parents[2])}


def run_program(
    sources: Sequence[Path],
    arguments: Sequence[str],
    arch: str,
    include_dirs: Sequence[Path] = (),
    defines: Sequence[str] = (),
    std: str = "",
    extra: Sequence[str] = (),
    counters: bool = False,
    output: Path | None = None,
) -> int:
    """Build and run; replaces this process by the program, whose exit code it thus has. counters: in this process, and
    print what its kernels did. output: where the program is put before it is run.

    The program sees $CDNA_DEVICES cards, two if that is not set: enough for those that copy between cards.
    """
    program = build_program(sources, arch, include_dirs, defines, std, extra, shared=counters)
    if output is not None:
        try:
            shutil.copy(program, output)
        except OSError as error:
            raise CdnaError(f"cannot write {output}: {error.strerror}") from None
        program = output.absolute()
    environment = {
        "CDNA_DEVICES": "2",
        **os.environ,
        "CDNA_ARCH": arch,
        "CDNA_DETACH": "1",
        **compiler_of_the_program(),
    }
    if counters:
        from .counted import run_counted

        os.environ.update(environment)
        return run_counted(program, str(sources[0]), arguments)
    os.execve(program, [str(sources[0]), *arguments], environment)
