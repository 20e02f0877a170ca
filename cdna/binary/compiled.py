"""What a compiler made, parsed: its text says more than its code object, where it can be read."""

from .asm import AsmFile, has_directives, parse


def parsed(text: str, code: bytes) -> AsmFile:
    """Its assembly; or the code object made of that, where inline assembly has directives that take an assembler."""
    if not has_directives(text):
        return parse(text)
    from .elf import read
    from .statements import statements_of

    return statements_of(read(code))
