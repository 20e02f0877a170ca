"""Text files that others may read or write at the same time."""

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, text: str, executable: bool = False) -> None:
    """Readers see the old file or the new one, never half of it. The mode is a new file's. Raises OSError."""
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(beside, (0o777 if executable else 0o666) & ~umask)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def keep_written(path: Path, text: str, executable: bool = False) -> Path:
    """A file of that text, in a folder made for it; where it is there already it stays untouched, so that nobody
    builds it again. Raises OSError."""
    try:
        if path.read_text(encoding="utf-8") == text:
            return path
    except (OSError, UnicodeDecodeError):
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text, executable)
    return path
