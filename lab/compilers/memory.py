"""Atomics, volatile loads, offsets."""

# mypy: disallow-incomplete-defs=False
from __future__ import annotations

import numpy
import torch
import triton
import triton.language as tl

from .corpus import Answer, reproducer


@triton.jit
def extreme(x, out, n, MAX: tl.constexpr, B: tl.constexpr):
    """out [1] = the largest or smallest of x [n]: all lanes on one address."""
    i = tl.arange(0, B)
    to = out + tl.zeros((B,), tl.int32)
    if MAX:
        tl.atomic_max(to, tl.load(x + i, mask=i < n), mask=i < n)
    else:
        tl.atomic_min(to, tl.load(x + i, mask=i < n), mask=i < n)


def extremes(dtype: torch.dtype) -> list[Answer]:
    answers = []
    for low, high, largest in ((-8, 8, True), (-9, -1, True), (-8, 8, False)):
        x = torch.randint(low, high, (64,)).to(dtype)
        info = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
        out = torch.full((1,), info.min if largest else info.max, dtype=dtype)
        extreme[(1,)](x, out, 64, largest, 64)
        answers.append(Answer(out, (x.max() if largest else x.min()).reshape(1)))
    return answers


@reproducer("found here")
def atomic_extremes_of_int32() -> list[Answer]:
    """tl.atomic_max and atomic_min: lanes that share an address compare signed numbers as unsigned."""
    return extremes(torch.int32)


@reproducer("found here")
def atomic_extremes_of_int64() -> list[Answer]:
    """The same of 64 bits."""
    return extremes(torch.int64)


@reproducer("found here")
def atomic_extremes_of_fp32() -> list[Answer]:
    """Of fp32, whose sign is split off before."""
    return extremes(torch.float32)


@triton.jit
def exchange(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.atomic_xchg(out + i, tl.load(x + i))


@reproducer("found here: LLVM has no such buffer instruction")
def atomic_exchange() -> Answer:
    """tl.atomic_xchg to a tensor."""
    x, out = torch.arange(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    exchange[(1,)](x, out, 64)
    return Answer(out, x)


@triton.jit
def add_atomically(x, index, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.atomic_add(out + tl.load(index + i), tl.load(x + i), mask=i < n)


def _added(dtype: torch.dtype, index: torch.Tensor, n: int, skip: int = 0) -> Answer:
    x = torch.randint(-4, 5, (256,)).to(dtype)
    place = torch.zeros(300, dtype=dtype)
    out = place[skip:]
    add_atomically[(1,)](x, index.int(), out, n, 256)
    want = torch.zeros(300 - skip).double().index_add_(0, index[:n].long(), x[:n].double())
    return Answer(out.double(), want)


@reproducer("triton #7011")
def atomic_sum_of_bf16() -> Answer:
    """Each lane its own element: gfx942 has no buffer instruction for it."""
    return _added(torch.bfloat16, torch.arange(256), 256)


@reproducer("triton #7326")
def atomic_sum_of_f16_at_odd_addresses() -> list[Answer]:
    """Pairs of lanes are packed into one instruction, which wants an address divisible by four."""
    return [_added(t, torch.arange(256), 256, skip=1) for t in (torch.float16, torch.bfloat16)]


@reproducer("triton #6139, #6090")
def atomic_sum_of_masked_f16() -> list[Answer]:
    """An odd number of elements: the last pair has one."""
    return [_added(t, torch.arange(256), 131) for t in (torch.float16, torch.bfloat16)]


@reproducer("triton #7326")
def atomic_sum_of_f16_in_no_order() -> list[Answer]:
    """Neighbours in a wave that are none in memory, and several on one address."""
    index = torch.randint(0, 40, (256,))
    return [_added(t, index, 256) for t in (torch.float16, torch.bfloat16, torch.float32)]


@triton.jit
def compare_and_swap(state, seen, B: tl.constexpr):
    i = tl.arange(0, B)
    old = tl.atomic_cas(state + i, i * 0 + 1, i * 0 + 7)
    tl.store(seen + i, old)


@reproducer("HeCBench #292, #295")
def atomic_swap_of_a_tensor() -> list[Answer]:
    """tl.atomic_cas of a block changes what is 1 and gives back what was there."""
    state, seen = torch.randint(0, 3, (128,)).int(), torch.zeros(128).int()
    before = state.clone()
    compare_and_swap[(1,)](state, seen, 128)
    return [Answer(seen, before), Answer(state, before.where(before != 1, torch.tensor(7).int()))]


@triton.jit
def wait_for(flag, out, CV: tl.constexpr):
    if CV:
        while tl.load(flag, volatile=True, cache_modifier=".cv") == 0:
            pass
    else:
        while tl.load(flag, volatile=True) == 0:
            pass
    tl.store(out, 1)


def polls_anew(by_cv: bool) -> Answer:
    """1 if the loop reads the flag each time, as the code says: a load that goes past the caches."""
    flag, out = torch.ones(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    code = wait_for[(1,)](flag, out, by_cv).asm["amdgcn"]
    anew = any("global_load" in line and "sc1" in line for line in code.splitlines())
    return Answer(torch.tensor([int(anew)]), torch.tensor([1]))


@reproducer("found here")
def volatile_poll() -> Answer:
    """A loop that polls by tl.load(volatile=True): 0 says that it reads once."""
    return polls_anew(False)


@reproducer("found here")
def volatile_poll_past_caches() -> Answer:
    """The same with cache_modifier=".cv"."""
    return polls_anew(True)


@triton.jit
def chosen_loads(x, y, out, which, n, B: tl.constexpr):
    """Pointers that a condition and a loop choose."""
    i, total = tl.arange(0, B), tl.zeros((B,), tl.float32)
    p, q = x, y
    for _ in range(n):
        r = p if which > 0 else q
        total += tl.load(r + i)
        p, q = q + B, p + B
    tl.store(out + i, total)


@reproducer("triton #4241, #7424")
def pointers_that_change_places() -> list[Answer]:
    """Two pointers exchanged in each round of a loop, one of which is chosen."""
    answers = []
    for which in (0, 1):
        x, y, out = torch.arange(512).float(), torch.arange(512).float() * -3, torch.zeros(64)
        chosen_loads[(1,)](x, y, out, which, 4, 64)
        a, b = (x, y) if which else (y, x)
        parts = [(a, 0), (b, 64), (a, 128), (b, 192)]
        answers.append(Answer(out, sum(t[at : at + 64] for t, at in parts)))
    return answers


@triton.jit
def spread(x, out, stride, B: tl.constexpr):
    i = tl.arange(0, B)
    far = tl.program_id(0).to(tl.int64) * stride + i
    tl.store(out + tl.program_id(0) * B + i, tl.load(x + far))


@reproducer("ROCm/triton #830, #944")
def offsets_of_64_bits() -> Answer:
    """An offset beyond 2 GB, worked out in 64 bits."""
    x = torch.from_numpy(numpy.zeros((1 << 31) + 4096, dtype=numpy.uint8))  # of which hardly a page is touched
    x[-64:] = torch.arange(64)
    out = torch.zeros(128, dtype=torch.uint8)
    spread[(2,)](x, out, x.numel() - 64, 64)
    return Answer(out, torch.cat([x[:64], x[-64:]]))


@triton.jit
def booleans(x, y, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i, mask=i < n, other=True)
    b = tl.load(y + i, mask=i < n, other=0)
    tl.store(out + i, (a & (b > 2)) | (b == 0))


@reproducer("triton #9991")
def loads_and_stores_of_booleans() -> Answer:
    """Booleans in bytes, a mask, another value."""
    x, y, out = torch.rand(128) < 0.5, torch.randint(0, 6, (128,)).to(torch.int8), torch.zeros(128, dtype=torch.bool)
    booleans[(1,)](x, y, out, 101, 128)
    want = (x & (y > 2)) | (y == 0)
    want[101:] = True
    return Answer(out.int(), want.int())


@triton.jit
def gathered(x, index, out, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.gather(tl.load(x + at), tl.load(index + at), AXIS))


@reproducer("triton #6987, #7899")
def gather_along_both_axes() -> list[Answer]:
    """tl.gather inside a wave and between waves."""
    answers = []
    for axis, (m, n) in ((0, (16, 32)), (1, (16, 32)), (0, (64, 4)), (1, (4, 128))):
        x, index = torch.randn(m, n), torch.randint(0, (m, n)[axis], (m, n)).int()
        out = torch.zeros(m, n)
        gathered[(1,)](x, index, out, m, n, axis)
        answers.append(Answer(out, x.gather(axis, index.long())))
    return answers
