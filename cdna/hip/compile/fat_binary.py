"""The fat binary of the emulated device: a program image and its arch, which clang embeds in the host object.

Layout (little endian; read by runtime/module.cpp): magic, number of images, unused; per image its arch (16 bytes), its
offset from the start, a multiple of 64, and its bytes.
"""

import struct
from collections.abc import Iterable
from pathlib import Path

from ...binary.elf import read
from ...binary.image import ImageBuilder
from ...binary.statements import statements_of
from ...engine.build import engine_library
from ...engine.library import engine
from .results import Results, digest_of

MAGIC = 0x3154414641444E43  # "CNDAFAT1"
_HEADER, _ENTRY = struct.Struct("<QII"), struct.Struct("<16sQQ")


def _image(code: str | bytes) -> bytes:
    """The program image, kept by content: to decode the assembly of a large source takes seconds."""

    def build(output: Path) -> Iterable[Path]:
        source = code if isinstance(code, str) else statements_of(read(code))
        output.write_bytes(ImageBuilder(source, engine().ops).build(hazards=True))
        package = Path(__file__).parents[2]
        return sorted(file for kind in ("py", "txt", "toml") for file in package.glob(f"**/*.{kind}"))

    return Results(digest_of(code, engine_library().name), ".image").get(build).read_bytes()


def fat_binary(arch: str, code: str | bytes) -> bytes:
    """The fat binary of AMDGCN assembly, or of a code object (ELF) for the arch."""
    image = _image(code)
    start = 64
    header = _HEADER.pack(MAGIC, 1, 0) + _ENTRY.pack(arch.encode(), start, len(image))
    return header.ljust(start, b"\0") + image + bytes(-len(image) % 64)
