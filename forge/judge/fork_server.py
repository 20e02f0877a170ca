"""Where workers come from: a process that has imported torch for the device, and forks a worker whenever one is wanted.

Importing torch takes seconds of a core: so eight ranks take them once, and a worker that replaces a lost one starts at
once. No code of a submission or of a problem ever runs in this process. On a real GPU it imports nothing: a process
that has called a driver must not fork.
"""

from __future__ import annotations

import array
import contextlib
import dataclasses
import gc
import importlib.util
import multiprocessing.process
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import msgspec
from msgspec import Struct

from forge.judge.confinement import NEW_ROOT, OURS, Bounds, Confinement, confine, confined_calls
from forge.judge.frozen import WITHIN_TORCH, import_ahead
from forge.judge.libc import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, try_prctl
from forge.judge.process_tree import children, end_children, kill_below, look_from_here, machines_pid
from forge.task.problem import ROOT

ORDER_BYTES, MOST_DESCRIPTORS = 1 << 16, 250
SUBMISSIONS = "forge.judge.worker"  # the kind of worker that they run in
REPLAYS = "forge.judge.replay"  # that of who makes their outputs anew, with their kernels
OF_A_RUN = ("TMPDIR", "TORCH_EXTENSIONS_DIR")  # variables that differ from run to run, and are not read on import
SENT = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
MOST_SERVERS = 3  # that wait for a run of their kind; each takes some hundred megabytes
# What workers and referees import, and nearly all submissions' first calls.
SOON = [f"forge.judge.{name}" for name in "referee exchange measure ranks compare integrity operations".split()]
SOON += ["numpy.random", "forge.device.fake_rocm.work", *WITHIN_TORCH]

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


class Order(Struct):
    """Of a worker: the WORKER of that module in that folder, on a device as forge.device.resolve takes it."""

    device: str
    arch: str
    worker: str
    folder: str
    is_rank: bool
    bounds: Bounds | None  # of a submission that is confined
    environment: dict[str, str]  # OF_A_RUN
    ahead: bool  # more runs will come, of Triton's kernels among them

    def enter_run(self) -> None:
        """Has this process, which was forked for that, see its run's folders."""
        os.environ.update(self.environment)
        tempfile.tempdir = None  # known before


class Above(Struct):
    """What the process above a worker tells of itself."""

    pid: int | None = None
    above: list[int] = []  # that of its own parent
    missing: list[str] = []  # what its confinement lacks
    signals_stay: bool = False  # no signal of what runs below it reaches a process outside


class ForkServer:
    """The evaluator's end. `environment`: of the workers; `device`, `arch`: as forge.device.resolve takes them; bounds:
    of submissions, None where they are trusted."""

    alive: ClassVar[set[ForkServer]] = set()
    ahead = False
    signals_stay = False  # of the submissions that it was told to fork, as each tells once it is there

    def __init__(self, environment: dict[str, str], device: str, arch: str, bounds: Bounds | None = None) -> None:
        self.environment, self.device, self.arch, self.bounds = environment, device, arch, bounds
        self.process: subprocess.Popen[bytes] | None = None

    def order(self, worker: str, folder: Path, is_rank: bool, descriptors: list[int]) -> None:
        """Has a worker forked, the WORKER of that module, in that folder, with these descriptors: its channel, where
        the process above it tells its pid and how the worker ended, where both print, and the exchange's memory.
        is_rank: others will be, too, and do the same."""
        if self.process is None or self.process.poll() is not None:
            self._start()
        bounds = self.bounds if worker in (SUBMISSIONS, REPLAYS) else None
        self.signals_stay = self.signals_stay and worker != SUBMISSIONS
        of_run = {name: self.environment[name] for name in OF_A_RUN if name in self.environment}
        order = Order(self.device, self.arch, worker, str(folder), is_rank, bounds, of_run, self.ahead)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        with contextlib.suppress(OSError):  # it has just died: its worker's status pipe says so
            self._line.sendmsg([msgspec.json.encode(order)], rights)

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

    def ends_from_outside(self, wait_s: float = 0.0) -> bool:
        """Whether somebody has ended it by a signal: it sends itself none, and its faults have others."""
        deadline = time.monotonic() + wait_s  # what it forked dies a moment before it can be waited for
        while (code := self.exit_code()) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return code is not None and -code in SENT

    def close(self) -> None:
        """Ends it, and its workers with it; and what a submission left, which is ours then."""
        if self.process is not None:
            before = children()
            self.process.kill()
            self.process.wait()
            self._line.close()
            self.process = None
            self.alive.discard(self)
            end_children(before)


class ForkServers:
    """Those that wait for the next run of their kind, each with all in memory that such runs import. Nothing of a run
    is ever in them: what it is told of a run, it tells what it forks."""

    def __init__(self) -> None:
        self.servers: dict[tuple[str, ...], ForkServer] = {}  # that used last at the end

    def of(self, environment: Mapping[str, str], device: str, arch: str, bounds: Bounds) -> ForkServer:
        """For one run."""
        lasting = (f"{name}={value}" for name, value in environment.items() if name not in OF_A_RUN)
        key = (device, arch, *sorted(lasting))
        server = self.servers.pop(key, None) or ForkServer({}, device, arch)
        server.environment, server.bounds, server.ahead = dict(environment), bounds, True
        while len(self.servers) >= MOST_SERVERS:
            self.servers.pop(next(iter(self.servers))).close()
        self.servers[key] = server
        return server

    def close(self) -> None:
        for server in self.servers.values():
            server.close()


def serve(fd: int, root: str) -> None:
    """The fork server's own life."""
    os.umask(0o022)  # whoever runs a submission reads what is built here
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try_prctl(PR_SET_DUMPABLE, 0)  # nor may a submission look into what is forked here to judge it
    try_prctl(PR_SET_CHILD_SUBREAPER, 1)
    line = socket.socket(fileno=fd)
    line.set_inheritable(False)
    warm, broken, folder = False, None, None
    rooms: dict[str, Room] = {}  # by the kind of what is confined in them
    asking: dict[socket.socket, tuple[Order, Bounds]] = {}  # the lines of workers for which nothing is built yet
    while True:
        ready, _, _ = select.select([line, *asking], [], [])
        for one in ready:
            if one in asking:
                _fork_builder(one, *asking.pop(one), [line, *asking, *(room.line for room in rooms.values())], root)
        if line not in ready:
            continue
        data, descriptors, _, _ = socket.recv_fds(line, ORDER_BYTES, MOST_DESCRIPTORS)
        if not data:  # the evaluator is gone, and has left the clearing to us
            _clear(folder)
            os._exit(0)
        order = msgspec.json.decode(data, type=Order)
        folder = Path(order.folder)
        if not warm:
            warm, broken = True, _warm_up(order, descriptors[2])
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody here waits for those that it forks
        if order.bounds is not None:
            room = rooms.get(order.worker)
            if room is not None and room.folder != folder:
                rooms.pop(order.worker).line.close()
                room = None
            others = [line, *asking, *(one.line for one in rooms.values() if one is not room)]
            if room is None:
                not_here = [*map(socket.socket.fileno, others), *descriptors]
                room = rooms[order.worker] = Room(order, order.bounds, not_here, root, broken)
            asks, answers = socket.socketpair()
            asking[answers] = order, order.bounds
            room.enter(data, [asks.fileno(), *descriptors])
            asks.close()
        else:
            _fork_worker(order, descriptors, line, root, broken)
        for descriptor in descriptors:
            os.close(descriptor)


def _fork_worker(
    order: Order,
    descriptors: list[int],
    line: socket.socket,
    root: str,
    broken: BaseException | None,
    room: Room | None = None,
) -> None:
    from forge.judge.worker import supervise_worker

    if os.fork() == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        line.close()
        os.setsid()
        builder = descriptors.pop(0) if order.bounds else None
        channel, status, output, *memory = descriptors
        _print_to(output)
        os.close(output)
        os.chdir(order.folder)
        # What "" of sys.path is in processes that it spawns.
        multiprocessing.process.ORIGINAL_DIR = order.folder  # type: ignore[attr-defined]
        if room is None:
            order.enter_run()
        above = Above(machines_pid(), *((room.pids, room.missing, room.signals_stay) if room else ()))
        told, apart = (status, msgspec.json.encode(above)), room is not None and order.is_rank
        supervise_worker(channel, told, root, broken, order.worker, memory, builder, apart)


def _fork_builder(line: socket.socket, order: Order, bounds: Bounds, not_here: list[socket.socket], root: str) -> None:
    """Has a process serve a worker's line that has asked for something, if it has not ended. It builds into the cache,
    reads of the run what the worker can, and has no submission in it: what it is asked for it takes for text."""
    from forge.device import resolve
    from forge.judge.worker import die_with_parent

    if line.recv(1, socket.MSG_PEEK) and os.fork() == 0:
        try:
            for other in not_here:
                other.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # or every compiler's exit status reads as 0
            die_with_parent()
            os.setsid()
            order.enter_run()
            run = os.path.dirname(order.folder)
            own = os.environ["TMPDIR"] = os.path.join(run, OURS)
            shown = [order.folder, *bounds.writable]
            its_bounds = dataclasses.replace(bounds, writable=[bounds.kept], readable=shown)
            confine(root, own, its_bounds, is_rank=False, builds=True)
            calling = confined_calls(root, bounds)
            resolve(order.device, order.arch).build_for(line.detach(), run, calling)
        finally:
            os._exit(0)
    line.close()


class Room:
    """The process that a run folder's submissions are forked in: confined once, for all ranks, before the first.

    Ranks share its processes, files and loopback; none looks into another: each is set apart once it is forked.
    """

    def __init__(
        self, order: Order, bounds: Bounds, not_here: list[int], root: str, broken: BaseException | None
    ) -> None:
        """not_here: descriptors that are not for this process."""
        self.folder, self.bounds = Path(order.folder), bounds
        self.line, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            try:
                for descriptor in [self.line.fileno(), *not_here]:
                    os.close(descriptor)
                self._live(order, inside, root, broken)
            finally:
                os._exit(1)
        inside.close()

    def _live(self, order: Order, line: socket.socket, root: str, broken: BaseException | None) -> None:
        from forge.judge.worker import die_with_parent

        die_with_parent()
        os.setsid()
        order.enter_run()
        os.environ.update(self.bounds.environment)
        look_from_here()
        self.pids = [os.getpid()]
        confinement = Confinement(root, order.folder, self.bounds, order.is_rank)
        confinement.separate(os.path.join(os.path.dirname(order.folder), NEW_ROOT))
        if confinement.alone:
            if os.fork():  # what comes next is the first process of its namespace
                line.close()
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(-1, 0)
                os._exit(0)
            self.pids.append(machines_pid())
            die_with_parent()
        confinement.enter()
        die_with_parent()  # forgotten where it became another user's
        self.missing, self.signals_stay = confinement.missing, confinement.signals_stay
        while True:
            data, descriptors, _, _ = socket.recv_fds(line, ORDER_BYTES, MOST_DESCRIPTORS)
            if not data:
                return
            _fork_worker(msgspec.json.decode(data, type=Order), descriptors, line, root, broken, self)
            for descriptor in descriptors:
                os.close(descriptor)

    def enter(self, data: bytes, descriptors: list[int]) -> None:
        """Has a worker forked in here. That the room is gone shows as the worker's end."""
        with contextlib.suppress(OSError):
            socket.send_fds(self.line, [data], descriptors)


def _clear(folder: Path | None) -> None:
    """Ends all that was forked here, which nobody watches any more, and removes the run's folder."""
    kill_below(os.getpid())
    if folder is not None:
        from forge.judge.workspace import remove_run

        remove_run(folder.parent)


def _warm_up(order: Order, output: int) -> BaseException | None:
    """Imports what workers need. What goes wrong is for the workers to tell; what is printed, for the first of them."""
    from forge.device import resolve

    _print_to(output)
    gc.disable()  # importing makes no garbage, and looking for it takes a quarter of the time
    try:
        device = resolve(order.device, order.arch)
        if device.emulated:
            device.prepare()
            device.prepare_builds()
            import torch  # noqa: F401

            device.fingerprint()  # reads all that a modelled time depends on: once for those that are forked
            if order.ahead or order.is_rank:
                import_ahead(SOON)
            if order.is_rank or order.ahead and importlib.util.find_spec("triton"):
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
