"""Files of a cache that were cut short, as by a power cut or a full disk: named, removed, and so built anew."""

import contextlib
import os
import struct
import sys
import zlib
from pathlib import Path

ELF_HEADER = struct.Struct("<40xQ10xHHH")  # of 64 bits: where its table of sections lies, their size and number


def publish(partial: Path, path: Path) -> None:
    """Gives a file that is complete its name in the cache, with a note of its length and checksum beside it.

    Of two processes that make the same file at once, whose bytes may differ, both notes stay: readers never find the
    bytes of one and the note of the other.
    """
    content = partial.read_bytes()
    with _note(path).open("a") as note:
        note.write(_sum(content))
    os.replace(partial, path)


def whole(path: Path) -> bool:
    """Whether the cache has this file as `publish` left it. One that is damaged is removed, and named; one without a
    note, which an older version left, is made anew without a word."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    try:
        if _sum(content) in _note(path).read_text().splitlines(keepends=True):
            return True
    except OSError:
        return False
    _remove(path)
    return False


def whole_elf(path: Path) -> bool:
    """The same of an ELF file, whose table of sections comes last: by its length, without a note."""
    try:
        with path.open("rb") as file:
            header, size = file.read(64), path.stat().st_size
    except OSError:
        return False
    if len(header) == 64 and header[:4] == b"\x7fELF":
        start, entry_bytes, entries, _ = ELF_HEADER.unpack(header)
        if 64 <= start and start + entry_bytes * entries <= size:
            return True
    _remove(path)
    return False


def _sum(content: bytes) -> str:
    return f"{len(content)} {zlib.crc32(content)}\n"


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}.sum")


def _remove(path: Path) -> None:
    print(f"cdna: {path} in the cache is damaged: it is built anew", file=sys.stderr, flush=True)
    with contextlib.suppress(OSError):
        path.unlink()
