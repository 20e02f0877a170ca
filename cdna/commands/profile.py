"""`python -m cdna profile`: where the time of a HIP program, a code object's kernel or a Python script's goes."""

import argparse
import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from typing import Any, TextIO

from ..binary.elf import is_code_object
from ..errors import CdnaError
from ..observe.counters import count, counting
from ..observe.records import LaunchRecord, take_records
from ..profile.kernel import KernelProfile, profiles
from ..profile.page import page, write_page
from ..profile.text import text_lines
from ..profile.timeline import write_trace
from . import code_objects

READER = "profile"  # of the launches' records: a script may take the user's


def profile(arguments: argparse.Namespace, own: Sequence[str], sources: Any, out: TextIO) -> int:
    """own: the program's arguments. sources: makes HIP sources of files. The exit code is the program's."""
    _check(arguments)
    first = arguments.files[0]
    if first.suffix == ".py":
        if len(arguments.files) > 1:
            raise CdnaError(f"{arguments.files[1]}: one Python script at a time; its own arguments follow --")
        return _script(arguments, own, out)
    if is_code_object(first):
        return _code_object(arguments, out)
    from ..hip.run import run_program

    count(True)
    return run_program(
        [sources(arguments, file) for file in arguments.files],
        own,
        at_end=lambda: tell(take_records(READER), arguments, sys.stdout),
    )


def _check(arguments: argparse.Namespace) -> None:
    """Before anything runs."""
    for file in arguments.files:
        if not file.is_file():
            raise CdnaError(f"{file}: no such file")
    for option, file in (("--trace", arguments.trace), ("--html", arguments.html)):
        if file is not None and (file.is_dir() or not os.access(file.absolute().parent, os.W_OK)):
            raise CdnaError(f"{option} {file}: cannot be written")


def _script(arguments: argparse.Namespace, own: Sequence[str], out: TextIO) -> int:
    """Kernels of a Python script on CPU tensors, as within `cdna.device`."""
    from ..cards import ARCHS
    from ..triton import device

    file = arguments.files[0]
    code = 0
    before, sys.argv = sys.argv, [str(file), *own]
    sys.path.insert(0, str(file.absolute().parent))
    try:
        with device(arguments.arch or ARCHS[0]), counting():
            runpy.run_path(str(file), run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except CdnaError:
        raise
    except Exception:
        traceback.print_exc()
        code = 1
    finally:
        sys.argv = before
    tell(take_records(READER), arguments, out)
    return code


def _code_object(arguments: argparse.Namespace, out: TextIO) -> int:
    if arguments.grid is None or arguments.block is None:
        raise CdnaError(f"{arguments.files[0]}: a code object's kernel needs --grid, --block, and --arg for arguments")
    kernel, values = code_objects.prepared(arguments.files[0], arguments)
    with counting():
        kernel(arguments.grid, arguments.block, *values, lds_bytes=arguments.lds)
    tell(take_records(READER), arguments, out)
    return 0


def tell(records: Sequence[LaunchRecord], arguments: argparse.Namespace, out: TextIO) -> None:
    """Prints each kernel's profile, and writes the files that were asked for."""
    kernels = profiles(records)
    if not kernels:
        print("cdna: profile: no kernel was launched", file=out)
    for kernel in kernels:
        print("\n" + "\n".join(text_lines(kernel)), file=out)
    if arguments.trace is not None:
        write_trace(arguments.trace, events_of(kernels))
        print(f"\nwritten: {arguments.trace}; open it in ui.perfetto.dev or chrome://tracing", file=out)
    if arguments.html is not None:
        write_page(arguments.html, page(kernels, f"Profile of {arguments.files[0].name}"))
        print(f"written: {arguments.html}", file=out)


def events_of(kernels: Sequence[KernelProfile]) -> list[dict[str, Any]]:
    """Those of all kernels, one process each."""
    return [event for number, kernel in enumerate(kernels) for event in kernel.events(number)]
