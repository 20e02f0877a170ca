"""Loops that Triton pipelines, and what it does to the waves in them."""

# mypy: disallow-incomplete-defs=False
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import triton
import triton.language as tl
from triton import knobs

from tests.support import language_kernels

from .corpus import Answer, reproducer


@contextmanager
def asynchronous(on: bool = True) -> Iterator[None]:
    with knobs.amd.scope():
        knobs.amd.use_async_copy = on
        yield


def near(got: torch.Tensor, want: torch.Tensor, rtol: float) -> Answer:
    return Answer(got.double(), want.double(), rtol=rtol, atol=rtol * float(want.abs().max()))


def persistent() -> Answer:
    """A product in a loop over tiles, three steps over k each, through two buffers."""
    n, k, block = 128, 96, 64
    a, b, c = torch.randn(n, k).half(), torch.randn(k, n).half(), torch.zeros(n, n).bfloat16()
    language_kernels.persistent.device_caches.clear()  # they do not know of the knob
    language_kernels.persistent[(2,)](a, b, c, n, n, k, block, block, block // 2, 4, 2, False)
    return near(c, a.double() @ b.double(), 8e-3)


@reproducer("found here; facebookexperimental/triton #2058")
def persistent_loop_with_asynchronous_copies() -> Answer:
    """The first copy of the next tile overwrites a buffer that slower waves still read."""
    with asynchronous():
        return persistent()


@reproducer("found here: wrong by default with Triton 3.8 on gfx950")
def persistent_loop() -> Answer:
    """The same with what the version does by default."""
    return persistent()


@reproducer("found here")
def attention_of_halves_in_turns() -> Answer:
    """Eight waves, of which four multiply while the others do all else, and a layout changes through LDS."""
    n, d = 256, 128
    q, k, v = (torch.randn(n, d).half() for _ in range(3))
    out, scale = torch.empty(n, d).half(), d**-0.5
    language_kernels.attention[(n // 128,)](
        q, k, v, out, n, scale * 1.4426950408889634, False, d, 128, 32, num_warps=8, num_stages=4
    )
    return near(out, torch.softmax(q.double() @ k.double().T * scale, -1) @ v.double(), 4e-3)


@reproducer("triton #11696")
def product_of_halves_in_turns() -> Answer:
    """128 x 256 in steps of 64: one half passes a barrier while its reads of LDS are under way."""
    m, n, k = 128, 256, 256
    a, b, c = torch.randn(m, k).half(), torch.randn(k, n).half(), torch.zeros(m, n).bfloat16()
    language_kernels.persistent[(1,)](a, b, c, m, n, k, m, n, 64, 4, 2, False, num_warps=8)
    return near(c, a.double() @ b.double(), 8e-3)


@triton.jit
def shifted_product(
    a, b, c, K, SHIFT, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, OTHER: tl.constexpr, STAGES: tl.constexpr
):
    """Rows of a are read SHIFT columns to the left, as a convolution's padding does: the mask depends on k."""
    m, n, acc = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.zeros((M, N), tl.float32)
    for k in tl.range(0, K, BK, num_stages=STAGES):
        ka, kb = k + tl.arange(0, BK)[None, :] - SHIFT, k + tl.arange(0, BK)[:, None]
        x = tl.load(a + m * K + ka, mask=(ka >= 0) & (ka < K - 2 * SHIFT), other=OTHER)
        y = tl.load(b + kb * N + n, mask=kb < K, other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + m * N + n, acc)


def _shifted(m: int, n: int, k: int, block: int, warps: int, stages: int, other: float = 0.0, shift: int = 3) -> Answer:
    a, b, c = torch.randn(m, k).half(), torch.randn(k, n).half(), torch.zeros(m, n)
    shifted_product[(1,)](a, b, c, k, shift, m, n, block, other, stages, num_warps=warps)
    x = torch.full((m, k), other).double()
    x[:, shift : k - shift] = a.double()[:, : k - 2 * shift]
    return near(c, x @ b.double(), 1e-3)


@reproducer("triton #10585")
def masks_that_depend_on_k() -> Answer:
    """256 x 256 in steps of 64, eight waves, two stages: loads with such masks are moved across barriers."""
    return _shifted(256, 256, 192, 64, 8, 2)


@reproducer("triton #10654, #10362")
def masked_loads_with_a_scalar_offset() -> list[Answer]:
    """A masked lane's address is put out of bounds, and what is the same in all lanes is added behind that."""
    return [_shifted(32, 32, 160, 32, 4, stages) for stages in (2, 3)]


@reproducer("triton #11256")
def asynchronous_copies_with_another_value() -> list[Answer]:
    """Masked elements of copies to LDS are the value that was given, not 0."""
    with asynchronous():
        return [_shifted(64, 64, 160, 32, 4, stages, other=2.0) for stages in (2, 3)]


@triton.jit
def masked_sums(x, out, n, stride, M: tl.constexpr, B: tl.constexpr, STAGES: tl.constexpr):
    """out [M] = sums of rows of x [M, n], in steps of B, the last of which is masked."""
    m, acc = tl.arange(0, M)[:, None], tl.zeros((M, B), tl.float32)
    for at in tl.range(0, n, B, num_stages=STAGES):
        i = at + tl.arange(0, B)[None, :]
        acc += tl.load(x + m * stride + i, mask=i < n, other=0.0)
    tl.store(out + tl.arange(0, M), tl.sum(acc, 1))


@reproducer("triton #10654; pytorch test_dont_inplace_disjoint_accesses")
def sums_of_masked_rows() -> list[Answer]:
    """What is behind a row's end belongs to the next: a mask that fails adds it."""
    x = torch.randn(16, 300)
    answers = []
    for stages in (1, 2, 3):
        out = torch.zeros(16)
        masked_sums[(1,)](x, out, 267, 300, 16, 64, stages)
        answers.append(near(out, x[:, :267].double().sum(1), 1e-5))
    return answers


@triton.jit
def from_the_end(x, out, n, B: tl.constexpr, WRAP: tl.constexpr):
    i = tl.arange(0, B)
    back = n - tl.program_id(0) * B - 1 - i
    if WRAP:
        back = tl.reshape(tl.broadcast_to(tl.expand_dims(back, 0), (1, B)), (B,))
    tl.store(out + tl.program_id(0) * B + i, tl.load(x + back, mask=back >= 0, other=-1.0))


@reproducer("triton #10450, #10498")
def offsets_with_a_negative_term() -> list[Answer]:
    """n - pid * B - 1 - i is not negative, and has negative terms: split in two, an unsigned scalar would be."""
    x, answers = torch.arange(1000).float(), []
    for wrap in (False, True):
        out = torch.zeros(1024)
        from_the_end[(4,)](x, out, 1000, 256, wrap)
        answers.append(Answer(out, torch.cat([x.flip(0), torch.full((24,), -1.0)])))
    return answers


@reproducer("found here")
def block_read_backwards() -> Answer:
    """An offset that begins below zero, the rest in the instruction's immediate."""
    x, out = torch.arange(1024).float(), torch.zeros(1024)
    from_the_end[(4,)](x, out, 1024, 256, False)
    return Answer(out, x.flip(0))


@triton.jit
def stepping_product(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    x, y, acc = a + m[:, None] * K + k[None, :], b + k[:, None] * N + n[None, :], tl.zeros((M, N), tl.float32)
    for _ in tl.range(0, K // BK, num_stages=STAGES):
        acc = tl.dot(tl.load(x), tl.load(y), acc)
        x += BK
        y += BK * N
    tl.store(c + m[:, None] * N + n[None, :], acc)


def _stepping(steps: int, stages: int, m: int = 64, n: int = 64, block: int = 32) -> Answer:
    k = steps * block
    a, b, c = torch.randn(m, k).half(), torch.randn(k, n).half(), torch.zeros(m, n)
    stepping_product[(1,)](a, b, c, k, m, n, block, stages)
    return near(c, a.double() @ b.double(), 1e-3)


@reproducer("triton #8464")
def pointers_that_step() -> list[Answer]:
    """Pointers advanced in the loop, for steps fewer and more than the stages."""
    return [_stepping(steps, 2) for steps in (1, 2, 3, 5)]


@reproducer("triton #9720")
def four_stages() -> list[Answer]:
    """Four stages need as many buffers."""
    return [_stepping(steps, 4) for steps in (2, 4, 7)]


@reproducer("facebookexperimental/triton #2058")
def asynchronous_copies_drained() -> list[Answer]:
    """Copies under way at the loop's end and those of its beginning, with two and three buffers."""
    with asynchronous():
        return [_stepping(steps, stages) for stages in (2, 3) for steps in (1, 2, 3, 6)]


@triton.jit
def four_loads(a, b, scale, shift, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    acc, top = tl.zeros((M, N), tl.float32), tl.full((M,), -1e30, tl.float32)
    for k in tl.range(0, K, BK, num_stages=STAGES):
        ks = k + tl.arange(0, BK)
        x = tl.load(a + m * K + ks[None, :])
        y = tl.load(b + ks[:, None] * N + n)
        s = tl.load(scale + ks).to(tl.float32)
        t = tl.load(shift + ks).to(tl.float32)
        row = x.to(tl.float32) * s[None, :] + t[None, :]
        new = tl.maximum(top, tl.max(row, 1))
        acc = acc * tl.exp(top - new)[:, None] + tl.dot(tl.exp(row - new[:, None]).to(y.dtype), y)
        top = new
    tl.store(out + m * N + n, acc)


@reproducer("triton #9815")
def four_loads_in_four_stages() -> Answer:
    """Four loads, a product and a running maximum in one loop: the pipeliner's crash."""
    m, n, k = 32, 32, 128
    a, b, out = torch.randn(m, k).half(), torch.randn(k, n).half(), torch.zeros(m, n)
    scale, shift = torch.rand(k).half(), torch.rand(k).half()
    four_loads[(1,)](a, b, scale, shift, out, k, m, n, 32, 4)
    row = a.double() * scale.double() + shift.double()
    return near(out, (row - row.max(1, keepdim=True).values).exp() @ b.double(), 4e-3)


@triton.jit
def gated(a, b, g, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    up, gate = tl.zeros((M, N), tl.float32), tl.zeros((M, N), tl.float32)
    for k in tl.range(0, K, BK, num_stages=STAGES):
        ks = k + tl.arange(0, BK)
        x = tl.load(a + m * K + ks[None, :])
        up = tl.dot(x, tl.load(b + ks[:, None] * N + n), up)
        gate = tl.dot(x, tl.load(g + ks[:, None] * N + n), gate)
    tl.store(c + m * N + n, up * gate * tl.sigmoid(gate))


@reproducer("aiter #4163, #4162")
def gated_product() -> list[Answer]:
    """Two products of one operand in a pipelined loop, as AITER's gated a16w16."""
    m, n, k = 64, 64, 192
    a, b, g = (torch.randn(*s).bfloat16() / 4 for s in ((m, k), (k, n), (k, n)))
    gate, answers = a.double() @ g.double(), []
    for stages in (2, 3):
        c = torch.zeros(m, n)
        gated[(1,)](a, b, g, c, k, m, n, 64, stages)
        answers.append(near(c, (a.double() @ b.double()) * gate * torch.sigmoid(gate), 1e-3))
    return answers


@triton.jit
def latent_attention(q, q_rope, kv, k_rope, out, n, M: tl.constexpr, D: tl.constexpr, R: tl.constexpr, B: tl.constexpr):
    """Keys are kv [n, D] beside k_rope [n, R], values kv."""
    m, d, r = tl.arange(0, M), tl.arange(0, D), tl.arange(0, R)
    query = tl.load(q + m[:, None] * D + d[None, :])
    rope = tl.load(q_rope + m[:, None] * R + r[None, :])
    top, total = tl.full((M,), -1e30, tl.float32), tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    for at in tl.range(0, n, B, num_stages=2):
        i = at + tl.arange(0, B)
        key = tl.load(kv + i[None, :] * D + d[:, None], mask=i[None, :] < n, other=0.0)
        score = tl.dot(query, key)
        score += tl.dot(rope, tl.load(k_rope + i[None, :] * R + r[:, None], mask=i[None, :] < n, other=0.0))
        score = tl.where(i[None, :] < n, score * 0.1, -1e30)
        new = tl.maximum(top, tl.max(score, 1))
        weight, shrink = tl.exp(score - new[:, None]), tl.exp(top - new)
        total = total * shrink + tl.sum(weight, 1)
        acc = acc * shrink[:, None] + tl.dot(weight.to(key.dtype), tl.trans(key))
        top = new
    tl.store(out + m[:, None] * D + d[None, :], acc / total[:, None])


@reproducer("aiter #4163")
def attention_with_a_latent_key() -> Answer:
    """The loop of MLA's decoding, pipelined; the key transposed is the value."""
    m, d, r, n = 16, 64, 32, 150
    q, kv = torch.randn(m, d).bfloat16(), torch.randn(n, d).bfloat16()
    q_rope, k_rope, out = torch.randn(m, r).bfloat16(), torch.randn(n, r).bfloat16(), torch.zeros(m, d)
    latent_attention[(1,)](q, q_rope, kv, k_rope, out, n, m, d, r, 32)
    score = (q.double() @ kv.double().T + q_rope.double() @ k_rope.double().T) * 0.1
    return near(out, torch.softmax(score, -1) @ kv.double(), 8e-3)


@reproducer("triton #10594")
def product_by_stream_k() -> Answer:
    """The owner of a tile adds the sums of the other programs when their flags are set."""
    n, k, block, programs = 64, 128, 32, 3
    a, b, c = torch.randn(n, k).half(), torch.randn(k, n).half(), torch.zeros(n, n)
    ready, partial = torch.zeros(programs + 1, dtype=torch.int32), torch.zeros(programs, block, block)
    language_kernels.stream_k[(programs,)](a, b, c, ready, partial, n, n, k, block, programs)
    return near(c, a.double() @ b.double(), 1e-3)


@triton.jit
def two_by_two_loops(out, n_x, n_y, B: tl.constexpr):
    i, y = tl.arange(0, B), tl.zeros((B,), tl.float32)
    for _ in range(-n_x, n_x + 1):
        for _ in range(-n_y, n_y + 1):
            y += 1.0
    tl.store(out + i, y, mask=i < 10)


@reproducer("llvm #109391, AMDGPU.jl #672")
def nested_loops_from_below_zero() -> Answer:
    """Two nested loops from -n to n, of which one was skipped."""
    out = torch.zeros(64)
    two_by_two_loops[(1,)](out, 1, 2, 64)
    return Answer(out[:10], torch.full((10,), 15.0))
