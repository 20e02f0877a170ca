"""What torch has built for a submission in an earlier run."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOM_BYTES = 64 << 20  # for engines, and what is built of a submission
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


def move_kept_folder() -> str:
    """Where nothing can be written there, as in a read-only home or on a full disk, a folder beside temporary files
    takes its place, with the engines that are built. What is to be said of it."""
    place, user = Path(kept_folder()), os.getuid()
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            room, elsewhere = (shutil.disk_usage(disk).free for disk in (place, tempfile.gettempdir()))
        if room >= ROOM_BYTES or elsewhere < ROOM_BYTES:
            return ""
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        own = Path(tempfile.gettempdir(), f"cdna-{user}")
        own.mkdir(mode=0o755, exist_ok=True)
        if own.is_symlink() or own.stat().st_uid != user:
            raise PermissionError(f"{own} is another's; set CDNA_CACHE_DIR") from None
        for built in place.glob("engine-*.so"):
            if not (own / built.name).exists():
                shutil.copyfile(built, own / built.name)
        os.environ["CDNA_CACHE_DIR"] = str(own)
        return f"{place} cannot be written ({error.strerror}): what is built is kept in {own}"


def drop_damaged(folder: Path) -> None:
    """Removes what was cut short, which would crash whoever loads it: torch builds it again."""
    from cdna.engine.cached_files import whole_elf

    for built in all_in(folder):
        if built.suffix in (".so", ".o") and built.is_file():
            whole_elf(built)
