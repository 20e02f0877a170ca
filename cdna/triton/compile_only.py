"""The kernels that a Python script compiles: its launches do nothing else."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from ..binary.asm import AsmFile, has_directives, parse
from . import device
from .driver import of_binary, rename_source


@contextmanager
def _launches_compile(made: Callable[[Any, Any], None]) -> Iterator[None]:
    run, tune = JITFunction.run, Autotuner.run

    def compile_one(kernel: Any, *args: Any, **kwargs: Any) -> None:
        made(kernel, run(kernel, *args, **{**kwargs, "warmup": True}))

    def compile_every_config(tuner: Any, *args: Any, **kwargs: Any) -> None:
        tuner.nargs = dict(zip(tuner.arg_names, args))
        for config in tuner.prune_configs(kwargs) if len(tuner.configs) > 1 else tuner.configs:
            tuner.fn.run(*args, **{**kwargs, **config.all_kwargs()})

    JITFunction.run, Autotuner.run = compile_one, compile_every_config
    try:
        yield
    finally:
        JITFunction.run, Autotuner.run = run, tune


def compiled_by(script: Path, arch: str) -> tuple[list[AsmFile], str]:
    """What a script's launches compile, each once, and why it ended before its end, "" where it did not."""
    found: dict[str, AsmFile] = {}

    def made(kernel: Any, compiled: Any) -> None:
        if compiled.hash not in found:
            text = compiled.asm["amdgcn"]
            asm = of_binary(compiled.asm["hsaco"]) if has_directives(text) else parse(text)
            rename_source(asm, compiled.metadata.name, kernel.fn.__code__.co_filename)
            found[compiled.hash] = asm

    before, sys.argv = sys.argv, [str(script)]
    sys.path.insert(0, str(script.absolute().parent))
    why = ""
    try:
        with device(arch), _launches_compile(made):
            runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        why = f"exit code {end.code}" if end.code else ""
    except Exception as error:  # whatever the script does with outputs that nothing has computed
        why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    finally:
        sys.argv = before
    return list(found.values()), why
