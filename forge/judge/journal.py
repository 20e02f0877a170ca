"""What a worker tells of torch's operations in a call, for who makes its output anew (forge/judge/replay.py)."""

import ctypes
from typing import Any

import msgspec

from forge.judge.operations import changed_by, tensors

MOST_BYTES = 56 << 20  # of a journal, which a frame has room for; what is longer is not made anew
MOST_INLINE, MOST_TOLD = 64 << 10, 1 << 20  # of a tensor that is told by its bytes; of one that nothing could make anew


class Notes:
    """Of a call's operations, in order. Bytes of a tensor are told where its memory is the host's alone."""

    def __init__(self, writers: Any) -> None:
        self.writers = writers
        self.told: list[Any] = []

    def add(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        given = {x.untyped_storage().data_ptr() for x in tensors((args, kwargs))}
        changed = {id(x) for x in tensors(changed_by(func, args, kwargs))}
        made = [x for x in tensors(result) if x.untyped_storage().data_ptr() not in given]
        try:
            named = {key: self.plain(value, changed) for key, value in kwargs.items()}
            operation = [func._schema.name, func._overloadname, self.plain(args, changed), named]
        except TypeError:
            operation = ["", "", [], {}]
        self.told.append([*operation, [self.place(x) + [None if operation[0] else _held(x)] for x in made]])
        self.writers.note(len(self.told) - 1)

    def plain(self, value: Any, changed: set[int]) -> Any:
        import torch

        if isinstance(value, torch.Tensor):
            host = value.data_ptr() not in self.writers.PLACE and id(value) not in changed
            return {"tensor": self.place(value), "held": _held(value) if host and _span(value) <= MOST_INLINE else None}
        if isinstance(value, (list, tuple)):
            return [self.plain(one, changed) for one in value]
        if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
            return {"of torch": str(value).removeprefix("torch.")}
        if isinstance(value, torch.device):
            return {"device": str(value)}
        if value is None or type(value) in (bool, int, float, str):
            return value
        raise TypeError(type(value).__name__)

    def place(self, x: Any) -> list[Any]:
        import torch

        if x.layout is not torch.strided or x.is_conj() or x.is_neg():
            raise TypeError("a tensor of another kind")
        return [x.data_ptr(), str(x.dtype).removeprefix("torch."), list(x.shape), list(x.stride())]

    def taken(self) -> bytes:
        return msgspec.msgpack.encode(self.told)


def _span(x: Any) -> int:
    """Bytes from a tensor's first element to the end of its last."""
    if not x.numel():
        return 0
    return x.element_size() * (1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride())))


def _held(x: Any) -> bytes:
    if _span(x) > MOST_TOLD:
        raise ValueError("a large tensor that no launch or operation made")
    return ctypes.string_at(x.data_ptr(), _span(x))
