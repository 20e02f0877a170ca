"""Builds that last, for a process that only reads the cache: it asks a builder, which has no submission in it, to build
what is not there yet, and finds it then. What is built follows from what it was built of, which is its name.

An extension's sources lie in the run's folder, with headers beside them: the builder takes a copy of all that lies
there, named by its content, and its compilers see nothing else of the run.
"""

import dataclasses
import hashlib
import json
import os
import socket
import stat
import struct
import sys
import threading
from pathlib import Path
from typing import Any

from cdna.engine.build import cache_dir
from forge.device.extensions import all_in

MOST_FILES, MOST_BYTES = 1000, 64 << 20  # of what lies beside an extension's sources
_LENGTH = struct.Struct(">I")
_lock = threading.Lock()
_line: tuple[int, socket.socket] | None = None  # of which process
_folder = ""  # that it runs in


class NotTaken(Exception):
    """What cannot be named by its content: whoever wants it builds it for itself."""


def take_line(descriptor: int) -> None:
    """Remembers the line to a builder, for this process in its run folder: what it starts has none."""
    global _line, _folder
    line = socket.socket(fileno=descriptor)
    line.set_inheritable(False)
    _line, _folder = (os.getpid(), line), os.getcwd()
    if "cdna.triton.driver" in sys.modules:
        serve_triton()


def serve_triton() -> None:
    """Once Triton is imported."""
    from cdna.triton import kept

    if has_builder():
        kept.ask, kept.anywhere = ask, _folder


def has_builder() -> bool:
    return _line is not None and _line[0] == os.getpid()


def run_folder() -> str:
    """What the folders of a run lie in."""
    return os.path.dirname(_folder)


def ask(request: dict[str, Any]) -> str | None:
    """Has the builder build something: "" if it has, what a compiler says of it, or None where nobody answers."""
    if _line is None or not has_builder():
        return None
    with _lock:
        try:
            send(_line[1], request)
            answer = receive(_line[1])
        except (OSError, ValueError):
            return None
    if answer and "failed" in answer:
        print(f"forge: what builds for submissions failed: {answer['failed']}", file=sys.stderr, flush=True)
    error = answer.get("error") if answer else None
    return error if isinstance(error, str) else None


def send(line: socket.socket, value: dict[str, Any]) -> None:
    data = json.dumps(value).encode()
    line.sendall(_LENGTH.pack(len(data)) + data)


def receive(line: socket.socket) -> dict[str, Any] | None:
    """None at its end."""
    head = _exactly(line, _LENGTH.size)
    data = _exactly(line, _LENGTH.unpack(head)[0]) if head else b""
    value = json.loads(data) if data else None
    return value if isinstance(value, dict) else None


def _exactly(line: socket.socket, count: int) -> bytes:
    if count > MOST_BYTES:
        raise ValueError("more than a request holds")
    data = bytearray()
    while len(data) < count:
        if not (part := line.recv(count - len(data))):
            return b""
        data += part
    return bytes(data)


# ---------------------------------------------------------------- extensions


@dataclasses.dataclass(frozen=True)
class Copy:
    """What lies beside an extension's sources. place: where the builder copies it, the same for the same content."""

    folders: list[str]  # in the run
    files: dict[str, Path]
    place: Path

    def inside(self, text: str) -> str:
        """A path, or a flag with one, as it is in the copy."""
        for number, folder in sorted(enumerate(self.folders), key=lambda one: -len(one[1])):
            text = text.replace(folder, str(self.place / str(number)))
        return text

    def outside(self, text: str) -> str:
        for number, folder in enumerate(self.folders):
            text = text.replace(str(self.place / str(number)), folder)
        return text


def copy_of(extension: Any, run: str) -> Copy:
    """NotTaken where something else of the run is named, or too much lies there; OSError where that is too deep."""
    named = [*(str(source.parent) for source in extension.sources), *extension.include_paths]
    folders = list(dict.fromkeys(folder for folder in named if folder.startswith(run)))
    files: dict[str, Path] = {}
    for number, folder in enumerate(folders):
        for path in all_in(Path(folder)):
            if path.is_file() and not path.is_symlink():
                files[f"{number}/{path.relative_to(folder)}"] = path
            if len(files) > MOST_FILES:
                raise NotTaken
    digest, left = hashlib.sha256(), MOST_BYTES
    for name, path in sorted(files.items()):
        content = content_of(path, left)
        left -= len(content)
        digest.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\0".encode())
    copy = Copy(folders, files, cache_dir() / "torch" / f"given-{digest.hexdigest()[:24]}")
    if run in copy.inside(" ".join([*extension.cflags, *extension.device_flags, *extension.ldflags])):
        raise NotTaken
    return copy


def content_of(path: Path, most: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) or len(content := file.read(most + 1)) > most:
            raise NotTaken
    return content


def in_copy(extension: Any, copy: Copy) -> Any:
    """The extension as it is built of a copy that is there."""
    words = ("cflags", "device_flags", "ldflags", "include_paths")
    return dataclasses.replace(
        extension,
        sources=[Path(copy.inside(str(source))) for source in extension.sources],
        **{name: [copy.inside(word) for word in getattr(extension, name)] for name in words},
        build_directory=copy.inside(extension.build_directory),
        cache=cache_dir(),
        copied=str(copy.place),
    )


def request_of(extension: Any) -> dict[str, Any]:
    words = ("name", "arch", "cflags", "device_flags", "ldflags", "include_paths", "build_directory", "optimised_host")
    given = {name: getattr(extension, name) for name in words}
    return {"what": "extension", "sources": [str(path) for path in extension.sources], **given}
