"""What a compiler's exception says. Triton wraps an error in one more for each function that it inlines, and the
outermost tells no more than where that was called."""

import re

# Triton's names of fp8 formats, as torch calls them.
FORMATS = {"fp8e4b8": "e4m3fnuz", "fp8e5b16": "e5m2fnuz", "fp8e4nv": "e4m3fn", "fp8e5": "e5m2", "fp8e4b15": "e4b15"}
_LACKS = re.compile(r"type (fp8\w+) not supported in this architecture")


def lacking_format(said: str) -> str:
    """The fp8 format that a GPU lacks, where that is what a compiler's error says; empty if not."""
    found = _LACKS.search(said)
    return FORMATS.get(found[1], found[1]) if found else ""


def is_tritons(error: BaseException) -> bool:
    return type(error).__module__.startswith("triton.")


def first_cause(error: BaseException) -> tuple[BaseException, str, list[str]]:
    """(It, the line of a kernel where it was raised, that line with those before it and a mark below).

    The source as far as Triton tells it: "" and nothing if it does not.
    """
    code, excerpt = "", list[str]()
    while True:
        source, line = getattr(error, "src", None), getattr(getattr(error, "node", None), "lineno", None)
        if is_tritons(error) and source and line:
            said = getattr(error, "error_message", None) or ""  # follows the source in its text
            code, excerpt = source.splitlines()[line - 1].strip(), str(error).removesuffix(said).rstrip().splitlines()
        if error.__cause__ is None:
            return error, code, excerpt
        error = error.__cause__


def message_of(cause: BaseException) -> str:
    return str(getattr(cause, "error_message", None) or cause)


def said_of(message: str, code: str) -> str:
    """A message's last line, with the kernel's."""
    lines = [line.strip() for line in message.splitlines() if line.strip()] or ["no message"]
    return lines[-1] + (f' in "{code}"' if code else "")
