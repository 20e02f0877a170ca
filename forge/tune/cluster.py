"""Where trials of files run: a Dask cluster, somebody's running one or a local one for this command.

A worker that is lost takes no result with it: what has ended is in the trials log, and Dask gives the trial under way
to another worker. A trial that takes several workers down is a crash. Where no worker is left, a thread beside the wait
says so, and ends it when none comes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from forge.tune.trial import Job, Outcome, run

J = TypeVar("J")
R = TypeVar("R")

CONNECT_S = 5
LOOK_S = 2.0  # between looks at whether a worker is there; it is said at the second that finds none
ALONE_S = 600.0  # without a worker, until the command ends
LOST_WORKERS = 2  # of one trial, before it counts as a crash


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
        raise ClusterError("tuning a file needs Dask: pip install distributed") from None
    dask.config.set({"distributed.scheduler.allowed-failures": LOST_WORKERS - 1})
    for name in ("distributed", "distributed.client"):  # Dask's own settings set the second's
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what is lost is told in the trials
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

    def outcomes(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Each job as it ends. ClusterError where the scheduler goes away."""
        for job, outcome in self.results(run, jobs, None):
            yield job, outcome or lost()

    def results(self, function: Callable[[J], R], jobs: Sequence[J], end: float | None) -> Iterator[tuple[J, R | None]]:
        """None for one that takes workers down; what has not ended by `end` (of time.monotonic()) is given up."""
        from distributed import CancelledError, KilledWorker, as_completed

        futures = {self.client.submit(function, job, pure=False): job for job in jobs}
        left_s = None if end is None else max(0.1, end - time.monotonic())
        over, given_up = threading.Event(), threading.Event()
        alone: list[float] = []  # since when nobody works, once that has been said

        def cancel() -> None:
            with contextlib.suppress(Exception):
                self.client.cancel([future for future in futures if not future.done()])

        def give_up() -> None:
            given_up.set()
            cancel()  # which ends the wait

        watcher = threading.Thread(target=self._watch, args=(over, alone, give_up), daemon=True)
        watcher.start()
        try:
            for future in as_completed(list(futures), timeout=left_s):
                job = futures[future]
                try:
                    result = future.result()
                    _say_who_is_back(alone)  # who may have done all before the watcher looks again
                    yield job, result
                except KilledWorker:
                    yield job, None
        except (CancelledError, OSError, TimeoutError):
            if given_up.is_set():
                raise ClusterError(
                    f"no worker for {ALONE_S / 60:.3g} min; trials so far are kept: start workers (dask worker), and "
                    "call again to go on"
                ) from None
            if end is None or time.monotonic() < end:
                raise ClusterError("the Dask scheduler went away: call again to go on") from None
        finally:
            over.set()
            cancel()

    def _watch(self, over: threading.Event, alone: list[float], give_up: Callable[[], None]) -> None:
        """Dask waits without a word for a worker to come, and its wait() with a time-out answers Ctrl-C with a
        traceback: so the wait stays, and this thread looks beside it."""
        since = None
        while not over.wait(LOOK_S):
            try:
                there = self.workers() > 0
            except Exception:  # the scheduler does not answer: that ends the wait itself, or it comes back
                continue
            if there:
                _say_who_is_back(alone)
                since = None
                continue
            if since is None:
                since = time.monotonic()
            elif time.monotonic() - since >= ALONE_S:
                return give_up()
            elif not alone:
                alone.append(since)
                print(
                    f"  no worker is left; trials so far are kept: start workers (dask worker), or stop this and call "
                    f"again to go on; ends by itself in {ALONE_S / 60:.3g} min",
                    flush=True,
                )


def _say_who_is_back(alone: list[float]) -> None:
    """Once, whichever thread finds it first."""
    with contextlib.suppress(IndexError):
        alone.pop()
        print("  a worker is there again", flush=True)


def lost() -> Outcome:
    return Outcome("crash", f"took {LOST_WORKERS} workers down")
