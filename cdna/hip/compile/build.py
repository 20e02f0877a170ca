"""HIP sources to a program or a library that runs on the emulated device.

build([HipSource(Path("a.hip"), "gfx942", ("-O3",))]).path
"""

import re
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from ...errors import CompileError, ToolchainError
from ..host_libraries import libraries_called_by, runtime_library
from . import openmp
from .fat_binary import fat_binary
from .source import HipSource
from .toolchain import DeviceCode, Toolchain, find

T = TypeVar("T")
RDC = "-fgpu-rdc"
_UNDEFINED = re.compile(r"undefined: (.*)$")


@dataclass(frozen=True)
class Library:
    """What sources were built into."""

    path: Path
    device_code: tuple[DeviceCode, ...]  # of the sources with kernels


def build(sources: Sequence[HipSource], link: Sequence[str] = (), shared: bool = False) -> Library:
    """A program of sources, one of which has main(); `shared`: a library. link: what follows the runtime when linking.

    With -fgpu-rdc kernels of one source may use device functions and variables of another.
    """
    toolchain = find()
    if any("-fopenmp" in source.flags for source in sources):
        sources, libraries = _with_openmp(toolchain, sources)
        link = [*link, *libraries]
    with ThreadPoolExecutor(2) as pool:
        if any(RDC in source.flags for source in sources):
            parts = list(pool.map(lambda source: _compiled(source, toolchain, _relocatable), sources))
            objects = [host for host, _ in parts]
            bitcode = [code for _, code in parts if code]
            assembly = toolchain.link_device(bitcode, sources[0].arch)
            objects.append(toolchain.fat_binary_object(fat_binary(sources[0].arch, assembly), objects))
            code: tuple[DeviceCode, ...] = ()
        else:
            pairs = list(pool.map(lambda source: _compiled(source, toolchain, _whole), sources))
            objects = [host for host, _ in pairs]
            code = tuple(code for _, code in pairs if code)
    folder = runtime_library().parent
    runtime = [f"-L{folder}", "-lamdhip64", f"-Wl,-rpath,{folder}", "-lpthread"]
    try:
        path = toolchain.link(objects, [*libraries_called_by(objects, link), *runtime, *link], shared)
    except ToolchainError as error:
        found = _UNDEFINED.search(str(error))
        missing = [name for name in found[1].split(", ") if re.match(r"(__)?hip", name)] if found else []
        if missing:
            said = f"{', '.join(missing)} is not part of the emulated runtime"
            raise ToolchainError(f"{sources[0].path}: {said}") from None
        raise
    return Library(path, code)


def _compiled(source: HipSource, toolchain: Toolchain, passes: Callable[[Toolchain, HipSource], T]) -> T:
    try:
        return passes(toolchain, source)
    except CompileError as error:
        instead = source.instead(error) if source.instead else None
        if instead is None:
            raise
        return _compiled(instead, toolchain, passes)


def _whole(toolchain: Toolchain, source: HipSource) -> tuple[Path, DeviceCode | None]:
    """The object of a source with its kernels in it."""
    code = toolchain.device_code(source) if source.has_kernels else None
    image = fat_binary(source.arch, code.assembly.read_text()) if code else b""
    return toolchain.host_object(source, image), code


def _relocatable(toolchain: Toolchain, source: HipSource) -> tuple[Path, Path | None]:
    """The object of a source without its kernels, and these."""
    code = toolchain.bitcode(source) if source.has_kernels else None
    return toolchain.host_object(source, None if code else b""), code


def _with_openmp(toolchain: Toolchain, sources: Sequence[HipSource]) -> tuple[list[HipSource], list[str]]:
    """The sources with what -fopenmp means to this compiler, and what to link."""
    flags, libraries, note = openmp.flags_and_libraries(toolchain.compiler)
    if note:
        print(f"cdna: {note}", file=sys.stderr, flush=True)

    def with_flags(given: tuple[str, ...]) -> tuple[str, ...]:
        return (*(flag for flag in given if flag != "-fopenmp"), *flags) if "-fopenmp" in given else given

    return [
        replace(
            source,
            flags=with_flags(source.flags),
            host_flags=None if source.host_flags is None else with_flags(source.host_flags),
        )
        for source in sources
    ], libraries
