"""Triton kernels that the emulated device is tested with; each uses one feature of the language."""

import triton
import triton.language as tl


@triton.jit
def unary(x, out, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    if OP == "exp":
        r = tl.exp(v)
    elif OP == "log":
        r = tl.log(tl.abs(v) + 1.0)
    elif OP == "sqrt":
        r = tl.sqrt(tl.abs(v))
    elif OP == "rsqrt":
        r = tl.rsqrt(tl.abs(v) + 0.125)
    elif OP == "sin":
        r = tl.sin(v * 32)
    elif OP == "divide":
        r = tl.div_rn(v + 1.375, v)
    elif OP == "where":
        r = tl.where(v > 0, v * 2, v * 3)
    else:
        r = tl.fma(v, v, v)
    tl.store(out + i, r, mask=i < n)


@triton.jit
def cast(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n).to(out.dtype.element_ty), mask=i < n)


@triton.jit
def reduce(x, out, M: tl.constexpr, N: tl.constexpr, OP: tl.constexpr, AXIS: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    if OP == "sum":
        r = tl.sum(v, AXIS)
    elif OP == "max":
        r = tl.max(v, AXIS)
    elif OP == "argmin":
        r = tl.argmin(v, AXIS)
    else:
        r = tl.xor_sum(v, AXIS)
    tl.store(out + tl.arange(0, N if AXIS == 0 else M), r)


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def scan(x, out, M: tl.constexpr, N: tl.constexpr, OP: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + at)
    r = tl.cumsum(v, AXIS, reverse=REVERSE) if OP == "sum" else tl.associative_scan(v, AXIS, larger, reverse=REVERSE)
    tl.store(out + at, r)


@triton.jit
def dot(
    a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BLOCK_K: tl.constexpr, TRANSPOSED: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """c [M, N] = a [M, K] @ b [N, K].T; TRANSPOSED: both are stored with k as the slow axis."""
    rm = tl.arange(0, M)[:, None]
    rn = tl.arange(0, N)[None, :]
    acc = tl.zeros((M, N), ACC)
    for k in range(0, K, BLOCK_K):
        ka = k + tl.arange(0, BLOCK_K)[None, :]
        kb = k + tl.arange(0, BLOCK_K)[:, None]
        x = tl.load(a + (rm + ka * M if TRANSPOSED else rm * K + ka))
        y = tl.load(b + (rn + kb * N if TRANSPOSED else rn * K + kb))
        acc = tl.dot(x, y, acc, input_precision="ieee", out_dtype=ACC)
    tl.store(c + rm * N + rn, acc)


@triton.jit
def dot_scaled(
    a, sa, b, sb, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, FORMAT_A: tl.constexpr, FORMAT_B: tl.constexpr,
    PACK_A: tl.constexpr, PACK_B: tl.constexpr,
):  # fmt: skip
    rm = tl.arange(0, M)[:, None]
    rn = tl.arange(0, N)
    rs = tl.arange(0, K // 32)[None, :]
    x = tl.load(a + rm * (K // PACK_A) + tl.arange(0, K // PACK_A)[None, :])
    y = tl.load(b + rn[None, :] * (K // PACK_B) + tl.arange(0, K // PACK_B)[:, None])
    product = tl.dot_scaled(
        x, tl.load(sa + rm * (K // 32) + rs), FORMAT_A, y, tl.load(sb + rn[:, None] * (K // 32) + rs), FORMAT_B
    )
    tl.store(c + rm * N + rn[None, :], product)


@triton.jit
def atomic(x, out, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    at = out + i % 7
    if OP == "add":
        tl.atomic_add(at, v, mask=i < n)
    elif OP == "max":
        tl.atomic_max(at, v, mask=i < n)
    elif OP == "or":
        tl.atomic_or(at, v, mask=i < n)
    else:
        tl.atomic_xchg(at, v, mask=i < n)


@triton.jit
def locked_increment(lock, out):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out, tl.load(out) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def wait_for_later(flags, out):
    """Workgroup 0 waits for the last one: ends only if a waiting workgroup lets others run."""
    me = tl.program_id(0)
    last = tl.num_programs(0) - 1
    if me == 0:
        while tl.atomic_add(flags, 0) == 0:
            pass
        tl.store(out, 1)
    elif me == last:
        tl.atomic_xchg(flags, 1)


@triton.jit
def sort(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.sort(tl.load(x + i)))


@triton.jit
def histogram(x, out, N: tl.constexpr, BINS: tl.constexpr):
    tl.store(out + tl.arange(0, BINS), tl.histogram(tl.load(x + tl.arange(0, N)), BINS))


@triton.jit
def transpose(x, out, M: tl.constexpr, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(out + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :], tl.trans(v))


@triton.jit
def spilling(x, out, N: tl.constexpr, K: tl.constexpr):
    at = tl.arange(0, N)[:, None] * K + tl.arange(0, K)[None, :]
    v = tl.load(x + at)
    w = v * tl.sum(v, 1)[:, None]
    tl.store(out + at, v + w * tl.sum(w * v, 0)[None, :])


@triton.autotune(configs=[triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((64, 1), (256, 4))], key=["n"])
@triton.jit
def tripled(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 3, mask=i < n)


@triton.jit
def wild_load(out, address):
    tl.store(out, tl.load(address.to(tl.int64).to(tl.pointer_type(tl.float32))))
