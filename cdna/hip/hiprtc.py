"""hipRTC's compiler, and the reader of code objects: main("compile" or "load", FOLDER), called in a process that the
runtime starts (runtime/rtc_process.cpp).

Lists of strings are files in which each ends with a zero. To compile, the folder has source, name, arch; options,
headers, header_names and expressions as lists. It gets code (a file that hipModuleLoadData takes), lowered (the
mangled name of each expression) and log. To load it has object, an ELF file or a bundle, and gets code or log. Exit
code 0, or 1 where the source does not compile, 2 where an option or input is none.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from ..binary.elf import read, unbundle
from ..engine.build import own_cache_dir
from ..errors import CdnaError, CompileError
from .compile.fat_binary import fat_binary
from .compile.source import HipSource
from .compile.toolchain import find

_NAME = "__cdna_name_expression_"
_RDC = ("-fgpu-rdc", "--gpu-rdc")
# Before the source: what hipRTC has built in. HIP's own headers leave things out where the macro is set.
_PRELUDE = "#include <hip/hip_runtime.h>\n#define __HIPCC_RTC__ 1\n"


def compiler_options(options: Sequence[str], arch: str) -> list[str]:
    """The options that clang is to see; CdnaError for another arch."""
    kept, words = [], iter(options)
    for word in words:
        found = re.match(r"(?:--offload-arch|--gpu-architecture|-arch|--gpu-arch)(?:=(.*))?$", word)
        if found:
            asked = found[1] or next(words, "")
            if asked.split(":")[0] != arch:
                raise CdnaError(f"option {word}: the emulated device is {arch}")
        elif word in _RDC:
            raise CdnaError(f"option {word}: nothing links bitcode at run time here: give all sources as one program")
        elif word.startswith("-"):
            kept.append(word)
            if word in ("-I", "-D", "-include", "-U", "-isystem"):
                kept.append(next(words, ""))
        else:
            raise CdnaError(f"option {word}: not one that the emulated device's hipRTC takes")
    return kept


def _strings(folder: Path, name: str) -> list[str]:
    return (folder / name).read_bytes().decode(errors="replace").split("\0")[:-1]


def compile_program(folder: Path) -> None:
    """Compile what lies in the folder."""
    source, name, arch = ((folder / file).read_text(errors="replace") for file in ("source", "name", "arch"))
    expressions = _strings(folder, "expressions")
    lines = [_PRELUDE, f'#line 1 "{name}"', source]
    for i, expression in enumerate(expressions):
        address = expression if expression.lstrip().startswith("&") else f"&{expression}"
        lines.append(
            f'#line 1 "name expression {expression}"\n'
            f"static __device__ __attribute__((used)) void* {_NAME}{i} = (void*)({address});"
        )
    headers = dict(zip(_strings(folder, "header_names"), _strings(folder, "headers")))
    text = "\n".join([*lines, ""])
    # The same source at the same place: the toolchain's cache goes by it.
    place = own_cache_dir() / "hip" / f"rtc-{hashlib.sha256(repr((text, headers)).encode()).hexdigest()[:24]}"
    for header, content in headers.items():
        path = Path(os.path.normpath(place / header))
        if place in path.parents:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    place.mkdir(parents=True, exist_ok=True)
    (place / "program.hip").write_text(text)
    options = compiler_options(_strings(folder, "options"), arch)
    program = HipSource(place / "program.hip", arch, tuple(options), (place,))
    addresses = find().assembly(program)
    definition = r"^_ZL\d+{name}:\n\s*\.quad\s+([\w.$]+)"
    lowered = [
        re.search(definition.format(name=f"{_NAME}{i}"), addresses, re.MULTILINE) for i in range(len(expressions))
    ]
    (folder / "lowered").write_text("".join(f"{found[1] if found else ''}\0" for found in lowered))
    (folder / "code").write_bytes(fat_binary(arch, addresses))


def load_object(folder: Path) -> None:
    """Make what lies in the folder code of the emulated device."""
    arch = (folder / "arch").read_text()
    code = unbundle((folder / "object").read_bytes(), arch)
    read(code, arch)
    (folder / "code").write_bytes(fat_binary(arch, code))


ACTIONS = {"compile": compile_program, "load": load_object}


def main(action: str, folder: str) -> int:
    """Compile or load; the exit code."""
    try:
        ACTIONS[action](Path(folder))
        return 0
    except CdnaError as error:
        Path(folder, "log").write_text(f"{error}\n")
        return 1 if isinstance(error, CompileError) else 2
