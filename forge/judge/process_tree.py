"""The processes below one of ours: which they are, and ending them."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from forge.judge.libc import PR_SET_CHILD_SUBREAPER, try_prctl

LOOK_AGAIN_S = 0.2  # after killing, for processes that were started meanwhile
_proc: int | None = None  # /proc of the namespace of processes that the evaluator is in


def look_from_here() -> None:
    """Has `machines_pid` say what this process's namespace calls a process, in those that it starts elsewhere too."""
    global _proc
    _proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def machines_pid() -> int:
    return os.getpid() if _proc is None else int(os.readlink("self", dir_fd=_proc))


def forget_it() -> None:
    """Before a submission is there, which could look through it."""
    global _proc
    if _proc is not None:
        os.close(_proc)
        _proc = None


def adopt_orphans() -> None:
    """From now on a process whose parent died becomes our child, so that none can hide from `end_all`."""
    try_prctl(PR_SET_CHILD_SUBREAPER, 1)  # else process groups must do


def descendants(of: int, without: Iterable[int] = ()) -> list[int]:
    """Every process below `of`, from /proc; zombies left out, and those below and at `without`."""
    left_out = set(without)
    children: dict[int, list[int]] = {}
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:
            # pid (name, which may hold spaces and brackets) state ppid ...
            state, parent = stat.read().rpartition(b")")[2].split(maxsplit=2)[:2]
            if state != b"Z":
                children.setdefault(int(parent), []).append(int(pid))
    found, queue = [], [of]
    while queue:
        below = [pid for pid in children.get(queue.pop(), []) if pid not in left_out]
        found += below
        queue += below
    return found


def kill_below(of: int, spared: Iterable[int] = (), kept: Iterable[int] = (), patience_s: float = 5.0) -> None:
    """Kills every process below `of`, but those to `spared` with all below them, and `kept`, and waits for the end."""
    kept, started = set(kept), time.monotonic()
    while left := [pid for pid in descendants(of, without=spared) if pid not in kept]:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if (left_s := started + patience_s - time.monotonic()) <= 0:
            break
        wait_for_ends(left, min(left_s, LOOK_AGAIN_S))


def is_hidden(pid: int) -> bool:
    """Whether /proc does not show it, as with hidepid: an ordinary user's that may not be traced."""
    return not os.path.exists(f"/proc/{pid}")


def children() -> set[int]:
    """Ours, those too that /proc hides from us; none where a kernel lists nobody's."""
    found: set[int] = set()
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            found |= set(map(int, Path(f"/proc/self/task/{thread}/children").read_text().split()))
    return found


def end_children(kept: Iterable[int], patience_s: float = 5.0) -> None:
    """Kills our children but those kept, and what we adopt by that, and waits for the end."""
    kept, started = set(kept), time.monotonic()
    while (left := children() - kept) and time.monotonic() < started + patience_s:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def wait_for_ends(pids: Iterable[int], most_s: float) -> None:
    """Until these processes have ended, or the time is up."""
    deadline, ends = time.monotonic() + most_s, select.poll()
    descriptors = set()
    try:
        for pid in pids:
            with contextlib.suppress(OSError, AttributeError):  # it has ended; not Linux
                descriptors.add(descriptor := os.pidfd_open(pid))
                ends.register(descriptor, select.POLLIN)
        waiting = set(descriptors)
        while waiting and (left_s := deadline - time.monotonic()) > 0:
            for descriptor, _ in ends.poll(left_s * 1e3):
                ends.unregister(descriptor)
                waiting.remove(descriptor)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    if not descriptors:
        time.sleep(0.001)
