"""What the leaderboard refuses in a submission.

Sources: kernelbot's api_utils.py (the word, the size), the pre-check KernelGuard (RUNTIME_PACKAGE_INSTALL),
and kernelbot's submission.py (directives are read from the first comment block and may not repeat).
Rules on text run on the lines taken from each source file, so that an error names the place to mend.
"""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass

from forge.generate.pysource import Chunk, GenerationError, error_at

MAX_BYTES = 1_000_000  # a submission of this size is refused


@dataclass(frozen=True)
class TextRule:
    pattern: re.Pattern[str]
    reason: str


TEXT_RULES = (
    TextRule(
        re.compile(r"stream", re.IGNORECASE),
        'the leaderboard refuses any file with the word "stream" in it, comments included: '
        "launch on the default queue, and word comments otherwise",
    ),
    TextRule(
        re.compile(
            r"\bpip3?\b['\",\s]+install\b|\b(?:apt|apt-get|conda|mamba)\b['\",\s]+install\b"
            r"|\b(?:pip\._internal|pip\.main|ensurepip)\b",
            re.IGNORECASE,
        ),
        "the leaderboard's pre-check refuses submissions that install packages when they run",
    ),
    TextRule(
        re.compile(r"^[ \t]*(?:#|//)!POPCORN", re.MULTILINE),
        "gen_submission.py writes the #!POPCORN lines itself, and the leaderboard refuses a second set",
    ),
)


def broken_text_rules(chunks: Iterable[Chunk]) -> list[str]:
    """One line for every source line that breaks a rule, in the order of the chunks, each once."""
    found = []
    for chunk in chunks:
        broken: dict[tuple[int, str], str] = {}  # by line and rule: the first match says enough
        for rule in TEXT_RULES:
            for match in rule.pattern.finditer(chunk.text):
                line = chunk.line + chunk.text.count("\n", 0, match.start())
                shown = " ".join(match[0].split())
                broken.setdefault((line, rule.reason), f"{chunk.path}:{line}: {shown!r}: {rule.reason}")
        found += [broken[key] for key in sorted(broken)]
    return list(dict.fromkeys(found))


def check_chunks(chunks: Iterable[Chunk]) -> None:
    found = broken_text_rules(chunks)
    if found:
        raise GenerationError("\n".join(found))


def check_finished(text: str, variant_path: str) -> None:
    """Rules on the whole file; `variant_path` is blamed where no line is."""
    size_bytes = len(text.encode())
    if size_bytes >= MAX_BYTES:
        raise GenerationError(
            f"{variant_path}: the generated file has {size_bytes:,} bytes; the leaderboard refuses "
            f"{MAX_BYTES:,} and more"
        )
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise GenerationError(
            f"{variant_path}: the generated file does not parse: line {error.lineno}: {error.msg}"
        ) from None
    if not _defines(tree.body, "custom_kernel"):
        raise error_at(variant_path, 1, "defines no custom_kernel(data), which the leaderboard calls")


def _defines(body: list[ast.stmt], name: str) -> bool:
    """Whether running the statements binds the name, in whichever branch of an `if` between GPUs."""
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return True
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return True
        if isinstance(node, ast.If) and _defines(node.body, name) and _defines(node.orelse, name):
            return True
    return False
