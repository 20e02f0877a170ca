"""The kernels that a Python script compiles: its launches do nothing else."""

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..binary.asm import AsmFile
from ..binary.compiled import parsed
from . import device
from .driver import rename_source
from .launches import launches_become


def compiled_by(script: Path, arch: str) -> tuple[list[AsmFile], str]:
    """What a script's launches compile, each once, and why it ended before its end, "" where it did not."""
    found: dict[str, AsmFile] = {}

    def compile_one(kernel: Any, run: Callable[..., Any], args: Any, kwargs: Any) -> None:
        compiled = run(kernel, *args, **{**kwargs, "warmup": True})
        if compiled.hash not in found:
            asm = parsed(compiled.asm["amdgcn"], compiled.asm["hsaco"])
            rename_source(asm, compiled.metadata.name, kernel.fn.__code__.co_filename)
            found[compiled.hash] = asm

    before, sys.argv = sys.argv, [str(script)]
    sys.path.insert(0, str(script.absolute().parent))
    why = ""
    try:
        with device(arch), launches_become(compile_one):
            runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        why = f"exit code {end.code}" if end.code else ""
    except Exception as error:  # whatever the script does with outputs that nothing has computed
        why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    finally:
        sys.argv = before
    return list(found.values()), why
