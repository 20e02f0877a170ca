"""Triton kernels of the kinds that kernel engineers write, for test_triton_language.py."""

# In a Triton kernel only the compile-time arguments carry an annotation.
# mypy: disallow-incomplete-defs=False
import triton
import triton.language as tl
from triton.language.extra.hip import libdevice


@triton.jit
def nothing(dtype: tl.constexpr):
    """Compiles to a kernel without vector registers."""
    tl.zeros((1,), dtype)


@triton.jit
def attention(q, k, v, out, length, scale, CAUSAL: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Flash attention forward; q, k, v, out [heads, length, D], scale includes log2(e)."""
    head = tl.program_id(1) * length * D
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    query = tl.load(q + head + rm[:, None] * D + rd[None, :], mask=rm[:, None] < length, other=0)
    top = tl.full((BM,), -1e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    end = tl.minimum((tl.program_id(0) + 1) * BM, length) if CAUSAL else length
    for start in range(0, end, BN):
        rn = start + tl.arange(0, BN)
        inside = rn < length
        key = tl.load(k + head + rn[None, :] * D + rd[:, None], mask=inside[None, :], other=0)
        seen = (rm[:, None] >= rn[None, :]) & inside[None, :] if CAUSAL else inside[None, :]
        score = tl.where(seen, tl.dot(query, key) * scale, -1e30)
        new_top = tl.maximum(top, tl.max(score, 1))
        weight = tl.exp2(score - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        total = total * shrink + tl.sum(weight, 1)
        value = tl.load(v + head + rn[:, None] * D + rd[None, :], mask=inside[:, None], other=0)
        acc = tl.dot(weight.to(value.dtype), value, acc * shrink[:, None])
        top = new_top
    tl.store(out + head + rm[:, None] * D + rd[None, :], acc / total[:, None], mask=rm[:, None] < length)


@triton.jit
def persistent(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    STAGES: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    """c [M, N] = a [M, K] @ b [K, N]: a fixed number of programs, tiles in groups of GROUP rows of tiles."""
    m_tiles, n_tiles = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), m_tiles * n_tiles, tl.num_programs(0), flatten=FLATTEN):
        first = tile // (GROUP * n_tiles) * GROUP
        rows = tl.minimum(m_tiles - first, GROUP)
        within = tile % (GROUP * n_tiles)
        rm = (first + within % rows) * BM + tl.arange(0, BM)
        rn = within // rows * BN + tl.arange(0, BN)
        am = tl.max_contiguous(tl.multiple_of(rm % M, BM), BM)
        bn = tl.max_contiguous(tl.multiple_of(rn % N, BN), BN)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in tl.range(0, K, BK, num_stages=STAGES):
            rk = k + tl.arange(0, BK)
            x = tl.load(a + am[:, None] * K + rk[None, :])
            acc = tl.dot(x, tl.load(b + rk[:, None] * N + bn[None, :]), acc)
        mask = (rm[:, None] < M) & (rn[None, :] < N)
        tl.store(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty), mask=mask)


@triton.jit
def stream_k(a, b, c, ready, partial, M, N, K, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    """c [M, N] = a [M, K] @ b [K, N]: every program takes an equal share of all steps over k. Who does the first step
    of a tile waits for the partial sums of the programs that do the rest."""
    me = tl.program_id(0)
    n_tiles = N // BLOCK
    steps = K // BLOCK
    all_steps = steps * (M // BLOCK) * n_tiles
    share = tl.cdiv(all_steps, PROGRAMS)
    step = me * share
    last = tl.minimum(step + share, all_steps)
    inner = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    while step < last:
        tile = step // steps
        tile_end = (tile + 1) * steps
        end = tl.minimum(last, tile_end)
        rm = tile // n_tiles * BLOCK + tl.arange(0, BLOCK)
        rn = tile % n_tiles * BLOCK + tl.arange(0, BLOCK)
        acc = tl.zeros((BLOCK, BLOCK), tl.float32)
        for s in range(step - tile * steps, end - tile * steps):
            rk = s * BLOCK + tl.arange(0, BLOCK)
            x = tl.load(a + rm[:, None] * K + rk[None, :])
            acc = tl.dot(x, tl.load(b + rk[:, None] * N + rn[None, :]), acc)
        if step % steps != 0:
            tl.store(partial + me * BLOCK * BLOCK + inner, acc, cache_modifier=".wt")
            tl.debug_barrier()
            tl.atomic_xchg(ready + me, 1)
        else:
            other = me + 1
            summed = end
            while summed < tile_end:
                while tl.atomic_cas(ready + other, 1, 1) != 1:
                    pass
                acc += tl.load(partial + other * BLOCK * BLOCK + inner, cache_modifier=".cv")
                summed = (other + 1) * share
                other += 1
            tl.store(c + rm[:, None] * N + rn[None, :], acc)
        step = end


@triton.jit
def batched_dot(a, b, c, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    rb = tl.arange(0, B)[:, None, None]
    rm, rn, rk = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + rb * M * K + rm[None, :, None] * K + rk[None, None, :])
    y = tl.load(b + rb * N * K + rk[None, :, None] * N + rn[None, None, :])
    product = tl.dot(x, y, input_precision=PRECISION, out_dtype=c.dtype.element_ty)
    tl.store(c + rb * M * N + rm[None, :, None] * N + rn[None, None, :], product)


@triton.jit
def functions(x, y, out, N: tl.constexpr):
    """out [8, N]."""
    i = tl.arange(0, N)
    v, u = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, libdevice.tanh(v))
    tl.store(out + N + i, libdevice.pow(libdevice.abs(v), u))
    tl.store(out + 2 * N + i, libdevice.atan2(v, u))
    tl.store(out + 3 * N + i, libdevice.lgamma(libdevice.abs(v) + 0.5))
    tl.store(out + 4 * N + i, libdevice.erfc(v))
    tl.store(out + 5 * N + i, libdevice.fmod(v * 100, u))
    tl.store(out + 6 * N + i, libdevice.expm1(v))
    tl.store(out + 7 * N + i, libdevice.tan(v))


@triton.jit
def rearranged(x, y, index, out, N: tl.constexpr, CAT: tl.constexpr):
    """out [9 N]: join, split and interleave, cat, a permutation of a reshape, a gather, a flip."""
    i = tl.arange(0, N)
    ii = tl.arange(0, 2 * N)
    a, b = tl.load(x + i), tl.load(y + i)
    joined = tl.join(a, b)
    left, right = tl.split(joined)
    tl.store(out + i[:, None] * 2 + tl.arange(0, 2)[None, :], joined)
    tl.store(out + 2 * N + ii, tl.interleave(right, left))
    if CAT:
        tl.store(out + 4 * N + ii, tl.cat(a, b, can_reorder=False))
    tl.store(out + 6 * N + i, tl.reshape(tl.permute(tl.reshape(a, (4, N // 32, 8)), (2, 0, 1)), (N,)))
    tl.store(out + 7 * N + i, tl.gather(a, tl.load(index + i), 0))
    tl.store(out + 8 * N + i, tl.flip(a, 0))


@triton.jit
def far_apart(x, y, out, stride, N: tl.constexpr):
    """x[i * stride] = y[i], then + 1 by an atomic, then read to out."""
    i = tl.arange(0, N)
    at = x + i.to(tl.int64) * stride
    tl.store(at, tl.load(y + i))
    tl.debug_barrier()
    tl.atomic_add(at, 1)
    tl.debug_barrier()
    tl.store(out + i, tl.load(at))


@triton.jit
def wide_integers(x, y, out, N: tl.constexpr):
    """out [5, N] of 64-bit operations."""
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a * b)
    tl.store(out + N + i, a // b)
    tl.store(out + 2 * N + i, a % b)
    high = tl.umulhi(a.to(tl.uint64, bitcast=True), b.to(tl.uint64, bitcast=True))
    tl.store(out + 3 * N + i, high.to(tl.int64, bitcast=True))
    tl.store(out + 4 * N + i, (a >> (b & 63)) ^ (a << (b & 63)))


@triton.jit
def inline_assembly(x, y, low, high, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    p, q = tl.inline_asm_elementwise(
        "v_mul_lo_u32 $0, $2, $3\nv_mul_hi_u32 $1, $2, $3", "=&v,=&v,v,v", [a, b], dtype=(tl.int32, tl.int32),
        is_pure=True, pack=1,
    )  # fmt: skip
    tl.store(low + i, p)
    tl.store(high + i, q)


@triton.jit
def asserting(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.device_assert(v >= 0, "negative")
    tl.store(out + i, v + 1)
