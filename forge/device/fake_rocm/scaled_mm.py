"""torch._scaled_mm with a GPU's rules: fp8 values multiplied and summed in fp32, scaled, rounded once."""

import functools
from typing import Any

import torch

from cdna.errors import NotEmulated
from forge.device.cards import CARDS

# What the matrix cores multiply, by a card's fp8_format.
FP8 = {"fnuz": (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz), "ocp": (torch.float8_e4m3fn, torch.float8_e5m2)}


def scaled_mm(
    arch: str,
    self: torch.Tensor,
    mat2: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale_result: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """[M, K] fp8 row-major @ [K, N] fp8 column-major -> [M, N].

    Scales fp32: one a tensor ([], [1], [1, 1]), or one a row of self ([M, 1]) and a column of mat2 ([1, N]).
    """
    taken = FP8[CARDS[arch].fp8_format]
    for matrix in (self, mat2):
        if matrix.dtype not in taken:
            names = " or ".join(str(dtype) for dtype in taken)
            raise RuntimeError(f"torch._scaled_mm on {arch} multiplies {names}, not {matrix.dtype}")
    m, k = self.shape
    k2, n = mat2.shape
    if k != k2:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({m}x{k} and {k2}x{n})")
    if self.stride(1) != 1 or mat2.stride(0) != 1:
        raise RuntimeError("torch._scaled_mm: mat1 must be row-major, mat2 column-major (such as weight.t())")
    if k % 16 or n % 16:
        raise RuntimeError(f"torch._scaled_mm: K and N must be divisible by 16, got K={k}, N={n}")
    rowwise = scale_a.shape == (m, 1) and scale_b.shape == (1, n)
    if not rowwise and not (scale_a.numel() == scale_b.numel() == 1):
        raise NotEmulated(
            "torch._scaled_mm on an emulated GPU takes scale_a [1] and scale_b [1], or "
            f"[{m}, 1] and [1, {n}]; got {list(scale_a.shape)} and {list(scale_b.shape)}"
        )
    result = (self.float() @ mat2.float()) * scale_a * scale_b
    if bias is not None:
        result = result + bias.float()
    if scale_result is not None:
        result = result * scale_result
    result = result.to(out_dtype or self.dtype)
    return result if out is None else out.copy_(result)


def apply(arch: str) -> None:
    replaced: Any = functools.partial(scaled_mm, arch)
    torch._scaled_mm = replaced
