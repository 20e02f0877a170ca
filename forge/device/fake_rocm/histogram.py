"""torch.histc of integers: a GPU's torch counts them (PyTorch, ATen/native/cuda/SummaryOps.cu), the CPU's refuses."""

import functools
from collections.abc import Callable
from typing import Any

import torch

from forge.device.fake_rocm import tags

COUNTED = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})


def histc(input: torch.Tensor, bins: int = 100, min: Any = 0, max: Any = 0, *, out: Any = None) -> torch.Tensor:
    """As torch.histc: bounds are integers too, each bin has its lower one, and the last also max."""
    if bins <= 0:
        raise RuntimeError("bins must be > 0")
    low, high, values = int(min), int(max), input.flatten().long()
    if low == high and values.numel():
        low, high = int(values.min()), int(values.max())
    if low == high:
        low, high = low - 1, high + 1
    if not low < high:
        raise RuntimeError("max must be larger than min")
    inside = values[(values >= low) & (values <= high)]
    places = ((inside - low) * bins).div(high - low, rounding_mode="trunc").clamp(max=bins - 1)
    found = torch.bincount(places, minlength=bins).to(input.dtype)
    return found if out is None else out.resize_(found.shape).copy_(found)


def _as_on_a_gpu(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def count(input: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        on_gpu = tags.tag_of(input) not in (None, tags.CPU)
        return (histc if on_gpu and input.dtype in COUNTED else original)(input, *args, **kwargs)

    return count


def apply() -> None:
    torch.histc = _as_on_a_gpu(torch.histc)
    torch.Tensor.histc = _as_on_a_gpu(torch.Tensor.histc)
