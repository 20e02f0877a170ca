"""A linker for Triton 3.4, which takes ROCm's ld.lld and brings none: zig's, where the machine has no other."""

import hashlib
import os
from pathlib import Path

from ..engine.build import cache_dir, own_cache_dir, zig_binary
from ..errors import ToolchainError
from .versions import interface

# Where Triton 3.4 looks, in this order, after $TRITON_HIP_LLD_PATH.
_USUAL = ("/opt/rocm/llvm/bin/ld.lld", "/usr/bin/ld.lld")


def provide_linker() -> None:
    """Have Triton find a linker for AMD binaries, where its version neither brings one nor finds one."""
    if interface().brings_linker:
        return
    from triton import knobs

    if knobs.amd.lld_path is None and not any(map(os.path.isfile, _USUAL)):
        knobs.amd.lld_path = str(zigs_linker())


def zigs_linker() -> Path:
    """A program that is called as ROCm's ld.lld and runs zig's; made once and kept in the cache."""
    zig = zig_binary()
    if zig is None:
        raise ToolchainError(
            "no ld.lld for this Triton: `pip install ziglang` (needs no root), install lld, or take Triton 3.5 or later"
        )
    text = f'#!/bin/sh\n[ "$1" = -flavor ] && shift 2\nexec "{zig}" ld.lld "$@"\n'
    script = cache_dir() / f"ld.lld-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if not script.exists():
        script = own_cache_dir() / script.name
    if not script.exists():
        script.parent.mkdir(parents=True, exist_ok=True)
        partial = script.with_name(f"{script.name}.{os.getpid()}")
        partial.write_text(text)
        partial.chmod(0o755)
        partial.rename(script)
    return script
