"""What worker.py puts in a GPU's place: enough for host code to decide what it launches, no more.

Tensors for "cuda" lie on the CPU, fake or real. (torch can make fake "cuda" tensors as well, but a build of
torch without CUDA then fails where a view is taken.)
"""

import contextlib
import functools
import importlib
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from triton.backends.compiler import GPUTarget

from forge.device.cards import CARDS, HIP_VERSION, WARP_SIZE

CPU = torch.device("cpu")
DYNAMO = "torch._dynamo"


class CompileOnly:
    """Stands in for Triton's driver: knows the target, has no device."""

    def __init__(self, arch: str) -> None:
        self.target = GPUTarget("hip", arch, 64)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        return torch.cuda


class GpuIsCpu(TorchFunctionMode):
    """Rewrites the device that a torch function is asked for; all memory is the host's, none is pinned."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.Tensor.cuda, torch.Tensor.pin_memory):  # fake tensors cannot be pinned
            return args[0]
        if "pin_memory" in kwargs:
            kwargs["pin_memory"] = False
        if _is_gpu(kwargs.get("device")):
            kwargs["device"] = CPU
        if func is torch.Tensor.to:
            args = tuple(CPU if isinstance(a, str | torch.device) and _is_gpu(a) else a for a in args)
        return func(*args, **kwargs)


def _is_gpu(device: Any) -> bool:
    return device is not None and (isinstance(device, int) or torch.device(device).type == "cuda")


class WithoutDynamo(types.ModuleType):
    """In place of torch._dynamo, whose import takes as long as torch's own: of it, fake tensors read the configuration,
    and have it keep off functions that nobody traces here. Whoever wants more of it gets the real one, from then on."""

    def __init__(self) -> None:
        super().__init__(DYNAMO)
        self.__path__ = [os.path.join(folder, "_dynamo") for folder in torch.__path__]
        self.stand_in()
        self.config = importlib.import_module(f"{DYNAMO}.config")
        del self.__path__  # or other modules of the package could be imported without it
        self.leave()

    def stand_in(self) -> None:
        sys.modules[DYNAMO] = self
        torch._dynamo = self
        if "config" in vars(self):
            sys.modules[f"{DYNAMO}.config"] = self.config

    def leave(self) -> None:
        if sys.modules.get(DYNAMO) is self:
            del sys.modules[DYNAMO], sys.modules[f"{DYNAMO}.config"], torch._dynamo

    @staticmethod
    def disable(fn: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
        return fn

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":  # inspect asks every module for its __file__
            raise AttributeError(name)
        self.leave()
        return getattr(importlib.import_module(DYNAMO), name)


without_dynamo = functools.cache(WithoutDynamo)


@contextlib.contextmanager
def dynamo_only_on_demand() -> Iterator[None]:
    if DYNAMO in sys.modules:
        yield
        return
    without_dynamo().stand_in()
    try:
        yield
    finally:
        without_dynamo().leave()


@contextlib.contextmanager
def fake_tensors() -> Iterator[None]:
    """Tensors without data, with two things that torch's own lack."""
    data_ptr, apply = FakeTensor.data_ptr, torch.nn.Module._apply
    # Storage is aligned as the allocator would align it; a view begins inside.
    FakeTensor.data_ptr = lambda tensor: tensor.storage_offset() * tensor.element_size()
    torch.nn.Module._apply = _apply_to_fake
    try:
        with dynamo_only_on_demand(), FakeTensorMode(allow_non_fake_inputs=True):
            yield
    finally:
        FakeTensor.data_ptr, torch.nn.Module._apply = data_ptr, apply


def _apply_to_fake(module: torch.nn.Module, fn: Callable[..., Any], recurse: bool = True) -> torch.nn.Module:
    """Module.to() and its like. torch's own swaps old and new tensors' contents, which fake ones refuse."""
    for child in module.children():
        child._apply(fn)
    for name, parameter in module._parameters.items():
        if parameter is not None:
            module._parameters[name] = torch.nn.Parameter(fn(parameter), parameter.requires_grad)
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = fn(buffer)
    return module


@contextlib.contextmanager
def pretend_gpu(arch: str) -> Iterator[None]:
    """What host code asks torch itself for."""
    card = CARDS[arch]
    properties = types.SimpleNamespace(
        name=card.product,
        gcnArchName=card.target_id,
        multi_processor_count=card.compute_units,
        warp_size=WARP_SIZE,
        total_memory=card.memory_bytes,
        major=card.capability[0],
        minor=card.capability[1],
    )
    generator = torch.Generator

    class Generator(generator):  # type: ignore[misc, valid-type]
        def __new__(cls, device: Any = "cpu") -> Any:
            return generator()

    claims: tuple[tuple[Any, str, Any], ...] = (
        (torch, "Generator", Generator),
        (torch.version, "hip", HIP_VERSION),
        (torch.cuda, "is_available", lambda: True),
        (torch.cuda, "device_count", lambda: 1),
        (torch.cuda, "current_device", lambda: 0),
        (torch.cuda, "set_device", lambda device: None),
        (torch.cuda, "device", contextlib.nullcontext),
        (torch.cuda, "device_of", contextlib.nullcontext),
        (torch.cuda, "synchronize", lambda device=None: None),
        (torch.cuda, "empty_cache", lambda: None),
        (torch.cuda, "get_device_name", lambda device=None: card.product),
        (torch.cuda, "get_device_capability", lambda device=None: card.capability),
        (torch.cuda, "get_device_properties", lambda device=None: properties),
    )
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in claims]
    for owner, name, claim in claims:
        setattr(owner, name, claim)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
