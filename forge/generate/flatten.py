"""Makes one HIP source of a variant and its local includes.

Each `#include "..."` is replaced, once, by that file between #line directives, so that the compiler on the
leaderboard's machine names our files in its messages. `#include <...>` stays where it is. Local includes are
looked for beside the file that asks, then in kernels/common/, and may not be of another GPU (archs.py).
"""

import re
from pathlib import Path

from forge.generate.archs import refuse_other_arch
from forge.generate.pysource import Chunk, GenerationError, error_at

_LOCAL_INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]*)"')
_PRAGMA_ONCE = re.compile(r"\s*#\s*pragma\s+once\b")
_IF = re.compile(r"\s*#\s*if")  # #if, #ifdef, #ifndef
_ENDIF = re.compile(r"\s*#\s*endif\b")


class Flattener:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.chunks: list[Chunk] = []
        self.sources: list[str] = []

    def flatten(self, path: str) -> list[str]:
        """The lines of `path` (relative to root) with its includes in place of the directives."""
        self.sources.append(path)
        try:
            text = (self.root / path).read_text(encoding="utf-8").rstrip("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise GenerationError(f"{path}: cannot be read: {error}") from None
        self.chunks.append(Chunk(path, 1, text))
        source = text.split("\n")
        code = _without_comments(text).split("\n")
        guard = _include_guard(code)
        out = [f'#line 1 "{path}"']
        depth = 0
        for number, (line, bare) in enumerate(zip(source, code), start=1):
            depth += bool(_IF.match(bare)) - bool(_ENDIF.match(bare))
            if number in guard or _PRAGMA_ONCE.match(bare):
                out.append("")
                continue
            include = _LOCAL_INCLUDE.match(line) if bare.strip() else None
            if not include:
                out.append(line)
                continue
            if depth > bool(guard):
                raise error_at(
                    path,
                    number,
                    f'#include "{include[1]}" stands inside an #if: each file is taken in once, '
                    "so it has to be included unconditionally",
                )
            target = self.find(path, include[1], number, f'#include "{include[1]}"')
            if target in self.sources:
                out.append("")
                continue
            out += self.flatten(target)
            out.append(f'#line {number + 1} "{path}"')
        return out

    def find(self, path: str, name: str, line: int, asked: str) -> str:
        """The file `name` that `path` asks for in the words `asked`."""
        for folder in (Path(path).parent, Path("kernels/common")):
            candidate = self.root / folder / name
            if candidate.is_file():
                found = candidate.resolve().relative_to(self.root.resolve()).as_posix()
                refuse_other_arch(path, line, asked, found)
                return found
        raise error_at(
            path,
            line,
            f"{asked}: no such file in {Path(path).parent.as_posix()}/ or kernels/common/"
            + " (headers of the system are included with <...>)" * asked.startswith("#"),
        )


def in_quotes(path: str, lines: list[str]) -> str:
    """HIP source as a raw string literal of Python, one line more at each end."""
    text = "\n".join(lines)
    quotes = next((q for q in ('"""', "'''") if q not in text), None)
    if quotes is None:
        raise GenerationError(f"{path}: holds both ''' and \"\"\", so no Python text can hold it")
    return f"r{quotes}\n{text}\n{quotes}"


def _without_comments(text: str) -> str:
    """The text with comments blanked and the insides of string literals kept; line numbers stay."""
    pattern = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
    return pattern.sub(lambda m: m[0] if m[0][0] in "\"'" else re.sub(r"[^\n]", " ", m[0]), text)


def _include_guard(code: list[str]) -> set[int]:
    """The three lines of `#ifndef X`, `#define X`, `#endif` around a whole file; empty if it has none."""
    lines = [(number, line.split()) for number, line in enumerate(code, start=1) if line.strip()]
    if len(lines) < 3 or lines[0][1][0] != "#ifndef" or lines[1][1] != ["#define", *lines[0][1][1:2]]:
        return set()
    depth = 0
    for number, line in enumerate(code, start=1):
        depth += bool(_IF.match(line)) - bool(_ENDIF.match(line))
        if depth == 0 and number >= lines[0][0]:
            return {lines[0][0], lines[1][0], number} if number == lines[-1][0] else set()
    return set()


_ENTRY = re.compile(r"^torch::Tensor\s+custom_kernel\s*\([^)]*\)(?=\s*\{)", re.MULTILINE)


def entry_declaration(path: str, lines: list[str]) -> str:
    """The declaration of the host function that the submission calls, for the generated binding."""
    match = _ENTRY.search(_without_comments("\n".join(lines)))
    if not match:
        raise GenerationError(
            f"{path}: defines no host function `torch::Tensor custom_kernel(torch::Tensor ...)`, which the "
            "generated custom_kernel(data) calls with the parts of data"
        )
    return " ".join(match[0].split()) + ";"
