"""Which version this is: its number, its commit, and that of the time model, told by the sources."""

import functools
import hashlib
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent
SOURCES = ("", ".cpp", ".h", ".hpp", ".inc", ".py", ".toml", ".txt")  # by their names' ends; C++ headers may have none


def number() -> str:
    """Semantic version of both packages: cdna/VERSION, which both pyproject.toml read."""
    return (FOLDER / "VERSION").read_text().strip()


@functools.cache
def commit() -> str:
    """What this was made of, with a + where a checkout has changed since; empty where nobody says."""
    if (said := FOLDER / "COMMIT").exists():  # a wheel's
        return said.read_text().strip()
    if not (FOLDER.parent / ".git").exists():
        return ""
    command = ["git", "-C", str(FOLDER.parent), "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def release() -> str:
    """Such as "0.1.0, commit 12df46fc12"."""
    return ", commit ".join(filter(None, [number(), commit()]))


@functools.cache
def model_version(*beside: Path) -> str:
    """A hash of all of cdna's sources and tables with their paths, and of what lies beside it and makes times as well:
    times of two versions are not one model's."""
    hashed = hashlib.sha256()
    for place in (FOLDER, *beside):
        for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if file.suffix in SOURCES and file.name not in ("COMMIT", "VERSION") and file.is_file():
                hashed.update(f"{file.relative_to(place.parent)}\0".encode() + file.read_bytes() + b"\0")
    return hashed.hexdigest()[:12]
