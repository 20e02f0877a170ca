"""How fast the emulated device executes: wave instructions a second of some kernels, with and without checks.

    python benchmarks/emulator_speed.py [--arch gfx942|gfx950] [--repeats 5]

The best of the repeats counts: other work on the machine only slows a run down.
"""

# In a Triton kernel only the compile-time arguments carry an annotation.
# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

import torch
import triton
import triton.language as tl

import cdna


@triton.jit
def add_kernel(a, b, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(a + i, mask=i < n) + tl.load(b + i, mask=i < n), mask=i < n)


@triton.jit
def softmax_kernel(x, out, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    values = tl.load(x + i)
    weights = tl.exp(values - tl.max(values, 0))
    tl.store(out + i, weights / tl.sum(weights, 0))


@triton.jit
def matmul_kernel(a, b, out, K, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + k + rk[None, :])
        y = tl.load(b + (k + rk)[:, None] * N + rn[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(out + rm[:, None] * N + rn[None, :], acc)


def kernels() -> dict[str, Callable[[], object]]:
    """Name -> launches it once, on tensors of its own."""
    n = 65536
    a, b, out = torch.randn(n), torch.randn(n), torch.zeros(n)
    x, y = torch.randn(256, 512), torch.zeros(256, 512)
    m, k = 64, 512
    half = torch.randn(m, k).half(), torch.randn(k, 256).half(), torch.zeros(m, 256)
    return {
        f"vector addition, {n} fp32": lambda: add_kernel[(n // 1024,)](a, b, out, n, BLOCK=1024),
        "softmax, 256 rows of 512 fp32": lambda: softmax_kernel[(256,)](x, y, N=512),
        f"product {m}x256x{k}, fp16": lambda: matmul_kernel[(m // 64, 4)](*half, k, 256, BM=64, BN=64, BK=32),
    }


def rate(launch: Callable[[], object], checks: str, repeats: int) -> tuple[int, float]:
    """(wave instructions of a launch, the most a second)."""
    best = float("inf")
    with cdna.checks.use(checks):
        launch()  # compiles
        cdna.stats()
        for _ in range(repeats):
            start = time.perf_counter()
            launch()
            best = min(best, time.perf_counter() - start)
    count = sum(cdna.stats()[-1].by_class.values())
    return count, count / best


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--arch", choices=list(cdna.ARCHS), default="gfx942")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    threads = os.environ.get("CDNA_THREADS", os.cpu_count())
    print(f"emulated {options.arch}, {threads} threads; million wave instructions a second")
    print(f"{'kernel':32}{'wave instr.':>12}{'no checks':>12}{'all checks':>12}")
    with cdna.device(options.arch):
        for name, launch in kernels().items():
            count, plain = rate(launch, "none", options.repeats)
            _, checked = rate(launch, "all", options.repeats)
            print(f"{name:32}{count:12,}{plain / 1e6:12.2f}{checked / 1e6:12.2f}")


if __name__ == "__main__":
    main()
