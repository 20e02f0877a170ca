"""The emulated device on the Triton shapes that AMD's rocjitsu publishes times of, beside those times.

    CDNA_THREADS=1 python lab/rocjitsu_shapes.py [--repeats 5] [--json FILE] [--only NAME]

Shapes, launches and rocjitsu's seconds are those of ROCm/rocm-systems,
public/data/runs/github-34513707603-attempt-1.json (gfx950, one thread, its CI machine; a launch and the wait for it);
kernels and inputs are ours. Ours is CPU time of a launch, the best of the repeats, on whatever this machine is: take a
ratio for its order. Every result is checked.
"""

# In a Triton kernel only the compile-time arguments carry an annotation.
# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
import triton
import triton.language as tl

import cdna


@triton.jit
def copy_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def add_kernel(a, b, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(a + i, mask=i < n) + tl.load(b + i, mask=i < n), mask=i < n)


@triton.jit
def transpose_kernel(x, out, rows, columns, TILE: tl.constexpr):
    r = tl.program_id(0) * TILE + tl.arange(0, TILE)
    c = tl.program_id(1) * TILE + tl.arange(0, TILE)
    tile = tl.load(x + r[:, None] * columns + c[None, :])
    tl.store(out + c[:, None] * rows + r[None, :], tl.trans(tile))


@triton.jit
def gather_kernel(x, index, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(index + i, mask=i < n)
    tl.store(out + i, tl.load(x + at, mask=i < n), mask=i < n)


@triton.jit
def histogram_kernel(x, out, n, BUCKETS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + i % BUCKETS, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def softmax_kernel(x, out, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    values = tl.load(x + row + i, mask=i < columns, other=float("-inf")).to(tl.float32)
    weights = tl.exp(values - tl.max(values, 0))
    tl.store(out + row + i, (weights / tl.sum(weights, 0)).to(out.dtype.element_ty), mask=i < columns)


@triton.jit
def rmsnorm_kernel(x, weight, out, columns, epsilon, BLOCK: tl.constexpr, WEIGHTED: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    values = tl.load(x + row + i, mask=i < columns, other=0.0).to(tl.float32)
    values *= tl.rsqrt(tl.sum(values * values, 0) / columns + epsilon)
    if WEIGHTED:
        values *= tl.load(weight + i, mask=i < columns, other=0.0).to(tl.float32)
    tl.store(out + row + i, values.to(out.dtype.element_ty), mask=i < columns)


@triton.jit
def gemm_kernel(a, b, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tiles = tl.cdiv(N, BN)
    rm = tl.program_id(0) // tiles * BM + tl.arange(0, BM)
    rn = tl.program_id(0) % tiles * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        inside = k + rk < K
        x = tl.load(a + rm[:, None] * K + k + rk[None, :], mask=(rm < M)[:, None] & inside[None, :], other=0.0)
        y = tl.load(b + (k + rk)[:, None] * N + rn[None, :], mask=inside[:, None] & (rn < N)[None, :], other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(out + rm[:, None] * N + rn[None, :], acc.to(out.dtype.element_ty), (rm < M)[:, None] & (rn < N)[None, :])


@triton.jit
def attention_kernel(
    q,
    k,
    v,
    out,
    scale,
    SEQUENCE: tl.constexpr,
    GROUP: tl.constexpr,
    CAUSAL: tl.constexpr,
    BM: tl.constexpr,
    D: tl.constexpr,
):
    """One block of queries of a head, over all keys at once. GROUP: heads that share keys and values."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.arange(0, SEQUENCE)
    rd = tl.arange(0, D)
    head = tl.program_id(1)
    own = head * SEQUENCE * D
    shared = head // GROUP * SEQUENCE * D
    queries = tl.load(q + own + rm[:, None] * D + rd[None, :])
    keys = tl.load(k + shared + rn[None, :] * D + rd[:, None])
    scores = tl.dot(queries, keys) * scale
    if CAUSAL:
        scores = tl.where(rm[:, None] >= rn[None, :], scores, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    weights = weights / tl.sum(weights, 1)[:, None]
    result = tl.dot(weights.to(v.dtype.element_ty), tl.load(v + shared + rn[:, None] * D + rd[None, :]))
    tl.store(out + own + rm[:, None] * D + rd[None, :], result.to(out.dtype.element_ty))


class Shape(NamedTuple):
    """One published case: rocjitsu's seconds, a launch of ours, and what is wrong with its result, as a number."""

    name: str
    theirs_seconds: float
    launch: Callable[[], object]
    error: Callable[[], float]
    most: float  # of the error


def _softmax(columns: int, block: int) -> tuple[Callable[[], object], Callable[[], float]]:
    x = torch.randn(64, columns).half()
    out = torch.zeros_like(x)
    return (
        lambda: softmax_kernel[(64,)](x, out, columns, BLOCK=block, num_warps=8, num_stages=1),
        lambda: (out.float() - x.float().softmax(1)).abs().max().item(),
    )


def _rmsnorm(columns: int, weighted: bool) -> tuple[Callable[[], object], Callable[[], float]]:
    x, weight = torch.randn(128, columns).bfloat16(), torch.randn(columns).bfloat16()
    out = torch.zeros_like(x)

    def error() -> float:
        wide = x.float()
        right = wide * torch.rsqrt(wide.pow(2).mean(1, keepdim=True) + 1e-5) * (weight.float() if weighted else 1)
        return (out.float() - right).abs().max().item()

    return (
        lambda: rmsnorm_kernel[(128,)](
            x, weight, out, columns, 1e-5, BLOCK=4096, WEIGHTED=weighted, num_warps=8, num_stages=1
        ),
        error,
    )


def _gemm(m: int, n: int, k: int) -> tuple[Callable[[], object], Callable[[], float]]:
    a, b, out = torch.randn(m, k).bfloat16(), torch.randn(k, n).bfloat16(), torch.zeros(m, n).bfloat16()
    return (
        lambda: gemm_kernel[(16,)](a, b, out, m, n, k, BM=64, BN=64, BK=32, num_warps=4, num_stages=2),
        lambda: (out.float() - a.float() @ b.float()).abs().max().item(),
    )


def _attention(
    dtype: torch.dtype, heads: int, shared: int, causal: bool
) -> tuple[Callable[[], object], Callable[[], float]]:
    sequence, size = 128, 64
    q = torch.randn(heads, sequence, size).to(dtype)
    k, v = (torch.randn(heads // shared, sequence, size).to(dtype) for _ in range(2))
    out = torch.zeros_like(q)

    def error() -> float:
        keys, values = (t.float().repeat_interleave(shared, 0) for t in (k, v))
        right = torch.nn.functional.scaled_dot_product_attention(q.float(), keys, values, is_causal=causal)
        return (out.float() - right).abs().max().item()

    return (
        lambda: attention_kernel[(8, heads)](
            q,
            k,
            v,
            out,
            size**-0.5,
            SEQUENCE=sequence,
            GROUP=shared,
            CAUSAL=causal,
            BM=16,
            D=size,
            num_warps=8,
            num_stages=2,
        ),
        error,
    )


def shapes() -> list[Shape]:
    """The published run's Triton cases, in its order."""
    n = 1 << 23
    x, y, z = torch.randn(n + 3), torch.randn(n + 3), torch.zeros(n + 3)
    half = torch.randn(2048, 2048).half()
    turned = torch.zeros_like(half)
    n_out = 4194307
    index = (torch.arange(n_out, dtype=torch.int64) * 104729 + 17) % n
    values, buckets = torch.ones(131072), torch.zeros(256)

    def count() -> None:
        buckets.zero_()
        histogram_kernel[(512,)](values, buckets, 131072, BUCKETS=256, BLOCK=256, num_warps=8, num_stages=1)

    plain = {"num_warps": 4, "num_stages": 1}
    return [
        Shape(
            "copy, 32 MiB fp32",
            0.749235598,
            lambda: copy_kernel[(8192,)](x, z, n, BLOCK=1024, **plain),
            lambda: (z[:n] - x[:n]).abs().max().item(),
            0.0,
        ),
        Shape(
            "vector add, 8388611 fp32",
            3.976602478,
            lambda: add_kernel[(8193,)](x, y, z, n + 3, BLOCK=1024, **plain),
            lambda: (z - (x + y)).abs().max().item(),
            0.0,
        ),
        Shape(
            "transpose, 2048x2048 fp16",
            2.601622597,
            lambda: transpose_kernel[(64, 64)](half, turned, 2048, 2048, TILE=32, num_warps=8, num_stages=1),
            lambda: (turned - half.T).abs().max().item(),
            0.0,
        ),
        Shape(
            "gather, 4194307 of 8388608 fp32",
            4.184934403,
            lambda: gather_kernel[(8193,)](x, index, z, n_out, BLOCK=512, **plain),
            lambda: (z[:n_out] - x[index]).abs().max().item(),
            0.0,
        ),
        Shape(
            "atomic add, 131072 fp32 to 256 places",
            6.189732986,
            count,
            lambda: (buckets - 512).abs().max().item(),
            0.0,
        ),
        Shape("softmax, 64x4096 fp16", 0.2158318, *_softmax(4096, 4096), 1e-4),
        Shape("softmax, 64x4097 fp16", 0.303532961, *_softmax(4097, 8192), 1e-4),
        Shape("RMSNorm, 128x4096 bf16", 0.112640528, *_rmsnorm(4096, False), 0.02),
        Shape("product, 256x256x512 bf16", 0.133493355, *_gemm(256, 256, 512), 0.5),
        Shape("product, 250x250x510 bf16", 0.164348668, *_gemm(250, 250, 510), 0.5),
        Shape("attention, 8 heads, 128x64 fp16", 1.142780622, *_attention(torch.float16, 8, 1, False), 0.01),
        Shape("RMSNorm with weights, 128x2880 bf16", 0.149002269, *_rmsnorm(2880, True), 0.1),
        Shape(
            "causal attention, 64 heads on 8, 128x64 bf16", 8.682295533, *_attention(torch.bfloat16, 64, 8, True), 0.05
        ),
    ]


def measure(shape: Shape, repeats: int) -> tuple[float, int]:
    """(least CPU seconds of a launch, its wave instructions); SystemExit where the result is wrong."""
    shape.launch()  # compiles
    cdna.stats()
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        shape.launch()
        best = min(best, time.process_time() - start)
    error = shape.error()
    if not error <= shape.most:
        raise SystemExit(f"{shape.name}: the largest error is {error}, and {shape.most} is allowed")
    return best, cdna.stats()[-1].wave_instructions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="launches of each shape (default: 5)")
    parser.add_argument("--only", default="", metavar="NAME", help="shapes with this in their name")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to a file")
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error(f"--repeats {options.repeats}: at least 1")
    os.environ.setdefault("CDNA_THREADS", "1")
    torch.manual_seed(0)
    rows = []
    with cdna.device("gfx950"):
        for shape in shapes():
            if options.only not in shape.name:
                continue
            seconds, instructions = measure(shape, options.repeats)
            ratio = shape.theirs_seconds / seconds
            rows.append(
                [shape.name, f"{instructions:,}", f"{seconds:.4f}", f"{shape.theirs_seconds:.3f}", f"{ratio:.0f}"]
            )
            cells = f"{instructions:>12,}{seconds:>10.4f} s{shape.theirs_seconds:>9.3f} s{ratio:>7.0f} times"
            print(f"{shape.name:46}{cells}", flush=True)
    if not rows:
        parser.error(f"--only {options.only}: no shape of that name")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
