"""Functions that make tensors, for any claimed device."""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from cdna.checks import settings
from forge.device.fake_rocm import generators, tags
from forge.device.fake_rocm.tags import CPU, current, mark, quiet, tag_of, target
from forge.device.pages import fresh

# Make a tensor of nothing but numbers: the default device if none is given.
FACTORIES = (
    (torch, "empty empty_permuted empty_strided ones zeros full eye scalar_tensor tril_indices triu_indices"),
    (torch, "rand randn randint randperm normal arange range linspace logspace"),
    (torch, "bartlett_window blackman_window hamming_window hann_window kaiser_window"),
    (torch.fft, "fftfreq rfftfreq"),
)
# Take the device of their first argument if none is given.
LIKE = (
    (torch, "empty_like ones_like zeros_like full_like rand_like randn_like randint_like"),
    (torch.Tensor, "new_empty new_empty_strided new_ones new_zeros new_full"),
)
# Take values, which may be a tensor.
FROM_VALUES = ((torch, "tensor as_tensor asarray sparse_coo_tensor sparse_csr_tensor"), (torch.Tensor, "new_tensor"))
FROM_MEMORY = ((torch, "from_numpy frombuffer from_file"),)

# Make a tensor of nothing, or of zeros, whose memory the host need not have before it is written.
UNWRITTEN = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
CLEAR = {"zeros", "zeros_like", "new_zeros"}
LARGE_BYTES = 256 << 20


def _make(original: Callable[..., Any], tag: int | None, args: Any, kwargs: dict[str, Any]) -> Any:
    """Call a factory whose device argument has been taken out; None is a device that is not ours."""
    pinned = kwargs.pop("pin_memory", False)
    if kwargs.get("generator") is not None:
        generators.check(kwargs["generator"], tag)
        kwargs["generator"] = generators.source_of(kwargs["generator"])
    if kwargs.get("out") is not None:
        return original(*args, **kwargs)
    before, current.ambient = current.ambient, tag
    try:
        with quiet():
            made = _made_of_pages(original, tag, args, kwargs) if tag not in (None, CPU) else None
            if made is None:
                made = original(*args, **kwargs)
    finally:
        current.ambient = before
    return tags.pin(mark(made, tag)) if pinned else mark(made, tag)


def _made_of_pages(original: Callable[..., Any], tag: int, args: Any, kwargs: dict[str, Any]) -> torch.Tensor | None:
    """A large tensor of nothing or of zeros, which takes memory only where it is written; None if it is not one.

    A GPU has more memory than most hosts, and submissions allocate for the largest case at once.
    """
    if original.__name__ not in UNWRITTEN | CLEAR or kwargs.get("pin_memory"):
        return None
    sizes = kwargs.get("size", args)
    first = sizes[0] if sizes else None
    if isinstance(first, torch.Tensor) and original.__name__.endswith("_like"):
        elements = first.numel()
    else:
        sizes = sizes[isinstance(first, torch.Tensor) :]
        sizes = sizes[0] if sizes and isinstance(sizes[0], tuple | list) else sizes
        elements = math.prod(size for size in sizes if isinstance(size, int))
    if elements * 8 < LARGE_BYTES:  # of the largest common dtype
        return None
    plan = original(*args, **{**kwargs, "device": "meta"})
    storage_bytes = plan.untyped_storage().nbytes()
    if storage_bytes < LARGE_BYTES or plan.layout != torch.strided:
        return None
    if storage_bytes > torch.cuda.get_device_properties(tag).total_memory:
        raise torch.OutOfMemoryError(f"a tensor of {storage_bytes / 2**30:.2f} GiB is larger than the GPU's memory")
    memory = fresh(storage_bytes)
    pages = torch.frombuffer(memory, dtype=torch.uint8)
    tags.know_memory(pages, memory)
    if original.__name__ in UNWRITTEN and tags.told is not None and "unwritten" in settings().kinds:
        from cdna.checks.launch_checks import mark_unwritten

        mark_unwritten(pages.data_ptr(), storage_bytes)
    made = pages.view(plan.dtype).as_strided(plan.shape, plan.stride())
    return made.requires_grad_() if plan.requires_grad else made


def _factory(original: Callable[..., Any]) -> Callable[..., Any]:
    takes_tensors = original.__name__ in ("normal", "linspace", "logspace")  # mean and std, start and end

    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.pop("device", None)
        if takes_tensors and device is None:
            source = next((value for value in args if isinstance(value, torch.Tensor)), None)
            if source is not None:
                return _make(original, tag_of(source), args, kwargs)
        tag = target(device)
        if tag is None:
            return original(*args, device=device or tags.default_device(), **kwargs)
        return _make(original, tag, args, kwargs)

    return make


def _like(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.pop("device", None)
        if device is None:
            source = args[0] if args else kwargs.get("input")
            return _make(original, tag_of(source) if source is not None else None, args, kwargs)
        tag = target(device)
        if tag is None:
            return original(*args, device=device, **kwargs)
        return _make(original, tag, args, kwargs)

    return make


def _from_values(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.pop("device", None)
        method = original.__name__.startswith("new_")
        values = args[method] if len(args) > method else kwargs.get("data", kwargs.get("obj"))
        source = values if isinstance(values, torch.Tensor) else args[0] if method else None
        if device is None and source is not None:
            tag = tag_of(source)
        else:
            tag = target(device)
            if tag is None:
                return original(*args, device=device or tags.default_device(), **kwargs)
        pinned = kwargs.pop("pin_memory", False)
        with quiet():
            made = original(*args, **kwargs)
            if made is values and made is not None and tag is not None and tag_of(made) not in (None, tag):
                made = made.clone()  # as_tensor hands its argument back, but this one moves
            elif source is None and tag != CPU and original.__name__ in ("as_tensor", "asarray"):
                made = made.clone()  # a GPU's tensor shares no memory with a numpy array
        return tags.pin(mark(made, tag)) if pinned else mark(made, tag)

    return make


def _from_memory(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        return mark(original(*args, **kwargs), CPU)

    return make


def apply() -> None:
    wrappers = {FACTORIES: _factory, LIKE: _like, FROM_VALUES: _from_values, FROM_MEMORY: _from_memory}
    for table, wrap in wrappers.items():
        for owner, names in table:
            for name in names.split():
                setattr(owner, name, wrap(getattr(owner, name)))
