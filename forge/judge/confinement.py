"""What a submission may touch, and holding it to that before it is imported. docs/confinement.md has it in words.

Each step stands alone: what this machine does not have is named, and the others are taken. No step needs a right that
an ordinary user lacks, and none can be undone by what runs afterwards.
"""

from __future__ import annotations

import ctypes
import glob
import os
import resource
import site
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from forge.judge import landlock, seccomp

PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 38, 24, 47, 4
CAPABILITY_VERSION_3, MOST_CAPABILITIES = 0x20080522, 64
SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/opt", "/nix", "/proc", "/sys")
# Whose folders hold programs, libraries and headers that its user has put elsewhere.
VARIABLES = (
    *("PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "CONDA_PREFIX"),
    *("ROCM_PATH", "ROCM_HOME", "HIP_PATH", "CUDA_HOME", "CUDA_PATH"),
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
GPU_DEVICES = ("/dev/kfd", "/dev/dri", "/dev/nvidia*")
SHARED_MEMORY = "/dev/shm"
MOST_TASKS, MOST_FILES = 4096, 1 << 16  # processes and threads beside those there are; descriptors of one process
FIRST_TO_GO = 1000  # of oom_score_adj: where memory runs out, it is the submission that ends


@dataclass(frozen=True)
class Bounds:
    """Of a run's submissions, beside the run folder that each gets. hidden: where nothing may be read, whatever lies
    above it; gpu: whether they need one's driver."""

    writable: list[str] = field(default_factory=list)
    readable: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    gpu: bool = False


def places_to_read(root: str, bounds: Bounds) -> list[str]:
    """The interpreter, what it imports, this checkout's two packages, the system's libraries and programs."""
    places = [*SYSTEM, *bounds.readable, sys.prefix, sys.base_prefix, site.getusersitepackages(), *sys.path]
    places.append(str(Path(os.path.realpath(sys.executable)).parent.parent))
    places += [os.path.join(root, package) for package in ("forge", "cdna")]
    for name in VARIABLES:
        places += os.environ.get(name, "").split(os.pathsep)
    hidden = [Path(place) for place in [root, *bounds.hidden]]
    return [
        place
        for place in dict.fromkeys(places)
        if place.startswith("/") and not any(one.is_relative_to(os.path.realpath(place)) for one in hidden)
    ]


def confine(root: str, folder: str, bounds: Bounds, is_rank: bool) -> list[str]:
    """Holds this process, and all that it starts, to its bounds. Returns what this machine does not give, a line each.

    root: of this checkout; folder: of the run; is_rank: whether it has others to talk to.
    """
    missing: list[str] = []

    def attempt(step: Callable[[], object], otherwise: str) -> bool:
        try:
            step()
        except (OSError, ValueError) as error:
            missing.append(f"{otherwise} ({getattr(error, 'strerror', None) or error})")
            return False
        return True

    def files() -> None:
        devices = [*DEVICES, *(path for name in GPU_DEVICES if bounds.gpu for path in glob.glob(name))]
        there = landlock.restrict(places_to_read(root, bounds), [folder, *bounds.writable, SHARED_MEMORY], devices)
        if there < landlock.SCOPED_SINCE:
            missing.append(f"signals reach other processes of this user (Landlock {there}: Linux 6.12 keeps them in)")

    def calls() -> None:
        families = [*seccomp.FAMILIES, *seccomp.INTERNET * is_rank]
        seccomp.install(seccomp.filter_of([*seccomp.REFUSED.values(), *seccomp.LASTING.values()], families))

    set_limits()
    attempt(drop_capabilities, "it keeps capabilities")
    if attempt(lambda: prctl(PR_SET_NO_NEW_PRIVS, 1), "it may gain rights by set-uid programs"):
        attempt(files, "it may touch any file that its user may: no Landlock")
        attempt(calls, "it may make any system call: no seccomp")
    if is_rank:
        missing.append("the network is open to it")
    return missing


def prctl(option: int, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, *(ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4])):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def drop_capabilities() -> None:
    """All sets of them, so that no program that is executed brings one back, whoever owns it."""
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(MOST_CAPABILITIES):  # those that there are not, or where none may be dropped: none to drop
        libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    if libc.capset(struct.pack("=Ii", CAPABILITY_VERSION_3, 0), bytes(24)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def set_limits() -> None:
    """No core files; processes and descriptors bounded; and the first to end where memory runs out."""
    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_NOFILE, MOST_FILES)
    lower(resource.RLIMIT_NPROC, MOST_TASKS + task_count())
    try:
        Path("/proc/self/oom_score_adj").write_text(str(FIRST_TO_GO))
    except OSError:  # no /proc: the system chooses
        pass


def lower(which: int, most: int) -> None:
    soft, hard = (most if now == resource.RLIM_INFINITY else min(most, now) for now in resource.getrlimit(which))
    resource.setrlimit(which, (soft, hard))


def task_count() -> int:
    """Processes and threads of the whole machine: cheap enough to ask ten times a second."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].split("/")[1])
    except (OSError, IndexError, ValueError):
        return 0
