"""`python -m cdna run --counters`: a HIP program run within this process, so that its kernels can be counted.

What is printed at its end, on standard error, is what `eval.py profile` has of a case's kernels: executed instructions
by class, where cycles and bytes go, and a modelled time for each kernel.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from ..engine.library import engine
from ..observe import counters
from ..observe.records import LaunchRecord, take_records
from ..profile import profiles, text_lines
from .host_libraries import runtime_library

AtEnd = Callable[[], int | None]


def run_counted(program: Path, name: str, arguments: Sequence[str], at_end: AtEnd | None = None) -> int:
    """`run_inside`, with counters."""

    def counted() -> int | None:
        report(take_records(), sys.stderr)
        return at_end() if at_end else None

    counters.count(True)
    return run_inside(program, name, arguments, counted)


def run_inside(program: Path, name: str, arguments: Sequence[str], at_end: AtEnd) -> int:
    """Load a program that was linked as a library, and call its main(). Does not return: the process ends as the
    program does, whether by exit() or at the end of main(), after `at_end`, whose number stands for the program's 0."""
    engine()  # logs what the runtime launches
    ctypes.CDLL(str(runtime_library()), mode=ctypes.RTLD_GLOBAL)
    libc = ctypes.CDLL(None)
    # Before the program's own destructors are registered, so that it runs after them.
    at_exit = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(_guarded(at_end))
    libc.on_exit(at_exit, None)
    loaded = ctypes.CDLL(str(program))
    words = [name, *arguments]
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's handler would wait for the end of main()
    argv = (ctypes.c_char_p * (len(words) + 1))(*(os.fsencode(word) for word in words), None)
    loaded.main.restype = ctypes.c_int
    code = loaded.main(ctypes.c_int(len(words)), argv)
    sys.stdout.flush()
    libc.exit(code)
    return code


def _guarded(action: AtEnd) -> Callable[[int, object], None]:
    def run(status: int, _: object) -> None:
        try:
            code = action()
            sys.stdout.flush()
            sys.stderr.flush()
            if code and not status:
                ctypes.CDLL(None).fflush(None)
                os._exit(code)
        except BrokenPipeError:
            pass  # `cdna profile FILE | head`: nobody reads any more
        except Exception as error:  # in a callback of C code: nobody could catch it
            print(f"cdna: at the program's end: {error}", file=sys.stderr, flush=True)

    return run


def report(records: Sequence[LaunchRecord], out: TextIO) -> None:
    """Print each kernel's launches together."""
    kernels = profiles(records)
    if not kernels:
        print("cdna: counters: no kernel was launched", file=out)
    for kernel in kernels:
        print("\n" + "\n".join(text_lines(kernel)), file=out)
