"""How the HIP compiler at hand differs from the leaderboards': ROCm 7.1's clang, of LLVM 20.

What only a newer clang takes is a list (newer_than_clang_20.txt, which says how it was made) of LLVM's own. AMD's
clang of that version has changes of AMD's on top, which may bring some of it: so it is warned of, not refused.
"""

import functools
import re
from collections.abc import Sequence
from pathlib import Path

from ...binary.compiler_notes import warn_of
from .compilers import Compiler
from .source import HipSource

RUNNER_CLANG = 20
RUNNER = "ROCm 7.1's clang 20"
_LIST = Path(__file__).with_name("newer_than_clang_20.txt")


def clang_major(compiler: Compiler) -> int:
    """22 of "0.17.0, clang 22.1.8" and of "22.1.8"."""
    return int(compiler.version.rpartition(" ")[2].partition(".")[0])


def difference(compiler: Compiler) -> str:
    """One line: how the compiler differs from the leaderboards'."""
    major = clang_major(compiler)
    if major == RUNNER_CLANG:
        return f"clang {major}, as {RUNNER} is"
    if major < RUNNER_CLANG:
        return f"clang {major}, older than {RUNNER}: it may refuse what the leaderboard takes"
    builtins = sum(name.startswith("__builtin") for name in newer())
    return (
        f"clang {major}, newer than {RUNNER}: other registers and schedules; {builtins} builtins and "
        f"{len(newer()) - builtins} options that only the newer has are warned of (docs/compilers.md)"
    )


@functools.cache
def newer() -> tuple[str, ...]:
    """Names of builtins, and options, of a newer clang."""
    lines = _LIST.read_text(encoding="utf-8").splitlines()
    return tuple(word for line in lines if not line.startswith("#") for word in line.split())


def names_newer(text: str, flags: Sequence[str]) -> list[str]:
    """What of the list a source and its flags use, but for builtins that the source asks for (__has_builtin)."""
    used = set(re.findall(r"\b__builtin_amdgcn_\w+", text))
    asked = set(re.findall(r"__has_builtin\s*\(\s*(\w+)", text))
    given = {flag.partition("=")[0] for flag in flags}
    return [name for name in newer() if name in used - asked or name in given]


def warn_of_newer(compiler: Compiler, source: HipSource) -> None:
    """Warn of what the leaderboards' compiler may not take, where the one at hand is newer and does."""
    if clang_major(compiler) <= RUNNER_CLANG:
        return
    try:
        text = source.path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # the compiler says it better
        return
    names = names_newer(text, source.flags)
    warn_of(
        source.path.name,
        source.arch,
        [f"{name}: clang {clang_major(compiler)} has it, LLVM 20 not, of which {RUNNER} is made" for name in names],
    )
