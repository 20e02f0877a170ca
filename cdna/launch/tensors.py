"""Which memory a Triton launch may touch: the storages of its tensor arguments, by name.

A kernel may also follow pointers that it loads or gets as integers. Then an address outside the known storages is no
error that we could prove, and the launch counts as open: `Memory.open`.
"""

import ctypes
import functools
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from ..checks import Memory, Tensor
from ..engine.library import engine

# Where a 64-bit value could be a pointer, if the process has memory there: user space above the first 4 GiB. Below
# lie numbers. An interpreter that is not position independent, as Debian's is, has its heap there all the same.
_LOWEST, _HIGHEST = 1 << 32, 1 << 47
MAPS = "/proc/self/maps"
_SHORT = {"float8_e4m3fn": "fp8", "float8_e4m3fnuz": "fp8", "float8_e5m2": "bf8", "float8_e5m2fnuz": "bf8"}


def _dtype(tensor: Any) -> str:
    name = str(tensor.dtype).rpartition(".")[2]
    if name in _SHORT:
        return _SHORT[name]
    if name == "bfloat16":
        return "bf16"
    return name.replace("float", "fp").replace("uint", "u").replace("int", "i")


def _shape(tensor: Any) -> str:
    return "x".join(str(n) for n in tensor.shape) or "scalar"


def _mapped() -> list[tuple[int, int]]:
    """Where this process has memory, in user space; of the first 4 GiB where its heap is, and not its code."""
    found = []
    with open(MAPS) as maps:
        for line in maps:
            bounds, _, _, _, _, *name = line.split()
            begin, end = (int(bound, 16) for bound in bounds.split("-"))
            if end <= _HIGHEST and (begin >= _LOWEST or name == ["[heap]"]):
                found.append((begin, end))
    return found


@functools.cache
def lowest_data() -> int:
    """Where a heap below 4 GiB begins, which stays there; else 4 GiB, for other memory may come to lie lower later."""
    return min([_LOWEST, *(begin for begin, _ in _mapped())])


def _may_be_pointer(value: int) -> bool:
    return lowest_data() <= value < _HIGHEST and any(begin <= value < end for begin, end in _mapped())


def _holds_pointers(tensor: Any) -> bool:
    """Whether a tensor of 64-bit integers, or what lies between its elements, holds what could be host addresses.

    Asks torch nothing: a package may have put a kernel of its own, this one, in torch's place.
    """
    if 0 in tensor.shape:
        return False
    n = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))

    def holds(bounds: Sequence[int]) -> bool:
        edges = (ctypes.c_uint64 * len(bounds))(*bounds)
        return bool(engine().lib.cdna_holds_addresses(tensor.data_ptr(), n, edges, len(edges)))

    # Most hold nothing that looks like an address, wherever the process has memory.
    return holds((lowest_data(), _HIGHEST)) and holds([edge for mapping in _mapped() for edge in mapping])


def extent(tensor: Any) -> tuple[int, int]:
    """(Address, size) of its storage. Asks torch for no operation, which a graph's capture would record."""
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()


def memory_of(arguments: Iterable[tuple[str, Any, str]]) -> Memory:
    """The memory of a launch. arguments: (name, value, Triton type) of every run-time argument."""
    tensors: list[Tensor] = []
    is_open = False
    for name, value, type_name in arguments:
        if not type_name.startswith("*"):
            if type_name in ("i64", "u64") and isinstance(value, int) and _may_be_pointer(value):
                is_open = True
            continue
        if value is None:
            continue
        value = getattr(value, "base", value)  # triton.reinterpret wraps a tensor
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(value, torch.Tensor):  # what only has a data_ptr() may be anywhere
            is_open = True
            continue
        if type_name.startswith("**") or (type_name.lstrip("*k") in ("i64", "u64") and _holds_pointers(value)):
            is_open = True
        base, size_bytes = extent(value)
        tensors.append(Tensor(base, size_bytes, value.data_ptr(), f"`{name}` ({_dtype(value)}[{_shape(value)}])"))
    return Memory(tensors, is_open)
