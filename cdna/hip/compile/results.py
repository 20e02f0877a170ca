"""The cache of what compilers make: each result under a name made of the contents it came from.

A second call costs reading those files. A build that is killed leaves nothing behind that a later one would take for
a result.
"""

import contextlib
import functools
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from ...engine.build import cache_dir, own_cache_dir
from ...engine.cached_files import publish, whole
from ...errors import ToolchainError


def digest_of(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update((part if isinstance(part, bytes) else part.encode()) + b"\0")
    return digest.hexdigest()[:24]


@functools.lru_cache(maxsize=4096)
def _content_at(path: str, modified_ns: int, size: int) -> str:
    return digest_of(Path(path).read_bytes())


def _content(path: Path) -> str:
    """Digest of a file's content; "" if there is none."""
    try:
        state = path.stat()
        return _content_at(str(path), state.st_mtime_ns, state.st_size)
    except OSError:
        return ""


def results_folder() -> Path:
    """Where this process puts results."""
    path = own_cache_dir() / "hip"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolchainError(f"cannot create the cache folder {path}: {error.strerror}; set CDNA_CACHE_DIR") from None
    return path


def results_folders() -> list[Path]:
    """Where results may lie."""
    return list(dict.fromkeys([results_folder(), cache_dir() / "hip"]))


def _there(name: str | Path) -> Path | None:
    return next((path for folder in reversed(results_folders()) if (path := folder / name).exists()), None)


def stored(content: bytes, suffix: str) -> Path:
    """A file of that content, at a place of its own."""
    name = f"{digest_of(content)}{suffix}"
    if (there := _there(name)) is not None:
        return there
    path = results_folder() / name
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=results_folder(), prefix="building-") as scratch:
            partial = Path(scratch, "out")  # as others may read it, which a file of tempfile's is not
            partial.write_bytes(content)
            os.replace(partial, path)
    return path


def stored_as(name: str, content: bytes) -> Path:
    """A file of that name and content, in a folder of its own."""
    place = Path(digest_of(name, content), name)
    if (there := _there(place)) is not None:
        return there
    path = results_folder() / place
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        os.replace(stored(content, ".part"), path)
    return path


class NotKnown(Exception):
    """No folder has this result, and this process was told not to make it."""


_makes_none = False


@contextlib.contextmanager
def only_known() -> Iterator[None]:
    """What is not there is not made meanwhile, by any thread of this process."""
    global _makes_none
    _makes_none = True
    try:
        yield
    finally:
        _makes_none = False


class Results:
    """The results of one command: it names the files that it read last time, and their contents name the result."""

    def __init__(self, key: str, suffix: str) -> None:
        self.key, self.suffix = key, suffix

    def _listing(self, folder: Path) -> Path:
        return folder / f"{self.key}.inputs"

    def _path(self, folder: Path, inputs: Sequence[Path]) -> Path:
        digest = digest_of(self.key, *(f"{path}\0{_content(path)}" for path in inputs))
        return folder / f"{digest}{self.suffix}"

    def get(self, build: Callable[[Path], Iterable[Path]]) -> Path:
        """The cached result, else that of `build(output)`, which returns the files that it read."""
        return self.get_timed(build)[0]

    def get_timed(self, build: Callable[[Path], Iterable[Path]]) -> tuple[Path, float | None]:
        """As get; and the seconds that building took, None where the result was there."""
        for folder in results_folders():
            with contextlib.suppress(OSError, ValueError):
                known = self._path(folder, [Path(name) for name in json.loads(self._listing(folder).read_text())])
                if whole(known):
                    return known, None
        if _makes_none:
            raise NotKnown(self.key)
        started = time.monotonic()
        with tempfile.TemporaryDirectory(dir=results_folder(), prefix="building-") as scratch:
            output = Path(scratch, f"out{self.suffix}")
            inputs = sorted({path.absolute() for path in build(output)})
            result = self._path(results_folder(), inputs)
            listing = Path(scratch, "inputs")
            listing.write_text(json.dumps([str(path) for path in inputs]))
            publish(output, result)
            os.replace(listing, self._listing(results_folder()))
        return result, time.monotonic() - started
