"""Namespaces of a submission's own: processes, files, shared memory and a network in which there is nothing else.

A superuser has them at once, anybody else within a user namespace, where the system allows it. Numbers: Linux,
include/uapi/linux/{sched,mount,if,sockios}.h; system calls as on all machines since 5.12, but for pivot_root.
"""

import contextlib
import ctypes
import fcntl
import os
import platform
import socket
import stat
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from forge.judge.libc import call

NEW_MOUNTS, NEW_NAMES, NEW_IPC, NEW_USERS, NEW_PIDS, NEW_NETWORK = (
    *(0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000),
)
NOSUID, NODEV, NOEXEC, BIND, RECURSIVE, PRIVATE, DETACH = 2, 4, 8, 4096, 16384, 1 << 18, 2
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE = 442, -100, 0x8000
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
READ_ONLY, NO_SET_UID = 1, 2
GET_FLAGS, SET_FLAGS, IS_UP = 0x8913, 0x8914, 1
LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
HOSTS = "127.0.0.1 localhost\n::1 localhost\n::ffff:127.0.0.1 localhost\n"
NOBODY = 65534
FIRST_OF_RUNS, RUNS = 2_100_000_000, 1 << 24  # users that no system gives to anybody


def user_of_run(root: str) -> int:
    """Of the submission of the run with this folder, where it is a superuser's and has no namespaces: whose else would
    the files be that it leaves in shared memory?"""
    return FIRST_OF_RUNS + zlib.crc32(root.encode()) % RUNS


def _mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    words = (word.encode() if word else None for word in (source, target, kind))
    call("mount", *words, ctypes.c_ulong(flags), options.encode() if options else None)


def leave_all() -> None:
    """New namespaces for this process and, of processes, for its children. OSError where that is not allowed."""
    own = NEW_MOUNTS | NEW_NAMES | NEW_IPC | NEW_PIDS | NEW_NETWORK
    user, group = os.getuid(), os.getgid()
    try:
        call("unshare", own)
    except PermissionError:
        call("unshare", own | NEW_USERS)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _mount("", "/", flags=PRIVATE | RECURSIVE)


def switch_on_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        (flags,) = struct.unpack("16xH22x", fcntl.ioctl(any_socket, GET_FLAGS, struct.pack("16sH22x", b"lo", 0)))
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sH22x", b"lo", flags | IS_UP))


def new_root(place: str, readable: Sequence[str], writable: Sequence[str], devices: Sequence[str]) -> None:
    """Puts together a file system of these alone, at `place`; places that there are not are left out."""
    _mount("tmpfs", place, "tmpfs", NOSUID, "mode=0755,size=25%")
    for shared in ("/tmp", "/var/tmp", "/dev/shm"):
        os.makedirs(place + shared)
        os.chmod(place + shared, 0o1777)
    shown: list[Path] = []
    for source in sorted({*readable, *writable, *devices}, key=lambda one: (one.count("/"), one)):
        target = Path(place + source)
        if os.path.islink(source) and source.count("/") == 1:  # /bin, of a system with one folder of programs
            target.symlink_to(os.readlink(source))
            continue
        if source in ("/proc", "/dev") or not os.path.exists(source):
            continue
        may_write = source in writable or source in devices
        if not may_write and any(Path(source).is_relative_to(one) for one in shown):
            continue
        with contextlib.suppress(OSError):  # such a place is one of those that there are not
            _show(source, target, may_write)
            shown.append(Path(source))
    if os.path.exists(f"{place}/etc/hosts"):  # whose names nobody else is there to ask for
        Path(place, "hosts").write_text(HOSTS)
        _mount(f"{place}/hosts", f"{place}/etc/hosts", flags=BIND)
    for name, what in LINKS.items():
        os.symlink(what, f"{place}/dev/{name}")


def _show(source: str, target: Path, may_write: bool) -> None:
    """All that lies at a place, at another one."""
    if stat.S_ISDIR(os.stat(source).st_mode):
        target.mkdir(parents=True, exist_ok=True)
    elif not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount(os.path.realpath(source), str(target), flags=BIND | RECURSIVE)
    attributes = struct.pack("=QQQQ", NO_SET_UID | (0 if may_write else READ_ONLY), 0, 0, 0)
    with contextlib.suppress(OSError):  # Landlock says the same
        call("syscall", MOUNT_SETATTR, AT_FDCWD, str(target).encode(), AT_RECURSIVE, attributes, ctypes.c_size_t(32))


def show_processes(place: str) -> None:
    """/proc of this process's own namespace. OSError where only the machine's is to be had, which is there then."""
    os.makedirs(f"{place}/proc", exist_ok=True)
    try:
        _mount("proc", f"{place}/proc", "proc", NOSUID | NODEV | NOEXEC)
    except OSError:
        _mount("/proc", f"{place}/proc", flags=BIND | RECURSIVE)
        raise


def move_to(place: str) -> None:
    """Makes it the root of this process, and of all that it starts."""
    os.chdir(place)
    call("syscall", PIVOT_ROOT[platform.machine()], b".", b".")
    call("umount2", b".", DETACH)
    os.chdir("/")


def become_nobody(user: int, needed: Sequence[str], groups: Sequence[int], own: Sequence[str]) -> None:
    """Of the superuser: becomes this user, or NOBODY where a container has no such, with these groups, and gets what is
    to be its own. OSError where one without rights could not read what is needed."""
    os.setgroups(groups)
    try:
        os.setresgid(user, user, 0)
        os.setresuid(user, user, 0)
    except OSError:
        os.setresgid(user := NOBODY, NOBODY, 0)
        os.setresuid(NOBODY, NOBODY, 0)
    unreadable = [path for path in needed if not os.access(path, os.R_OK, effective_ids=True)]
    os.setresuid(0, 0, 0)
    if unreadable:
        os.setresgid(0, 0, 0)
        raise PermissionError(0, f"nobody may not read {unreadable[0]}")
    for path in own:
        os.lchown(path, user, user)
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
