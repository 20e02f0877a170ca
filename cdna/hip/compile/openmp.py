"""-fopenmp for host code: the compiler's own OpenMP where it has one, else g++'s header and library, one thread."""

import shutil
from pathlib import Path

from ...errors import ToolchainError
from .compilers import Compiler, ask
from .results import stored_as

NOTE = "note: -fopenmp: this compiler brings no OpenMP; the host's parallel regions run in one thread"


def flags_and_libraries(compiler: Compiler) -> tuple[list[str], list[str], str]:
    """Flags to compile with, what to link, and a note for the user ("": none); ToolchainError says what to install.

    Clang generates code for its own library (libomp) only. With g++'s it leaves the pragmas out, and a program's calls
    (omp_get_num_threads and the like) are served by that library.
    """
    if compiler.kind != "ziglang" and _file(compiler.driver, "libomp.so"):
        return ["-fopenmp"], ["-fopenmp"], ""
    gxx = shutil.which("g++")
    header, library = (_file((gxx,), name) if gxx else "" for name in ("include/omp.h", "libgomp.so"))
    if not header or not library:
        raise ToolchainError("-fopenmp: neither the compiler nor a g++ brings OpenMP: install g++, or leave it out")
    # In a folder of its own: beside it lie headers for g++ only.
    folder = stored_as("omp.h", Path(header).read_bytes()).parent
    return ["-isystem", str(folder)], [library], NOTE


def _file(compiler: tuple[str, ...], name: str) -> str:
    """Path of a file that the compiler brings; "" if it brings none."""
    path = ask(*compiler, f"-print-file-name={name}")[0].strip()
    return path if Path(path).is_absolute() else ""
