"""What a newer ziglang's clang has and an older one's has not: makes cdna/hip/compile/newer_than_clang_20.txt.

`python -m lab.newer_clang OLDER NEWER`: paths of two zig programs, of ziglang 0.15.2 (clang 20) and 0.17.0.
Prints builtins, by __has_builtin for gfx942 and gfx950, and options, by --help-hidden; those that are nothing to GPU
code are left out of the list by hand.
"""

import re
import subprocess
import sys
from pathlib import Path

from cdna import ARCHS


def builtins(zig: str, names: list[str]) -> set[str]:
    probe = "".join(f"#if __has_builtin({name})\nYES {name}\n#endif\n" for name in names)
    said = ""
    for arch in ARCHS:
        command = [zig, "clang", "--target=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-nogpulib", "-x", "c", "-E", "-P", "-"]
        said += subprocess.run(command, input=probe, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^YES (\w+)", said, re.MULTILINE))


def options(zig: str) -> set[str]:
    said = subprocess.run([zig, "clang", "--help-hidden"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^  (-[-\w+]+)", said, re.MULTILINE))


def main(older: str, newer: str) -> None:
    found = re.findall(rb"(?:__builtin_)?(amdgcn_[a-z0-9_]+)", Path(newer).read_bytes())
    names = sorted({f"__builtin_{name.decode()}" for name in found})
    print("\n".join(sorted(builtins(newer, names) - builtins(older, names))))
    print("\n".join(sorted(options(newer) - options(older))))


if __name__ == "__main__":
    main(*sys.argv[1:])
