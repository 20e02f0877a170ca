"""Operators that a program registers for "cuda" with torch.library go to the CPU, where tensors lie.

There each call goes by what its tensors claim, or what a factory was asked for, as torch's dispatcher on a GPU goes by
where they lie: of tensors in host memory the operator's kernel for the CPU computes, torch's own or the program's.
"""

import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import is_not
from typing import Any

import torch
from torch import library
from torch._library.custom_ops import CustomOpDef
from torch.library import Library

from forge.device.fake_rocm import tags
from forge.device.fake_rocm.propagate import Propagation, tensors_of
from forge.device.fake_rocm.tags import CPU, current, tag_of

KEYS = {"CUDA": "CPU", "AutogradCUDA": "AutogradCPU"}

# (namespace, name, key) of each operator with a GPU's kernel: how the CPU's is called, with keys; None if it has none
_on_host: dict[tuple[str, str, str], Callable[..., Any] | None] = {}
_custom: dict[CustomOpDef, dict[str | None, Callable[..., Any]]] = {}  # kernels by device; None: of the others
library_impl_as_named = Library.impl
_register_kernel = CustomOpDef.register_kernel


def _is_for_gpu(args: Any, kwargs: dict[str, Any], makes: bool = False, numbers: bool = False) -> bool:
    """Where the dispatcher of a machine with GPUs would send this call. `makes`: it makes tensors of nothing else;
    `numbers`: some stand in the place of tensors."""
    if makes and current.ambient is not None:
        return current.ambient != CPU
    known = [(tag_of(tensor), tensor.dim() > 0) for tensor in tensors_of([*args, *kwargs.values()])]
    if any(tag not in (None, CPU) for tag, _ in known):
        return True
    if (known or numbers) and all(tag == CPU for tag, _ in known):
        return False  # numbers alone too: torch keeps them in host memory
    if current.ambient is not None:
        return current.ambient != CPU
    sized = [tag for tag, is_sized in known if is_sized]
    return not known or bool(sized) and CPU not in sized


def _with_tensors(arguments: Any, args: Any) -> Any:
    """args, with tensors for the numbers in their place, which torch's dispatcher hands on to Python as numbers."""
    places = [i for i, (argument, _) in enumerate(zip(arguments, args)) if "Tensor" in str(argument.type)]
    made = list(args)
    for i in places:
        if isinstance(args[i], bool | int | float | complex):
            others = [args[j] for j in places if j != i and args[j] is not None] or [args[i]]
            dtype = functools.reduce(torch.promote_types, (torch.result_type(other, args[i]) for other in others))
            if dtype.is_floating_point and any(
                getattr(other, "dtype", None) == dtype and other.dim() for other in others
            ):
                dtype = torch.float64  # it does not count for the result's, and nothing of the number is lost
            made[i] = torch.tensor(args[i], dtype=dtype, device="cpu")
    return made


@contextmanager
def _seen() -> Iterator[None]:
    """Let a GPU's kernel in Python run as if a program had called it: its operations are looked at like others."""
    before, current.ambient = current.ambient, None
    stack = (torch._C._get_function_stack_at(i) for i in range(torch._C._len_torch_function_stack()))
    watched = any(isinstance(mode, Propagation) for mode in stack)
    try:
        with torch._C._EnableTorchFunction():
            if watched:
                yield
            else:  # called through it: torch takes a mode away for as long as that runs
                with Propagation():
                    yield
    finally:
        current.ambient = before


def _by_claim(operator: tuple[str, str, str], fn: Callable[..., Any], takes_keys: bool) -> Callable[..., Any]:
    @functools.cache
    def arguments() -> Any:  # an operator may be defined after its kernels
        name, _, overload = operator[1].partition(".")
        return torch._C._get_schema(f"{operator[0]}::{name}", overload).arguments

    @functools.cache
    def takes_device() -> bool:
        return any(argument.name == "device" for argument in arguments())

    @functools.cache
    def takes_tensors() -> bool:
        return any("Tensor" in str(argument.type) for argument in arguments())

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        whole = _with_tensors(arguments(), args)
        if not _is_for_gpu(args, kwargs, takes_device() and not takes_tensors(), any(map(is_not, whole, args))):
            on_host = _on_host[operator]
            if on_host is None:
                raise NotImplementedError(
                    f"Could not run '{operator[0]}::{operator[1]}' with arguments from the 'CPU' backend."
                )
            before, current.ambient = current.ambient, CPU
            try:
                return on_host(keys, *whole, **kwargs)
            finally:
                current.ambient = before
        if takes_device() and (
            current.ambient is not None or "device" in kwargs
        ):  # where the factory has taken it away
            kwargs["device"] = tags.device_of(current.index if current.ambient is None else current.ambient)
        with _seen():
            return fn(*([keys] if takes_keys else []), *args, **kwargs)

    return kernel


@functools.wraps(library_impl_as_named)
def library_impl(self: Library, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", **options: Any) -> None:
    key = dispatch_key or self.dispatch_key
    name = op_name if isinstance(op_name, str) else op_name._name
    operator = (self.ns, name.rpartition("::")[2], KEYS.get(key, key))
    takes_keys = options.get("with_keyset", False)
    if key in KEYS and hasattr(library, "get_kernel"):  # not in older releases of torch: what claims to be the host's
        if operator not in _on_host:  # goes to the GPU's kernel there
            try:
                _on_host[operator] = library.get_kernel("::".join(operator[:2]), operator[2]).call_boxed
            except RuntimeError:  # there is none
                _on_host[operator] = None
        fn = _by_claim(operator, fn, takes_keys)
        options["with_keyset"] = True
    elif key in KEYS:
        _on_host[operator] = None
    elif operator in _on_host:
        _on_host[operator] = fn if takes_keys else lambda keys, *args, **kwargs: fn(*args, **kwargs)
        return
    if key in KEYS:
        # Older releases of torch remember each registration here, and refuse a second.
        library._impls.discard("/".join(operator))
        with warnings.catch_warnings():  # it may replace a kernel for the CPU
            warnings.simplefilter("ignore")
            library_impl_as_named(self, op_name, fn, operator[2], **options)
        return
    library_impl_as_named(self, op_name, fn, key, **options)


@functools.wraps(_register_kernel)
def register_kernel(self: CustomOpDef, device_types: Any, fn: Callable[..., Any] | None = None, /) -> Any:
    if fn is None:
        return functools.partial(register_kernel, self, device_types)
    kinds = [device_types] if device_types is None or isinstance(device_types, str) else list(device_types)
    kernels = _custom.setdefault(self, {})
    kernels.update(dict.fromkeys(kinds, fn))
    if "cuda" not in kernels or not {"cuda", "cpu"} & {*kinds}:
        return _register_kernel(self, device_types, fn)

    def chosen(*args: Any, **kwargs: Any) -> Any:
        if _is_for_gpu(args, kwargs):
            return kernels["cuda"](*args, **kwargs)
        on_host = kernels.get("cpu") or kernels.get(None)
        if on_host is None:
            raise NotImplementedError(f"{self._qualname} has no kernel for the CPU")
        return on_host(*args, **kwargs)

    _register_kernel(self, "cpu", chosen)
    return fn


def apply() -> None:
    Library.impl = library_impl
    CustomOpDef.register_kernel = register_kernel
