"""MXFP4 operands for tests of kernels: values over many powers of two, and what they are exactly."""

from collections.abc import Callable
from typing import Any

import torch

from tests.support.reference_folders import load_reference

utils = load_reference("mxfp4_mm").utils
TIES = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)  # between two values of fp4


def spread(*shape: int, seed: int, powers: int = 6) -> torch.Tensor:
    """bf16 [..., k], each 32 columns with a power of two of their own: a scale in the wrong place is seen."""
    gen = torch.Generator().manual_seed(seed)
    values = torch.randn((*shape[:-1], shape[-1] // 32, 32), generator=gen)
    exponents = torch.randint(-powers, powers + 1, (*values.shape[:-1], 1), generator=gen)
    return (values * 2.0**exponents).reshape(shape).bfloat16()


def exact(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """float64 [..., k] of codes [..., k/2] and scales [..., k/32]: 6 * 2^127 is beyond fp32."""
    values = utils.mxfp4_dequantize(codes, torch.full_like(scales, 127)).double().view(*scales.shape, 32)
    powers = torch.where(scales == 255, torch.nan, 2.0 ** (scales.double() - 127))
    return (values * powers[..., None]).flatten(-2)


def shuffled(codes: torch.Tensor, scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """fp4x2 codes and e8m0 scales of weights in the order in which kernels get them; what pads the scales is NaN."""
    flat = scales.reshape(-1, scales.shape[-1])
    rows, columns = flat.shape
    padded = torch.full((-(-rows // 256) * 256, -(-columns // 8) * 8), 255, dtype=torch.uint8)
    padded[:rows, :columns] = flat
    in_order = utils.shuffle_weight(codes.view(torch.float4_e2m1fn_x2))
    return in_order, utils.shuffle_scale(padded).view(torch.float8_e8m0fnu)


A, B, SCALE = 0, 3, 4
# A part of what amd-mxfp4-mm takes for (4, 32, 128), what to make of it, and what the error must say.
REFUSED: dict[str, tuple[int, Callable[[Any], Any], str]] = {
    "a is flat": (A, lambda x: x[0], "a [M, K] and b_shuffle [N, K/2] expected"),
    "no row": (A, lambda x: x[:0], "M >= 1"),
    "k of 32": (A, lambda x: x[:, :32].contiguous(), "K of 64 expected"),
    "n of 8": (B, lambda x: x[:8], "N a multiple of 16"),
    "another k": (B, lambda x: x[:, :32].contiguous(), "b_shuffle must have the shape (32, 64), got (32, 32)"),
    "a is fp16": (A, lambda x: x.half(), "a must be torch.bfloat16, got torch.float16"),
    "a has gaps": (A, lambda x: x.T.contiguous().T, "a must be contiguous, got strides (1, 4)"),
    "a begins between": (
        A,
        lambda x: torch.zeros(x.numel() + 1, dtype=x.dtype)[1:].view(x.shape),
        "a must begin at a multiple of 16 bytes",
    ),
    "b is fp8": (B, lambda x: x.view(torch.float8_e4m3fn), "b_shuffle must be torch.float4_e2m1fn_x2 or torch.uint8"),
    "scales without padding": (SCALE, lambda x: x[:32], "b_scale_sh must have the shape (256, 8), got (32, 8)"),
    "scales elsewhere": (SCALE, lambda x: x.to("meta"), "b_scale_sh must be on "),
}


class Product:
    """Operands of amd-mxfp4-mm."""

    # Half a bf16 step is at most 2^-8 of a value; over many values the root of its mean square is 1.7e-3.
    ROUNDING = 2.5e-3

    def __init__(self, m: int, n: int, k: int) -> None:
        self.a = spread(m, k, seed=0)
        self.codes, self.scales = utils.mxfp4_quantize(spread(n, k, seed=1))

    def data(self) -> tuple[Any, ...]:
        """What custom_kernel takes; the two parts that it does not read are missing."""
        return self.a, None, None, *shuffled(self.codes, self.scales)

    def wanted(self, row: Any = None) -> torch.Tensor:
        """float64 [m, n] of the quantised operands."""
        return exact(*utils.mxfp4_quantize(self.a)) @ exact(self.codes, self.scales).T
