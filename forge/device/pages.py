"""Memory that is taken only where somebody writes: for what may be larger than the machine's."""

import mmap

MAP_NORESERVE = 0x4000  # Linux's; in Python's mmap from 3.12 or later on only


def fresh(n_bytes: int) -> mmap.mmap:
    """Zeros, from the begin of a page on."""
    return mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
