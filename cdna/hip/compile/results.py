"""The cache of what compilers make: each result under a name made of the contents it came from.

A second call costs reading those files. A build that is killed leaves nothing behind that a later one would take for
a result.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ...build import cache_dir
from ...cached_files import publish, whole
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
    """Where results lie."""
    path = cache_dir() / "hip"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolchainError(f"cannot create the cache folder {path}: {error.strerror}; set CDNA_CACHE_DIR") from None
    return path


def stored(content: bytes, suffix: str) -> Path:
    """A file of that content, at a place of its own."""
    path = results_folder() / f"{digest_of(content)}{suffix}"
    if not path.exists():
        with tempfile.NamedTemporaryFile(dir=results_folder(), delete=False) as partial:
            partial.write(content)
        os.replace(partial.name, path)
    return path


def stored_as(name: str, content: bytes) -> Path:
    """A file of that name and content, in a folder of its own."""
    path = results_folder() / digest_of(name, content) / name
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        os.replace(stored(content, ".part"), path)
    return path


class Results:
    """The results of one command: it names the files that it read last time, and their contents name the result."""

    def __init__(self, key: str, suffix: str) -> None:
        self.key, self.suffix = key, suffix
        self.listing = results_folder() / f"{key}.inputs"

    def _path(self, inputs: Sequence[Path]) -> Path:
        digest = digest_of(self.key, *(f"{path}\0{_content(path)}" for path in inputs))
        return results_folder() / f"{digest}{self.suffix}"

    def get(self, build: Callable[[Path], Iterable[Path]]) -> Path:
        """The cached result, else that of `build(output)`, which returns the files that it read."""
        return self.get_timed(build)[0]

    def get_timed(self, build: Callable[[Path], Iterable[Path]]) -> tuple[Path, float | None]:
        """As get; and the seconds that building took, None where the result was there."""
        try:
            known = self._path([Path(name) for name in json.loads(self.listing.read_text())])
            if whole(known):
                return known, None
        except (OSError, ValueError):
            pass
        started = time.monotonic()
        with tempfile.TemporaryDirectory(dir=results_folder(), prefix="building-") as scratch:
            output = Path(scratch, f"out{self.suffix}")
            inputs = sorted({path.absolute() for path in build(output)})
            result = self._path(inputs)
            listing = Path(scratch, "inputs")
            listing.write_text(json.dumps([str(path) for path in inputs]))
            publish(output, result)
            os.replace(listing, self.listing)
        return result, time.monotonic() - started
