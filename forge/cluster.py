"""A Dask cluster to run on: somebody's running one, or a local one for this command.

A worker that is lost takes no result with it: what has ended is with whoever asked, and Dask gives what it was at to
another worker. Where no worker is left, that is said, and the wait ends when none comes.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

AGAIN = "call again to go on"
SCHEDULER_GONE = f"the Dask scheduler went away: {AGAIN}"
J = TypeVar("J")
R = TypeVar("R")

CONNECT_S = 5
LOOK_S = 2.0  # between looks at whether a worker is there; it is said at the second that finds none
ALONE_S = 600.0  # without a worker, until the command ends
LOST_WORKERS = 2  # of one job, on a cluster of our own, before it is given up


class ClusterError(Exception):
    """No cluster to run on. One line."""


def local_workers(emulated: bool) -> int:
    """A GPU times one trial at a time; the emulated device's run side by side, one a core."""
    return len(os.sched_getaffinity(0)) if emulated else 1


@contextlib.contextmanager
def cluster(address: str | None, workers: int) -> Iterator[Cluster]:
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise ClusterError("a cluster needs Dask: pip install distributed") from None
    dask.config.set({"distributed.scheduler.allowed-failures": LOST_WORKERS - 1})
    for name in ("distributed", "distributed.client"):  # Dask's own settings set the second's
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what is lost is told of each job
    own: Any = None
    try:
        if address is None:
            before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # workers inherit it: Ctrl-C is this process's
            try:
                own = LocalCluster(workers, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL)
            finally:
                signal.signal(signal.SIGINT, before)
        client = Client(own or address, timeout=CONNECT_S)
    except (OSError, TimeoutError, ValueError) as error:
        what = " ".join(str(error).split())[:100] or type(error).__name__
        raise ClusterError(f"--scheduler {address}: no Dask scheduler there within {CONNECT_S} s: {what}") from None
    try:
        if address is not None and not client.scheduler_info()["workers"]:
            raise ClusterError(f"--scheduler {address}: a scheduler without workers: start some with dask worker")
        yield Cluster(client)
    finally:
        with contextlib.suppress(Exception):
            client.close(timeout=5)
        if own is not None:
            with contextlib.suppress(Exception):
                own.close(timeout=10)


class Cluster:
    def __init__(self, client: Any) -> None:
        self.client = client

    def workers(self) -> int:
        return sum(worker["nthreads"] for worker in self.client.scheduler_info(n_workers=-1)["workers"].values())

    def results(self, function: Callable[[J], R], jobs: Sequence[J], end: float | None) -> Iterator[tuple[J, R | None]]:
        """None for one that takes workers down; what has not ended by `end` (of time.monotonic()) is given up."""
        from distributed import CancelledError, KilledWorker, as_completed

        futures = {self.client.submit(function, job, pure=False): job for job in jobs}
        left_s = None if end is None else max(0.1, end - time.monotonic())
        over, given_up = threading.Event(), threading.Event()
        presence = Presence(self, functools.partial(print, flush=True))

        def cancel() -> None:
            with contextlib.suppress(Exception):
                self.client.cancel([future for future in futures if not future.done()])

        def give_up() -> None:
            given_up.set()
            cancel()  # which ends the wait

        watcher = threading.Thread(target=self._watch, args=(over, presence, give_up), daemon=True)
        watcher.start()
        try:
            for future in as_completed(list(futures), timeout=left_s):
                job = futures[future]
                try:
                    result = future.result()
                    presence.say_who_is_back()  # who may have done all before the watcher looks again
                    yield job, result
                except KilledWorker:
                    yield job, None
        except (CancelledError, OSError, TimeoutError):
            if given_up.is_set():
                raise ClusterError(gave_up()) from None
            if end is None or time.monotonic() < end:
                raise ClusterError(SCHEDULER_GONE) from None
        finally:
            over.set()
            cancel()

    def _watch(self, over: threading.Event, presence: Presence, give_up: Callable[[], None]) -> None:
        """Dask's wait() with a time-out answers Ctrl-C with a traceback: so the wait stays, and this thread looks
        beside it."""
        while not over.wait(LOOK_S):
            if not presence.look():
                return give_up()


class Presence:
    """Whether a worker is there: Dask waits without a word for one to come."""

    def __init__(self, where: Cluster, say: Callable[[str], None]) -> None:
        self.where, self.say = where, say
        self.since_s: float | None = None  # nobody works
        self.told: list[float] = []  # the same, once that has been said

    def look(self) -> bool:
        """False where none has come for too long."""
        try:
            there = self.where.workers() > 0
        except Exception:  # the scheduler does not answer: that ends the wait itself, or it comes back
            return True
        if there:
            self.say_who_is_back()
            self.since_s = None
        elif self.since_s is None:
            self.since_s = time.monotonic()
        elif time.monotonic() - self.since_s >= ALONE_S:
            return False
        elif not self.told:
            self.told.append(self.since_s)
            self.say(
                f"  no worker is left; what is done is kept: start workers (dask worker), or stop this and call "
                f"again to go on; ends by itself in {ALONE_S / 60:.3g} min"
            )
        return True

    def say_who_is_back(self) -> None:
        """Once, whichever thread finds it first."""
        with contextlib.suppress(IndexError):
            self.told.pop()
            self.say("  a worker is there again")


def gave_up() -> str:
    return f"no worker for {ALONE_S / 60:.3g} min; what is done is kept: start workers (dask worker), and {AGAIN}"
