"""Files that several processes make at once: the ranks of a run build the same extension."""

import contextlib
import fcntl
import hashlib
from collections.abc import Iterator

from cdna.engine.build import own_cache_dir
from cdna.errors import ToolchainError


@contextlib.contextmanager
def locked(what: str) -> Iterator[bool]:
    """Held by one process of the machine at a time, which learns whether it is the first ever.

    The system releases it when the holder dies.
    """
    folder = own_cache_dir() / "torch" / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolchainError(f"cannot create the cache folder {folder}: {error.strerror}; set CDNA_CACHE_DIR") from None
    path = folder / hashlib.sha256(what.encode()).hexdigest()[:24]
    first = not path.exists()
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield first
