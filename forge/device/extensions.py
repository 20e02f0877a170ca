"""What torch has built for a submission in an earlier run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

MOST_DEPTH = 16  # of folders in each other: torch builds into one of the extension's name


def all_in(folder: Path, depth: int = 0) -> Iterator[Path]:
    """Everything below it; OSError where that is deeper than any build, or may not be read."""
    if depth > MOST_DEPTH:
        raise OSError(f"{folder}: more than {MOST_DEPTH} folders in each other")
    with os.scandir(folder) as scanned:
        entries = list(scanned)
    for entry in entries:
        yield Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            yield from all_in(Path(entry.path), depth + 1)


def kept_folder() -> str:
    """Where what builders make lies."""
    from cdna.engine.build import cache_dir

    return str(cache_dir())


def drop_damaged(folder: Path) -> None:
    """Removes what was cut short, which would crash whoever loads it: torch builds it again."""
    from cdna.engine.cached_files import whole_elf

    for built in all_in(folder):
        if built.suffix in (".so", ".o") and built.is_file():
            whole_elf(built)
