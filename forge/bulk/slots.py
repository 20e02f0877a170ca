"""Who judges, as the process that asks sees it: a process of this machine (forge/bulk/slot.py), or a thread of a Dask
cluster's worker."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import IO, Any

import msgspec

from forge.bulk import slot
from forge.bulk.verdict import MachineError, Verdict, refused
from forge.cluster import LOOK_S, SCHEDULER_GONE, Cluster, ClusterError, Presence, gave_up
from forge.commands.jsonfile import evaluator_digest
from forge.console import CONTROL
from forge.device.emulated import model
from forge.judge.processes import describe_exit
from forge.task.problem import ROOT, own_entries

# Started as `python -P -c BOOT <repository root> <connection>`: neither the folder that it is started in nor what lies
# there is on its path.
BOOT = """
import sys
sys.path.insert(0, sys.argv[1])
fd = int(sys.argv[2])
sys.argv[:] = ["eval.py"]
from forge.bulk.slot import serve
serve(fd)
"""
ENDS_IN_S = 15.0  # a process that was asked to
LAST_BYTES, LAST_LINES = 4096, 3


class Slot:
    """A process, as this one sees it. It is started with its first submission."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.connection: Connection | None = None
        self.order: slot.Order | None = None  # that it is at
        self.tried = 0  # how often that was lost before
        self.doing = ""
        self.heard_s = 0.0
        self.words: IO[bytes] | None = None  # what it printed

    def start(self) -> None:
        self.close()
        ours, theirs = socket.socketpair()
        self.words = self.words or tempfile.TemporaryFile()
        self.connection = Connection(ours.detach())
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", BOOT, str(ROOT), str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=self.words,
            stderr=self.words,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,  # Ctrl-C is for this process, which tells them
        )
        theirs.close()

    def give(self, order: slot.Order, tried: int) -> None:
        self.order, self.tried, self.doing, self.heard_s = order, tried, "starting", time.monotonic()
        if self.words is not None:  # before it starts: what it says of its end is not to be lost
            self.words.truncate(0)
            self.words.seek(0)  # where it goes on as well: they share the place
        if self.process is None or self.process.poll() is not None:
            self.start()
        assert self.connection is not None
        try:
            self.connection.send_bytes(msgspec.msgpack.encode(order))
        except OSError:
            pass  # it has just ended: `hear` says so

    def hear(self) -> Verdict | None:
        """What it says, after `wait` has found that it does. EOFError where it is lost."""
        assert self.connection is not None
        try:
            told = slot.told_decoder.decode(self.connection.recv_bytes())
        except (OSError, EOFError):
            raise EOFError from None
        self.heard_s = time.monotonic()
        if isinstance(told, slot.Progress):
            self.doing = told.text
            return None
        self.order = None
        return told.verdict

    def last_words(self) -> str:
        """Of a process that is lost: how it ended, and what it printed last."""
        assert self.process is not None and self.words is not None
        try:
            ended = describe_exit(self.process.wait(ENDS_IN_S))
        except subprocess.TimeoutExpired:
            ended = "the process closed its connection"
        self.words.seek(max(0, self.words.seek(0, os.SEEK_END) - LAST_BYTES))
        said = CONTROL.sub("", self.words.read().decode(errors="replace"))
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        return ": ".join([ended, *filter(None, [" | ".join(lines[-LAST_LINES:])])])

    def ask_to_end(self) -> None:
        """Its own clearing up takes a moment: `close` waits for it."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()

    def close(self) -> None:
        self.ask_to_end()
        if self.process is not None:
            try:
                self.process.wait(ENDS_IN_S)
            except subprocess.TimeoutExpired:
                self.process.kill()  # its fork server sees that, and clears
                self.process.wait()
            self.process = None


@functools.cache
def versions() -> dict[str, str]:
    """Of what verdicts depend on: a cluster's are those of this machine only where they are the same."""
    return {"forge": evaluator_digest()[:12], "cdna": model(), "torch": importlib.metadata.version("torch")}


class RemoteSlot(Slot):
    """One submission at a time on the cluster; whoever waits on `connection` hears that it has ended."""

    def __init__(self, where: Cluster, function: Callable[[bytes, dict[str, str]], bytes]) -> None:
        super().__init__()
        self.where, self.function = where, function
        self.future: Any = None

    def give(self, order: slot.Order, tried: int) -> None:
        self.order, self.tried, self.doing = order, tried, "on the cluster"
        self.close()
        ours, theirs = socket.socketpair()
        self.connection = Connection(ours.detach())
        request = msgspec.structs.replace(order.request, problem=_found_anywhere(order.request.problem))
        baseline = msgspec.structs.replace(order.baseline, name=_found_anywhere(order.baseline.name))
        sent = msgspec.structs.replace(order, request=request, baseline=baseline)
        self.future = self.where.client.submit(self.function, msgspec.msgpack.encode(sent), versions(), pure=False)
        self.future.add_done_callback(lambda _: theirs.close())

    def hear(self) -> Verdict | None:
        """ClusterError where there is no cluster any more."""
        from distributed import KilledWorker

        order, told = self.order, self.future.exception() if self.future.status == "error" else None
        assert order is not None
        if told is None:
            try:
                verdict = msgspec.msgpack.decode(self.future.result(), type=Verdict)
            except Exception:  # many kinds: it was cancelled, or what it left went away with its worker
                raise ClusterError(SCHEDULER_GONE) from None
            self.order = None
            return msgspec.structs.replace(verdict, key=order.key)
        if isinstance(told, KilledWorker):
            told = MachineError("the Dask workers that judged it were lost, one after the other")
        elif not isinstance(told, MachineError):  # a worker's own, as where this package is not there
            told = MachineError(f"a Dask worker: {type(told).__name__}: {told}")
        self.order = None
        return refused(order.request, told, order.key)

    def ask_to_end(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        if self.future is not None:
            with contextlib.suppress(Exception):  # nobody is there to be told
                self.future.cancel()
            self.future = None


def _found_anywhere(name: str) -> str:
    """A folder or a file by its whole path, which a worker must have as well."""
    known = {word for entry in own_entries() for word in (entry.name, entry.stem)}
    return name if name in known or not os.path.exists(name) else os.path.abspath(name)


class Remote:
    """The slots of a cluster, as many as its workers have threads, and whether any worker is there."""

    def __init__(self, where: Cluster, most: int | None, function: Callable[[bytes, dict[str, str]], bytes]) -> None:
        self.where, self.most, self.function = where, most, function
        self.presence = Presence(where, functools.partial(print, file=sys.stderr, flush=True))
        self.looked_s = 0.0

    def look(self, slots: list[Slot]) -> str:
        """Adds slots for workers that have come; says so where none is there for too long."""
        if slots and time.monotonic() < self.looked_s + LOOK_S:
            return ""
        self.looked_s = time.monotonic()
        if not self.presence.look():
            return gave_up()
        wanted = max(1, min(self.where.workers(), self.most or sys.maxsize))
        slots += [RemoteSlot(self.where, self.function) for _ in range(wanted - len(slots))]
        return ""
