"""Operators that a submission registers for "cuda" with torch.library go to the CPU, where tensors lie.

An operator with kernels for both devices keeps the GPU's.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from torch import library
from torch._library.custom_ops import CustomOpDef
from torch.library import Library

KEYS = {"CUDA": "CPU", "AutogradCUDA": "AutogradCPU"}

_with_gpu_kernel: set[Any] = set()  # (namespace, name) of a library's operator, or a CustomOpDef
library_impl_as_named = Library.impl
_register_kernel = CustomOpDef.register_kernel


@functools.wraps(library_impl_as_named)
def library_impl(self: Library, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", **options: Any) -> None:
    key = dispatch_key or self.dispatch_key
    operator = (self.ns, str(op_name).rpartition("::")[2])
    if key in KEYS:
        _with_gpu_kernel.add(operator)
        # Older releases of torch remember each registration here, and refuse a second.
        library._impls.discard("/".join([*operator, KEYS[key]]))
        with warnings.catch_warnings():  # it may replace a kernel for the CPU
            warnings.simplefilter("ignore")
            library_impl_as_named(self, op_name, fn, KEYS[key], **options)
        return
    elif key in KEYS.values() and operator in _with_gpu_kernel:
        return
    library_impl_as_named(self, op_name, fn, key, **options)


@functools.wraps(_register_kernel)
def register_kernel(self: CustomOpDef, device_types: Any, fn: Callable[..., Any] | None = None, /) -> Any:
    kinds = [device_types] if device_types is None or isinstance(device_types, str) else list(device_types)
    if "cuda" in kinds:
        _with_gpu_kernel.add(self)
        # None stands for every device that has no kernel of its own; a GPU's kernel goes before that.
        return _register_kernel(self, "cpu", fn)
    if "cpu" in kinds and self in _with_gpu_kernel:
        return (lambda function: function) if fn is None else fn
    return _register_kernel(self, device_types, fn)


def apply() -> None:
    Library.impl = library_impl
    CustomOpDef.register_kernel = register_kernel
