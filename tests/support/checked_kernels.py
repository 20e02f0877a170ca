"""Correct Triton kernels of every kind the checks look at: none of them may lead to a finding.

CASES: name -> function of the arch that launches a kernel and returns (result, expected).
"""

# Parameters of @triton.jit functions are Triton's own values.
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl

Result = tuple[torch.Tensor, torch.Tensor]
CASES: dict[str, Callable[[str], Result]] = {}


def case(run: Callable[[str], Result]) -> Callable[[str], Result]:
    CASES[run.__name__] = run
    return run


def rows(m: int, n: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(m, n, generator=torch.Generator().manual_seed(1)).to(dtype)


@triton.jit
def _add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    mask = i < n
    tl.store(o + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


@case
def elementwise(arch: str) -> Result:
    x, y, out = torch.randn(1003), torch.randn(1003), torch.zeros(1003)
    _add[(4,)](x, y, out, 1003, B=256)
    return out, x + y


@case
def elementwise_of_views(arch: str) -> Result:
    x, y, out = torch.randn(2000)[7:507], torch.randn(500), torch.zeros(1000)[:500]
    _add[(2,)](x, y, out, 500, B=256)
    return out, x + y


@case
def elementwise_in_place(arch: str) -> Result:
    """A block smaller than the workgroup: several waves load an element, one stores it."""
    x, y = torch.ones(32), torch.arange(32.0)
    _add[(1,)](x, y, x, 32, B=32, num_warps=4)
    return x, torch.arange(32.0) + 1


@triton.jit
def _cast(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n).to(o.dtype.element_ty), mask=i < n)


@case
def cast_to_bytes(arch: str) -> Result:
    x, out = torch.arange(777, dtype=torch.int32), torch.zeros(777, dtype=torch.int8)
    _cast[(13,)](x, out, 777, B=64)
    return out, x.to(torch.int8)


@case
def cast_to_bf16(arch: str) -> Result:
    x, out = torch.randn(1001), torch.zeros(1001, dtype=torch.bfloat16)
    _cast[(8,)](x, out, 1001, B=128)
    return out, x.bfloat16()


@triton.jit
def _softmax(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    row = tl.program_id(0) * n
    v = tl.load(x + row + i, mask=i < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(o + row + i, (e / tl.sum(e, 0)).to(o.dtype.element_ty), mask=i < n)


@case
def softmax(arch: str) -> Result:
    x, out = rows(5, 1000), torch.zeros(5, 1000)
    _softmax[(5,)](x, out, 1000, B=1024, num_warps=8)
    return out, torch.softmax(x, 1)


@case
def softmax_bf16_long(arch: str) -> Result:
    x, out = rows(2, 5000, torch.bfloat16), torch.zeros(2, 5000, dtype=torch.bfloat16)
    _softmax[(2,)](x, out, 5000, B=8192, num_warps=16)
    return out, torch.softmax(x.float(), 1).bfloat16()


@triton.jit
def _reduce(x, o, at, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    i = tl.arange(0, N if AXIS == 0 else M)
    tl.store(o + i, tl.max(v, AXIS))
    tl.store(at + i, tl.argmax(v, AXIS))


@case
def reduce_rows(arch: str) -> Result:
    x, out, at = rows(64, 128), torch.zeros(64), torch.zeros(64, dtype=torch.int32)
    _reduce[(1,)](x, out, at, M=64, N=128, AXIS=1)
    return torch.stack((out, at.float())), torch.stack((x.amax(1), x.argmax(1).float()))


@case
def reduce_columns(arch: str) -> Result:
    x, out, at = rows(128, 32), torch.zeros(32), torch.zeros(32, dtype=torch.int32)
    _reduce[(1,)](x, out, at, M=128, N=32, AXIS=0, num_warps=8)
    return torch.stack((out, at.float())), torch.stack((x.amax(0), x.argmax(0).float()))


@triton.jit
def _scan(x, o, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(o + i, tl.cumsum(tl.load(x + i), AXIS))


@case
def scan_rows(arch: str) -> Result:
    x, out = rows(8, 512), torch.zeros(8, 512)
    _scan[(1,)](x, out, M=8, N=512, AXIS=1)
    return out, x.cumsum(1)


@case
def scan_columns(arch: str) -> Result:
    x, out = rows(256, 16), torch.zeros(256, 16)
    _scan[(1,)](x, out, M=256, N=16, AXIS=0, num_warps=8)
    return out, x.cumsum(0)


@triton.jit
def _transpose(x, o, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + m[:, None] * N + n[None, :])
    tl.store(o + n[:, None] * M + m[None, :], tl.trans(v))


@case
def transpose(arch: str) -> Result:
    x, out = rows(64, 128, torch.float16), torch.zeros(128, 64, dtype=torch.float16)
    _transpose[(1,)](x, out, M=64, N=128)
    return out, x.T


@triton.jit
def _sort(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.sort(tl.load(x + i)))


@case
def sort(arch: str) -> Result:
    x, out = torch.randn(512), torch.zeros(512)
    _sort[(1,)](x, out, N=512)
    return out, x.sort().values


@triton.jit
def _gather(x, index, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    at = tl.load(index + i, mask=i < n, other=0)
    tl.store(o + i, tl.load(x + at, mask=i < n), mask=i < n)


@case
def gather(arch: str) -> Result:
    x, index, out = torch.randn(300), torch.randint(0, 300, (1000,)), torch.zeros(1000)
    _gather[(4,)](x, index, out, 1000, B=256)
    return out, x[index]


@triton.jit
def _gather_in_registers(x, index, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.gather(tl.load(x + i), tl.load(index + i), 0))


@case
def gather_in_registers(arch: str) -> Result:
    x, index, out = torch.randn(256), torch.randint(0, 256, (256,), dtype=torch.int32), torch.zeros(256)
    _gather_in_registers[(1,)](x, index, out, N=256)
    return out, x[index.long()]


@triton.jit
def _follow(pointers, o, n, B: tl.constexpr):
    x = tl.load(pointers + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, B)
    tl.store(o + tl.program_id(0) * n + i, tl.load(x + i, mask=i < n), mask=i < n)


@case
def pointers_from_memory(arch: str) -> Result:
    parts = [torch.randn(100) for _ in range(3)]
    pointers, out = torch.tensor([p.data_ptr() for p in parts]), torch.zeros(3, 100)
    _follow[(3,)](pointers, out, 100, B=128)
    return out, torch.stack(parts)


@triton.jit
def _histogram(x, o, n, B: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    counts = tl.histogram(tl.load(x + i, mask=i < n, other=0), BINS)
    tl.atomic_add(o + tl.arange(0, BINS), counts)


@case
def histogram(arch: str) -> Result:
    x, out = torch.randint(0, 32, (1024,), dtype=torch.int32), torch.zeros(32, dtype=torch.int32)
    _histogram[(4,)](x, out, 1024, B=256, BINS=32)
    return out, torch.bincount(x, minlength=32).int()


@triton.jit
def _atomic_sum(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(o, tl.sum(tl.load(x + i, mask=i < n, other=0), 0))


@case
def atomic_sum(arch: str) -> Result:
    x, out = torch.arange(1000), torch.zeros(1, dtype=torch.int64)
    _atomic_sum[(8,)](x, out, 1000, B=128)
    return out, x.sum()[None]


@triton.jit
def _add_16(o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.atomic_add(o + i, tl.full((B,), 1.0, tl.bfloat16), mask=i < n)


@case
def atomics_of_16_bits(arch: str) -> Result:
    """An odd number of elements: the dword that is exchanged reaches beyond the last."""
    out = torch.tensor([1.0, 3.0, 0.5], dtype=torch.bfloat16)
    _add_16[(1,)](out, 3, B=4)
    return out, out.new_tensor([2.0, 4.0, 1.5])


@triton.jit
def _last_adds(x, parts, count, o, n, B: tl.constexpr, G: tl.constexpr):
    """Every workgroup stores a partial sum; the last to arrive adds them up."""
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    tl.store(parts + pid, tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0))
    tl.debug_barrier()
    if tl.atomic_add(count, 1, sem="acq_rel") == G - 1:
        tl.store(o, tl.sum(tl.load(parts + tl.arange(0, G)), 0))


@case
def last_workgroup_adds(arch: str) -> Result:
    x, parts, out = torch.ones(2000), torch.zeros(16), torch.zeros(1)
    _last_adds[(16,)](x, parts, torch.zeros(1, dtype=torch.int32), out, 2000, B=128, G=16)
    return out, torch.tensor([2000.0])


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
def spin_on_a_flag(arch: str) -> Result:
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
def exchange_through_memory(arch: str) -> Result:
    x, out = torch.randn(256), torch.zeros(256)
    _exchange[(1,)](x, torch.zeros(256), out, B=256)
    return out, x.flip(0)


@triton.jit
def _matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(tl.program_id(2) * BK, K, BK * SPLIT):
        k = k0 + tl.arange(0, BK)
        x = tl.load(a + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        y = tl.load(b + k[:, None] * N + n[None, :], mask=(k < K)[:, None] & (n < N)[None, :], other=0.0)
        acc = tl.dot(x, y, acc)
    at = c + m[:, None] * N + n[None, :]
    mask = (m < M)[:, None] & (n < N)[None, :]
    if SPLIT == 1:
        tl.store(at, acc.to(c.dtype.element_ty), mask=mask)
    else:
        tl.atomic_add(at, acc, mask=mask)


def matmul(dtype: torch.dtype, shape: tuple[int, int, int], split: int = 1, **options: int) -> Result:
    m, n, k = shape
    a, b = (rows(m, k) / 4).to(dtype), (rows(k, n) / 4).to(dtype)
    out = torch.zeros(m, n, dtype=torch.float32 if split > 1 else torch.bfloat16)
    tile = {"BM": 64, "BN": 64, "BK": 64, **{key: options.pop(key) for key in ("BM", "BN", "BK") if key in options}}
    grid = (triton.cdiv(m, tile["BM"]), triton.cdiv(n, tile["BN"]), split)
    _matmul[grid](a, b, out, m, n, k, SPLIT=split, **tile, **options)
    return out, (a.double() @ b.double()).to(out.dtype)


def fp8(arch: str) -> torch.dtype:
    return torch.float8_e4m3fnuz if arch == "gfx942" else torch.float8_e4m3fn


@case
def matmul_one_stage(arch: str) -> Result:
    return matmul(torch.bfloat16, (128, 128, 256), num_stages=1)


@case
def matmul_two_stages(arch: str) -> Result:
    return matmul(torch.bfloat16, (100, 130, 200), num_stages=2)


@case
def matmul_three_stages(arch: str) -> Result:
    return matmul(torch.float16, (128, 64, 320), num_stages=3)


@case
def matmul_eight_waves(arch: str) -> Result:
    return matmul(torch.float16, (256, 256, 256), BM=256, BN=256, num_stages=2, num_warps=8)


@case
def matmul_f32(arch: str) -> Result:
    return matmul(torch.float32, (64, 64, 96), BK=32)


@case
def matmul_fp8(arch: str) -> Result:
    return matmul(fp8(arch), (128, 96, 512), BK=128, num_stages=2)


@case
def matmul_fp8_three_stages(arch: str) -> Result:
    return matmul(fp8(arch), (64, 64, 512), num_stages=3, num_warps=8)


@case
def matmul_split_k(arch: str) -> Result:
    return matmul(torch.bfloat16, (64, 64, 512), split=4)


@triton.jit
def _spill(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    total = tl.zeros((N,), tl.float32)
    for _ in range(3):
        a = tl.sort(a + total)
        total += tl.cumsum(a, 0)
    tl.store(o + i, total)


@case
def spills(arch: str) -> Result:
    x, out = torch.rand(1024), torch.zeros(1024)
    _spill[(1,)](x, out, N=1024, num_warps=1)
    total, a = torch.zeros(1024), x
    for _ in range(3):
        a = (a + total).sort().values
        total = total + a.cumsum(0)
    return out, total


@triton.jit
def _attention(q, k, v, o, n, S: tl.constexpr, D: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    d = tl.arange(0, D)
    x = tl.load(q + i[:, None] * D + d[None, :], mask=(i < n)[:, None], other=0.0)
    top = tl.full((B,), -float("inf"), tl.float32)
    total = tl.zeros((B,), tl.float32)
    acc = tl.zeros((B, D), tl.float32)
    for start in range(0, n, S):
        j = start + tl.arange(0, S)
        keys = tl.load(k + j[None, :] * D + d[:, None], mask=(j < n)[None, :], other=0.0)
        scores = tl.where((j < n)[None, :], tl.dot(x, keys), -float("inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp(scores - higher[:, None])
        scale = tl.exp(top - higher)
        values = tl.load(v + j[:, None] * D + d[None, :], mask=(j < n)[:, None], other=0.0)
        acc = tl.dot(p.to(values.dtype), values, acc * scale[:, None])
        total = total * scale + tl.sum(p, 1)
        top = higher
    tl.store(o + i[:, None] * D + d[None, :], (acc / total[:, None]).to(o.dtype.element_ty), mask=(i < n)[:, None])


@case
def attention(arch: str) -> Result:
    q, k, v = rows(100, 64, torch.float16), rows(100, 64, torch.float16).flip(0), rows(100, 64, torch.float16).flip(1)
    out = torch.zeros(100, 64, dtype=torch.float16)
    _attention[(2,)](q, k, v, out, 100, S=32, D=64, B=64, num_stages=2)
    return out, (torch.softmax(q.double() @ k.double().T, 1) @ v.double()).half()
