"""What a compiler's exception says. Triton wraps an error in one more for each function that it inlines, and the
outermost tells no more than where that was called."""

from __future__ import annotations


def is_tritons(error: BaseException) -> bool:
    return type(error).__module__.startswith("triton.")


def first_cause(error: BaseException) -> tuple[str, str, list[str]]:
    """(What it says, the line of a kernel where it was raised, that line with those before it and a mark below).

    The source as far as Triton tells it: "" and nothing if it does not.
    """
    code, excerpt = "", list[str]()
    while True:
        source, line = getattr(error, "src", None), getattr(getattr(error, "node", None), "lineno", None)
        if is_tritons(error) and source and line:
            said = getattr(error, "error_message", None) or ""
            code, excerpt = source.splitlines()[line - 1].strip(), str(error).removesuffix(said).rstrip().splitlines()
        if error.__cause__ is None:
            return str(getattr(error, "error_message", None) or error), code, excerpt
        error = error.__cause__
