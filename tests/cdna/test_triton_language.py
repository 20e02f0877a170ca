"""Kernels of the kinds that kernel engineers write, through Triton onto both emulated archs, against torch."""

import math
import mmap
import re

import pytest
import torch
import triton
from triton import knobs

from tests.support import language_kernels as kernels
from tests.support.reference_folders import relative_error
from tests.support.triton_at_hand import AT_HAND, needs

pytestmark = [pytest.mark.long, pytest.mark.sampled]

FP8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]


@pytest.mark.parametrize("warps", [1, 4])
def test_a_kernel_without_vector_registers(arch, warps):
    needs(3, 5, "a kernel that takes no vector register")
    compiled = kernels.nothing[(300,)](triton.language.int32, num_warps=warps)
    assert ".vgpr_count:     0" in compiled.asm["amdgcn"]


def test_what_a_compiled_kernel_shows(arch):
    x = torch.arange(64, dtype=torch.int32)
    compiled = kernels.asserting[(1,)](x, x.clone(), 64)
    assert compiled.asm["hsaco"].startswith(b"\x7fELF")
    assert re.search(rf'amdgcn_target ".*-{arch}"', compiled.asm["amdgcn"])


@pytest.mark.parametrize(
    "dtype, causal, bm, bn, d, options",
    [
        (torch.float16, True, 64, 32, 64, {"num_warps": 4, "num_stages": 2}),
        (torch.bfloat16, False, 16, 16, 32, {"num_warps": 1, "num_stages": 1, "waves_per_eu": 2}),
        (torch.bfloat16, True, 128, 32, 64, {"num_warps": 8, "num_stages": 3}),
    ],
)
def test_flash_attention(arch, dtype, causal, bm, bn, d, options):
    length = 150
    q, k, v = (torch.randn(2, length, d).to(dtype) for _ in range(3))
    out = torch.empty_like(q)
    scale = d**-0.5 * math.log2(math.e)
    kernels.attention[(triton.cdiv(length, bm), 2)](q, k, v, out, length, scale, causal, d, bm, bn, **options)
    want = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal)
    assert relative_error(out, want) < (1e-3 if dtype == torch.float16 else 6e-3)


def test_paged_decode(arch):
    lengths = torch.tensor([1, 16, 37], dtype=torch.int32)
    q, pages = torch.randn(3, 64).half(), torch.randn(12, 2, 16, 64).half()
    table = torch.randperm(12)[:9].reshape(3, 3).int()
    out = torch.zeros(3, 64)
    kernels.paged_decode[(3,)](q, pages, table, lengths, out, 0.125, 64, 16, 3)
    for row, length in enumerate(lengths.tolist()):
        key, value = (pages[table[row].long(), part].double().reshape(-1, 64)[:length] for part in (0, 1))
        weight = (key @ q[row].double() * 0.125).softmax(0)
        torch.testing.assert_close(out[row].double(), weight @ value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_split_k_with_atomics(arch, dtype):
    m, n, k = 70, 90, 200
    a, b, c = torch.randn(m, k).half(), torch.randn(k, n).half(), torch.zeros(m, n, dtype=dtype)
    kernels.split_k[(9, 3)](a, b, c, m, n, k, 32, 3)
    assert relative_error(c, a.double() @ b.double()) < (1e-6 if dtype == torch.float32 else 1e-2)


@pytest.mark.parametrize(
    "knob, flatten, stages, block",
    [("", True, 2, 64), ("use_async_copy", False, 2, 64), ("use_block_pingpong", False, 2, 128)],
)
def test_persistent_matmul_of_pipelined_loops(arch, knob, flatten, stages, block):
    # Four steps over k: with asynchronous copies three stages would be wrong, on a real card too (docs/compilers.md).
    n = 2 * block
    a, b, c = torch.randn(n, n).half(), torch.randn(n, n).half(), torch.zeros(n, n).bfloat16()
    with knobs.amd.scope():
        if knob:
            setattr(knobs.amd, knob, True)
        kernels.persistent[(3,)](
            a, b, c, n, n, n, block, block, block // 2, 4, stages, flatten, num_warps=block // 16, num_stages=stages
        )
    assert relative_error(c, a.double() @ b.double()) < 6e-3


def test_stream_k_waits_for_partial_sums(arch):
    m, n, k, programs = 64, 96, 160, 7
    a, b, c = torch.randn(m, k).half(), torch.randn(k, n).half(), torch.zeros(m, n)
    ready, partial = torch.zeros(programs + 1, dtype=torch.int32), torch.zeros(programs, 32, 32)
    kernels.stream_k[(programs,)](a, b, c, ready, partial, m, n, k, 32, programs)
    assert relative_error(c, a.double() @ b.double()) < 1e-6


def test_grouped_matmul_through_a_table_of_addresses(arch):
    shapes = [(40, 70, 64), (128, 32, 32), (16, 16, 96)]
    a = [torch.randn(m, k).half() for m, _, k in shapes]
    b = [torch.randn(k, n).half() for _, n, k in shapes]
    c = [torch.zeros(m, n).half() for m, n, _ in shapes]
    tables = [torch.tensor([t.data_ptr() for t in group]) for group in (a, b, c)]
    kernels.grouped[(4,)](*tables, torch.tensor(shapes, dtype=torch.int32), len(shapes), 4, 32)
    assert all(relative_error(got, x.double() @ y.double()) < 1e-3 for x, y, got in zip(a, b, c))


def test_fused_experts(arch):
    tokens, top, n_experts, n, k, block = 23, 2, 4, 64, 32, 16
    x, w = torch.randn(tokens, k).half(), torch.randn(n_experts, n, k).half()
    choice, gates = torch.randint(0, n_experts, (tokens * top,)), torch.rand(tokens * top)
    order: list[int] = []
    owner: list[int] = []
    for expert in range(n_experts):
        rows = (choice == expert).nonzero().flatten().tolist()
        rows += [tokens * top] * (-len(rows) % block)
        order, owner = order + rows, owner + [expert] * (len(rows) // block)
    out = torch.zeros(tokens, n)
    kernels.experts[(len(owner), 2)](
        x, w, out, torch.tensor(order, dtype=torch.int32), torch.tensor(owner, dtype=torch.int32),
        gates, tokens * top, n, k, top, block, 32,
    )  # fmt: skip
    each = torch.einsum("rnk,rk->rn", w[choice].double(), x.repeat_interleave(top, 0).double())
    assert relative_error(out, (each * gates[:, None].double()).reshape(tokens, top, n).sum(1)) < 1e-6


def test_cross_entropy_and_its_gradient(arch):
    logits, targets = torch.randn(6, 777) * 3, torch.randint(0, 777, (6,))
    x = logits.double().requires_grad_()
    want = torch.nn.functional.cross_entropy(x, targets, reduction="none")
    want.sum().backward()
    losses = torch.zeros(6)
    kernels.cross_entropy[(6,)](logits, targets, losses, 777, 1024)
    torch.testing.assert_close(losses.double(), want.detach(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(logits.double(), x.grad, rtol=1e-5, atol=1e-7)


def test_rotary_embedding(arch):
    x = torch.randn(9, 64)
    angle = torch.arange(9.0, dtype=torch.float64)[:, None] * 10000.0 ** (-torch.arange(0, 64, 2).double() / 64)
    turned = torch.view_as_complex(x.double().reshape(9, 32, 2)) * torch.polar(torch.ones_like(angle), angle)
    kernels.rope[(9,)](x, 10000.0, 64, num_warps=1)
    torch.testing.assert_close(x.double(), torch.view_as_real(turned).reshape(9, 64), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("warps", [2, 16])
def test_layer_norm(arch, warps):
    x, w, b = torch.randn(5, 777).bfloat16(), torch.randn(777).bfloat16(), torch.randn(777).bfloat16()
    out = torch.empty_like(x)
    kernels.layer_norm[(5,)](x, w, b, out, 777, 1e-5, 1024, num_warps=warps)
    want = torch.nn.functional.layer_norm(x.double(), (777,), w.double(), b.double(), 1e-5)
    torch.testing.assert_close(out.double(), want, rtol=8e-3, atol=1e-3)


@pytest.mark.parametrize(
    "dtype, precision, limit",
    [
        (torch.float64, "ieee", 1e-15),
        (torch.float32, "bf16x3", 1e-4),
        *((dtype, "ieee", 1e-6) for dtype in FP8),  # two of them are the other arch's: Triton converts
    ],
    ids=str,
)
def test_batched_dot(arch, dtype, precision, limit):
    if dtype == torch.float64:
        needs(3, 5, "tl.dot of fp64")
    if precision == "bf16x3":
        needs(3, 6, "tl.dot by three bf16 products")
    if arch == "gfx950" and dtype in (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz):
        needs(3, 7, "fp8 for the second arch of a process (docs/compilers.md)")
    a, b = torch.randn(2, 32, 32).to(dtype), torch.randn(2, 32, 16).to(dtype)
    c = torch.zeros(2, 32, 16, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
    kernels.batched_dot[(1,)](a, b, c, 2, 32, 16, 32, precision)
    assert relative_error(c, a.double() @ b.double()) <= limit


@pytest.mark.parametrize("dtype, limit", [(torch.float32, 2e-6), (torch.float64, 1e-13)], ids=str)
def test_library_functions(arch, dtype, limit):
    n = 256
    x, y, out = torch.randn(n).to(dtype), torch.randn(n).to(dtype), torch.zeros(8, n, dtype=dtype)
    kernels.functions[(1,)](x, y, out, n)
    v, u = x.double(), y.double()
    want = [
        v.tanh(), v.abs() ** u, torch.atan2(v, u), torch.lgamma(v.abs() + 0.5), torch.erfc(v),
        torch.fmod((x * 100).double(), u), torch.expm1(v), v.tan(),
    ]  # fmt: skip
    for name, got, exact in zip("tanh pow atan2 lgamma erfc fmod expm1 tan".split(), out.double(), want):
        # fmod is exact; the others to a few ulp, of 1/4 where a function crosses zero
        error = ((got - exact).abs() / exact.abs().clamp(min=0.25)).max()
        assert error <= (0 if name == "fmod" else limit), name


@pytest.mark.parametrize("dtype, warps", [(torch.int8, 1), (torch.bfloat16, 4)], ids=str)
def test_rearrangements(arch, dtype, warps):
    n = 512
    x, y = ((torch.randn(n) * 40).to(dtype) for _ in range(2))
    index, out = torch.randint(0, n, (n,), dtype=torch.int32), torch.zeros(9 * n, dtype=dtype)
    keeps_order = AT_HAND >= (3, 7)  # before, tl.cat refuses to
    kernels.rearranged[(1,)](x, y, index, out, n, keeps_order, num_warps=warps)
    reshaped = x.reshape(4, n // 32, 8).permute(2, 0, 1).flatten()
    pairs = torch.stack((x, y), 1).flatten(), torch.stack((y, x), 1).flatten()
    cat = (x, y) if keeps_order else (torch.zeros_like(x),) * 2
    assert torch.equal(out, torch.cat([*pairs, *cat, reshaped, x[index.long()], x.flip(0)]))


def test_top_k(arch):
    for dtype in (torch.float16, torch.int64):
        x, out = (torch.randn(8, 64) * 1000).to(dtype), torch.zeros(8, 8, dtype=dtype)
        kernels.largest[(1,)](x, out, 64, 8)
        assert torch.equal(out, x.topk(8)[0])


def test_compaction_by_prefix_sums(arch):
    x, out, count = torch.randn(1400), torch.zeros(1400), torch.zeros(1, dtype=torch.int32)
    kernels.compact[(6,)](x, out, count, 1400, 256)
    kept = x[x > 0]
    assert count.item() == len(kept) and torch.equal(out[: len(kept)].sort()[0], kept.sort()[0])


def test_masked_histogram(arch):
    for bins in (8, 256):
        x, out = torch.randint(0, bins, (1024,), dtype=torch.int32), torch.zeros(bins, dtype=torch.int32)
        chosen = torch.randint(0, 2, (1024,), dtype=torch.int8)
        kernels.masked_histogram[(1,)](x, chosen, out, 1024, bins)
        assert torch.equal(out.long(), torch.bincount(x[chosen != 0], minlength=bins))


def philox(seed, offset):
    """Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011)."""
    low = (1 << 32) - 1
    counter, key = [offset, 0, 0, 0], [seed & low, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [b >> 32 ^ counter[1] ^ key[0], b & low, a >> 32 ^ counter[3] ^ key[1], a & low]
        key = [key[0] + 0x9E3779B9 & low, key[1] + 0xBB67AE85 & low]
    return counter


def test_random_words_are_philox(arch):
    out = torch.zeros(64, 4, dtype=torch.int32)
    kernels.random_words[(1,)](out, 0x123456789ABCDEF, 64)
    assert (out.long() & 0xFFFFFFFF).tolist() == [philox(0x123456789ABCDEF, i) for i in range(64)]


def test_quantisation_to_mxfp4(arch):
    x = torch.randn(4, 256).bfloat16()
    codes, scales = torch.zeros(4, 128, dtype=torch.uint8), torch.zeros(4, 8, dtype=torch.uint8)
    kernels.quantise_mxfp4[(4,)](x, codes, scales, 256)
    blocks = x.double().reshape(4, 8, 32)
    exponent = blocks.abs().amax(-1).frexp()[1] - 1 - 2  # 6 is the largest E2M1 number: 1.5 * 2^2
    assert torch.equal(scales.int(), exponent.int() + 127)
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
    scaled = blocks / torch.exp2(exponent.double())[..., None]
    code = torch.stack((codes & 15, codes >> 4), -1).reshape(4, 8, 32).long()
    nearest = (scaled.abs()[..., None] - values).abs().min(-1)[0]
    assert torch.equal((scaled.abs() - values[code & 7]).abs(), nearest) and torch.equal(code > 7, scaled < 0)


def test_int4_weights(arch):
    m, n, k = 16, 32, 64
    w, scale = torch.randint(-128, 128, (k // 2, n), dtype=torch.int8), torch.rand(n).bfloat16()
    x, out = torch.randn(m, k).bfloat16(), torch.zeros(m, n)
    kernels.int4_matmul[(1,)](x, w, scale, out, m, n, k)
    weight = torch.stack(((w << 4) >> 4, w >> 4), 1).reshape(k, n).bfloat16() * scale
    assert relative_error(out, x.double() @ weight.double()) < 1e-6


@pytest.mark.parametrize("buffer_ops", [True, False])
def test_addresses_more_than_4_gib_apart(arch, buffer_ops):
    stride, n = 20_000_001, 64
    no_reserve = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Linux's; Python 3.13 and later name it
    memory = mmap.mmap(-1, 4 * stride * n, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve)
    x = torch.frombuffer(memory, dtype=torch.int32)
    y, out = torch.arange(n, dtype=torch.int32) * 7, torch.zeros(n, dtype=torch.int32)
    with knobs.amd.scope():
        knobs.amd.use_buffer_ops = buffer_ops
        kernels.far_apart[(1,)](x, y, out, stride, n, num_warps=1)
    assert torch.equal(out, y + 1) and torch.equal(x[torch.arange(n) * stride], y + 1)


def test_wide_integers(arch):
    n = 256
    x, y = (torch.randint(-(2**62), 2**62, (n,)) >> torch.randint(0, 60, (n,)) for _ in range(2))
    y[y == 0] = 5
    out = torch.zeros(5, n, dtype=torch.int64)
    kernels.wide_integers[(1,)](x, y, out, n)
    wrap = 1 << 64
    for k in range(n):
        a, b = int(x[k]), int(y[k])
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        want = [a * b, quotient, a - b * quotient, (a % wrap) * (b % wrap) >> 64, (a >> (b & 63)) ^ (a << (b & 63))]
        assert [int(v) % wrap for v in out[:, k]] == [w % wrap for w in want]


def test_inline_assembly_with_two_results(arch):
    x, y = (torch.randint(0, 2**31, (256,), dtype=torch.int32) for _ in range(2))
    low, high = torch.zeros_like(x), torch.zeros_like(x)
    kernels.inline_assembly[(1,)](x, y, low, high, 256)
    product = x.long() * y.long()
    assert torch.equal(high.long(), product >> 32) and torch.equal(low, product.to(torch.int32))


def test_an_assertion_that_holds_is_silent(arch):
    x, out = torch.arange(256, dtype=torch.int32), torch.zeros(256, dtype=torch.int32)
    kernels.asserting[(1,)](x, out, 256, debug=True)
    assert torch.equal(out, x + 1)
