"""Landlock: which files a process may touch from now on, it and all that it starts (Linux 5.13 and later).

Numbers and layouts: Linux, include/uapi/linux/landlock.h.
"""

import contextlib
import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from forge.judge.libc import call

CREATE, ADD_RULE, RESTRICT = 444, 445, 446  # system calls, the same on all machines
CREATE_VERSION, PATH_BENEATH = 1, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, MAKE_BLOCK = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 11
OF_FIRST = (1 << 13) - 1  # all that the first version knows: removing and making files of each kind as well
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15  # known from these versions on:
SINCE = {REFER: 2, TRUNCATE: 3, IOCTL_DEV: 5}
SCOPED, SCOPED_SINCE = 0b11, 6  # no abstract socket and no signal reaches what runs outside
READING = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # what a rule for a single file may say


def version() -> int:
    """Of the kernel's Landlock. OSError where it has none, or has it switched off."""
    return call("syscall", CREATE, None, ctypes.c_size_t(0), CREATE_VERSION)


def there() -> bool:
    with contextlib.suppress(OSError):
        return version() > 0
    return False


def restrict(readable: Iterable[str], writable: Iterable[str], devices: Iterable[str]) -> int:
    """Lets this process read and execute what lies below these places, do all to what lies below those, use these
    devices, and no more; places that there are not are left out. Returns the kernel's version. Needs no_new_privs."""
    there = version()
    handled = OF_FIRST | sum(right for right, since in SINCE.items() if there >= since)
    attributes = struct.pack("=QQQ", handled, 0, SCOPED if there >= SCOPED_SINCE else 0)
    size = 24 if there >= SCOPED_SINCE else 8
    ruleset = call("syscall", CREATE, attributes, ctypes.c_size_t(size), 0)
    try:
        for places, rights in (
            (readable, READING),
            (writable, handled & ~IOCTL_DEV),
            (devices, READ_FILE | WRITE_FILE | IOCTL_DEV),
        ):
            for place in places:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                    _allow(ruleset, place, rights & handled)
        call("syscall", RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)
    return there


def set_apart() -> None:
    """Has no other process that is confined already look into this one and what it starts; all else stays as it is.
    Needs no_new_privs. OSError where the kernel has no Landlock."""
    handled = MAKE_BLOCK | (REFER if version() >= SINCE[REFER] else 0)  # which is refused where it is not named
    ruleset = call("syscall", CREATE, struct.pack("=Q", handled), ctypes.c_size_t(8), 0)
    try:
        _allow(ruleset, "/", handled)
        call("syscall", RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, place: str, rights: int) -> None:
    descriptor = os.open(place, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= OF_FILES
        call("syscall", ADD_RULE, ruleset, PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)
