"""torch.topk with a GPU's choice among equal values: those of the smallest indices. The CPU's choice is any.

Scores in 16 bits are often equal: a reference that broke ties otherwise would call right kernels wrong.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch

from forge.device.fake_rocm import tags

_return_type: Any = torch.return_types.topk


def topk(
    input: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *, out: Any = None
) -> Any:
    """As torch.topk. Not sorted: what beats the last in order of indices, then its equals, as a GPU writes them."""
    values, indices = torch.sort(input, dim=dim, descending=largest, stable=True)
    values, indices = (each.narrow(dim, 0, k).contiguous() for each in (values, indices))
    if not sorted and k > 1:
        tied = values == values.narrow(dim, k - 1, 1)
        order = (indices + tied * input.shape[dim]).argsort(dim)
        values, indices = values.gather(dim, order), indices.gather(dim, order)
    if out is None:
        return _return_type((values, indices))
    for given, found in zip(out, (values, indices), strict=True):
        given.resize_(found.shape).copy_(found)
    return _return_type(out)


def _as_on_a_gpu(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def choose(input: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        on_gpu = tags.tag_of(input) not in (None, tags.CPU)
        return (topk if on_gpu and input.dim() else original)(input, *args, **kwargs)

    return choose


def apply() -> None:
    torch.topk = _as_on_a_gpu(torch.topk)
    torch.Tensor.topk = _as_on_a_gpu(torch.Tensor.topk)
