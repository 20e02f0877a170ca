"""Where workers come from: a process that has imported torch for the device, and forks a worker whenever one is wanted.

Importing torch takes seconds of a core: so eight ranks take them once, and a worker that replaces a lost one starts at
once. No code of a submission or of a problem ever runs in this process. On a real GPU it imports nothing: a process
that has called a driver must not fork.
"""

from __future__ import annotations

import array
import contextlib
import gc
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

from forge.judge.process_tree import PR_SET_CHILD_SUBREAPER, kill_below
from forge.task.problem import ROOT

ORDER_BYTES, MOST_DESCRIPTORS = 1 << 16, 250

# Started as `python -c BOOT <repository root> <socket>`. The root leaves sys.path again in the worker, or a submission
# could import kernels/, which the leaderboard does not have.
BOOT = """
import sys
root, fd = sys.argv[1], int(sys.argv[2])
sys.argv[:] = ["eval.py"]
sys.path.insert(0, root)
from forge.judge.fork_server import serve
serve(fd, root)
"""


class ForkServer:
    """The evaluator's end. `environment`: of the workers; `device`, `arch`: as forge.device.resolve takes them."""

    alive: ClassVar[set[ForkServer]] = set()

    def __init__(self, environment: dict[str, str], device: str, arch: str) -> None:
        self.environment = environment
        self.request = {"device": device, "arch": arch}
        self.process: subprocess.Popen[bytes] | None = None

    def order(self, worker: str, folder: Path, is_rank: bool, descriptors: list[int]) -> None:
        """Has a worker forked, the WORKER of that module, in that folder, with these descriptors: its channel, where
        the process above it tells its pid and how the worker ended, where both print, and the exchange's memory.
        is_rank: others will be, too, and do the same."""
        if self.process is None or self.process.poll() is not None:
            self._start()
        order = {**self.request, "worker": worker, "folder": str(folder), "is_rank": is_rank}
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        with contextlib.suppress(OSError):  # it has just died: its worker's status pipe says so
            self._line.sendmsg([json.dumps(order).encode()], rights)

    def _start(self) -> None:
        self.close()
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = self._spawn(theirs.fileno())
        theirs.close()
        self.alive.add(self)

    def _spawn(self, fd: int) -> subprocess.Popen[bytes]:
        """Its process, with its end of the line."""
        return subprocess.Popen(
            [sys.executable, "-u", "-c", BOOT, str(ROOT), str(fd)],
            cwd="/",  # Python looks for modules there, and later in the worker's folder
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(fd,),
            start_new_session=True,
        )

    def pid(self) -> int | None:
        return None if self.process is None else self.process.pid

    def exit_code(self) -> int | None:
        """None while it lives, or before it was started."""
        return None if self.process is None else self.process.poll()

    def close(self) -> None:
        """Ends it, and its workers with it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self._line.close()
            self.process = None
            self.alive.discard(self)


def serve(fd: int, root: str) -> None:
    """The fork server's own life."""
    from forge.judge.worker import PR_SET_DUMPABLE, prctl, supervise_worker

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    prctl(PR_SET_DUMPABLE, 0)  # nor may a submission look into what is forked here to judge it
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    line = socket.socket(fileno=fd)
    line.set_inheritable(False)
    warm, broken, folder = False, None, None
    while True:
        data, descriptors, _, _ = socket.recv_fds(line, ORDER_BYTES, MOST_DESCRIPTORS)
        if not data:  # the evaluator is gone, and has left the clearing to us
            _clear(folder)
            os._exit(0)
        order: dict[str, Any] = json.loads(data)
        folder = Path(order["folder"])
        if not warm:
            warm, broken = True, _warm_up(order, descriptors[2])
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody here waits for those that it forks
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            line.close()
            os.setsid()
            channel, status, output, *memory = descriptors
            _print_to(output)
            os.close(output)
            os.chdir(order["folder"])
            supervise_worker(channel, status, root, broken, order["worker"], memory)
        for descriptor in descriptors:
            os.close(descriptor)


def _clear(folder: Path | None) -> None:
    """Ends all that was forked here, which nobody watches any more, and removes the run's folder."""
    kill_below(os.getpid())
    if folder is not None:
        from forge.judge.workspace import remove_tree

        remove_tree(folder.parent)


def _warm_up(order: dict[str, Any], output: int) -> BaseException | None:
    """Imports what workers need. What goes wrong is for the workers to tell; what is printed, for the first of them."""
    from forge.device import resolve

    _print_to(output)
    gc.disable()  # importing makes no garbage, and looking for it takes a quarter of the time
    try:
        device = resolve(order["device"], order["arch"])
        if device.emulated:
            device.prepare()
            import torch  # noqa: F401

            if order["is_rank"]:
                import triton  # noqa: F401 - which is prepared then, by fake_rocm.launch

                from forge.device.fake_rocm.launch import share_among_forks

                share_among_forks()
    except BaseException as error:
        return error
    finally:
        gc.freeze()  # a worker that looks for garbage would write to all of it, and so copy it
        gc.enable()
        nothing = os.open(os.devnull, os.O_WRONLY)
        _print_to(nothing)
        os.close(nothing)
    return None


def _print_to(descriptor: int) -> None:
    for standard in (1, 2):
        os.dup2(descriptor, standard)
