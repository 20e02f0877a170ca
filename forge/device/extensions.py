"""What torch has built for a submission in an earlier run."""

from __future__ import annotations

from pathlib import Path


def drop_damaged(folder: Path) -> None:
    """Removes what was cut short, which would crash whoever loads it: torch builds it again."""
    from cdna.cached_files import whole_elf

    for pattern in ("**/*.so", "**/*.o"):
        for built in folder.glob(pattern):
            if built.is_file():
                whole_elf(built)
