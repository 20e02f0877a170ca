"""For the tests of reference/: a problem's reference.py, imported as in GPU MODE's run folder, on the CPU."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch.overrides import TorchFunctionMode

REFERENCE = Path(__file__).resolve().parents[2] / "reference"
RUN_FOLDER_MODULES = ("reference", "task", "utils")


def load_reference(stem: str) -> ModuleType:
    """reference/<stem>/reference.py with its task and utils beside it, also as .task and .utils of it."""
    path = [str(REFERENCE / stem), str(REFERENCE)]
    with patch.object(sys, "path", path + sys.path), patch.dict(sys.modules):
        for name in RUN_FOLDER_MODULES:
            sys.modules.pop(name, None)
        module = import_module("reference")
        module.utils, module.task = import_module("utils"), import_module("task")  # type: ignore[attr-defined]
    return module


def _to_cpu(value: Any) -> Any:
    """The CPU for whatever names a CUDA device; anything else as it is."""
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return "cpu" if isinstance(value, str) and value.startswith("cuda") else value


class _OnCpu(TorchFunctionMode):
    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = {name: _to_cpu(value) for name, value in (kwargs or {}).items()}
        return function(*(_to_cpu(value) for value in args), **kwargs)


@contextmanager
def cuda_is_cpu() -> Iterator[None]:
    """Inside, device="cuda" means the CPU, in factories, Generator and Module.to, as references use it."""
    generator, module_to = torch.Generator, torch.nn.Module.to
    with (
        patch.object(torch, "Generator", lambda device="cpu": generator(_to_cpu(device))),
        patch.object(torch.nn.Module, "to", lambda self, *to: module_to(self, *map(_to_cpu, to))),
        _OnCpu(),
    ):
        yield


def generate(module: ModuleType, case: dict[str, Any], **rank: int) -> Any:
    """module.generate_input of a case, on the CPU."""
    with cuda_is_cpu():
        return module.generate_input(**case, **rank)


def relative_error(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """|got - wanted| / |wanted| in the 2-norm."""
    wanted = wanted.double()
    return ((got.double() - wanted).norm() / wanted.norm()).item()


def near(*values: float) -> Any:
    """Normal numbers may differ in their last bits from one kind of CPU to another."""
    return pytest.approx(values, rel=1e-2)
