"""fp8 and other conversions of Triton, each value against what torch or exact arithmetic says."""

# In a Triton kernel only the compile-time arguments carry an annotation.
# mypy: disallow-incomplete-defs=False
from __future__ import annotations

import torch
import triton
import triton.language as tl

from .corpus import Answer, reproducer

_BLOCK = 1024
FORMATS = {
    "e4m3fn": (torch.float8_e4m3fn, 4, 448.0),
    "e5m2": (torch.float8_e5m2, 3, 57344.0),
    "e4m3fnuz": (torch.float8_e4m3fnuz, 4, 240.0),
    "e5m2fnuz": (torch.float8_e5m2fnuz, 3, 57344.0),
}


@triton.jit
def convert(x, y, ROUNDING: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i).to(y.dtype.element_ty, fp_downcast_rounding=ROUNDING))


def converted(x: torch.Tensor, dtype: torch.dtype, rounding: str | None = None) -> torch.Tensor:
    whole = -(-x.numel() // _BLOCK) * _BLOCK
    padded = torch.zeros(whole, dtype=torch.float32).to(x.dtype)
    padded[: x.numel()] = x
    y = torch.zeros(whole, dtype=torch.float32).to(dtype)
    convert[(whole // _BLOCK,)](padded, y, rounding, _BLOCK)
    return y[: x.numel()]


def widened(name: str, to: torch.dtype) -> Answer:
    """All 256 values. What torch makes of them in fp32 is exact, and so is every narrower type's."""
    x = torch.arange(256, dtype=torch.uint8).view(FORMATS[name][0])
    return Answer(converted(x, to).double(), x.double().to(to).double(), of=torch.arange(256))


def rounded(x: torch.Tensor, name: str) -> torch.Tensor:
    """To the nearest value of a format, ties to even, the largest beyond it; in fp64, by powers of two."""
    _, mantissa, largest = FORMATS[name]
    x = x.double()
    smallest = {"e4m3fn": -6, "e5m2": -14, "e4m3fnuz": -7, "e5m2fnuz": -15}[name]
    exponent = torch.frexp(x.where(x.isfinite(), torch.zeros(()).double()))[1].sub(1).clamp(min=smallest)
    step = torch.exp2((exponent - (mantissa - 1)).double())
    nearest = (x / step).round() * step  # torch rounds ties to even
    return nearest.clamp(-largest, largest).where(~x.isnan(), x)


def narrowed(name: str, source: torch.dtype) -> Answer:
    """All 16-bit patterns; of fp32 those with 16 zeros behind, and the neighbours of every midpoint.

    Infinities are left out, and for fnuz what rounds beyond the largest: formats and cards treat these differently.
    """
    if source == torch.float32:
        x = (torch.arange(1 << 16, dtype=torch.int64) << 16).to(torch.int32).view(torch.float32)
        values = torch.arange(256, dtype=torch.uint8).view(FORMATS[name][0]).float()
        values = values[values.isfinite()].unique()
        middle = (values[1:] + values[:-1]) / 2
        x = torch.cat([x, *(torch.nextafter(middle, middle + way) for way in (-1, 0, 1))])
    else:
        x = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(source)
    x = x[~x.isinf()]
    if name.endswith("fnuz"):
        x = x[(x.abs() <= FORMATS[name][2]) | x.isnan()]
    got, want = converted(x, FORMATS[name][0]).double(), rounded(x, name)
    if name.endswith("fnuz"):
        want = want.where(want != 0, torch.zeros(()).double())  # it has no -0
    return Answer(got, want, of=x.double())


_WIDENED = {
    ("e4m3fn", torch.bfloat16): "found here: NaN becomes 480",
    ("e5m2", torch.bfloat16): "found here: infinities and NaN become finite",
    ("e5m2fnuz", torch.bfloat16): "found here, doubled on gfx950; NaN: triton #10745",
}
_NARROWED = {
    ("e4m3fn", torch.float32): "triton #7382, #7337",
    ("e4m3fn", torch.float16): "found here: 464.25 to 479.75 become NaN on gfx942; triton #7337",
    ("e4m3fn", torch.bfloat16): "triton #7469",
    ("e5m2", torch.float32): "triton #7361, #10846",
    ("e5m2", torch.float16): "triton #7361, #5927",
    ("e5m2", torch.bfloat16): "triton #7361",
}


def _register() -> None:
    short = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
    for name in FORMATS:
        for other, bits in short.items():

            def widens(name: str = name, other: torch.dtype = other) -> Answer:
                return widened(name, other)

            def narrows(name: str = name, other: torch.dtype = other) -> Answer:
                return narrowed(name, other)

            widens.__name__, widens.__doc__ = f"{name}_to_{bits}", f"All 256 values of {name} to {bits}."
            narrows.__name__, narrows.__doc__ = f"{bits}_to_{name}", f"{bits} to {name}, to nearest, ties to even."
            fnuz = name.endswith("fnuz")
            reproducer(_WIDENED.get((name, other)) or ("triton #10745" if fnuz else "triton #3634"))(widens)
            reproducer(_NARROWED.get((name, other)) or "triton #3997, #10458")(narrows)


_register()


@reproducer("triton #6135")
def f32_to_e5m2_toward_zero() -> Answer:
    """fp32 to e5m2 with the rounding mode rtz."""
    x = torch.linspace(-3.9, 3.9, 3000)
    step = torch.exp2(torch.frexp(x.double())[1].double() - 3)
    want = (x.double() / step).trunc() * step
    return Answer(converted(x, torch.float8_e5m2, "rtz").double(), want, of=x.double())


def _near_midpoints(bits: int) -> torch.Tensor:
    """fp64 values a little off the middle of two neighbours of so many bits, which fp32 in between would lose."""
    low = 1 + torch.arange(0, 512).double() / 2 ** (bits - 1)
    middle = low[low < 2] + 2.0**-bits
    return torch.cat([middle * (1 - 2.0**-40), middle, middle * (1 + 2.0**-40)])


@reproducer("llvm #135659")
def f64_to_f16() -> Answer:
    """fp64 to fp16, in pairs: by way of fp32 it is rounded twice."""
    x = _near_midpoints(11)
    want = torch.from_numpy(x.numpy().astype("float16")).double()
    return Answer(converted(x, torch.float16).double(), want, of=x)


@reproducer("llvm #133995")
def f64_to_bf16() -> Answer:
    """fp64 to bf16: by way of fp32 it is rounded twice."""
    x = _near_midpoints(8)
    step = 2.0**-7
    return Answer(converted(x, torch.bfloat16).double(), (x / step).round() * step, of=x)


@reproducer("triton #10842")
def f32_to_bf16() -> Answer:
    """fp32 to bf16 at every midpoint and beside it, denormals and NaN among them."""
    x = (torch.arange(0, 1 << 16, 3, dtype=torch.int64) << 16).repeat_interleave(3) + torch.tensor(
        [0x7FFF, 0x8000, 0x8001]
    ).repeat(-(-(1 << 16) // 3))
    x = x.to(torch.int32).view(torch.float32)
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    want = (bits + 0x7FFF + ((bits >> 16) & 1) >> 16 << 16).to(torch.int32).view(torch.float32).where(~x.isnan(), x)
    return Answer(converted(x, torch.bfloat16).double(), want.double(), of=x.double())
