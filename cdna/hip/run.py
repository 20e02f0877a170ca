"""Compiles a whole HIP program, host and device, and runs it: `python -m cdna run`."""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import CdnaError
from .compile.build import build
from .compile.source import HipSource
from .compile.toolchain import find
from .host_libraries import environment_of_programs

# What hip_runtime.h includes up to HIP 6, which programs rely on, and HIP 7's, which is used here, does not.
_INCLUDED_BY_HIP_6 = ("-include", "stdio.h", "-include", "assert.h", "-include", "thread")


def build_program(sources: Sequence[HipSource], shared: bool = False) -> Path:
    """The executable of HIP sources, one of them with main(), in the cache; `shared`: as a library, to be loaded."""
    return build([replace(s, flags=(*s.flags, *_INCLUDED_BY_HIP_6)) for s in sources], shared=shared).path


def compile_code_object(source: HipSource, output: Path) -> None:
    """Write the kernels of a source as a file that hipModuleLoad takes."""
    code = find().code_object(source)
    try:
        output.write_bytes(code)
    except OSError as error:
        raise CdnaError(f"cannot write {output}: {error.strerror}") from None


def environment_of_run(arch: str) -> dict[str, str]:
    """Of a program that is run by itself."""
    given = {"CDNA_DEVICES": "2", **os.environ}
    return {**given, "CDNA_ARCH": arch, "CDNA_DETACH": "1", **environment_of_programs()}


def environment_of_schedule(schedule: str) -> dict[str, str]:
    """Of a program whose waves take turns as these words say: the same in each run, on one thread."""
    seeds = [word.removeprefix("order:") for word in schedule.split() if word.startswith("order:")]
    return {"CDNA_SCHEDULE": schedule, "CDNA_THREADS": "1", "CDNA_ORDER_SEED": seeds[0] if seeds else "0"}


def run_program(
    sources: Sequence[HipSource],
    arguments: Sequence[str],
    counters: bool = False,
    output: Path | None = None,
    at_end: Callable[[], int | None] | None = None,
) -> int:
    """Build and run; replaces this process by the program, whose exit code it thus has. counters: in this process, and
    print what its kernels did. at_end: in this process, and called at its end: what it gives back is the exit
    code of a program that ends with 0. output: where the program is put before
    it is run.

    The program sees $CDNA_DEVICES cards, two if that is not set: enough for those that copy between cards.
    """
    program, name = build_program(sources, shared=counters or at_end is not None), str(sources[0].path)
    if output is not None:
        try:
            shutil.copy(program, output)
        except OSError as error:
            raise CdnaError(f"cannot write {output}: {error.strerror}") from None
        program = output.absolute()
    environment = environment_of_run(sources[0].arch)
    if counters:
        from .run_counted import run_counted

        os.environ.update(environment)
        return run_counted(program, name, arguments, at_end)
    if at_end is not None:
        from .run_counted import run_inside

        os.environ.update(environment)
        return run_inside(program, name, arguments, at_end)
    os.execve(program, [name, *arguments], environment)
