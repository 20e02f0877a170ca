"""The compiler that makes HIP code here, by name, and what is to be said of it: for tables and reports."""

import functools

from cdna.binary.compiler_notes import take as compiler_notes
from cdna.errors import CdnaError
from cdna.hip.compile.compilers import choose

__all__ = ["compiler_notes", "hip_compiler"]


@functools.cache
def hip_compiler() -> str:
    """Such as "ziglang 0.17.0, clang 22.1.8", or "none" where no compiler is usable."""
    try:
        compiler = choose()
    except CdnaError:
        return "none"
    return f"{compiler.kind} {compiler.version}"
