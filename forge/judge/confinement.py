"""What a submission may touch, and holding it to that before it is imported. docs/confinement.md has it in words.

Each step stands alone: what this machine does not have is named, and the others are taken. No step needs a right that
an ordinary user lacks, and none can be undone by what runs afterwards.
"""

import contextlib
import glob
import json
import os
import resource
import site
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from forge.judge import landlock, namespaces, seccomp
from forge.judge.libc import (
    PR_CAP_AMBIENT,
    PR_CAPBSET_DROP,
    PR_GET_DUMPABLE,
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    call,
    prctl,
)

PR_CAP_AMBIENT_CLEAR_ALL = 4
CAPABILITY_VERSION_3, MOST_CAPABILITIES = 0x20080522, 64
SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/opt", "/nix", "/proc", "/sys")
# Whose folders hold programs, libraries and headers that its user has put elsewhere.
VARIABLES = (
    *("PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "CONDA_PREFIX"),
    *("ROCM_PATH", "ROCM_HOME", "HIP_PATH", "CUDA_HOME", "CUDA_PATH"),
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
GPU_DEVICES = ("/dev/kfd", "/dev/dri", "/dev/dri/*", "/dev/nvidia*")
SHARED_MEMORY, TEMPORARY = "/dev/shm", ("/tmp", "/var/tmp")  # the latter its own, where it has a file system
# Beside the run folder: the temporary folder of what judges and builds, the root of a submission's own file system.
OURS, NEW_ROOT = "ours", "root"
COMMAND = str(Path(__file__).with_name("confined_command.py"))
MOST_TASKS, MOST_FILES = 4096, 1 << 16  # processes and threads beside those there are; descriptors of one process
FIRST_TO_GO = 1000  # of oom_score_adj: where memory runs out, it is the submission that ends


@dataclass(frozen=True)
class Bounds:
    """Of a run's submissions, beside the run folder that each gets. kept: the folder of what builders make, which they
    read; empty: they build for themselves, and what they built is there in their next run. hidden: where nothing may be
    read, whatever lies above it; gpu: whether they need one's driver."""

    writable: list[str] = field(default_factory=list)
    readable: list[str] = field(default_factory=list)
    kept: str = ""
    hidden: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    gpu: bool = False


def places_to_read(root: str, bounds: Bounds) -> list[str]:
    """The interpreter, what it imports, this checkout's two packages, the system's libraries and programs."""
    places = [
        *SYSTEM,
        *bounds.readable,
        bounds.kept,
        sys.prefix,
        sys.base_prefix,
        site.getusersitepackages(),
        *sys.path,
    ]
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


class Confinement:
    """Holds this process, and all that it starts, to its bounds. `missing`: what this machine does not give, a line
    each. root: of this checkout; folder: of the run; is_rank: whether it has others to talk to."""

    def __init__(self, root: str, folder: str, bounds: Bounds, is_rank: bool) -> None:
        self.root, self.folder, self.bounds, self.is_rank = root, folder, bounds, is_rank
        self.missing: list[str] = []
        self.alone = False  # in namespaces of its own
        self.builds = False  # and has no submission in it
        self.signals_stay = False  # none of what it starts reaches a process outside
        self.readable = places_to_read(root, bounds)
        self.devices = [*DEVICES, *(path for name in GPU_DEVICES if bounds.gpu for path in glob.glob(name))]

    def attempt(self, step: Callable[[], object], otherwise: str) -> bool:
        try:
            step()
        except (OSError, ValueError) as error:
            self.missing.append(f"{otherwise} ({getattr(error, 'strerror', None) or error})")
            return False
        return True

    def separate(self, place: str) -> None:
        """Takes namespaces, and makes a file system at `place`; `enter` is for a process that is forked then."""

        def step() -> None:
            prctl(PR_SET_DUMPABLE, 1)  # or its own files in /proc are not its own
            try:
                namespaces.leave_all()
            finally:
                prctl(PR_SET_DUMPABLE, 0)
            self.place, self.alone = place, True
            namespaces.new_root(place, self.readable, [self.folder, *self.bounds.writable], self.devices)

        self.attempt(step, "it sees this machine's other processes, shared memory and network: no namespaces")

    def enter(self) -> None:
        if self.alone:
            self.attempt(lambda: namespaces.show_processes(self.place), "it sees this machine's other processes")
            self.attempt(lambda: namespaces.move_to(self.place), "it sees all files")
            self.attempt(namespaces.switch_on_loopback, "it has no network of its own")
            os.environ.update(dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), "lo"))
        set_limits()
        bound_capabilities()
        user_of_run = namespaces.user_of_run(os.path.dirname(self.folder))
        if os.getuid() == 0:
            needed = [os.path.realpath(sys.executable), os.__file__, __file__, *glob.glob(f"{self.folder}/*")]
            needed += [file for name in ("torch", "numpy") if (file := getattr(sys.modules.get(name), "__file__", ""))]
            needed += [place for place in [*sys.path, self.bounds.kept, *self.bounds.writable] if os.path.exists(place)]
            needed += glob.glob(f"{self.bounds.kept}/engine-*.so")
            own = [self.folder, *glob.glob(f"{self.folder}/**", recursive=True), *self.bounds.writable]
            groups = sorted({os.stat(path).st_gid for path in self.devices if path not in DEVICES})
            user = namespaces.NOBODY if self.alone else user_of_run
            self.attempt(
                lambda: namespaces.become_nobody(user, needed, groups, own), "it runs as root, without root's rights"
            )
        if not self.alone and os.getuid() != user_of_run:
            self.missing.append(f"what it leaves in {SHARED_MEMORY} lasts")
        self.confine()

    def confine(self) -> None:
        self.attempt(drop_capabilities, "it keeps capabilities")
        if self.attempt(lambda: prctl(PR_SET_NO_NEW_PRIVS, 1), "it may gain rights by set-uid programs"):
            self.attempt(
                self.bound_files, "it may touch any file that its user may, and a rank another's memory: no Landlock"
            )
            self.attempt(self.bound_calls, "it may make any system call: no seccomp")
        self.signals_stay = self.signals_stay or self.alone
        if self.is_rank and not self.alone:
            self.missing.append("the network is open to it")
        if not self.bounds.kept:
            self.missing.append("what it builds is there in its next run")

    def bound_files(self) -> None:
        writable = [self.folder, *self.bounds.writable, SHARED_MEMORY, *TEMPORARY * self.alone]
        if self.bounds.gpu:
            writable.append("/proc")  # CUDA fails where it may not write a thread's name anew (task/*/comm)
        there = landlock.restrict(self.readable, writable, self.devices)
        self.signals_stay = there >= landlock.SCOPED_SINCE
        if self.bounds.gpu and (not self.alone or os.getuid() == 0):
            self.missing.append("it may write to what /proc shows of its user's other processes")
        if there < landlock.SCOPED_SINCE and not self.alone:
            self.missing.append(f"signals reach other processes of this user: Landlock {there} does not keep them in")

    def bound_calls(self) -> None:
        families = [*seccomp.FAMILIES, *seccomp.INTERNET * (self.is_rank or self.alone)]
        refused = [*seccomp.REFUSED.values(), *([] if self.alone else seccomp.LASTING.values())]
        # Where it is alone its file system is read-only where it should be; a builder holds no submission.
        ignored = [] if self.alone or self.builds else seccomp.MARKS.values()
        seccomp.install(seccomp.filter_of(refused, families, ignored))


def confine(root: str, folder: str, bounds: Bounds, is_rank: bool, builds: bool = False) -> list[str]:
    """This process, as it is, without namespaces. Returns what is missing."""
    confinement = Confinement(root, folder, bounds, is_rank)
    confinement.builds = builds
    set_limits()
    bound_capabilities()
    confinement.confine()
    return confinement.missing


def confined_calls(root: str, bounds: Bounds) -> Callable[[list[str], str], list[str]]:
    """How a builder calls a compiler that writes to a folder alone, and reads nothing of the run. zig keeps a cache."""
    readable = places_to_read(root, bounds)

    def calling(command: list[str], folder: str) -> list[str]:
        writable = [folder, *[os.path.join(bounds.kept, "zig")] * (os.path.basename(command[0]) == "zig")]
        told = json.dumps({"readable": readable, "writable": writable})
        return [sys.executable, "-I", "-S", COMMAND, told, *command]

    return calling


def bound_capabilities() -> None:
    """No program that is executed brings one back, whoever owns it. Where none may be dropped there is none."""
    for number in range(MOST_CAPABILITIES):
        with contextlib.suppress(OSError):
            prctl(PR_CAPBSET_DROP, number)


def drop_capabilities() -> None:
    with contextlib.suppress(OSError):  # a kernel without such
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    call("capset", struct.pack("=Ii", CAPABILITY_VERSION_3, 0), bytes(24))


def set_limits() -> None:
    """No core files; processes and descriptors bounded; and the first to end where memory runs out."""
    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_NOFILE, MOST_FILES)
    lower(resource.RLIMIT_NPROC, MOST_TASKS + task_count())
    before = prctl(PR_GET_DUMPABLE)
    prctl(PR_SET_DUMPABLE, 1)  # or its own files in /proc are not its own
    try:
        Path("/proc/self/oom_score_adj").write_text(str(FIRST_TO_GO))
    except OSError:  # no /proc: the system chooses
        pass
    finally:
        prctl(PR_SET_DUMPABLE, before)


def lower(which: int, most: int) -> None:
    soft, hard = (most if now == resource.RLIM_INFINITY else min(most, now) for now in resource.getrlimit(which))
    resource.setrlimit(which, (soft, hard))


def task_count() -> int:
    """Processes and threads of the whole machine: cheap enough to ask ten times a second."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].split("/")[1])
    except (OSError, IndexError, ValueError):
        return 0
