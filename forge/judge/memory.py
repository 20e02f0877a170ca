"""The memory through which a rank's tensors pass (forge/judge/exchange.py), made by the evaluator. No torch."""

import array
import contextlib
import ctypes
import fcntl
import math
import mmap
import os
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from forge.device.base import DeviceError
from forge.device.pages import MAP_NORESERVE

REGION_BYTES, REGIONS = 1 << 38, 3  # memory is taken where something is written
ALIGN_BYTES = 4096
INPUTS, LARGE_INPUTS = 7, 2  # of three calls that are in memory at a time
JUDGING = 2.0  # where nothing is known of it
# What a control group may take and takes: of version 2, of version 1.
GROUP_BYTES = ("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")
# What a submission's processes may take: each of its workers so much, and so many times what its inputs are.
MOST_TAKEN_BYTES, MOST_TAKEN_INPUTS = 8 << 30, 32
LOOK_S, LOOK_TIMES = 5.0, 50  # how often to look at them at least, and how many times as long as looking takes at most
BLOCK_BYTES = 512  # of st_blocks
MEMORY_FILES = ("/memfd:", "/dev/shm/", "/dev/zero", "/SYSV")
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
        raise DeviceError(f"no memory to share with the submission: {error.strerror} (ulimit -f unlimited?)") from None
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


def written_pages(address: int, count: int) -> list[int] | None:
    """Which of so many of this process's pages, which `show` a file, it has written to; None where nobody says.

    An entry of pagemap has a bit each for a page that is there, that is swapped out, and that is a file's.
    """
    try:
        with open("/proc/self/pagemap", "rb", buffering=0) as file:
            entries = array.array("Q", os.pread(file.fileno(), 8 * count, address // mmap.PAGESIZE * 8))
    except OSError:
        return None
    return [page for page, entry in enumerate(entries) if entry >> 61 in (2, 4, 6)] if len(entries) == count else None


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


def _is_plenty(meminfo: str = "/proc/meminfo", *limits: Path) -> bool:
    """Two thirds of the machine's memory: what it has left, and nobody limits it."""
    known = _bytes_of(meminfo)
    for limit in limits or (folder / most for folder, (most, _) in zip(_groups(), GROUP_BYTES)):
        with contextlib.suppress(OSError, ValueError):  # "max"
            if int(limit.read_text()) < known["MemTotal"]:
                return False
    return 3 * known["MemAvailable"] > 2 * known["MemTotal"]


def _bytes_of(meminfo: str) -> dict[str, int]:
    lines = (line.partition(":") for line in Path(meminfo).read_text().splitlines())
    return {name: int(rest.split()[0]) << 10 for name, _, rest in lines}


def free_memory() -> float:
    """Of the machine, or of what this process and its like may take together; infinite where it cannot be told."""
    free = math.inf
    with contextlib.suppress(OSError, KeyError, ValueError, IndexError):
        with open("/proc/meminfo", "rb") as file:
            free = float(int(file.read().partition(b"MemAvailable:")[2].split(maxsplit=1)[0]) << 10)
    for folder, (most, taken) in zip(_groups(), GROUP_BYTES):
        with contextlib.suppress(OSError, ValueError):  # "max"
            free = min(free, float(int((folder / most).read_text()) - int((folder / taken).read_text())))
    return free


def lacking(input_bytes: int, large: bool, took: Sequence[float]) -> str:
    """Why a case's three calls do not fit into memory, its first input apart; "" where they do.

    Inputs lie with the judge and with the submission, on their way, and where the reference may write to them; large
    ones are there one at a time, and shown. took: by judging cases before, beside their inputs, in bytes of these.
    """
    needed, free = input_bytes * ((LARGE_INPUTS if large else INPUTS) + max(took, default=JUDGING)), free_memory()
    return f"all take about {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free" if needed > free else ""


class MemoryWatch:
    """Of a submission's processes: whether they take more memory than they may. They are looked at where the machine's
    free memory has shrunk, and every few seconds."""

    def __init__(self, pids: Callable[[], Iterable[int]], most: int) -> None:
        self.pids, self.most = pids, most
        self.free, self.next_s, self.latest_s = free_memory(), 0.0, time.monotonic() + LOOK_S

    def is_over(self) -> bool:
        free, now = free_memory(), time.monotonic()
        self.free = max(self.free, free)
        if now < self.next_s or now < self.latest_s and self.free - free < self.most / 4:
            return False
        over = taken_bytes(self.pids(), self.most) > self.most
        looked_s = time.monotonic()
        self.next_s, self.latest_s = looked_s + LOOK_TIMES * (looked_s - now), looked_s + LOOK_S
        return over


def taken_bytes(pids: Iterable[int], enough: int = 0) -> int:
    """Of memory that processes have: of pages that several of them have each one's share, and files of memory that they
    hold open. Up to `enough` it may be told in whole pages, which is quicker."""
    pids, taken = list(pids), 0
    for parts_of in (_in_pages, _by_shares):
        own, shown = map(sum, zip((0, 0), *map(parts_of, pids)))
        taken = own + max(shown, _held_bytes(pids))
        if taken <= enough:
            break
    return taken


def _in_pages(pid: int) -> tuple[int, int]:
    """A process's own bytes, and those of files that it maps, each counted as if nobody else had them."""
    with contextlib.suppress(OSError, ValueError):
        resident, of_files = map(int, Path(f"/proc/{pid}/statm").read_text().split()[1:3])
        return (resident - of_files) * mmap.PAGESIZE, of_files * mmap.PAGESIZE
    return 0, 0


def _by_shares(pid: int) -> tuple[int, int]:
    """Its own bytes, and those of memory's files. In whole pages where it lets nobody look."""
    try:
        parts = _bytes_of(f"/proc/{pid}/smaps_rollup")
        return parts["Pss_Anon"], parts["Pss_Shmem"]
    except (OSError, KeyError, ValueError):
        return _in_pages(pid)


def _held_bytes(pids: Iterable[int]) -> int:
    held: dict[int, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for path in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(path).startswith(MEMORY_FILES):
                        found = path.stat()
                        held[found.st_ino] = BLOCK_BYTES * found.st_blocks
    return sum(held.values())


def oom_kills() -> int:
    """How many processes the system has ended for want of memory: of this one's group, where that is counted."""
    unified, older = _groups()
    for path in (unified / "memory.events", older / "memory.oom_control", Path("/proc/vmstat")):
        with contextlib.suppress(OSError, ValueError):
            for line in path.read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0


def _groups() -> tuple[Path, Path]:
    """This process's folders of control groups: of version 2 and of version 1."""
    paths = {"": "/", "memory": "/"}
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            paths |= dict.fromkeys(controllers.split(","), path)
    return Path("/sys/fs/cgroup" + paths[""]), Path("/sys/fs/cgroup/memory" + paths["memory"])


@contextlib.contextmanager
def peak() -> Iterator[list[int]]:
    """How many bytes this process takes within the block at most beside those that it has: in the list, at its end."""
    grown = [0]
    before = _own_bytes("VmRSS")
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak is what there is now
    yield grown
    grown[0] = max(0, _own_bytes("VmHWM") - before)


def _own_bytes(name: str) -> int:
    with contextlib.suppress(OSError, KeyError, ValueError, IndexError):
        lines = (line.partition(":") for line in Path("/proc/self/status").read_text().splitlines())
        return int(next(rest for key, _, rest in lines if key == name).split()[0]) << 10
    return 0
