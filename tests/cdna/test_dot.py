"""tl.dot and tl.dot_scaled, compiled for gfx942 and gfx950, against float64 products.

Triton's lowering of a dot knows the matrix instructions' register layouts on its own account, so these tests hold ours
to its. Block scales differ from row to row and block to block: with uniform ones a wrong layout of k goes unseen.
"""

# In a Triton kernel only the compile-time arguments carry an annotation.
# mypy: disallow-incomplete-defs=False
from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import cdna


@triton.jit
def dot(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """C [M, N] = A [M, K] @ B [K, N], all row-major."""
    row, column, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + row[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + column[None, :])
    if x.dtype == tl.int8:
        product = tl.dot(x, y)
    else:
        product = tl.dot(x, y, input_precision="ieee")
    tl.store(c + row[:, None] * N + column[None, :], product)


@triton.jit
def dot_scaled(
    a, b, a_scale, b_scale, c,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    A_FORMAT: tl.constexpr, B_FORMAT: tl.constexpr, A_PACK: tl.constexpr, B_PACK: tl.constexpr,
):  # fmt: skip
    """C [M, N] of A [M, K/A_PACK] and B [K/B_PACK, N]; scales [M, K/32] and [N, K/32], E8M0."""
    row, column, block = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // 32)
    a_k, b_k = tl.arange(0, K // A_PACK), tl.arange(0, K // B_PACK)
    x = tl.load(a + row[:, None] * (K // A_PACK) + a_k[None, :])
    y = tl.load(b + b_k[:, None] * N + column[None, :])
    x_scale = tl.load(a_scale + row[:, None] * (K // 32) + block[None, :])
    y_scale = tl.load(b_scale + column[:, None] * (K // 32) + block[None, :])
    product = tl.dot_scaled(x, x_scale, A_FORMAT, y, y_scale, B_FORMAT)
    tl.store(c + row[:, None] * N + column[None, :], product)


M, N, K = 64, 64, 128
FNUZ = (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
OCP = (torch.float8_e4m3fn, torch.float8_e5m2)
COMMON = [(t, t) for t in (torch.float16, torch.bfloat16, torch.float32, torch.int8)]
DOTS = [
    (arch, a, b)
    for arch, (fp8, bf8) in (("gfx942", FNUZ), ("gfx950", OCP))
    for a, b in [*COMMON, (fp8, fp8), (fp8, bf8), (bf8, bf8)]
]


@pytest.mark.parametrize("rows", [16, 32], ids=lambda n: f"{n}x{n}")
@pytest.mark.parametrize(("arch", "a_type", "b_type"), DOTS, ids=lambda x: str(x).removeprefix("torch."))
def test_dot(arch: str, a_type: torch.dtype, b_type: torch.dtype, rows: int) -> None:
    torch.manual_seed(0)
    if arch == "gfx942" and a_type != b_type and tuple(map(int, triton.__version__.split(".")[:2])) < (3, 7):
        pytest.skip("Triton before 3.7 exchanges the formats of such a product (docs/compilers.md)")
    if a_type == torch.int8:
        a, b = torch.randint(-128, 128, (M, K), dtype=a_type), torch.randint(-128, 128, (K, N), dtype=b_type)
        c = torch.zeros(M, N, dtype=torch.int32)
    else:
        a, b, c = torch.randn(M, K).to(a_type), torch.randn(K, N).to(b_type), torch.zeros(M, N)
    with cdna.device(arch):
        dot[(1,)](a, b, c, M, N, K, num_warps=4, matrix_instr_nonkdim=rows)
    if a_type == torch.int8:
        assert torch.equal(c.long(), a.long() @ b.long())
        return
    a, b = a.double(), b.double()
    bound = K * 2.0**-24 * (a.abs() @ b.abs())
    assert ((c - a @ b).abs() <= bound).all()


E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def random_low(rows: int, name: str) -> tuple[torch.Tensor, torch.Tensor, int]:
    """(bytes [rows, K/pack], values [rows, K], pack)"""
    if name == "e2m1":
        codes = torch.randint(0, 16, (rows, K))
        return (codes[:, 0::2] | codes[:, 1::2] << 4).to(torch.uint8), E2M1[codes], 2
    x = torch.randn(rows, K).to({"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[name])
    return x.view(torch.uint8), x.float(), 1


@pytest.mark.parametrize("rows", [16, 32], ids=lambda n: f"{n}x{n}")
@pytest.mark.parametrize(
    ("a_format", "b_format"),
    [("e2m1", "e2m1"), ("e4m3", "e4m3"), ("e5m2", "e5m2"), ("e4m3", "e2m1"), ("e2m1", "e5m2")],
)
def test_dot_scaled(a_format: str, b_format: str, rows: int) -> None:
    torch.manual_seed(1)
    a, a_values, a_pack = random_low(M, a_format)
    b, b_values, b_pack = random_low(N, b_format)
    scales = [torch.randint(118, 136, (n, K // 32), dtype=torch.uint8) for n in (M, N)]
    c = torch.zeros(M, N)
    with cdna.device("gfx950"):
        dot_scaled[(1,)](
            a, b.t().contiguous(), *scales, c, M, N, K, a_format, b_format, a_pack, b_pack,
            num_warps=4, matrix_instr_nonkdim=rows,
        )  # fmt: skip
    x, y = (
        values.double() * torch.exp2(scale.double() - 127).repeat_interleave(32, dim=1)
        for values, scale in zip((a_values, b_values), scales)
    )
    bound = K * 2.0**-24 * (x.abs() @ y.abs().t())
    assert ((c - x @ y.t()).abs() <= bound).all()
