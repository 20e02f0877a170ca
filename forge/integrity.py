"""Whether a submission has replaced what it is judged with. Runs in the worker.

The functions that check and time are captured before the submission is imported; those that they call in turn
are looked up at each call, so replacing utils.verbose_allclose or torch.allclose would still turn a verdict.
This remembers them and says afterwards which are not what they were.
"""

from __future__ import annotations

import sys
import time
from types import FunctionType, ModuleType
from typing import Any

import torch

# Of torch, what comparing and timing consist of; of the problem's own modules, everything.
WATCHED_TORCH = {
    torch: ("allclose", "isclose", "equal", "eq", "ne", "abs", "isnan", "logical_xor", "nonzero", "max"),
    torch.Tensor: (
        "abs",
        "all",
        "any",
        "item",
        "clone",
        "sum",
        "max",
        "count_nonzero",
        "__eq__",
        "__gt__",
        "__sub__",
    ),
    torch.cuda: ("synchronize", "Event"),
    time: ("perf_counter", "perf_counter_ns", "monotonic"),
}
TASK_MODULES = ("reference", "utils", "task")


def _identity(value: Any) -> Any:
    """What must not change: the object, and for a Python function what it does."""
    if isinstance(value, FunctionType):
        cells = tuple(id(cell.cell_contents) for cell in value.__closure__ or () if _filled(cell))
        return (value, value.__code__, value.__defaults__, cells)
    return value


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


class Watch:
    """A picture of the judging functions, taken between the reference's import and the submission's."""

    def __init__(self) -> None:
        places: list[tuple[Any, str, str]] = []
        for owner, names in WATCHED_TORCH.items():
            prefix = owner.__name__ if isinstance(owner, ModuleType) else f"torch.{owner.__name__}"
            places += [(owner, name, f"{prefix}.{name}") for name in names if hasattr(owner, name)]
        for module_name in TASK_MODULES:
            module = sys.modules.get(module_name)
            if module is not None:
                for name, value in vars(module).items():
                    if callable(value) and not name.startswith("__"):
                        places.append((module, name, f"{module_name}.{name}"))
        self._before = [
            (owner, name, shown, _identity(getattr(owner, name))) for owner, name, shown in places
        ]

    def replaced(self) -> list[str]:
        """The names that mean something else now, such as utils.verbose_allclose."""
        return [
            shown
            for owner, name, shown, before in self._before
            if not _same(_identity(getattr(owner, name, None)), before)
        ]


def _same(now: Any, before: Any) -> bool:
    if isinstance(before, tuple) and isinstance(now, tuple) and len(before) == len(now) == 4:
        return now[0] is before[0] and now[1] is before[1] and now[2] is before[2] and now[3] == before[3]
    return now is before
