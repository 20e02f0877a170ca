"""Which version of the emulated device and its time model this is, told by its sources."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

FOLDER = Path(__file__).parent
SOURCES = ("", ".cpp", ".h", ".hpp", ".inc", ".py", ".toml", ".txt")  # by their names' ends; C++ headers may have none


@functools.cache
def model_version(*beside: Path) -> str:
    """A hash of all of cdna's sources and tables with their paths, and of what lies beside it and makes times as well:
    times of two versions are not one model's."""
    hashed = hashlib.sha256()
    for place in (FOLDER, *beside):
        for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if file.suffix in SOURCES and file.is_file():
                hashed.update(f"{file.relative_to(place.parent)}\0".encode() + file.read_bytes() + b"\0")
    return hashed.hexdigest()[:12]
