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
    torch.Tensor: ("abs", "all", "any", "item", "clone", "sum", "max", "count_nonzero", "__eq__", "__gt__", "__sub__"),
    torch.cuda: ("synchronize", "Event"),
    time: ("perf_counter", "perf_counter_ns", "monotonic"),
}
TASK_MODULES = ("reference", "utils", "task")


PLAIN = (bool, int, float, str, tuple, list, dict, set)


def _identity(value: Any) -> tuple[Any, ...]:
    """What must not change: the object; of a Python function what it does; of plain data what it says."""
    if isinstance(value, FunctionType):
        cells = [_contents(cell) for cell in value.__closure__ or ()]
        says = [repr(part) for part in (value.__defaults__, value.__kwdefaults__, *cells) if type(part) in PLAIN]
        return (id(value), id(value.__code__), says, [id(part) for part in cells])
    return (id(value), repr(value) if type(value) in PLAIN else "")


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


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
                    # Functions, classes and CONSTANTS: a reference may keep other state, and change it.
                    if not name.startswith("__") and (callable(value) or name.isupper()):
                        places.append((module, name, f"{module_name}.{name}"))
        # The objects are kept too: an id means nothing once its object is gone.
        self._kept = [getattr(owner, name) for owner, name, _ in places]
        self._before = [
            (owner, name, shown, _identity(value)) for (owner, name, shown), value in zip(places, self._kept)
        ]

    def replaced(self) -> list[str]:
        """The names that mean something else now, such as utils.verbose_allclose."""
        return [shown for owner, name, shown, before in self._before if _identity(getattr(owner, name, None)) != before]
