"""Products of one block: types, sizes of k, scales."""

# mypy: disallow-incomplete-defs=False
from __future__ import annotations

import torch
import triton
import triton.language as tl

from .corpus import Answer, arch, reproducer


@triton.jit
def product(
    a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr, AT: tl.constexpr,
    BT: tl.constexpr, ACC: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """c [M, N] = a [M, K] @ b [K, N], operands transposed in memory where said."""
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    acc = tl.zeros((M, N), ACC)
    for k in tl.range(0, K, BK, num_stages=STAGES):
        ka, kb = k + tl.arange(0, BK)[None, :], k + tl.arange(0, BK)[:, None]
        x = tl.load(a + (ka * M + m if AT else m * K + ka))
        y = tl.load(b + (n * K + kb if BT else kb * N + n))
        acc = tl.dot(x, y, acc, input_precision=PRECISION, out_dtype=ACC)
    tl.store(c + m * N + n, acc)


def laid_out(x: torch.Tensor, transposed: bool) -> torch.Tensor:
    """Of fp8, torch transposes the bytes."""
    if not transposed:
        return x
    return x.view(torch.uint8).T.contiguous().view(x.dtype) if x.element_size() == 1 else x.T.contiguous()


def multiplied(
    a: torch.Tensor, b: torch.Tensor, block_k: int, precision: str = "ieee", at: bool = False, bt: bool = False,
    warps: int = 4, stages: int = 1, rtol: float = 1e-5,
) -> Answer:  # fmt: skip
    (m, k), n = a.shape, b.shape[1]
    whole = a.dtype == torch.int8
    c = torch.zeros(m, n, dtype=torch.int32 if whole else torch.float64 if a.dtype == torch.float64 else torch.float32)
    acc = {torch.int32: tl.int32, torch.float32: tl.float32, torch.float64: tl.float64}[c.dtype]
    x, y = laid_out(a, at), laid_out(b, bt)
    product[(1,)](x, y, c, k, m, n, block_k, precision, at, bt, acc, stages, num_warps=warps)
    if whole:
        return Answer(c, (a.long() @ b.long()).int())
    want = a.double() @ b.double()
    return Answer(c.double(), want, rtol=rtol, atol=rtol * float(want.abs().max()))


def _bytes(k: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(100, 128, (32, k)).to(torch.int8), torch.randint(100, 128, (k, 32)).to(torch.int8)


@reproducer("triton #11282, ROCm/triton #958")
def int8_product_in_steps_of_one() -> Answer:
    """int8 with blocks of k of 1: the int32 sum goes through fp32 and is rounded beyond 2**24."""
    return multiplied(*_bytes(2048), block_k=1)


@reproducer("triton #11282, ROCm/triton #958")
def int8_product_in_steps_of_two() -> Answer:
    """int8 with blocks of k of 2."""
    return multiplied(*_bytes(2048), block_k=2)


@reproducer("triton #11282")
def int8_product_in_steps_of_four() -> Answer:
    """int8 with blocks of k of 4, by v_dot4."""
    return multiplied(*_bytes(2048), block_k=4)


@reproducer("triton #11709", archs=("gfx942",))
def xf32_product_of_small_k() -> list[Answer]:
    """tf32 of small blocks of k: gfx942 has xf32 for it, whose operands' width was doubled once too often."""
    return [multiplied(torch.randn(32, k), torch.randn(k, 32), k, "tf32", rtol=2e-3) for k in (4, 8, 16)]


@triton.jit
def product_of_upcast(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :]).to(tl.float32)
    y = tl.load(b + k[:, None] * N + n[None, :])
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(x, y, input_precision="ieee"))


@reproducer("triton #10176")
def ieee_product_of_an_upcast() -> Answer:
    """bf16 made fp32 before a product in ieee precision: fp32's bits of the other operand count."""
    a, b, c = torch.randn(32, 32).bfloat16(), torch.randn(32, 32), torch.zeros(32, 32)
    product_of_upcast[(1,)](a, b, c, 32, 32, 32)
    want = a.double() @ b.double()
    return Answer(c.double(), want, rtol=1e-5, atol=1e-5)


def _fp8(name: str) -> torch.dtype:
    """The format that the card's matrix instructions know."""
    return getattr(torch, f"float8_{name}fnuz" if arch() == "gfx942" else f"float8_{name}{'fn' * (name == 'e4m3')}")


def _of_fp8(first: str, second: str, m: int = 32, k: int = 64, n: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(m, k).to(_fp8(first)), torch.randn(k, n).to(_fp8(second))


@reproducer("found here: wrong with Triton 3.6")
def product_of_e4m3_by_e5m2() -> list[Answer]:
    """Two fp8 formats in one product, both ways round."""
    return [multiplied(*_of_fp8("e4m3", "e5m2"), 64), multiplied(*_of_fp8("e5m2", "e4m3"), 64)]


@reproducer("aiter #5428")
def fp8_product_of_transposed_operands() -> Answer:
    """16 x 16 by blocks of k of 256, eight waves, two stages, both operands transposed in memory."""
    return multiplied(*_of_fp8("e4m3", "e4m3", 16, 1024, 16), 256, at=True, bt=True, warps=8, stages=2)


@reproducer("aiter #5428")
def bf16_product_of_transposed_operands() -> Answer:
    """The same of bf16."""
    a, b = torch.randn(16, 1024).bfloat16(), torch.randn(1024, 16).bfloat16()
    return multiplied(a, b, 256, at=True, bt=True, warps=8, stages=2)


@triton.jit
def batched(a, b, c, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, m, n, k = tl.arange(0, B)[:, None, None], tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + i * M * K + m[None, :, None] * K + k[None, None, :])
    y = tl.load(b + i * N * K + k[None, :, None] * N + n[None, None, :])
    tl.store(c + i * M * N + m[None, :, None] * N + n[None, None, :], tl.dot(x, y, out_dtype=tl.float32))


def _batched(dtype: torch.dtype) -> Answer:
    a, b, c = torch.randn(4, 32, 32).to(dtype), torch.randn(4, 32, 16).to(dtype), torch.zeros(4, 32, 16)
    batched[(1,)](a, b, c, 4, 32, 16, 32)
    want = a.double() @ b.double()
    return Answer(c.double(), want, rtol=1e-4, atol=1e-4)


@reproducer("triton #10458")
def batched_product_of_fnuz() -> Answer:
    """A batch of products of e4m3fnuz, which gfx950 has no instruction for."""
    return _batched(torch.float8_e4m3fnuz)


@reproducer("triton #10458")
def batched_product_of_e5m2() -> Answer:
    """A batch of products of OCP's e5m2, which gfx942 has no instruction for."""
    return _batched(torch.float8_e5m2)


@triton.jit
def chained(q, k, v, out, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    m, n, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    score = tl.dot(tl.load(q + m[:, None] * D + d[None, :]), tl.load(k + n[None, :] * D + d[:, None]))
    value = tl.load(v + n[:, None] * D + d[None, :])
    tl.store(out + m[:, None] * D + d[None, :], tl.dot(score.to(value.dtype), value))


@reproducer("ROCm/triton #298, #227")
def product_of_a_product() -> Answer:
    """A product's result is the next one's operand, as in attention: it may stay in registers."""
    q, k, v = torch.randn(64, 64).bfloat16(), torch.randn(32, 64).bfloat16(), torch.randn(32, 64).bfloat16()
    out = torch.zeros(64, 64)
    chained[(1,)](q, k, v, out, 64, 32, 64)
    score = (q.float() @ k.float().T).bfloat16()
    want = score.double() @ v.double()
    return Answer(out.double(), want, rtol=1e-2, atol=1e-2 * float(want.abs().max()))


# ---------------------------------------------------------------- with scales

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]).double()


@triton.jit
def scaled(
    a, a_scale, b, b_scale, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, A: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """K counts elements; of e2m1 two are in a byte."""
    KA: tl.constexpr = K // 2 if A == "e2m1" else K
    KB: tl.constexpr = K // 2 if B == "e2m1" else K
    m, n, s = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // 32)
    x = tl.load(a + m[:, None] * KA + tl.arange(0, KA)[None, :])
    y = tl.load(b + n[None, :] * KB + tl.arange(0, KB)[:, None])
    xs = tl.load(a_scale + m[:, None] * (K // 32) + s[None, :])
    ys = tl.load(b_scale + n[:, None] * (K // 32) + s[None, :])
    tl.store(c + m[:, None] * N + n[None, :], tl.dot_scaled(x, xs, A, y, ys, B))


def _operand(rows: int, k: int, format: str) -> tuple[torch.Tensor, torch.Tensor]:
    """(as the kernel loads it, [rows, k] in fp64)."""
    if format == "e2m1":
        packed = torch.randint(0, 256, (rows, k // 2), dtype=torch.uint8)
        pairs = torch.stack([packed & 15, packed >> 4], -1).long()
        return packed, E2M1[pairs].reshape(rows, k)
    if format == "bf16":
        x = torch.randn(rows, k).bfloat16()
        return x, x.double()
    x = torch.randn(rows, k).to({"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[format])
    return (x, x.double())


def with_scales(first: str, second: str, warps: int = 4, broken: bool = False, m: int = 32, k: int = 128) -> Answer:
    (a, x), (b, y) = _operand(m, k, first), _operand(32, k, second)
    scales = [torch.randint(124, 131, (rows, k // 32), dtype=torch.uint8) for rows in (m, 32)]
    if broken:
        scales[0][3, 1] = 255  # NaN
    factors = [torch.exp2(s.double() - 127).where(s != 255, torch.nan).repeat_interleave(32, 1) for s in scales]
    c = torch.zeros(m, 32)
    scaled[(1,)](a, scales[0], b, scales[1], c, m, 32, k, first, second, num_warps=warps)
    want = (x * factors[0]) @ (y * factors[1]).T
    tolerance = 1e-2 if "bf16" in (first, second) else 1e-4
    return Answer(c.double(), want, rtol=tolerance, atol=tolerance * float(want.nan_to_num().abs().max()))


@reproducer("triton #5845")
def scaled_product_of_e2m1() -> Answer:
    """mxfp4 by mxfp4."""
    return with_scales("e2m1", "e2m1")


@reproducer("triton #5845")
def scaled_product_of_one_wave() -> Answer:
    """mxfp4 in one wave, which the matrix instruction's pattern once left out."""
    return with_scales("e2m1", "e2m1", warps=1)


@reproducer("triton #5985")
def scaled_product_of_e4m3_by_e2m1() -> list[Answer]:
    """mxfp8 by mxfp4, both ways round."""
    return [with_scales("e4m3", "e2m1"), with_scales("e2m1", "e4m3")]


@reproducer("triton #5985")
def scaled_product_of_e5m2() -> Answer:
    """mxfp8 of e5m2."""
    return with_scales("e5m2", "e5m2")


@reproducer("xla #48543")
def scaled_product_of_bf16() -> Answer:
    """bf16 by mxfp4 with scales of both: those of bf16 must not be dropped."""
    return with_scales("bf16", "e2m1")


@reproducer("triton #5431")
def scale_that_is_nan() -> Answer:
    """A scale of 255 makes its row NaN."""
    return with_scales("e4m3", "e4m3", broken=True)


@reproducer("triton #8170, #7436")
def scaled_product_of_many_steps() -> Answer:
    """mxfp4 with several scales a lane, packed into one register and chosen by op_sel."""
    return with_scales("e2m1", "e2m1", m=64, k=512)
