"""Reading a submission, and what can be said of it without running it."""

import ast
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

from forge.console import UsageError
from forge.generate.rules import MAX_BYTES, TEXT_RULES

_DIRECTIVE = re.compile(rb"^(?:#|//)!POPCORN[ \t]+(leaderboard|gpus?)[ \t]+(.+?)[ \t]*$", re.MULTILINE | re.IGNORECASE)
MOST_BYTES = 16 << 20  # of a file that is read at all
KERNEL = "custom_kernel"  # what official evaluators call
MAX_REFUSALS = 3  # shown; one is enough to be refused


class SubmissionError(Exception):
    """What the file holds cannot be a submission: whoever wrote it has to mend it. One line."""


@dataclass(frozen=True)
class Directives:
    """What a submission's #!POPCORN lines say."""

    leaderboard: str | None
    gpus: tuple[str, ...]


def directives(content: bytes) -> Directives:
    """As popcorn-cli reads them: of several lines of a kind the last counts."""
    found = {
        name.lower().rstrip(b"s"): value.decode("utf-8", "replace").split()
        for name, value in _DIRECTIVE.findall(content)
    }
    return Directives(next(iter(found.get(b"leaderboard", [])), None), tuple(found.get(b"gpu", [])))


def read_submission(path: Path, defines: str = "") -> bytes:
    """The file's bytes, once `check_submission` has looked at them. UsageError: there is no such file to be read."""
    return check_submission(read_source(path), path, defines)


def read_source(path: Path) -> bytes:
    """At most one byte more than is judged."""
    if path.is_dir():
        raise UsageError(f"{path}: a folder, not a submission file")
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        hint = "; make one with gen_submission.py, or name yours with --submission FILE"
        raise UsageError(f"{path}: no such file{hint}") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None


def check_submission(content: bytes, path: Path, defines: str = "") -> bytes:
    """What needs no process. path: its name for people; defines: the function that is called, if it is known."""
    if len(content) > MOST_BYTES:
        taken = f"the leaderboard takes less than {MAX_BYTES:,} bytes"
        raise SubmissionError(f"{path}: more than {MOST_BYTES >> 20} MB: {taken}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes and the like are the author's to see when it runs
            tree = ast.parse(content, str(path))
    except SyntaxError as error:
        raise SubmissionError(f"{path}:{error.lineno or '?'}: not valid Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise SubmissionError(f"{path}: not valid Python: {error}") from None
    if defines and not _may_define(tree, defines):
        raise SubmissionError(f"{path}: defines no {defines}(data), which is what is called and judged")
    return content


def _may_define(tree: ast.Module, name: str) -> bool:
    """Whether running the module could bind `name`; yes where only running it can tell."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=found) | ast.ClassDef(name=found) if found in (name, "__getattr__"):
                return True  # a module may make its names when they are asked for (PEP 562)
            case ast.Name(id=found, ctx=ast.Store()) if found == name:
                return True
            case ast.Name(id="exec" | "globals" | "setattr" | "vars"):
                return True
            case ast.alias(name=found, asname=other) if (other or found) in (name, "*"):
                return True
    return False


def refusals(content: bytes) -> list[str]:
    """What the leaderboard would refuse at its door, one line each. Locally such a file still runs."""
    lines = []
    if len(content) >= MAX_BYTES:
        lines.append(f"{len(content):,} bytes; the leaderboard refuses {MAX_BYTES:,} and more")
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        for rule in TEXT_RULES:
            match = rule.pattern.search(line)
            if match and "#!POPCORN" not in match[0]:  # in a finished file these lines are wanted
                lines.append(f"submission line {number}: {match[0].strip()!r}: {rule.reason}")
    return lines[:MAX_REFUSALS]
