"""hipRTC's compiler: `python -m cdna.hip.rtc FOLDER`, started by the runtime (runtime/rtc.cpp).

The folder has source, name, arch; options, headers, header_names and expressions as lists of strings that end with a
zero. It gets code (a file that hipModuleLoadData takes), lowered (the mangled name of each expression) and log. Exit
code 0, or 1 where the source does not compile, 2 where an option is none.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from ..build import cache_dir
from ..errors import CdnaError, CompileError
from .container import container
from .toolchain import find

_NAME = "__cdna_name_expression_"
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
        elif word.startswith("-") and word not in ("-fgpu-rdc", "--gpu-rdc"):
            kept.append(word)
            if word in ("-I", "-D", "-include", "-U", "-isystem"):
                kept.append(next(words, ""))
        else:
            raise CdnaError(f"option {word}: not one that the emulated device's hipRTC takes")
    return kept


def compile_program(folder: Path) -> int:
    """Compile what lies in the folder; the exit code."""
    def strings(name: str) -> list[str]:
        return (folder / name).read_bytes().decode(errors="replace").split("\0")[:-1]

    source, name, arch = ((folder / file).read_text(errors="replace") for file in ("source", "name", "arch"))
    expressions = strings("expressions")
    lines = [_PRELUDE, f'#line 1 "{name}"', source]
    for i, expression in enumerate(expressions):
        address = expression if expression.lstrip().startswith("&") else f"&{expression}"
        lines.append(f'#line 1 "name expression {expression}"\n'
                     f'extern "C" __device__ __attribute__((used)) void* {_NAME}{i} = (void*)({address});')
    headers = dict(zip(strings("header_names"), strings("headers")))
    text = "\n".join([*lines, ""])
    # The same source at the same place: the toolchain's cache goes by it.
    place = cache_dir() / "hip" / f"rtc-{hashlib.sha256(repr((text, headers)).encode()).hexdigest()[:24]}"
    for header, content in headers.items():
        path = Path(os.path.normpath(place / header))
        if place in path.parents:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    place.mkdir(parents=True, exist_ok=True)
    (place / "program.hip").write_text(text)
    try:
        options = compiler_options(strings("options"), arch)
        assembly = find().device_asm(place / "program.hip", arch, [place], [], "", options)
    except CompileError as error:
        (folder / "log").write_text(f"{error}\n")
        return 1
    except CdnaError as error:
        (folder / "log").write_text(f"{error}\n")
        return 2
    lowered = [re.search(rf"^{_NAME}{i}:\n\s*\.quad\s+([\w.$]+)", assembly, re.MULTILINE)
               for i in range(len(expressions))]
    (folder / "lowered").write_text("".join(f"{found[1] if found else ''}\0" for found in lowered))
    (folder / "code").write_bytes(container({arch: assembly}))
    return 0


if __name__ == "__main__":
    sys.exit(compile_program(Path(sys.argv[1])))
