"""What referees keep from run to run of the cases that everybody is judged on: inputs, and what the reference makes of
them.

A file is named by all that its content follows from. Referees write and read it, in which no submission ever runs, and
no submission reads the folder: where that cannot be held, nothing is kept. Only what takes long to make is worth a
file, and what lies there is bounded. No torch.
"""

import contextlib
import functools
import hashlib
import io
import json
import os
import shutil
import stat
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from forge.judge import landlock
from forge.judge.confinement import SHARED_MEMORY, VARIABLES, Bounds, places_to_read
from forge.task.problem import ROOT

HEAD = struct.Struct("<12s32sQQ")  # a mark, the digest of all that follows, the bytes of words and of numbers
MARK = b"forge-case-1"
KEEP_FROM_S = 0.5  # of processor time
DEFAULT_GIB, GIB = 8.0, 1 << 30  # of all files together: the largest problem's benchmarks take 7
MOST_SHARE, MOST_OF_FREE = 0.5, 0.25  # of that for one file; of the disk's free bytes for a new one
HALF_WRITTEN_S = 3600.0  # after which a file without a name is nobody's any more
NumbersFor = Callable[[int], memoryview]
CHUNK_BYTES = 1 << 20  # which a CPU's cache holds from the reading to the digest


def most_bytes() -> int:
    """Of $FORGE_KEPT_GIB; 0: nothing is kept."""
    with contextlib.suppress(ValueError):
        return int(max(0.0, float(os.environ.get("FORGE_KEPT_GIB", DEFAULT_GIB))) * GIB)
    return int(DEFAULT_GIB * GIB)


def place_for(bounds: Bounds) -> str:
    """The folder; "" where a submission within those bounds could read it or write to it, or nothing is to be kept."""
    place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "cdna-forge", "cases").resolve()
    if not most_bytes() or not landlock.there():
        return ""
    of_run = any(_is_within(place, one) for one in (*bounds.readable, *bounds.writable, SHARED_MEMORY))
    lasting = (bounds.kept, *sys.path, *(os.environ.get(name, "") for name in VARIABLES))
    return "" if of_run or _is_readable(place, bounds.kept, lasting) else str(place)


@functools.lru_cache(maxsize=8)
def _is_readable(place: Path, kept: str, lasting: tuple[str, ...]) -> bool:
    """Whether it lies below what any submission reads; lasting: what that follows from."""
    return any(_is_within(place, one) for one in places_to_read(str(ROOT), Bounds(kept=kept)) if one)


def _is_within(place: Path, folder: str) -> bool:
    return place.is_relative_to(os.path.realpath(folder))


class KeptCases:
    """place: the folder, "" for none; made_of: what all of its content follows from, beside what each name says."""

    def __init__(self, place: str, made_of: str) -> None:
        self.place, self.made_of = place, made_of

    def path_of(self, *what: object) -> Path | None:
        told = json.dumps([self.made_of, *what], sort_keys=True, default=str)
        return Path(self.place, hashlib.sha256(told.encode()).hexdigest()[:40]) if self.place else None

    def load(self, path: Path | None, numbers_for: NumbersFor | None = None) -> bytes | None:
        """The words of a file, its numbers where `numbers_for` so many bytes says. None where there is none; one that
        is not as it was written is removed, and named."""
        if path is None:
            return None
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        with open(descriptor, "rb", buffering=0) as file:
            words = self._read(file, path.name, numbers_for) if is_ours(file.fileno()) else None
        with contextlib.suppress(OSError):
            if words is not None:
                os.utime(path)  # read just now: the last to go
            else:
                print(f"forge: {path}, a kept case, is damaged: it is made anew", file=sys.stderr, flush=True)
                path.unlink()
        return words

    def _read(self, file: io.RawIOBase, name: str, numbers_for: NumbersFor | None) -> bytes | None:
        size, head = os.fstat(file.fileno()).st_size, file.read(HEAD.size) or b""
        if len(head) < HEAD.size:
            return None
        mark, digest, n_words, n_numbers = HEAD.unpack(head)
        if mark != MARK or size != HEAD.size + n_words + n_numbers or bool(n_numbers) != (numbers_for is not None):
            return None
        words = bytearray(n_words)
        found = hashlib.sha256(name.encode())
        for part in (memoryview(words), *([numbers_for(n_numbers)] if numbers_for else [])):
            for start in range(0, len(part), CHUNK_BYTES):
                piece = part[start : start + CHUNK_BYTES]
                if file.readinto(piece) != len(piece):
                    return None
                found.update(piece)
        return bytes(words) if found.digest() == digest else None

    def save(self, path: Path | None, words: bytes, numbers: memoryview | bytes = b"") -> None:
        """Unless it is too much; where nothing can be written, nothing is kept."""
        most = most_bytes()
        size = HEAD.size + len(words) + len(numbers)
        if path is None or size > MOST_SHARE * most:
            return
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if size > MOST_OF_FREE * shutil.disk_usage(path.parent).free:
                return
            digest = hashlib.sha256(path.name.encode() + words)
            digest.update(numbers)
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
                try:
                    file.write(HEAD.pack(MARK, digest.digest(), len(words), len(numbers)) + words)
                    file.write(numbers)
                    file.flush()
                    os.replace(file.name, path)
                except BaseException:
                    os.unlink(file.name)
                    raise
            trim(path.parent, most)


def is_ours(descriptor: int) -> bool:
    """Whether nobody else can have written a file: it is unpickled."""
    found = os.fstat(descriptor)
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def trim(place: Path, most: int) -> None:
    """Removes what was read longest ago, until the rest is small enough."""
    found = sorted((one.stat().st_mtime, one.stat().st_size, one.path) for one in os.scandir(place))
    left = sum(size for _, size, _ in found)
    for read_s, size, path in found:
        half_written = os.path.basename(path).startswith(".")
        if left > most and not half_written or half_written and time.time() > read_s + HALF_WRITTEN_S:
            os.unlink(path)
            left -= size
