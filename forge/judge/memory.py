"""The memory through which a rank's tensors pass (forge/judge/exchange.py), made by the evaluator. No torch."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
import resource
from pathlib import Path

from forge.console import UsageError
from forge.device.pages import MAP_NORESERVE

REGION_BYTES, REGIONS = 1 << 38, 3  # memory is taken where something is written
ALIGN_BYTES = 4096
MAP_FIXED, MAP_FAILED = 0x10, ctypes.c_void_p(-1).value  # Linux's


def make_memory() -> int:
    """A descriptor of one rank's memory, whose size nobody can change: reading it never faults."""
    descriptor = os.memfd_create("forge-exchange", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limits[1], limits[1]))
        os.ftruncate(descriptor, REGIONS * REGION_BYTES)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    except OSError as error:
        os.close(descriptor)
        raise UsageError(f"no memory to share with the submission: {error.strerror} (ulimit -f unlimited?)") from None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    return descriptor


def show(address: int, n_bytes: int, descriptor: int = -1, offset: int = 0) -> None:
    """Has these pages of this process hold a file's bytes, or zeros if none is named.

    They take memory only where somebody writes to them, and nobody else sees what is written. As long as nobody has,
    they change with the file.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
    flags = mmap.MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE | (mmap.MAP_ANONYMOUS if descriptor < 0 else 0)
    if libc.mmap(address, n_bytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, descriptor, offset) == MAP_FAILED:
        raise OSError(ctypes.get_errno(), "mmap over pages that are there")


M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -2, -3, -4, -8  # glibc's
LARGE_BYTES = 32 << 20  # what is larger and sparse, as the checks' records are, is best made of pages that are 0 anyway


def keep_freed_memory(referees: bool) -> None:
    """Has this process use the memory that it frees again, blocks larger than LARGE_BYTES in referees alone.

    A fresh page has to be cleared, on a virtual machine by its host too: up to two fifths of eight ranks' time.
    """
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        libc = ctypes.CDLL(None)
        for option, value in (
            (M_MMAP_MAX, 0) if referees else (M_MMAP_THRESHOLD, LARGE_BYTES),
            (M_TRIM_THRESHOLD, (1 << 31) - 1),
            (M_TOP_PAD, LARGE_BYTES),
            (M_ARENA_MAX, 1),
        ):
            libc.mallopt(option, value)


def give_back_freed_memory() -> None:
    """Unless there is plenty, while others have their turn: eight referees and eight workers that all keep what their
    largest case took are too many for 23 GB."""
    with contextlib.suppress(OSError, AttributeError):
        if not _is_plenty():
            ctypes.CDLL(None).malloc_trim(0)


def _is_plenty(meminfo: str = "/proc/meminfo", limit: str = "/sys/fs/cgroup/memory.max") -> bool:
    """Two thirds of the machine's memory: what it has left, and nobody limits it."""
    if os.path.exists(limit) and Path(limit).read_text().strip() != "max":
        return False
    lines = (line.partition(":") for line in Path(meminfo).read_text().splitlines())
    kilobytes = {name: int(rest.split()[0]) for name, _, rest in lines}
    return 3 * kilobytes["MemAvailable"] > 2 * kilobytes["MemTotal"]
