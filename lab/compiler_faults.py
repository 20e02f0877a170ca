"""What docs/compilers.md says of compilers, tried: `python -m lab.compiler_faults [VERSION ...]`.

Prints a line for each fault, version of Triton and arch: right, wrong, refused (does not compile) or race.
"""

# mypy: disable-error-code="no-untyped-def"

import os
import subprocess
import sys
from collections.abc import Callable

import torch
import triton
import triton.language as tl
from triton import knobs

import cdna
from forge.device import triton_versions
from lab.triton_matrix import VERSIONS
from tests.support import language_kernels


@triton.jit
def extreme(x, out, n, MAX: tl.constexpr, B: tl.constexpr):
    """out [1] = the largest or smallest of x [n]: all lanes on one address."""
    i = tl.arange(0, B)
    to = out + tl.zeros((B,), tl.int32)
    if MAX:
        tl.atomic_max(to, tl.load(x + i, mask=i < n), mask=i < n)
    else:
        tl.atomic_min(to, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def exchange(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.atomic_xchg(out + i, tl.load(x + i))


@triton.jit
def row_sums(x, y, out, M: tl.constexpr, N: tl.constexpr):
    """out [N] = the sum of x*y [M, N] over its rows, one row a group of lanes."""
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + tl.arange(0, N), tl.sum(tl.load(x + at) * tl.load(y + at), axis=0))


@triton.jit
def wait_for(flag, out, CV: tl.constexpr):
    if CV:
        while tl.load(flag, volatile=True, cache_modifier=".cv") == 0:
            pass
    else:
        while tl.load(flag, volatile=True) == 0:
            pass
    tl.store(out, 1)


def polls_anew(by_cv: bool) -> bool:
    """Whether the loop reads the flag each time, as the code says: a load that goes past the caches."""
    flag, out = torch.ones(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    code = wait_for[(1,)](flag, out, by_cv).asm["amdgcn"]
    return any("global_load" in line and "sc1" in line for line in code.splitlines())


def sums_of_products(fusion: bool = True) -> bool:
    x, y, out = torch.randn(4, 64), torch.randn(4, 64), torch.empty(64)
    row_sums[(1,)](x, y, out, 4, 64, num_warps=1, enable_fp_fusion=fusion)
    return torch.allclose(out, (x * y).sum(0), rtol=1e-5, atol=1e-5)


def extremes(dtype: torch.dtype) -> bool:
    right = True
    for low, high, largest in ((-8, 8, True), (-9, -1, True), (-8, 8, False)):
        x = torch.randint(low, high, (64,)).to(dtype)
        info = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
        out = torch.full((1,), info.min if largest else info.max, dtype=dtype)
        extreme[(1,)](x, out, 64, largest, 64)
        right &= out.item() == (x.max() if largest else x.min()).item()
    return right


def exchanged() -> bool:
    x, out = torch.arange(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    exchange[(1,)](x, out, 64)
    return torch.equal(out, x)


def persistent(asynchronous: bool) -> bool:
    """A product in a loop over tiles, three steps over k each, through two buffers."""
    n, k, block = 128, 96, 64
    a, b, c = torch.randn(n, k).half(), torch.randn(k, n).half(), torch.zeros(n, n).bfloat16()
    with knobs.amd.scope():
        if asynchronous:
            knobs.amd.use_async_copy = True
        language_kernels.persistent.device_caches.clear()  # they do not know of the knob
        language_kernels.persistent[(2,)](a, b, c, n, n, k, block, block, block // 2, 4, 2, False)
    want = a.double() @ b.double()
    return ((c.double() - want).norm() / want.norm()).item() < 6e-3


def halves_in_turns_attention() -> bool:
    """Eight waves, of which four multiply while the others do all else."""
    n, d = 256, 128
    q, k, v = (torch.randn(n, d).half() for _ in range(3))
    out, scale = torch.empty(n, d).half(), d**-0.5
    language_kernels.attention[(n // 128,)](
        q, k, v, out, n, scale * 1.4426950408889634, False, d, 128, 32, num_warps=8, num_stages=4
    )
    want = torch.softmax(q.double() @ k.double().T * scale, -1) @ v.double()
    return ((out.double() - want).norm() / want.norm()).item() < 1e-3


def halves_in_turns_product() -> bool:
    m, n, k = 128, 256, 256
    a, b, c = torch.randn(m, k).half(), torch.randn(k, n).half(), torch.zeros(m, n).bfloat16()
    language_kernels.persistent[(1,)](a, b, c, m, n, k, m, n, 64, 4, 2, False, num_warps=8)
    want = a.double() @ b.double()
    return ((c.double() - want).norm() / want.norm()).item() < 6e-3


def fnuz() -> bool:
    """Products of fp8 in gfx942's format, which gfx950 lacks."""
    a, b = torch.randn(2, 32, 32).to(torch.float8_e4m3fnuz), torch.randn(2, 32, 16).to(torch.float8_e4m3fnuz)
    c = torch.zeros(2, 32, 16)
    language_kernels.batched_dot[(1,)](a, b, c, 2, 32, 16, 32, "ieee")
    return torch.allclose(c.double(), a.double() @ b.double(), rtol=1e-3, atol=1e-3)


FAULTS: dict[str, Callable[[], bool]] = {
    "atomic_max int32": lambda: extremes(torch.int32),
    "atomic_max int64": lambda: extremes(torch.int64),
    "atomic_max fp32": lambda: extremes(torch.float32),
    "atomic_xchg": exchanged,
    "sum of products": sums_of_products,
    "volatile poll": lambda: polls_anew(False),
    "volatile poll, .cv": lambda: polls_anew(True),
    "persistent, async": lambda: persistent(True),
    "persistent": lambda: persistent(False),
    "batched fp8 fnuz": fnuz,
    "halves, attention": halves_in_turns_attention,
    "halves, product": halves_in_turns_product,
}


def outcome(arch: str, fault: Callable[[], bool]) -> str:
    torch.manual_seed(0)
    cdna.findings()
    try:
        with cdna.device(arch, checks="all", raises=False):
            right = fault()
    except Exception as error:  # compilers' errors share no base class
        lines = str(error).strip().splitlines() or [""]
        return f"refused: {type(error).__name__}: {lines[-1].strip()[:80]}"
    kinds = sorted({finding.kind for finding in cdna.findings()})
    return " ".join(["right" if right else "wrong", *kinds])


def main() -> None:
    if "--here" not in sys.argv:
        for version in sys.argv[1:] or VERSIONS:
            environment = {**os.environ, **triton_versions.environment(version)}
            command = [sys.executable, "-W", "ignore", "-m", __spec__.name, "--here"]
            subprocess.run(command, env=environment, stderr=subprocess.DEVNULL, check=False)
        return
    for name, fault in FAULTS.items():
        for arch in cdna.ARCHS:
            print(f"{triton.__version__}  {arch}  {name:18} {outcome(arch, fault)}", flush=True)


if __name__ == "__main__":
    main()
