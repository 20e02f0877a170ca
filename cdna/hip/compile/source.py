"""A HIP source as one value: the file, and all that decides what it is compiled to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...errors import CompileError


@dataclass(frozen=True)
class ParsedHeader:
    """A header that takes long to parse: parsed once for many sources, with those of their flags that matter to it."""

    path: Path
    flags: tuple[str, ...]  # that give it and what it includes


@dataclass(frozen=True)
class HipSource:
    """Made once, where the request comes in, and passed on as it is."""

    path: Path
    arch: str
    flags: tuple[str, ...] = ()  # as for hipcc: -DNAME=VALUE, -std=c++20, -O2, -ffast-math
    include_dirs: tuple[Path, ...] = ()  # folders of the user's headers: each must exist
    host_flags: tuple[str, ...] | None = None  # of the host pass; None: as `flags`
    has_kernels: bool = True  # whether there is a device pass
    folder: str = ""  # where the compiler runs, which is part of a result's name; "": the current folder
    header: ParsedHeader | None = None  # parsed ahead; None: what its own first lines include may be
    instead: Callable[[CompileError], HipSource | None] | None = None  # what to compile where this one does not
