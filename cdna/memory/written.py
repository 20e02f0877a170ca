"""Who wrote what: of an output's bytes, and of what launches and a program's counted operations read.

The engine notes which bytes launches store and whether they still hold that (engine/run/written.h); whoever carries out
operations beside them says what these read and write. What neither wrote, the host made.
"""

import ctypes
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..engine import abi
from ..engine.library import engine

MOST_ROWS = 4096  # of a tensor with gaps; one of more is taken for whole

PLACE = range(abi.constant("PLACE"), abi.constant("PLACE") + abi.constant("PLACE_BYTES"))

Range = tuple[int, int]  # address, bytes


def watch() -> None:
    """From now on."""
    engine().lib.cdna_written_on(True)


def begin(given: Iterable[Range], first: bool = False) -> None:
    """A call begins, first: of a case. What it is given is nobody's secret."""
    engine().lib.cdna_written_begin(first)
    known(given)


def known(given: Iterable[Range]) -> None:
    """What others may write: an input, what other ranks send."""
    for base, size in given:
        engine().lib.cdna_written_known(base, size)


def fresh(ranges: Iterable[Range]) -> None:
    """Memory that has just been allocated, and holds what was left there."""
    for base, size in ranges:
        engine().lib.cdna_written_fresh(base, size)


def read(ranges: Iterable[Range]) -> None:
    """By an operation beside launches, which has not begun."""
    for base, size in ranges:
        engine().lib.cdna_written_read(base, size)


def wrote(ranges: Iterable[Range]) -> None:
    """One that has ended."""
    for base, size in ranges:
        engine().lib.cdna_written_by_operation(base, size)


def told(kind: int, words: Sequence[int]) -> None:
    """To an operation of this kind, past memory; words: of 32 bits."""
    engine().lib.cdna_written_told(kind, (ctypes.c_uint32 * len(words))(*words), len(words))


def told_copy(to: int, start: int, size: int) -> None:
    engine().lib.cdna_written_told_copy(to, start, size)


def told_fill(to: int, size: int, value: int) -> None:
    engine().lib.cdna_written_told_fill(to, size, value)


def place() -> None:
    """Has torch's tensors lie, from now on, at PLACE, where no other process has anything: for `journal`."""
    engine().lib.cdna_place_allocator(b"libc10.so")
    keep_journal(False, 0)
    journal()  # looked up now: that a library is asked within a call says something of the call


def keep_journal(first: bool, most_bytes: int) -> None:
    """Of the call that has just begun: what makes its result anew (engine/run/journal.h)."""
    engine().lib.cdna_journal_begin(first, most_bytes)


def note(number: int) -> None:
    """An operation beside launches has ended, which whoever carried it out knows by this number."""
    engine().lib.cdna_journal_note(number)


def journal() -> bytes | None:
    """The call's, which has ended; None: it was too long."""
    size = ctypes.c_uint64()
    address = engine().lib.cdna_journal_taken(ctypes.byref(size))
    held = ctypes.cast(address, ctypes.c_void_p).value
    return b"" if not size.value else None if held is None else ctypes.string_at(held, size.value)


def of(ranges: Iterable[Range]) -> dict[str, int]:
    """Of an output: its bytes by who wrote them; and what was read to make it."""
    lib, found, used = engine().lib, _bytes(), _bytes()
    for base, size in ranges:
        lib.cdna_written_of(base, size, ctypes.byref(found))
    lib.cdna_written_reads(ctypes.byref(used))
    told = {name: getattr(found, name) for name in ("now", "before", "given", "nobody")}
    told |= {"read_before": used.before, "read_nobody": used.nobody, "told": used.told}
    return told | {"read_again": used.again, "made_again": used.made_again, "told_again": used.told_again}


def _bytes() -> Any:
    return abi.structure("WrittenBytes")()


def rows(base: int, item: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Iterator[Range]:
    """The memory of a tensor: in one range where it has no gaps. strides: in elements."""
    dims = sorted((stride, size) for size, stride in zip(shape, strides) if size != 1 and stride)
    run = 1
    while dims and dims[0][0] == run:
        run *= dims.pop(0)[1]
    if 0 in shape:
        return
    if math.prod(size for _, size in dims) > MOST_ROWS:
        yield base, item * (run + sum(stride * (size - 1) for stride, size in dims))
        return
    starts = [0]
    for stride, size in dims:
        starts = [start + stride * i for start in starts for i in range(size)]
    for start in starts:
        yield base + item * start, item * run
