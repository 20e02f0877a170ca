"""Hands the claimed device of an operation's inputs on to its outputs; refuses what a GPU would refuse."""

import threading
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType
from typing import Any

import torch
from torch.nn.parameter import Buffer, Parameter
from torch.overrides import TorchFunctionMode, _push_mode

from forge.device.fake_rocm import generators, tags
from forge.device.fake_rocm.tags import CPU, TAG, current, mark

TENSOR_TYPES = frozenset({torch.Tensor, Parameter, Buffer})
SEQUENCES = (list, tuple)  # tuple: also torch.return_types

_BASE = torch._C.TensorBase
_SET_DATA = torch.Tensor.data.__set__
# Take tensors of different devices on a real GPU too: copies, comparisons of shapes, and indices on the CPU.
_MIXES = frozenset(
    """
    __deepcopy__ __getitem__ __set__ __setitem__ _foreach_copy_ _has_compatible_shallow_copy_type
    _index_put_impl_ _make_subclass _pack_padded_sequence as_tensor asarray backward can_cast copy_
    ctc_loss expand_as gru histogramdd index_put index_put_ is_same_size is_set_to lstm new_tensor
    pack_padded_sequence repeat_interleave reshape_as resize_as_ result_type rnn_tanh set_
    sparse_coo_tensor stft tensor_split to type_as unsafe_chunk view_as
    """.split()
)


class Propagation(TorchFunctionMode):
    """Sees every torch function that a submission calls. Costs about 2 us a call."""

    def __init__(self) -> None:
        pass

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        tag = None
        for argument in args:
            kind = type(argument)
            if kind in TENSOR_TYPES:
                other = argument.__dict__.get(TAG)
                if other is not None and other != tag:
                    if tag is not None:
                        tag = _common(func, args, kwargs)
                        break
                    tag = other
            elif kind is list or kind is tuple:
                for element in argument:
                    if type(element) in TENSOR_TYPES:
                        other = element.__dict__.get(TAG)
                        if other is not None and other != tag:
                            if tag is not None:
                                tag = _common(func, args, kwargs)
                                break
                            tag = other
        if kwargs:
            if "generator" in kwargs:
                kwargs = {**kwargs, "generator": generators.source_of(kwargs["generator"])}
            if kwargs.get("device") is not None:
                asked = tags.target(kwargs["device"])
                if asked is not None:
                    tag, kwargs = asked, {**kwargs, "device": tags.CPU_DEVICE}
            elif any(type(value) in TENSOR_TYPES for value in kwargs.values()):
                tag = _common(func, args, kwargs)
        before = current.ambient
        if tag is not None:
            current.ambient = tag
        try:
            result = func(*args, **kwargs) if kwargs else func(*args)
        finally:
            current.ambient = before
        kind = type(result)
        if kind in TENSOR_TYPES:
            if TAG not in result.__dict__:
                if tag is not None:
                    mark(result, tag)
                elif type(func) is BuiltinFunctionType and _of_numbers(args, kwargs, result):
                    mark(result, CPU)
        elif result is None:
            if func == _SET_DATA and tag is not None:
                args[0].__dict__[TAG] = args[1].__dict__.get(TAG, tag)
        elif tag is not None and isinstance(result, SEQUENCES):
            for element in result:
                if type(element) in TENSOR_TYPES and TAG not in element.__dict__:
                    mark(element, tag)
        return result


def tensors_of(values: Iterable[Any]) -> Iterable[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, SEQUENCES):
            yield from (element for element in value if isinstance(element, torch.Tensor))


def _of_numbers(args: Any, kwargs: dict[str, Any] | None, result: torch.Tensor) -> bool:
    """As torch.mul(2, 3): in host memory."""
    values = [*args, *(kwargs or {}).values()]
    return next(iter(tensors_of(values)), None) is None and tags.real_device(result).type == "cpu"


def _common(func: Callable[..., Any], args: Any, kwargs: dict[str, Any] | None) -> int | None:
    """The tag of an operation whose inputs may disagree; RuntimeError where a GPU would raise it."""
    name = getattr(func, "__name__", "")
    first = scalar = None
    named = (
        value for key, value in (kwargs or {}).items() if key not in ("alpha", "beta")
    )  # numbers, read of anywhere
    for tensor in tensors_of([*args, *named]):
        tag = tensor.__dict__.get(TAG)
        if tag is None:
            continue
        if tag == CPU and tensor.dim() == 0:  # a CPU scalar goes with any device
            scalar = tag
        elif first is None:
            first = tag
        elif tag != first and name == "__getitem__" and first == CPU:
            raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
        elif tag != first and name not in _MIXES:
            known = [tags.CPU_DEVICE if one == CPU else tags.gpu(one) for one in (first, tag)]
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{known[0]} and {known[1]}! ({name})"
            )
    return scalar if first is None else first


_original_bootstrap = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]


def _bootstrap_with_propagation(thread: threading.Thread) -> None:
    with Propagation():  # what is still there when the thread is gone ends a process that is ending itself (SIGABRT)
        _original_bootstrap(thread)


def apply() -> None:
    """Watch this thread and all that Python starts after it. The stack of modes is per thread."""
    threading.Thread._bootstrap_inner = _bootstrap_with_propagation  # type: ignore[attr-defined]
    _push_mode(Propagation())
