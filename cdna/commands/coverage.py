"""How many instructions of each arch are implemented and tested singly: `python -m cdna coverage`.

Two lists are compared: isa/instructions.txt (what the arch has, and what tests of single
instructions executed and compared with a definition), and the engine's op table (what is implemented).
"""

import json
import textwrap
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from ..cards import ARCHS
from ..engine.library import engine
from ..errors import CdnaError
from ..isa import instructions


@dataclass(frozen=True)
class Coverage:
    """The mnemonics of one arch, sorted; each is in exactly one of the three lists."""

    arch: str
    tested: list[str]
    untested: list[str]  # implemented, but no test of that instruction alone
    missing: list[str]  # a program that holds one is refused

    @property
    def total(self) -> int:
        return len(self.tested) + len(self.untested) + len(self.missing)


def implemented(arch: str) -> dict[str, set[int]]:
    """Mnemonic -> ops of the engine's table that execute it on the arch, forms with clamp and the like included."""
    table: dict[str, set[int]] = {}
    for name, (op, _) in engine().ops[arch].items():
        table.setdefault(name.partition(" ")[0], set()).add(op)
    return table


def coverage(arch: str) -> Coverage:
    """Where each instruction of the arch stands.

    A test on the other arch counts where the same entry of the op table executes both.
    """
    ops = {each: implemented(each) for each in ARCHS}
    result = Coverage(arch, [], [], [])
    for name, instruction in sorted(instructions().items()):
        if arch not in instruction.archs:
            continue
        if name not in ops[arch]:
            result.missing.append(name)
        elif any(ops[each].get(name) == ops[arch][name] for each in instruction.tested):
            result.tested.append(name)
        else:
            result.untested.append(name)
    return result


def report(archs: Iterable[str], out: TextIO, only_missing: bool = False, json_file: Path | None = None) -> int:
    """Print the numbers of each arch and the names, or only those of what is missing or untested; exit code 0."""
    results = [coverage(arch) for arch in archs]
    for each in results:
        n_implemented = len(each.tested) + len(each.untested)
        print(
            f"{each.arch}: {each.total} instructions, {n_implemented} implemented "
            f"({100 * n_implemented / each.total:.1f} %), {len(each.tested)} implemented and tested singly "
            f"({100 * len(each.tested) / each.total:.1f} %)",
            file=out,
        )
        lists = [] if only_missing else [("implemented and tested singly", each.tested)]
        lists += [("implemented, not tested singly", each.untested), ("not implemented", each.missing)]
        for title, names in lists:
            if names:
                wrapped = textwrap.indent(textwrap.fill(" ".join(names), 110), "    ")
                print(f"  {title} ({len(names)}):\n{wrapped}", file=out)
    if json_file is not None:
        try:
            json_file.write_text(json.dumps({each.arch: asdict(each) for each in results}, indent=1) + "\n")
        except OSError as error:
            raise CdnaError(f"--json {json_file}: {error.strerror}") from None
    return 0
