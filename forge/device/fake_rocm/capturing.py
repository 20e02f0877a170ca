"""Whether this thread captures a graph, and what is written down then instead of being run."""

import threading
from collections.abc import Callable
from typing import Any, Protocol

NOT_PERMITTED = "HIP error: operation not permitted when stream is capturing"


class Capture(Protocol):
    on_gpu: int  # how deep we are in operations that count as the GPU's, whatever tensors they read

    def add(self, run: Callable[[], Any]) -> None:
        """Keep work for the replay."""


class _Current(threading.local):
    capture: Capture | None = None


current = _Current()


def active() -> bool:
    """Whether this thread records instead of running."""
    return current.capture is not None


def refuse(what: str) -> None:
    """RuntimeError if this thread captures: `what` would have to wait for the GPU."""
    if active():
        raise RuntimeError(f"{NOT_PERMITTED} ({what})")


def record(run: Callable[[], Any]) -> bool:
    """Keep work for the replay, if this thread captures; whether it does."""
    capture = current.capture
    if capture is None:
        return False
    capture.add(run)
    return True
