"""What torch itself did in a call: its operations, the FLOPs of its products and sums, and on an emulated device what
these cannot take less than. Runs in the worker."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from forge.device.roofline import Roofline

SUBMISSION = "submission.py"
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


# Operations that move nothing, beside views.
FREE = ("empty", "new_empty", "detach", "_local_scalar", "_unsafe_view")
# Of collectives: sums that each rank gets whole cross the links twice.
PASSES = {"allreduce": 2}


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Those in an operation's arguments or its result."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from tensors(one)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def bytes_of(value: Any) -> int:
    return sum(x.itemsize * _held(x) for x in tensors(value))


def kind_of(args: tuple[Any, ...]) -> str:
    """Of a product's operands, as a card's peaks have it: the widest decides."""
    widths = [x.itemsize for x in tensors(args) if x.dim() > 1]
    if any("float4" in str(x.dtype) for x in tensors(args)):
        return "fp4"
    return {1: "fp8", 2: "f16"}.get(max(widths, default=4), "f32")


def estimated_us(
    func: Any, args: tuple[Any, ...], kwargs: Any, result: Any, card: Roofline, warm: bool = False
) -> float:
    """What one operation cannot take less than; 0 of a view, and of what moves nothing."""
    namespace, _, name = func._schema.name.partition("::")
    moved = bytes_of((args, kwargs)), bytes_of(result)
    if namespace == "c10d":
        ranks = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
        whole = max(moved[1], *(bytes_of(one) for one in args), 0)
        return card.collective_us(whole, ranks, PASSES.get(name.rstrip("_"), 1))
    if flops := product_flops(name, args):
        kind = kind_of(args)
        return card.operation_us(moved, flops * (2 if kind == "fp4" else 1), kind, warm)
    return 0.0 if func.is_view or name.startswith(FREE) else card.operation_us(moved, warm=warm)


@dataclass
class Spent:
    """What an operation of one line cannot take less than, in all its calls."""

    kind: str  # products | links | memory: what it takes beside its launches
    calls: int = 0
    us: dict[str, float] = field(default_factory=lambda: {"cold": 0.0, "warm": 0.0})


def calling_line() -> str:
    """The submission's, of the frames above: submission.py:12."""
    frame = sys._getframe(1)
    while frame is not None:
        if os.path.basename(frame.f_code.co_filename) == SUBMISSION:
            return f"{SUBMISSION}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""


@dataclass
class Work:
    flops: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    by_name: Counter[str] = field(default_factory=Counter)  # FLOPs
    places: dict[tuple[str, str], Spent] = field(default_factory=dict)  # estimated, by the submission's line and name
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

    def add_us(self, name: str, us: Callable[[bool], float], kind: str) -> None:
        """us: of warm caches or not."""
        times = {caches: us(caches == "warm") for caches in ("cold", "warm")}
        if any(times.values()):
            one = self.places.setdefault((calling_line(), name), Spent(kind))
            one.calls += 1
            for caches, took in times.items():
                one.us[caches] += took

    @property
    def estimates(self) -> list[dict[str, Any]]:
        """Of what a call's operations take: for a report, most first."""
        rows = [{"place": place, "name": name, **vars(spent)} for (place, name), spent in self.places.items()]
        return sorted(rows, key=lambda row: -row["us"]["cold"])


class _Counting(TorchDispatchMode):
    """card: whose times are estimated; None: none."""

    def __init__(self, work: Work, card: Roofline | None) -> None:
        super().__init__()
        self.work, self.card = work, card

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        result = func(*args, **(kwargs or {}))
        with contextlib.suppress(Exception):  # a count is no reason to fail a call
            self.work.calls[name] += 1
            if flops := product_flops(name, args) or term_flops(name, args, result):
                self.work.flops += flops
                self.work.by_name[name] += flops
            if (card := self.card) is not None:
                kind = "products" if product_flops(name, args) else "links" if name.startswith("c10d::") else "memory"
                self.work.add_us(name, lambda warm: estimated_us(func, args, kwargs, result, card, warm), kind)
        return result


@contextlib.contextmanager
def watch(on: bool, card: Roofline | None = None) -> Iterator[Work]:
    """Counts what torch does within the block, in this thread and in those that it starts. card: whose times are
    estimated as well."""
    work = Work()
    if not on:
        yield work
        return
    begin = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def counted(thread: threading.Thread) -> None:
        with _Counting(work, card):
            begin(thread)

    threading.Thread._bootstrap_inner = counted  # type: ignore[attr-defined]
    try:
        with _Counting(work, card):
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
