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
