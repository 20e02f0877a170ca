"""Calls of the C library and the kernel that Python has no function for; OSError where one fails.

Numbers: Linux, include/uapi/linux/prctl.h. Of the standard library alone: confined_command.py starts with it.
"""

import contextlib
import ctypes
import functools
import os

PR_SET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 3, 4, 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47


@functools.cache
def _libc() -> ctypes.CDLL:  # which takes longer to open than most calls do
    return ctypes.CDLL(None, use_errno=True)


def call(function: str, *arguments: object) -> int:
    """What the function of that name returns; OSError with errno where that is negative."""
    result: int = getattr(_libc(), function)(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def prctl(option: int, *values: int) -> int:
    return call("prctl", option, *(ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]))


def try_prctl(option: int, value: int) -> None:
    """Where the system has it: what judges goes on without."""
    with contextlib.suppress(OSError, AttributeError):
        prctl(option, value)
