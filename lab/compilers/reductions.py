"""Reductions, scans and changes of shape."""

# mypy: disallow-incomplete-defs=False
from __future__ import annotations

import torch
import triton
import triton.language as tl

from .corpus import Answer, reproducer


@triton.jit
def _add(a, b):
    return a + b


@triton.jit
def _linear(f, x, g, y):
    """First g, y, then: of x -> f x + ... a recurrence's two coefficients."""
    return f * g, g * x + y


@triton.jit
def _second(a, b):
    """Not commutative: the later one, where it is not 0."""
    return tl.where(b != 0, b, a)


@triton.jit
def scanned(x, out, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr, LAST: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.broadcast_to(tl.load(x + at), (M, N))
    if LAST:
        r = tl.associative_scan(v, AXIS, _second, reverse=REVERSE)
    else:
        r = tl.associative_scan(v, AXIS, _add, reverse=REVERSE)
    tl.store(out + at, r)


def _sums(m: int, n: int, axis: int, reverse: bool = False, warps: int = 4, dtype: torch.dtype = torch.int32) -> Answer:
    x, out = torch.randint(-50, 50, (m, n)).to(dtype), torch.zeros(m, n, dtype=dtype)
    scanned[(1,)](x, out, m, n, axis, reverse, False, num_warps=warps)
    want = x.flip(axis).cumsum(axis).flip(axis) if reverse else x.cumsum(axis)
    return Answer(out, want.to(dtype))


@reproducer("ROCm/triton #947")
def sums_over_several_waves() -> list[Answer]:
    """A running sum along an axis that is longer than a wave."""
    return [_sums(1, 1024, 1), _sums(2, 512, 1, warps=8), _sums(1, 2048, 1, dtype=torch.float32)]


@reproducer("triton #4362, #8412")
def sums_from_the_end() -> list[Answer]:
    """reverse=True along each axis."""
    return [_sums(1, 256, 1, True), _sums(16, 32, 0, True), _sums(8, 128, 1, True, warps=1)]


@reproducer("triton #7817, #9185, #9189")
def sums_of_small_blocks() -> list[Answer]:
    """Blocks smaller than the lanes there are, whose values several lanes hold."""
    return [_sums(1, 8, 1), _sums(8, 1, 0), _sums(4, 4, 0, warps=8), _sums(2, 16, 1, warps=8), _sums(16, 2, 1)]


@reproducer("triton #2359")
def scan_that_does_not_commute() -> list[Answer]:
    """The last number so far that is not 0, forwards and backwards."""
    answers = []
    for reverse in (False, True):
        x = torch.where(torch.rand(4, 256) < 0.1, torch.randint(1, 99, (4, 256)), 0).int()
        out = torch.zeros_like(x)
        scanned[(1,)](x, out, 4, 256, 1, reverse, True)
        want, last = torch.zeros_like(x), torch.zeros(4).int()
        for i in reversed(range(256)) if reverse else range(256):
            last = torch.where(x[:, i] != 0, x[:, i], last)
            want[:, i] = last
        answers.append(Answer(out, want))
    return answers


@triton.jit
def recurrence(f, x, N: tl.constexpr, REVERSE: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.associative_scan((tl.load(f + i), tl.load(x + i)), 0, _linear, reverse=REVERSE)
    tl.store(f + i, a)
    tl.store(x + i, b)


@reproducer("triton #4362")
def scan_of_pairs() -> list[Answer]:
    """y = f y + x by a scan of pairs, forwards and backwards."""
    answers = []
    for reverse in (False, True):
        f, x = torch.rand(256) * 0.5 + 0.5, torch.randn(256)
        y, want, order = 0.0, torch.zeros(256).double(), range(256)
        for i in reversed(order) if reverse else order:
            y = float(f[i]) * y + float(x[i])
            want[i] = y
        recurrence[(1,)](f, x, 256, reverse)
        answers.append(Answer(x.double(), want, rtol=1e-4, atol=1e-4))
    return answers


@triton.jit
def counted_in_a_loop(out, n, B: tl.constexpr):
    for at in range(0, n, B):
        i = at + tl.arange(0, B)[None, :]
        tl.store(out + i, tl.cumsum(tl.where(i < n, 1, 0), 1), i < n)


@reproducer("triton #2361")
def running_count_in_a_loop() -> list[Answer]:
    """A running sum of few elements inside a loop."""
    answers = []
    for n in (8, 32):
        out = torch.zeros(n, dtype=torch.int64)
        counted_in_a_loop[(1,)](out, n, n)
        answers.append(Answer(out, torch.arange(1, n + 1)))
    return answers


@triton.jit
def compacted(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    keep = v >= 0
    tl.store(out + tl.cumsum(keep, axis=0) - 1, v, mask=keep)


@reproducer("triton #5897")
def running_count_of_booleans() -> Answer:
    """tl.cumsum of booleans counts them."""
    x, out = torch.randint(-9, 9, (128,)).int(), torch.full((128,), -1).int()
    compacted[(1,)](x, out, 128)
    kept = x[x >= 0]
    return Answer(out, torch.cat([kept, torch.full((128 - len(kept),), -1).int()]))


@triton.jit
def reduced(x, out, M: tl.constexpr, N: tl.constexpr, OP: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    if OP == "max":
        r = tl.max(v, 1)
    elif OP == "min":
        r = tl.min(v, 1)
    elif OP == "xor":
        r = tl.xor_sum(v, 1)
    elif OP == "argmax":
        r = tl.argmax(v, 1)
    else:
        r = tl.sum(v, 1)
    tl.store(out + tl.arange(0, M), r)


def _reduced(x: torch.Tensor, op: str, want: torch.Tensor, warps: int = 4) -> Answer:
    out = torch.zeros(x.shape[0], dtype=want.dtype)
    reduced[(1,)](x, out, *x.shape, op, num_warps=warps)
    return Answer(out, want)


@reproducer("triton #3013")
def maximum_of_one_column() -> list[Answer]:
    """Reductions of [16, 1] to [16]."""
    x, k = torch.randn(16, 1), torch.randint(-99, 99, (16, 1)).int()
    return [_reduced(x, "max", x[:, 0]), _reduced(x, "sum", x[:, 0]), _reduced(k, "min", k[:, 0])]


@reproducer("triton #5019")
def reductions_of_whole_waves() -> list[Answer]:
    """Rows of 64 and of 256 by DPP: integers of 32 and 64 bits, signs mixed."""
    answers = []
    for n in (64, 256):
        for dtype in (torch.int32, torch.int64):
            x = torch.randint(-(2**30), 2**30, (4, n)).to(dtype)
            answers += [_reduced(x, "max", x.max(1).values), _reduced(x, "min", x.min(1).values)]
            answers.append(_reduced(x, "sum", x.sum(1).to(dtype)))
            xor = torch.zeros(4, dtype=dtype)
            for i in range(n):
                xor ^= x[:, i]
            answers.append(_reduced(x, "xor", xor))
    return answers


@reproducer("triton #5019")
def extremes_of_signed_bytes() -> list[Answer]:
    """int8 and int16 are widened with their sign for a reduction."""
    answers = []
    for dtype in (torch.int8, torch.int16):
        x = torch.randint(-100, -1, (4, 128)).to(dtype)
        answers += [_reduced(x, "max", x.max(1).values), _reduced(x, "min", x.min(1).values)]
    return answers


@reproducer("triton #10291")
def index_of_the_maximum_skips_nan() -> Answer:
    """tl.argmax of a row with NaN is that of the largest number."""
    x = torch.randn(8, 64)
    x[:, ::9] = float("nan")
    return _reduced(x, "argmax", x.nan_to_num(-1e9).argmax(1).int())


@triton.jit
def chosen(x, out, N: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    for k in range(K):
        best = tl.argmax(v, 0)
        tl.store(out + k, best)
        v = tl.where(i == best, -1.0, v)


@reproducer("triton #6635")
def largest_with_infinities() -> Answer:
    """The K largest of a row, one after the other, infinities among them; ties go to the first."""
    x = torch.rand(64) + 0.5
    x[[0, 1, 26, 27]] = float("inf")
    out = torch.zeros(16, dtype=torch.int32)
    chosen[(1,)](x, out, 64, 16)
    return Answer(out, x.sort(descending=True, stable=True).indices[:16].int())


@triton.jit
def sum_4d(x, out, W, H: tl.constexpr, K: tl.constexpr):
    h, w = tl.arange(0, H)[:, None, None, None], tl.arange(0, H)[None, :, None, None]
    p, q = tl.arange(0, K)[None, None, :, None], tl.arange(0, K)[None, None, None, :]
    inside = (h + p < W) & (w + q < W)
    v = tl.load(x + (h + p) * W + w + q, mask=inside, other=0.0)
    total = tl.sum(tl.sum(v, 2), 2)
    tl.store(out + tl.arange(0, H)[:, None] * H + tl.arange(0, H)[None, :], total)


@reproducer("triton #4379")
def sum_of_a_sum_in_four_dimensions() -> Answer:
    """Windows of 4 x 4, summed along two axes."""
    x, out = torch.randint(-9, 9, (16, 16)).float(), torch.zeros(16, 16)
    sum_4d[(1,)](x, out, 16, 16, 4)
    padded = torch.nn.functional.pad(x, (0, 3, 0, 3))
    return Answer(out, padded.unfold(0, 4, 1).unfold(1, 4, 1).sum((2, 3)))


@triton.jit
def _add_checked(a, b):
    r = a.to(tl.int64) + b.to(tl.int64)
    tl.device_assert((r >= -(2**31)) & (r <= 2**31 - 1))
    return a + b


@triton.jit
def sum_checked(x, out, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.reduce(tl.load(x + at), 0, _add_checked, keep_dims=True).broadcast_to((M, N)))


@reproducer("triton #5045")
def sum_with_an_assertion() -> Answer:
    """A reduction whose step may end the kernel, broadcast behind it."""
    x, out = torch.randint(-9, 9, (16, 16)).int(), torch.zeros(16, 16).int()
    sum_checked[(1,)](x, out, 16, 16, debug=True)
    return Answer(out, x.sum(0, keepdim=True).expand(16, 16).int())


@triton.jit
def reshaped(x, out, N: tl.constexpr, M: tl.constexpr, K: tl.constexpr, OP: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    if OP == "sum":
        r = tl.sum(tl.reshape(v, (M, K, N // M // K)), 1)
        tl.store(out + tl.arange(0, N // K), tl.reshape(r, (N // K,)))
    elif OP == "ravel":
        r = tl.trans(tl.reshape(v, (M, N // M)))
        tl.store(out + i, tl.reshape(r, (N,)))
    elif OP == "permute":
        r = tl.permute(tl.reshape(v, (M, K, N // M // K)), (1, 2, 0))
        tl.store(out + i, tl.reshape(r, (N,)))
    elif OP == "flip":
        r = tl.flip(tl.reshape(v, (N // 2, 2)), 1)
        tl.store(out + i, tl.reshape(r, (N,)))
    else:
        a, b = tl.split(tl.reshape(tl.trans(tl.reshape(v, (2, N // 2))), (N // 2, 2)))
        tl.store(out + i, tl.interleave(b, a))


def _reshaped(x: torch.Tensor, op: str, want: torch.Tensor, m: int = 8, k: int = 4, warps: int = 4) -> Answer:
    out = torch.zeros(want.numel()).to(x.dtype)
    reshaped[(1,)](x, out, x.numel(), m, k, op, num_warps=warps)
    return Answer(out.double(), want.double())


@reproducer("triton #5745, #5616")
def sum_of_a_reshaped_block() -> Answer:
    """[8, 4, 16] out of 512 in a row, summed along its middle."""
    x = torch.randint(-99, 99, (512,)).float()
    return _reshaped(x, "sum", x.reshape(8, 4, 16).sum(1).reshape(-1))


@reproducer("triton #3052")
def transposed_and_flattened() -> list[Answer]:
    """The order of elements behind tl.trans and tl.reshape, and tl.permute."""
    x = torch.arange(512).int()
    return [
        _reshaped(x, "ravel", x.reshape(8, 64).T.reshape(-1)),
        _reshaped(x, "permute", x.reshape(8, 4, 16).permute(1, 2, 0).reshape(-1)),
    ]


@reproducer("triton #5439")
def flipped_infinities() -> Answer:
    """tl.flip, which was made of sums, keeps infinities and NaN."""
    x = torch.arange(256).float()
    x[[3, 200]], x[17] = float("inf"), float("nan")
    return _reshaped(x, "flip", x.reshape(-1, 2).flip(1).reshape(-1))


@reproducer("triton #6031")
def split_and_interleaved() -> list[Answer]:
    """tl.split of a block whose layout is not blocked, put together again the other way round."""
    answers = []
    for dtype, warps in ((torch.int32, 4), (torch.float16, 2), (torch.int8, 1)):
        x = torch.arange(256).to(dtype)
        want = x.reshape(2, 128).T.flip(1).reshape(-1)
        answers.append(_reshaped(x, "split", want, warps=warps))
    return answers


@reproducer("triton #7899, #7809")
def fp8_changes_its_layout() -> Answer:
    """Bytes that change lanes four at a time."""
    x = torch.arange(512).remainder(64).to(torch.uint8)
    return _reshaped(x, "permute", x.reshape(8, 4, 16).permute(1, 2, 0).reshape(-1), warps=1)


@triton.jit
def assigned(points, centres, counts, N: tl.constexpr, D: tl.constexpr, K: tl.constexpr):
    c = tl.load(centres + tl.arange(0, K)[:, None] * D + tl.arange(0, D)[None, :])
    p = tl.load(points + tl.arange(0, N)[:, None] * D + tl.arange(0, D)[None, :])
    nearest = tl.argmin(tl.dot(p, tl.trans(c), input_precision="ieee"), axis=1)
    tl.store(counts + tl.arange(0, K), tl.load(counts + tl.arange(0, K)) + tl.histogram(nearest, K))


@reproducer("triton #6987")
def histogram_of_indices() -> Answer:
    """tl.histogram of what tl.argmin gives for a product."""
    points, centres = torch.randn(128, 16), torch.randn(16, 16)
    counts = torch.zeros(16, dtype=torch.int32)
    assigned[(1,)](points, centres, counts, 128, 16, 16)
    want = torch.bincount((points.double() @ centres.double().T).argmin(1), minlength=16)
    return Answer(counts, want.int())


@triton.jit
def counted_blocks(index, out, N: tl.constexpr, K: tl.constexpr, E: tl.constexpr):
    i = tl.load(index + tl.arange(0, N)[:, None] * K + tl.arange(0, K)[None, :])
    hit = (tl.reshape(i, (K * N, 1)) == tl.reshape(tl.arange(0, E), (1, E))).to(tl.int32)
    tokens = tl.cumsum(tl.sum(tl.reshape(hit, (N, K, E)), axis=1), 0)
    tl.store(out + tl.arange(0, N)[:, None] * E + tl.arange(0, E)[None, :], tokens)


@reproducer("triton #4078")
def running_counts_of_experts() -> Answer:
    """A running sum along the tokens of how often each expert was chosen."""
    index, out = torch.randint(0, 16, (64, 4)).int(), torch.zeros(64, 16).int()
    counted_blocks[(1,)](index, out, 64, 4, 16)
    return Answer(out, torch.nn.functional.one_hot(index.long(), 16).sum(1).cumsum(0).int())


@triton.jit
def row_sums(x, y, out, M: tl.constexpr, N: tl.constexpr):
    """One row a group of lanes."""
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + tl.arange(0, N), tl.sum(tl.load(x + at) * tl.load(y + at), axis=0))


def sums_of_products(fusion: bool = True) -> Answer:
    x, y, out = torch.randn(4, 64), torch.randn(4, 64), torch.empty(64)
    row_sums[(1,)](x, y, out, 4, 64, num_warps=1, enable_fp_fusion=fusion)
    return Answer(out, (x.double() * y.double()).sum(0).float(), rtol=1e-5, atol=1e-5)


@reproducer("found here")
def copies_of_one_sum_of_products() -> Answer:
    """Lanes that hold one element each compute it, one with a fused operation: the copies differ in the last bit."""
    return sums_of_products()


@triton.jit
def ordered(x, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + at)
    tl.store(out + at, tl.sort(v, descending=K > 0))


@reproducer("triton #5439, #6635")
def sorted_with_infinities() -> list[Answer]:
    """tl.sort, which exchanges neighbours by sums of bits, of rows with infinities."""
    answers = []
    for descending in (0, 1):
        x, out = torch.randn(4, 64), torch.zeros(4, 64)
        x[:, ::13] = float("inf")
        x[:, ::17] = -float("inf")
        ordered[(1,)](x, out, 4, 64, descending)
        answers.append(Answer(out, x.sort(1, descending=bool(descending)).values))
    return answers
