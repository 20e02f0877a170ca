"""Which instructions an arch has, asked of LLVM's assembler; brings cdna/isa/instructions.txt up to date, or checks it.

    python -m lab.instruction_table.probe           writes what it says into the file
    python -m lab.instruction_table.probe --check   exit code 1, and the differences, if the file says otherwise

Candidates are the names in the assembler's own mnemonic tables, of every AMD GPU that LLVM knows. A candidate that
stands alone on a line is one of three things to the assembler: an `invalid instruction`, an `instruction not supported
on this GPU`, or an instruction of the arch that lacks its operands.
"""

from __future__ import annotations

import argparse
import mmap
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from cdna.binary.decode import base_mnemonic
from cdna.cards import ARCHS
from cdna.errors import CdnaError, ToolchainError
from cdna.hip.compile.compilers import environment, package_dir
from cdna.isa import instructions
from cdna.isa.rows import read_rows
from lab.instruction_table.rows import archs_text, write_rows

# LLVM's AsmMatcher writes each mnemonic after a byte that holds its length. A length of 48 or more is itself a digit
# or letter, so that a match may start with one: every position is tried, and the length decides.
_NAME = re.compile(rb"(?=([\x03-\x7f])((?:v|s|ds|buffer|tbuffer|global|flat|scratch|image|exp)[a-z0-9_]*))")
_FAMILY = re.compile(r"(v|s|ds|buffer|tbuffer|global|flat|scratch|image)_\w+|exp|export")
_ERROR = re.compile(r"^[^\n]*?\.s:(\d+):\d+: error: (.*)$", re.MULTILINE)
_NOT_OF_THE_ARCH = ("invalid instruction", "instruction not supported on this GPU")


def candidates(binary: Path) -> set[str]:
    """Names in the mnemonic tables of a file that contains LLVM's AMDGPU assembler."""
    found = set()
    with binary.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for match in _NAME.finditer(content):
            length, name = match[1][0], match[2]
            if len(name) >= length:
                found.add(name[:length].decode())
    return {name for name in found if _FAMILY.fullmatch(name)}


def known(zig: Path, arch: str, names: list[str]) -> set[str]:
    """Those of the names that the assembler takes for instructions of the arch."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "names.s"
        source.write_text("\n".join(["not_an_instruction", *names]) + "\n")
        command = [
            str(zig),
            "clang",
            "--target=amdgcn-amd-amdhsa",
            f"-mcpu={arch}",
            "-c",
            str(source),
            "-o",
            str(Path(folder) / "names.o"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, env=environment())
    errors = {int(line): message for line, message in _ERROR.findall(done.stderr)}
    if not errors.get(1, "").startswith(_NOT_OF_THE_ARCH):
        raise ToolchainError(f"{zig} does not assemble for {arch} as expected: {done.stderr.strip()[:200]}")
    return {name for line, name in enumerate(names, 2) if not errors.get(line, "").startswith(_NOT_OF_THE_ARCH)}


def probe() -> dict[str, set[str]]:
    """Mnemonic -> its archs, as the installed assembler says."""
    package = package_dir("ziglang")
    if package is None:
        raise ToolchainError("no assembler to ask: `pip install ziglang`")
    zig = package / "zig"
    names = candidates(zig)
    triton = package_dir("triton")
    library = triton / "_C" / "libtriton.so" if triton else None
    if library is not None and library.is_file():  # a newer LLVM's names; the assembler decides on them too
        names |= candidates(library)
    table: dict[str, set[str]] = {}
    for arch in ARCHS:
        for name in known(zig, arch, sorted(names)):
            table.setdefault(base_mnemonic(name), set()).add(arch)
    return table


def update(table: dict[str, set[str]]) -> None:
    """Write the archs into the rows; a new instruction gets a row without facts, and one that is gone loses its row."""
    columns = {name: rest for _, (name, _, *rest) in read_rows()}
    known = instructions()
    rows = []
    for name, archs in table.items():
        tested = known[name].tested & archs if name in known else frozenset[str]()
        rows.append([name, archs_text(archs, tested), *columns.get(name, ["?", "-", "-"])])
    write_rows(rows)


def main(argv: list[str] | None = None) -> int:
    """Rewrite or check the list; the exit code."""
    parser = argparse.ArgumentParser(prog="lab.instruction_table.probe", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    arguments = parser.parse_args(argv)
    try:
        table = probe()
        if not arguments.check:
            update(table)
            return 0
        listed = {name: set(instruction.archs) for name, instruction in instructions().items()}
    except CdnaError as error:
        print(f"cdna: {error}", file=sys.stderr)
        return 2
    differences = sorted(name for name in table.keys() | listed.keys() if table.get(name) != listed.get(name))
    for name in differences:
        says, has = (" ".join(sorted(t.get(name, ()))) or "nothing" for t in (table, listed))
        print(f"{name}: the assembler says {says}, the file {has}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
