"""Triton's digest of its own files, a part of each kernel's key in Triton's cache.

Each process that compiles would read and digest the whole of Triton's library: kept, by the files' sizes and times.
"""

import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from ..engine.build import cache_dir
from ..engine.cached_files import publish, whole


def keep_triton_key() -> None:
    """Have this process's Triton ask for its digest here. A version that has it at another place makes it as ever."""
    import triton
    from triton.runtime import cache

    original = getattr(cache, "triton_key", None)
    if original is not None and not hasattr(original, "kept"):
        asking = functools.cache(lambda: kept_key(Path(triton.__file__).parent, original))
        asking.kept = True  # type: ignore[attr-defined]
        cache.triton_key = asking


def kept_key(package: Path, make: Callable[[], str]) -> str:
    """What make() gives, as long as no file of the package changes."""
    told = [str(package)]
    for file in sorted([*package.rglob("*.py"), *(package / "_C").glob("*.so")]):
        state = file.stat()
        told.append(f"{file} {state.st_size} {state.st_mtime_ns}")
    path = cache_dir() / "triton-keys" / hashlib.sha256("\n".join(told).encode()).hexdigest()[:24]
    if path.exists() and whole(path):
        return path.read_text()
    key = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        partial.write_text(key)
        publish(partial, path)
    except OSError:  # only slower
        pass
    return key
