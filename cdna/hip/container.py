"""The fat binary of the emulated device: one program image per arch, which clang embeds in the host object.

Layout (little endian; read by runtime/module.cpp): magic, count, unused; per arch its name (16 bytes), the offset of
its image from the container's start, and the image's bytes. Images begin at multiples of 64.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..build import engine_library
from ..image import ImageBuilder
from ..library import engine
from .results import Results, digest_of

MAGIC = 0x3154414641444E43  # "CNDAFAT1"
_HEADER, _ENTRY = struct.Struct("<QII"), struct.Struct("<16sQQ")


def _image(assembly: str) -> bytes:
    """The program image, kept by content: to decode the assembly of a large source takes seconds."""

    def build(output: Path) -> Iterable[Path]:
        output.write_bytes(ImageBuilder(assembly, engine().ops).build(hazards=True))
        package = Path(__file__).parents[1]
        return sorted(
            file for pattern in ("*.py", "cards/*", "isa/*") for file in package.glob(pattern) if file.is_file()
        )

    return Results(digest_of(assembly, engine_library().name), ".image").get(build).read_bytes()


def container(assembly: Mapping[str, str]) -> bytes:
    """The container of AMDGCN assembly texts by arch; the first is the default at run time."""
    images = {arch: _image(text) for arch, text in assembly.items()}
    header = [_HEADER.pack(MAGIC, len(images), 0)]
    body = b""
    start = -(-(_HEADER.size + _ENTRY.size * len(images)) // 64) * 64
    for arch, image in images.items():
        header.append(_ENTRY.pack(arch.encode(), start + len(body), len(image)))
        body += image + bytes(-len(image) % 64)
    return b"".join(header).ljust(start, b"\0") + body
