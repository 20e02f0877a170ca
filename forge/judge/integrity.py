"""Whether a submission has replaced a clock that times it. Runs in the worker, for what a real GPU's times rest on.

Verdicts need no such thing: they are made in another process. The evaluator sets a clock of its own beside these
(forge/judge/verdict.py).
"""

import time
from types import FunctionType
from typing import Any

import torch

CLOCKS = (
    (torch.cuda, "torch.cuda", ("synchronize", "Event")),
    (torch.cuda.Event, "torch.cuda.Event", ("record", "elapsed_time", "synchronize", "wait", "query", "__new__")),
    (time, "time", ("perf_counter", "perf_counter_ns", "monotonic")),
)


def _identity(value: Any) -> tuple[Any, ...]:
    """What must not change: the object, and of a Python function what it does."""
    return (id(value), id(value.__code__)) if isinstance(value, FunctionType) else (id(value),)


class Watch:
    """A picture of the clocks, taken before the submission's import."""

    def __init__(self) -> None:
        places = [(owner, name, f"{shown}.{name}") for owner, shown, names in CLOCKS for name in names]
        # The objects are kept too: an id means nothing once its object is gone.
        self._kept = [getattr(owner, name, None) for owner, name, _ in places]
        self._before = [(*place, _identity(value)) for place, value in zip(places, self._kept)]

    def replaced(self) -> list[str]:
        """The names that mean something else now, such as torch.cuda.synchronize."""
        return [shown for owner, name, shown, before in self._before if _identity(getattr(owner, name, None)) != before]
