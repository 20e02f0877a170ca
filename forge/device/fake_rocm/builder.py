"""The builder's own life: it builds into the cache what workers ask for (kept.py), and has no submission in it."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forge.device.fake_rocm.kept import MOST_BYTES, NotTaken, content_of, copy_of, in_copy, receive, send


def answer(request: dict[str, Any], run: str, calling: Callable[[list[str], str], list[str]]) -> str:
    """Builds what is asked for: "" then, or a compiler's words. calling: how compilers are called."""
    if request["what"] == "kernel":
        import triton  # noqa: F401 - which has the next one imported

        from cdna.triton.driver import EmulatedBackend
        from cdna.triton.kept import build_kernel

        return build_kernel(request, EmulatedBackend)
    import torch.utils.cpp_extension  # noqa: F401 - which has the next one imported

    from cdna.hip.compile import toolchain
    from forge.device.fake_rocm.build import BuildError, Extension, build

    toolchain.calling = calling
    given = {name: value for name, value in request.items() if name != "what"}
    extension = Extension(**{**given, "sources": [Path(path) for path in given["sources"]]})
    copy = copy_of(extension, run)
    for name, path in copy.files.items():
        target = copy.place / name
        content = content_of(path, MOST_BYTES)
        if not target.is_file() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f"{target.name}.{os.getpid()}")
            partial.write_bytes(content)
            partial.rename(target)
    if copy_of(extension, run).place != copy.place:  # it changed meanwhile
        raise NotTaken
    try:
        build(in_copy(extension, copy), lambda text: None)
    except BuildError as error:
        return copy.outside(str(error))
    return ""


def serve(descriptor: int, run: str, calling: Callable[[list[str], str], list[str]]) -> None:
    """Answers until the line ends. Whatever a request holds, it ends no more than itself."""
    line = socket.socket(fileno=descriptor)
    while (request := receive(line)) is not None:
        try:
            send(line, {"error": answer(request, run, calling)})
        except Exception as error:  # then the one who asks builds for itself
            send(line, {"failed": f"{type(error).__name__}: {error}"})
