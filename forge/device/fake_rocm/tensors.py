"""Tensors on claimed devices: their attributes, moves between devices, and ways to files and processes."""

import functools
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions
from torch.utils._device import DeviceContext

from forge.device.fake_rocm import graphs, tags
from forge.device.fake_rocm.host_reads import look
from forge.device.fake_rocm.tags import CPU, mark, quiet, tag_of, target

_BASE = torch._C.TensorBase

_to = _BASE.to


def _move(tensor: torch.Tensor, tag: int, dtype: Any, copy: bool, memory_format: Any) -> torch.Tensor:
    """Tensor.to(device): a copy wherever a real move would make one."""
    source = tag_of(tensor)
    if source is None and tags.real_device(tensor).type != "cpu":
        return mark(_to(tensor, tags.CPU_DEVICE, dtype=dtype), tag)  # from "meta": torch's own error
    if tag == CPU:
        look(tensor, "a copy to the host", copies=True)
    moves = source != tag and not (source is None and tag != CPU)
    with graphs.moves(tensor, tag):
        if memory_format is None:
            moved = _to(tensor, dtype or tensor.dtype, copy=copy or moves)
        else:
            moved = _to(tensor, dtype or tensor.dtype, copy=copy or moves, memory_format=memory_format)
    return moved if moved is tensor else mark(moved, tag)


def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    first = args[0] if args else kwargs.get("device", kwargs.get("other"))
    if first is None or isinstance(first, torch.dtype):
        with quiet():
            made = _to(self, *args, **kwargs)
        return made if made is self else mark(made, tag_of(self))
    if isinstance(first, torch.Tensor):
        tag, dtype, rest = tag_of(first), first.dtype, args[1:]
        tag = tags.current.index if tag is None else tag
    else:
        asked = target(first)
        if asked is None:
            return _to(self, *args, **kwargs)
        tag, dtype, rest = asked, kwargs.get("dtype"), args[1:]
        if rest and (rest[0] is None or isinstance(rest[0], torch.dtype)):
            dtype, rest = rest[0], rest[1:]
    copy = kwargs.get("copy", rest[1] if len(rest) > 1 else False)
    return _move(self, tag, dtype, copy, kwargs.get("memory_format"))


def cuda(self: torch.Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> torch.Tensor:
    tag = tags.current.index if device is None else target(device)
    if tag is None or tag == CPU:
        raise ValueError(f"Invalid device, must be cuda device: {device}")
    return _move(self, tag, None, False, memory_format)


def cpu(self: torch.Tensor, memory_format: Any = None) -> torch.Tensor:
    return _move(self, CPU, None, False, memory_format)


_numpy = _BASE.numpy


def numpy(self: torch.Tensor, *, force: bool = False) -> Any:
    tag = tag_of(self)
    if tag is not None and tag != CPU and not force:
        raise TypeError(
            f"can't convert {tags.gpu(tag)} device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first."
        )
    with quiet():
        return _numpy(self, force=force)


_item = _BASE.item


def item(self: torch.Tensor) -> Any:
    look(self, "item")
    with quiet():
        return _item(self)


_type = _BASE.type


def type_(self: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    on_gpu = tags.claimed(self).type == "cuda"
    if dtype is None:
        with quiet():
            name = _type(self)
        return name.replace("torch.", "torch.cuda.", 1) if on_gpu else name
    if not isinstance(dtype, torch.dtype):
        name = dtype if isinstance(dtype, str) else f"{dtype.__module__}.{dtype.__name__}"
        if name.startswith("torch.cuda."):
            with quiet():
                converted = _type(self, name.replace("torch.cuda.", "torch.", 1))
            return mark(converted.clone() if converted is self else converted, tags.current.index)
    with quiet():
        converted = _type(self, dtype, non_blocking, **kwargs)
    return converted if converted is self else mark(converted, tag_of(self))


def pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
    tag = tag_of(self)
    if tag is not None and tag != CPU:
        raise RuntimeError(f"cannot pin '{type_(self)}' only dense CPU tensors can be pinned")
    return tags.pin(mark(self.clone(), CPU))


def is_pinned(self: torch.Tensor, device: Any = None) -> bool:
    return tags.is_pinned(self)


def get_device(self: torch.Tensor) -> int:
    device = tags.claimed(self)
    return -1 if device.index is None else device.index


def record_stream(self: torch.Tensor, stream: Any) -> None:
    """Nothing to keep alive: work on CPU memory is done when the call returns."""


_make_subclass = torch.Tensor._make_subclass


def make_subclass(cls: Any, data: torch.Tensor, requires_grad: bool = False, **kwargs: Any) -> Any:
    """nn.Parameter(data) is made here."""
    return mark(_make_subclass(cls, data, requires_grad, **kwargs), tag_of(data))


_context_function = DeviceContext.__torch_function__


def _context_torch_function(self: DeviceContext, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The factories look for the DeviceContext themselves; only a device that is not ours is left to it."""
    if self.device.type in ("cuda", "cpu"):
        return func(*args, **(kwargs or {}))
    return _context_function(self, func, types, args, kwargs)


_load = torch.load


@functools.wraps(_load)
def load(f: Any, map_location: Any = None, **kwargs: Any) -> Any:
    """torch.load: every storage is read into CPU memory, then claims the device that was asked for."""
    asked = None
    if isinstance(map_location, (str, torch.device)):
        asked = target(map_location)
        map_location = map_location if asked is None else "cpu"
    loaded = _load(f, map_location, **kwargs)
    _mark_all(loaded, asked)
    return loaded


def _mark_all(value: Any, tag: int | None) -> None:
    if isinstance(value, torch.Tensor):
        mark(value, tag)
    elif isinstance(value, dict):
        _mark_all(list(value.values()), tag)
    elif isinstance(value, (list, tuple)):
        for element in value:
            _mark_all(element, tag)


def _reduce_shared(tensor: torch.Tensor) -> Any:
    """How multiprocessing sends a tensor: its memory is shared, its claim goes along."""
    rebuild, arguments = reductions.reduce_tensor(tensor)
    if tag_of(tensor) != CPU:
        tags.know_memory(tensor)  # it has moved
    return _rebuild_shared, (tag_of(tensor), rebuild, arguments)


def _rebuild_shared(tag: int | None, rebuild: Callable[..., Any], arguments: Any) -> Any:
    made = rebuild(*arguments)
    if tag != CPU:
        tags.know_memory(made)
    return mark(made, tag)


_share_memory = torch.Tensor.share_memory_


def share_memory(self: torch.Tensor) -> torch.Tensor:
    return _share_memory(self) if tag_of(self) == CPU else self  # a GPU's memory can be shared as it is


def apply() -> None:
    torch.load = load
    tags.publish(_rebuild_shared)
    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, _reduce_shared)
    for name, method in {
        "to": to, "cuda": cuda, "cpu": cpu, "numpy": numpy, "item": item, "type": type_,
        "pin_memory": pin_memory, "share_memory_": share_memory,
        "is_pinned": is_pinned, "get_device": get_device, "record_stream": record_stream,
        "_make_subclass": staticmethod(make_subclass),
        "device": property(tags.claimed),
        "is_cuda": property(lambda self: tags.claimed(self).type == "cuda"),
        "is_cpu": property(lambda self: tags.claimed(self).type == "cpu"),
    }.items():  # fmt: skip
        setattr(torch.Tensor, name, method)
    DeviceContext.__torch_function__ = _context_torch_function
