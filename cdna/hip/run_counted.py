"""`python -m cdna run --counters`: a HIP program run within this process, so that its kernels can be counted.

What is printed at its end, on standard error, is what `eval.py profile` has of a case's kernels: executed instructions
by class, where cycles and bytes go, and a modelled time for each kernel.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from .. import counters
from ..counters import Counters
from ..library import engine
from ..model import modelled_time_us
from ..records import LaunchRecord, take_records
from .host_libraries import runtime_library
from .kernel_names import demangled

HOTTEST = 5  # instructions of a kernel that are shown


def run_counted(program: Path, name: str, arguments: Sequence[str]) -> int:
    """Load a program that was linked as a library, and call its main(). Does not return: the process ends as the
    program does, whether by exit() or at the end of main()."""
    counters.count(True)
    engine()  # logs what the runtime launches
    ctypes.CDLL(str(runtime_library()), mode=ctypes.RTLD_GLOBAL)
    libc = ctypes.CDLL(None)
    # Before the program's own destructors are registered, so that it runs after them.
    at_exit = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_guarded(lambda: report(take_records(), sys.stderr)))
    libc.__cxa_atexit(at_exit, None, None)
    loaded = ctypes.CDLL(str(program))
    words = [name, *arguments]
    argv = (ctypes.c_char_p * (len(words) + 1))(*(os.fsencode(word) for word in words), None)
    loaded.main.restype = ctypes.c_int
    code = loaded.main(ctypes.c_int(len(words)), argv)
    sys.stdout.flush()
    libc.exit(code)
    return code


def _guarded(action: Callable[[], None]) -> Callable[[object], None]:
    def run(_: object) -> None:
        try:
            action()
            sys.stderr.flush()
        except Exception as error:  # in a callback of C code: nobody could catch it
            print(f"cdna: counters: {error}", file=sys.stderr, flush=True)

    return run


def report(records: Sequence[LaunchRecord], out: TextIO) -> None:
    """Print each kernel's launches together."""
    kernels: dict[str, list[LaunchRecord]] = {}
    for record in records:
        kernels.setdefault(record.kernel, []).append(record)
    if not kernels:
        print("cdna: counters: no kernel was launched", file=out)
    for name, launches in kernels.items():
        _print_kernel(name, launches, out)


def _print_kernel(name: str, launches: Sequence[LaunchRecord], out: TextIO) -> None:
    last = launches[-1]
    grid, block = ("x".join(map(str, sizes)) for sizes in (last.grid, last.block))
    print(
        f"\n{demangled(name)}: {len(launches)} launch{'es' if len(launches) > 1 else ''}, the last of {grid} "
        f"workgroups of {block}, {last.lds_bytes} bytes of LDS",
        file=out,
    )
    by_unit: dict[str, int] = {}
    for record in launches:
        for kind, count in record.by_unit.items():
            by_unit[kind] = by_unit.get(kind, 0) + count
    executed = ", ".join(f"{kind} {count:,}" for kind, count in sorted(by_unit.items(), key=lambda item: -item[1]))
    print(f"  wave instructions  {sum(by_unit.values()):,}: {executed}", file=out)
    counted = [record.counters for record in launches if record.counters is not None]
    if not counted:
        return
    times = [modelled_time_us(c) for c in counted]
    longest = max(times, key=lambda time: time.us)
    each = f", {min(t.us for t in times):.2f} to {longest.us:.2f} each" if len(times) > 1 else ""
    print(
        f"  modelled           {sum(t.us for t in times):.2f} us in all{each}; the longest is bound by "
        f"{longest.bound}: {longest.cycles:,.0f} cycles at {longest.mhz:.0f} MHz, {longest.clock} "
        f"(a model, no measurement: docs/time-model.md)",
        file=out,
    )
    _print_work(counted, out)


def _print_work(counted: Sequence[Counters], out: TextIO) -> None:
    def total(what: str) -> int:
        return sum(getattr(c, what) for c in counted)

    def share(part: float, whole: float) -> str:
        return f"{100 * part / whole:.1f} %" if whole else "-"

    last = counted[-1]
    cycles = {unit: sum(c.unit_cycles[unit] for c in counted) for unit in ("matrix", "vector", "lds", "memory")}
    print(
        f"  waves per SIMD     {last.waves_per_simd:g}; barriers {total('barriers'):,}, waits {total('waits'):,}",
        file=out,
    )
    print(
        f"  unit cycles        {', '.join(f'{unit} {n:,}' for unit, n in cycles.items())}; LDS bank conflicts "
        f"{total('lds_conflict_cycles'):,}",
        file=out,
    )
    print(
        f"  lanes active       {share(total('vector_lanes'), 64 * total('vector_instructions'))}; coalescing "
        f"{share(total('ideal_segments'), total('segments'))}; hits: "
        f"L1 {share(total('l1_hits'), total('l1_reads'))}, L2 "
        f"{share(total('l2_read_bytes') - total('fabric_read_bytes'), total('l2_read_bytes'))}",
        file=out,
    )
    levels = (("L2", "l2"), ("fabric", "fabric"), ("HBM", "hbm"))
    moved = (f"{label} {total(f'{level}_read_bytes'):,}/{total(f'{level}_write_bytes'):,}" for label, level in levels)
    print(f"  bytes read/written {', '.join(moved)}", file=out)
    for instruction in sorted(last.instructions, key=lambda i: -i.cycles)[:HOTTEST]:
        print(
            f"    {instruction.cycles:>14,} {instruction.unit} cycles, {instruction.executed:,} times: "
            f"{instruction.where}",
            file=out,
        )
