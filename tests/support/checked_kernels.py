"""Correct Triton kernels that the checks may not find fault with, besides those of test_triton.py and
test_triton_language.py.

CASES: name -> function that launches a kernel and returns (result, expected).
"""

# Parameters of @triton.jit functions are Triton's own values.
# mypy: disable-error-code="no-untyped-def"

from collections.abc import Callable

import torch
import triton
import triton.language as tl

Result = tuple[torch.Tensor, torch.Tensor]
CASES: dict[str, Callable[[], Result]] = {}


def case(run: Callable[[], Result]) -> Callable[[], Result]:
    CASES[run.__name__] = run
    return run


def rows(m: int, n: int) -> torch.Tensor:
    return torch.randn(m, n, generator=torch.Generator().manual_seed(1))


@triton.jit
def _add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    mask = i < n
    tl.store(o + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


@case
def elementwise_of_views() -> Result:
    x, y, out = torch.randn(2000)[7:507], torch.randn(500), torch.zeros(1000)[:500]
    _add[(2,)](x, y, out, 500, B=256)
    return out, x + y


@case
def elementwise_in_place() -> Result:
    """A block smaller than the workgroup: several waves load an element, one stores it."""
    x, y = torch.ones(32), torch.arange(32.0)
    _add[(1,)](x, y, x, 32, B=32, num_warps=4)
    return x, torch.arange(32.0) + 1


@triton.jit
def _softmax(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    row = tl.program_id(0) * n
    v = tl.load(x + row + i, mask=i < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(o + row + i, (e / tl.sum(e, 0)).to(o.dtype.element_ty), mask=i < n)


@case
def softmax() -> Result:
    x, out = rows(5, 1000), torch.zeros(5, 1000)
    _softmax[(5,)](x, out, 1000, B=1024, num_warps=8)
    return out, torch.softmax(x, 1)


@triton.jit
def _add_16(o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.atomic_add(o + i, tl.full((B,), 1.0, tl.bfloat16), mask=i < n)


@case
def atomics_of_16_bits() -> Result:
    """An odd number of elements: the dword that is exchanged reaches beyond the last."""
    out = torch.tensor([1.0, 3.0, 0.5], dtype=torch.bfloat16)
    _add_16[(1,)](out, 3, B=4)
    return out, out.new_tensor([2.0, 4.0, 1.5])


@triton.jit
def _wait_for_neighbour(flags, data, o, G: tl.constexpr):
    """Workgroup i passes a value on to i + 1 through memory and a flag."""
    pid = tl.program_id(0)
    value = 0
    if pid > 0:
        while tl.atomic_add(flags + pid - 1, 0, sem="acquire") == 0:
            pass
        value = tl.load(data + pid - 1)
    tl.store(data + pid, value + 1)
    tl.debug_barrier()
    tl.atomic_xchg(flags + pid, 1, sem="release")
    tl.store(o + pid, value)


@case
def spin_on_a_flag() -> Result:
    flags, data, out = (torch.zeros(8, dtype=torch.int32) for _ in range(3))
    _wait_for_neighbour[(8,)](flags, data, out, G=8)
    return out, torch.arange(8, dtype=torch.int32)


@triton.jit
def _exchange(x, scratch, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(scratch + i, tl.load(x + i))
    tl.debug_barrier()
    tl.store(o + i, tl.load(scratch + B - 1 - i))


@case
def exchange_through_memory() -> Result:
    x, out = torch.randn(256), torch.zeros(256)
    _exchange[(1,)](x, torch.zeros(256), out, B=256)
    return out, x.flip(0)


@triton.jit
def _matmul(a, b, c, M, N, K, B: tl.constexpr):
    m, n = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for k0 in range(0, K, B):
        k = k0 + tl.arange(0, B)
        x = tl.load(a + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        y = tl.load(b + k[:, None] * N + n[None, :], mask=(k < K)[:, None] & (n < N)[None, :], other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), mask=(m < M)[:, None] & (n < N)[None, :])


@case
def matmul_two_stages() -> Result:
    a, b, out = (rows(*shape).bfloat16() / 4 for shape in ((100, 200), (200, 130), (100, 130)))
    _matmul[(2, 3)](a, b, out, 100, 130, 200, B=64, num_stages=2)
    return out, (a.double() @ b.double()).bfloat16()
