"""What a CPU build of torch does in place of a GPU's compiler, autocast and profiler."""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import profiler

from cdna.errors import NotEmulated

_told: set[str] = set()


def _tell(what: str) -> None:
    if what not in _told:
        _told.add(what)
        print(f"forge: {what} compiles nothing on an emulated GPU: its function runs eagerly", file=sys.stderr)


def compile_(model: Callable[..., Any] | None = None, **options: Any) -> Any:
    """torch.compile, also as a decorator with arguments."""
    _tell("torch.compile")
    return (lambda function: function) if model is None else model


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """torch.jit.script: TorchScript would look past the functions that we replace."""
    _tell("torch.jit.script")
    return obj


def export(*args: Any, **kwargs: Any) -> Any:
    """torch.export: fake tensors of a GPU end the process in a torch that has none ("not linked with support")."""
    raise NotEmulated("torch.export: an emulated GPU's torch cannot trace a GPU's tensors; export on the host's")


_autocast_init = torch.autocast.__init__


def autocast_init(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
    """torch.autocast("cuda"): the CPU's autocast with a GPU's default dtype."""
    if device_type.startswith("cuda"):
        device_type, dtype = "cpu", dtype or torch.float16
    _autocast_init(self, device_type, dtype, *args, **kwargs)


_profile_init = profiler.profile.__init__


def profile_init(self: Any, *args: Any, **kwargs: Any) -> None:
    """torch.profiler.profile: there is no GPU activity to record, only the CPU's."""
    if kwargs.get("use_device") == "cuda":
        kwargs["use_device"] = None
    _profile_init(self, *args, **kwargs)


def apply() -> None:
    torch.compile = compile_
    torch.jit.script = script
    torch.export.export = export
    torch.autocast.__init__ = autocast_init
    profiler.profile.__init__ = profile_init
