"""Starting worker processes, hearing from them, and ending them with everything that they started."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from forge.console import CONTROL
from forge.judge.channel import ChannelTampered, FrameReader, open_channel, send_command
from forge.judge.fork_server import SUBMISSIONS, Above, ForkServer
from forge.judge.memory import BLOCK_BYTES
from forge.judge.messages import WHERE, Phase, Pid, Setup
from forge.judge.process_tree import descendants, kill_below
from forge.judge.results import Status

TAIL_BYTES = 64 * 1024
CHUNK_BYTES = 1 << 20
SUBMISSION = "submission.py"
MOST_PHASE = 80  # characters
ENDS_IN_S = 0.5  # a fork server whose end has ended what it forked
KILLED_FROM_OUTSIDE = "a process of the judge's own was killed, by whoever sends signals where no submission's come"
STACK_LINE = re.compile(r'  File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<name>.+)')
STACK_STARTS = ("Fatal Python error:", "Current thread ", "Thread 0x")
STACK_ENDS = ("  ...", "  <", '  Binary file "')  # the last of Python 3.14, which dumps C's as well


def free_bytes() -> int:
    """Of the disk that temporary files lie on."""
    with contextlib.suppress(OSError):
        disk = os.statvfs(tempfile.gettempdir())
        return disk.f_bavail * disk.f_frsize
    return 0


def written_bytes(of: int, folder: Path) -> int:
    """What lies below a folder, and in files without a name that the processes below `of` have open, by the disk's
    blocks: what a file's length says nothing of."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_blocks
    nameless = {}
    for pid in descendants(of):
        for path in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                if not (found := path.stat()).st_nlink and found.st_dev == os.stat(folder).st_dev:
                    nameless[found.st_ino] = found.st_blocks
    return BLOCK_BYTES * (total + sum(nameless.values()))


def end_all(workers: Iterable[WorkerProcess], patience_s: float = 5.0, spare: Iterable[WorkerProcess] = ()) -> None:
    """Kills the workers, their process groups and all our descendants, and waits until they are gone.

    All but those to `spare` and what is below them, and the fork servers: one only where a worker is not born yet.
    """
    workers, spare = list(workers), list(spare)
    for worker in workers:
        worker.kill()
    spared = [worker.parent_pid for worker in spare if worker.parent_pid]
    kept = {pid for one in ForkServer.alive if (pid := one.pid()) is not None}
    kept |= {pid for worker in spare for pid in worker.told.above}
    kill_below(os.getpid(), spared, kept, patience_s)
    for worker in workers:
        worker.close()
    with contextlib.suppress(ChildProcessError):  # the orphans that we adopted
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


@dataclass
class Tail:
    """The end of a process's output, however much of it there is."""

    data: bytearray = field(default_factory=bytearray)
    total_bytes: int = 0

    def add(self, data: bytes) -> None:
        self.total_bytes += len(data)
        self.data += data
        if len(self.data) > 2 * TAIL_BYTES:
            del self.data[:-TAIL_BYTES]

    def clear(self) -> None:
        self.data.clear()
        self.total_bytes = 0

    def lines(self) -> list[str]:
        """Printable lines, stack dumps of faulthandler left out."""
        text = CONTROL.sub("", bytes(self.data[-TAIL_BYTES:]).decode("utf-8", "replace").replace("\r", "\n"))
        lines, in_stack = [], False
        for line in text.splitlines():
            if line.startswith((*STACK_STARTS, "Current thread's C stack", "Extension modules:")):
                in_stack = True
            elif in_stack and (STACK_LINE.match(line) or not line.strip() or line.startswith(STACK_ENDS)):
                continue
            else:
                in_stack = False
                if line.strip():
                    lines.append(line.rstrip()[:300])
        return lines

    def last_words(self, count: int = 6) -> list[str]:
        return self.lines()[-count:]

    def stack_place(self, folder: Path) -> str:
        """Where a dumped stack is in the submission, else in the run folder: "submission.py:12, in custom_kernel"."""
        text = bytes(self.data[-TAIL_BYTES:]).decode("utf-8", "replace")
        found = [match for line in text.splitlines() if (match := STACK_LINE.match(line))]
        places = [(path.name, match) for match in found if (path := Path(match["file"])).parent == folder]
        if not places:
            return ""
        name, match = next((place for place in places if place[0] == SUBMISSION), places[0])
        return f"{name}:{match['line']}, in {match['name']}"


@dataclass(frozen=True)
class Event:
    """Something that a worker did: sent a message, or came to an end that none announced."""

    worker: WorkerProcess
    message: Any = None  # one of forge.judge.messages
    end: Status | None = None  # CRASH: it died; TAMPERED: its channel or its parent was meddled with
    text: str = ""  # how it ended


class WorkerProcess:
    """One worker, its channel and its output. Its parent leads a session and process group of the two of them.

    rank: in the case that it runs, None alone; kind: the module whose WORKER it is; events: the messages that it may
    send; memory: of the exchange.
    """

    def __init__(
        self,
        rank: int | None,
        folder: Path,
        fork_server: ForkServer,
        setup: Setup,
        kind: str,
        events: tuple[type, ...],
        memory: list[int],
    ) -> None:
        self.rank, self.folder, self.fork_server = rank, folder, fork_server
        self.submission = kind == SUBMISSIONS
        self.phase = "start"
        self.tail = Tail()
        self.end: Event | None = None
        self._output_closed = False
        self.channel, theirs, key = open_channel()
        self.reader = FrameReader(key, events)
        self.status_fd, status_fd = os.pipe()
        self.output_fd, output_fd = os.pipe()
        fork_server.order(kind, folder, rank is not None, [theirs.fileno(), status_fd, output_fd, *memory])
        theirs.close()
        os.close(status_fd)
        os.close(output_fd)
        os.set_blocking(self.status_fd, False)
        os.set_blocking(self.output_fd, False)
        self._status = b""  # of its parent, what it told at once in a line; then how the worker ended
        self._parent_gone = False
        self.pid: int | None = None  # until it tells
        self.tell(setup)
        self.channel.setblocking(False)

    def tell(self, message: Any) -> None:
        """Sends a command. That a worker no longer listens shows elsewhere: failing here says nothing new."""
        with contextlib.suppress(OSError):
            self.channel.setblocking(True)
            send_command(self.channel, message)
        with contextlib.suppress(OSError):
            self.channel.setblocking(False)

    def descriptors(self) -> list[int | socket.socket]:
        """What to wait on: a pipe that is closed would be ready for ever."""
        return [self.channel] if self._output_closed else [self.channel, self.output_fd]

    def read_output(self) -> bool:
        """Takes what the pipe holds, at most a chunk; False if there was nothing."""
        try:
            data = os.read(self.output_fd, CHUNK_BYTES)
        except OSError:
            return False
        self._output_closed = not data
        self.tail.add(data)
        return bool(data)

    def read_channel(self) -> list[Event]:
        events: list[Event] = []
        try:
            while data := self.channel.recv(CHUNK_BYTES):
                for message in self.reader.feed(data):
                    if isinstance(message, Phase):
                        self.phase = " ".join(CONTROL.sub("", message.phase)[:MOST_PHASE].split())
                    elif isinstance(message, Pid):
                        self.pid = self.pid or message.pid  # told before the submission is there: it gets signals
                    else:
                        events.append(Event(self, message))
            closed = True
        except BlockingIOError:
            closed = False
        except ChannelTampered as error:
            self.end = self._tampered(f"{error} on the result channel")
            return [*events, self.end]
        except OSError:
            closed = True
        if closed and not events and not self._dies_soon():
            self.end = self._tampered("the result channel was closed")
            events.append(self.end)
        return events

    def _dies_soon(self) -> bool:
        """A process that ends closes its descriptors a moment before it can be waited for."""
        return self._has_ended(wait_s=3)  # on a busy machine; only a submission that cheats keeps us waiting

    def _has_ended(self, wait_s: float = 0) -> bool:
        """Whether its parent is gone, which leaves last."""
        deadline = time.monotonic() + wait_s
        while not self._parent_gone:
            with contextlib.suppress(BlockingIOError):
                told = os.read(self.status_fd, 64)
                self._status += told
                self._parent_gone = not told
                continue
            if (left_s := deadline - time.monotonic()) <= 0:
                break
            select.select([self.status_fd], [], [], left_s)
        return self._parent_gone

    @property
    def parent_pid(self) -> int | None:
        """Of the process above it; None before it is there."""
        return self.told.pid

    @property
    def told(self) -> Above:
        """What the process above it told of itself."""
        self._has_ended()
        line, line_end, _ = self._status.partition(b"\n")
        return msgspec.json.decode(line, type=Above) if line_end else Above()

    def _parent_is_killed(self) -> bool:
        pid = self.parent_pid
        if self._has_ended():
            return not self._status.partition(b"\n")[2]
        with contextlib.suppress(OSError):  # not Linux
            pending = [
                line.split()[1]
                for line in Path(f"/proc/{pid}/status").read_text().splitlines()
                if line.startswith(("SigPnd:", "ShdPnd:"))
            ]
            return any(int(mask, 16) >> (signal.SIGKILL - 1) & 1 for mask in pending)
        return False

    def kill(self) -> None:
        if (pid := self.parent_pid) is None:
            self.fork_server.close()  # otherwise the worker could start after we have stopped watching
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)

    def poll(self) -> list[Event]:
        """What has happened since the last call; once it has ended, its end, at every call.

        What a worker sent before it died comes before its end.
        """
        if self.end is not None:
            return [self.end]
        self.read_output()
        events = self.read_channel()
        if events and self._parent_is_killed():  # before the message was sent, though it may take its time to die
            self._has_ended(wait_s=3)
            self.end = self._how_it_ended()
            return [self.end]
        # Asked after reading: a worker may have sent its last message and died in between.
        if self.end is None and not events and self._has_ended():
            while self.read_output():
                pass
            events = self.read_channel()
            if self.end is None and not events:
                self.end = self._how_it_ended()
                events = [self.end]
        return events

    def _how_it_ended(self) -> Event:
        if self.reader.incomplete:
            return self._tampered("bytes that make no frame")
        _, _, code = self._status.partition(b"\n")
        if code:
            return Event(self, end=Status.CRASH, text=describe_exit(int(code)))
        server, born = self.fork_server, self.parent_pid is not None
        outside = server.ends_from_outside(ENDS_IN_S)
        # A submission is below what it could signal, or is not there yet.
        if server.signals_stay and (outside or not self.submission) or outside and self._not_the_submission(born):
            return Event(self, end=Status.NOT_RUN, text=f"not judged: {KILLED_FROM_OUTSIDE}")
        if not born and (its_end := server.exit_code()) is not None:
            return Event(self, end=Status.CRASH, text=describe_exit(its_end))
        return self._tampered("its parent process was killed")

    def _not_the_submission(self, born: bool) -> bool:
        """Whether nothing of it can have sent a signal to the fork server: none leaves its confinement, or it is not
        born, and has no other ranks."""
        return self.submission and (self.told.signals_stay if born else self.rank is None)

    def _tampered(self, text: str) -> Event:
        return Event(self, end=Status.TAMPERED, text=f"the submission meddled with the evaluator: {text}")

    def ask_for_stack(self) -> None:
        """Makes the worker print where it is, and end: faulthandler answers an abort."""
        with contextlib.suppress(ProcessLookupError):
            if self.pid is not None:
                os.kill(self.pid, signal.SIGABRT)

    def stacks(self) -> list[list[str]]:
        return [] if self.pid is None else stacks_of(self.pid, self.tail, self.read_output)

    def read_stack(self, wait_s: float = 2.0) -> str:
        """After `ask_for_stack`: the place in the run folder, "" if there is no answer in time."""
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline and not self._has_ended():
            if not self.read_output():
                time.sleep(0.02)
        while self.read_output():
            pass
        return self.tail.stack_place(self.folder)

    def close(self) -> None:
        self._has_ended(wait_s=1)
        while self.read_output():
            pass
        self.channel.close()
        os.close(self.status_fd)
        os.close(self.output_fd)


def stacks_of(pid: int, tail: Tail, read_output: Callable[[], object], wait_s: float = 2.0) -> list[list[str]]:
    """The files in which a process's threads are just now, of each the innermost first; [] if it does not say.

    read_output: into `tail`, false where there is nothing."""
    before, deadline = tail.total_bytes, time.monotonic() + wait_s
    with contextlib.suppress(OSError):
        caught = re.search(r"^SigCgt:\s(.*)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        if caught is None or not int(caught[1], 16) >> (WHERE - 1) & 1:
            return []  # it would end it
        os.kill(pid, WHERE)
    while time.monotonic() < deadline and not read_output():
        time.sleep(0.02)
    time.sleep(0.1)  # it is written at once, in some pieces
    while read_output():
        pass
    text = bytes(tail.data[max(0, len(tail.data) - tail.total_bytes + before) :]).decode("utf-8", "replace")
    stacks: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith(STACK_STARTS):
            stacks.append([])
        elif stacks and (match := STACK_LINE.match(line)):
            stacks[-1].append(match["file"])
    return [stack for stack in stacks if stack]


def describe_exit(code: int) -> str:
    """A return code as subprocess gives it."""
    if code >= 0:
        return f"the process ended itself with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    what = {"SIGSEGV": "segmentation fault", "SIGABRT": "abort", "SIGBUS": "bus error", "SIGFPE": "arithmetic error"}
    meaning = what.get(name, "killed, as by the system when memory runs out" if name == "SIGKILL" else "")
    return f"the process died of {name}" + (f" ({meaning})" if meaning else "")


def wait_for_events(workers: list[WorkerProcess], timeout_s: float) -> list[Event]:
    """Waits until a worker writes something, or the time is up, and collects what happened."""
    readers: list[int | socket.socket] = []
    for worker in workers:
        if worker.end is None:
            readers += worker.descriptors()
    with contextlib.suppress(OSError, ValueError):
        select.select(readers, [], [], timeout_s)
    return [event for worker in workers for event in worker.poll()]


def free_port() -> int:
    """A TCP port that nobody listens on. Somebody may before we do: whoever uses it tries again then."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
