"""What torch itself did in a call: its operations, and the FLOPs of its products and sums. Runs in the worker."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

NAMED = 5  # operations that a report names

# A product's FLOPs from its operands, by operation: (which of the arguments, the sum's length among their sizes).
PRODUCTS = {"mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2), "_scaled_mm": (0, 1), "_int_mm": (0, 1)}
PRODUCTS |= {"dot": (0, 1), "mv": (0, 1), "addmv": (1, 2), "_grouped_mm": (0, 1), "_scaled_grouped_mm": (0, 1)}

SPREAD = 4  # times as many elements as any operand holds: from there on a multiplication makes a product's terms


def term_flops(name: str, args: tuple[Any, ...], result: Any) -> int:
    """Of multiplications and sums, where a product is made of these; 0 of all other work on elements."""
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    if name in ("mul", "mul_", "addcmul", "addcmul_") and tensors:
        adds = name.startswith("addcmul")
        spread = result.numel() > SPREAD * max(map(_held, tensors[adds:]))
        return (1 + adds) * int(result.numel()) if spread else 0
    return tensors[0].numel() if name == "sum" and tensors else 0


def _held(tensor: torch.Tensor) -> int:
    """Its elements, those that it only repeats left out."""
    return math.prod(size for size, stride in zip(tensor.shape, tensor.stride()) if stride)


def product_flops(name: str, args: tuple[Any, ...]) -> int:
    """Of one operation; 0 of one that is no product."""
    if name in PRODUCTS and len(args) > PRODUCTS[name][1]:
        left, right = (args[place] for place in PRODUCTS[name])
        rows = math.prod(left.shape)  # all of a's elements meet each column of b
        return 2 * rows * (right.shape[-1] if right.dim() > 1 else 1)
    if "scaled_dot_product" in name and "backward" not in name and len(args) > 2:
        query, key, value = (tensor.shape for tensor in args[:3])
        return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])
    if name == "convolution" and len(args) > 1:
        return 2 * math.prod(args[0].shape) * math.prod(args[1].shape) // max(1, args[1].shape[1])
    return 0


@dataclass
class Work:
    flops: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    by_name: Counter[str] = field(default_factory=Counter)  # FLOPs
    entered_reference: bool = False

    def as_dict(self) -> dict[str, Any]:
        """For a message: {} where nothing was watched or done."""
        if not self.calls and not self.entered_reference:
            return {}
        products = dict(self.by_name.most_common(NAMED))
        return {
            "flops": self.flops,
            "products": products,
            "operations": dict(self.calls.most_common(NAMED)),
            "entered_reference": self.entered_reference,
        }


class _Counting(TorchDispatchMode):
    def __init__(self, work: Work) -> None:
        super().__init__()
        self.work = work

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        result = func(*args, **(kwargs or {}))
        with contextlib.suppress(Exception):  # a count is no reason to fail a call
            self.work.calls[name] += 1
            if flops := product_flops(name, args) or term_flops(name, args, result):
                self.work.flops += flops
                self.work.by_name[name] += flops
        return result


@contextlib.contextmanager
def watch(on: bool) -> Iterator[Work]:
    """Counts what torch does within the block, in this thread and in those that it starts."""
    work = Work()
    if not on:
        yield work
        return
    begin = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def counted(thread: threading.Thread) -> None:
        with _Counting(work):
            begin(thread)

    threading.Thread._bootstrap_inner = counted  # type: ignore[attr-defined]
    try:
        with _Counting(work):
            yield work
    finally:
        threading.Thread._bootstrap_inner = begin  # type: ignore[attr-defined]


def count_entries(module: Any, name: str) -> Callable[[], int]:
    """How often a function of a module has been entered, whoever calls it by whatever name."""
    entered = [0]
    function = getattr(module, name, None)
    if isinstance(function, FunctionType):

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            entered[0] += 1
            return function(*args, **kwargs)

        setattr(module, name, counted)
    return lambda: entered[0]
