"""Element by element: integers and floating-point numbers of Triton."""

# mypy: disallow-incomplete-defs=False
from __future__ import annotations

import numpy
import torch
import triton
import triton.language as tl
from triton.language.random import uint_to_uniform_float

from .corpus import Answer, numbers, reproducer


@triton.jit
def binary(x, y, out, OP: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(y + i)
    if OP == "quotient of 24 bits":
        r = (a & 0xFFFFFF) // (b & 0xFFFFFF)
    elif OP == "remainder of 24 bits":
        r = (a & 0xFFFFFF) % (b & 0xFFFFFF)
    elif OP == "quotient of 23 bits":
        r = ((a << 9) >> 9) // ((b << 9) >> 9)
    elif OP == "remainder of 23 bits":
        r = ((a << 9) >> 9) % ((b << 9) >> 9)
    elif OP == "quotient":
        r = a // b
    elif OP == "product":
        r = a * b
    elif OP == "division to nearest":
        r = tl.div_rn(a, b)
    else:
        r = tl.sqrt_rn(a)
    tl.store(out + i, r)


def of_pairs(x: torch.Tensor, y: torch.Tensor, op: str, out: torch.dtype | None = None) -> torch.Tensor:
    n = x.numel()
    whole = -(-n // 256) * 256
    x, y = (torch.cat([v, torch.ones(whole - n, dtype=v.dtype)]) for v in (x, y))
    result = torch.zeros(whole, dtype=out or x.dtype)
    binary[(whole // 256,)](x, y, result, op, 256)
    return result[:n]


def _by_reciprocal(largest: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pairs at which a reciprocal with an error of one unit gives a quotient that is one too large."""
    y = torch.cat([torch.arange(3, 2000, 7), torch.randint(2, largest // 2, (500,))])
    x = torch.cat([largest // y * y - 1, largest // y * y])
    return x, torch.cat([y, y])


@reproducer("llvm #201186, #209711")
def quotient_of_24_bits() -> list[Answer]:
    """Unsigned numbers known to have 24 bits, divided by a reciprocal in fp32: 0xbf2758 / 0xbf2759 gives 1."""
    x, y = _by_reciprocal(0xFFFFFF)
    x, y = (torch.cat([v, torch.tensor(more)]).int() for v, more in ((x, [0xBF2758, 0xE3170D]), (y, [0xBF2759, 0xC32])))
    return [
        Answer(of_pairs(x, y, "quotient of 24 bits"), x // y, of=x),
        Answer(of_pairs(x, y, "remainder of 24 bits"), x % y, of=x),
    ]


@reproducer("llvm #202753, #203436")
def quotient_of_23_bits() -> list[Answer]:
    """Signed numbers of 23 bits, the most negative by -1 among them."""
    x, y = _by_reciprocal(0x3FFFFF)
    x = torch.cat([x, -x, x, torch.tensor([-0x400000, -0x400000])])
    y = torch.cat([y, y, -y, torch.tensor([-1, 1])])
    x, y = x.int()[x != 0x400000], y.int()[x != 0x400000]
    quotient = (x.abs() // y.abs()) * x.sign() * y.sign()
    inside = quotient.abs() < 0x400000  # 23 bits hold no more
    got, rest = of_pairs(x, y, "quotient of 23 bits"), of_pairs(x, y, "remainder of 23 bits")
    want = quotient.where(inside, got)
    return [Answer(got, want, of=x), Answer(rest, (x - quotient * y), of=x)]


@reproducer("llvm #151676")
def quotient_of_64_bits() -> Answer:
    """64-bit unsigned numbers divided, small and large ones side by side."""
    x = numbers(numpy.array([0, 9, 10, 2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1, 12345678901234567, 10**18] * 28))
    y = torch.tensor([1, 10, 3, 10, 2**31 + 11, 2**33 + 1, 7]).repeat(36)
    return Answer(of_pairs(x, y, "quotient"), x // y, of=x)


@triton.jit
def quotients_in_64_bits(x, y, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i).to(tl.int64) // tl.load(y + i).to(tl.int64))


@reproducer("llvm #204469")
def most_negative_integer_divided_in_64_bits() -> Answer:
    """int32 made int64 and divided, -2147483648 // -1 among them."""
    x = torch.tensor([-(2**31), -(2**31), -(2**31), 2**31 - 1, -7, 7, 0, 12345] * 32)
    y = torch.tensor([-1, 1, 3, -1, 2, -2, -5, -77] * 32)
    out = torch.zeros(256, dtype=torch.int64)
    quotients_in_64_bits[(1,)](x.int(), y.int(), out, 256)
    return Answer(out, torch.div(x, y, rounding_mode="trunc"), of=x)


@reproducer("triton #11217")
def product_of_bf16() -> Answer:
    """bf16 products are rounded to nearest, ties to even."""
    x, y = torch.randn(4096).bfloat16(), torch.randn(4096).bfloat16()
    return Answer(of_pairs(x, y, "product"), (x.double() * y.double()).bfloat16())


@triton.jit
def in_steps(x, y, z, out, B: tl.constexpr):
    i = tl.arange(0, B)
    product = tl.load(x + i) * tl.load(y + i)
    tl.store(out + i, product + tl.load(z + i))


@reproducer("found here: right from Triton 3.9 on")
def product_and_sum_of_bf16() -> Answer:
    """x * y + z in bf16: the product is a bf16 number of its own and is rounded before the sum."""
    x, y = torch.randn(1024).bfloat16(), torch.randn(1024).bfloat16()
    product = (x.double() * y.double()).bfloat16()
    z = (-product.double() * (1 + 2.0**-6)).bfloat16()  # what is left are the product's last bits
    out = torch.zeros(1024).bfloat16()
    in_steps[(1,)](x, y, z, out, 1024)
    return Answer(out, (product.double() + z.double()).bfloat16())


@reproducer("found here: right from Triton 3.9 on")
def product_and_sum_of_f16() -> Answer:
    """x * y + z in fp16 without fusion."""
    x, y = torch.randn(1024).half(), torch.randn(1024).half()
    product = (x.double() * y.double()).half()
    z = (-product.double() * (1 + 2.0**-8)).half()
    out = torch.zeros(1024).half()
    in_steps[(1,)](x, y, z, out, 1024, enable_fp_fusion=False)
    return Answer(out, (product.double() + z.double()).half())


@reproducer("triton #5422, #10193")
def root_to_nearest() -> Answer:
    """sqrt_rn is correctly rounded, of denormals too."""
    bits = torch.cat([torch.arange(1, 0x800000, 9973), torch.arange(0x800000, 0x7F800000, 1999993)]).int()
    x = bits.view(torch.float32)
    return Answer(of_pairs(x, x, "root to nearest"), x.double().sqrt().float(), of=x.double())


@reproducer("triton #5422")
def division_to_nearest() -> Answer:
    """div_rn is correctly rounded, where quotients or operands are denormals too."""
    x, y = torch.rand(2048) + 0.5, torch.rand(2048) + 0.5
    x[512:1024] *= 2.0**-126
    x[1024:1536] *= 2.0**-130
    y[1536:] *= 2.0**120
    return Answer(of_pairs(x, y, "division to nearest"), (x.double() / y.double()).float(), of=x.double())


@triton.jit
def unary(x, out, OP: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    if OP == "exp":
        r = tl.exp(v)
    elif OP == "uniform":
        r = uint_to_uniform_float(v)
    elif OP == "abs of converted":
        r = tl.abs((-v).to(tl.float32))
    elif OP == "sigmoid":
        r = tl.sigmoid(v)
    else:
        r = v
    tl.store(out + i, r)


def of_each(x: torch.Tensor, op: str, out: torch.dtype = torch.float32) -> torch.Tensor:
    result = torch.zeros(x.numel(), dtype=out)
    unary[(1,)](x, result, op, x.numel())
    return result


@reproducer("triton #3816")
def exponential_of_large_negatives() -> Answer:
    """tl.exp keeps denormals."""
    x = torch.linspace(-103, -80, 1024)
    return Answer(of_each(x, "exp"), x.double().exp().float(), rtol=1e-5, atol=2.0**-148, of=x.double())


@reproducer("triton #10601")
def uniform_of_smallest_integer() -> Answer:
    """What tl.rand makes of random bits, INT_MIN among them, lies in [0, 1)."""
    x = torch.tensor([-(2**31), 2**31 - 1, -1, 0, 1, -2, 12345, -12345] * 16, dtype=torch.int32)
    want = torch.where(x < 0, -(x.long()) - 1, x.long()).double() * 4.6566127342e-10
    return Answer(of_each(x, "uniform"), want.float(), rtol=1e-6, of=x)


@reproducer("triton #1337")
def absolute_value_of_a_conversion() -> Answer:
    """tl.abs of an integer that was negated and converted to fp32."""
    x = torch.arange(1, 257, dtype=torch.int64)
    return Answer(of_each(x, "abs of converted"), x.float(), of=x)


@triton.jit
def extreme_of_two(x, y, out, PROPAGATE: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(y + i)
    if PROPAGATE:
        low = tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
        high = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    else:
        low, high = tl.minimum(a, b), tl.maximum(a, b)
    tl.store(out + i, low)
    tl.store(out + B + i, high)


def _extremes(propagate: bool, dtype: torch.dtype) -> list[Answer]:
    x, y = torch.randn(256).to(dtype), torch.randn(256).to(dtype)
    x[::7], y[::5] = float("nan"), float("nan")
    out = torch.zeros(512, dtype=dtype)
    extreme_of_two[(1,)](x, y, out, propagate, 256)
    low, high = (torch.minimum, torch.maximum) if propagate else (torch.fmin, torch.fmax)
    return [Answer(out[:256], low(x, y)), Answer(out[256:], high(x, y))]


@reproducer("triton #10291")
def extremes_that_skip_nan() -> list[Answer]:
    """tl.maximum and tl.minimum give the number where the other operand is NaN."""
    return [*_extremes(False, torch.float32), *_extremes(False, torch.float16), *_extremes(False, torch.bfloat16)]


@reproducer("triton #10291")
def extremes_that_propagate_nan() -> list[Answer]:
    """With propagate_nan=ALL they give NaN; gfx950 has instructions of its own for it."""
    return [*_extremes(True, torch.float32), *_extremes(True, torch.float16), *_extremes(True, torch.bfloat16)]
