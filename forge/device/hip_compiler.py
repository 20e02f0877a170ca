"""The compiler that makes HIP code here, by name: for tables and reports."""

from __future__ import annotations

import functools

from cdna.errors import CdnaError
from cdna.hip.compilers import choose


@functools.cache
def hip_compiler() -> str:
    """Such as "ziglang 0.17.0, clang 22.1.8", or "none" where no compiler is usable."""
    try:
        compiler = choose()
    except CdnaError:
        return "none"
    return f"{compiler.kind} {compiler.version}"
