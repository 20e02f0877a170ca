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
def paged_decode(q, pages, table, lengths, out, scale, D: tl.constexpr, PAGE: tl.constexpr, WIDTH: tl.constexpr):
    """One new query a sequence. q, out [sequences, D]; pages [n, 2 (key, value), PAGE, D]; table [sequences, WIDTH]."""
    row = tl.program_id(0)
    length = tl.load(lengths + row)
    rd = tl.arange(0, D)
    at = tl.arange(0, PAGE)[:, None] * D + rd[None, :]
    query = tl.load(q + row * D + rd).to(tl.float32)
    top = -1e30
    total = 0.0
    acc = tl.zeros((D,), tl.float32)
    for p in range(tl.cdiv(length, PAGE)):
        page = pages + tl.load(table + row * WIDTH + p).to(tl.int64) * (2 * PAGE * D)
        inside = p * PAGE + tl.arange(0, PAGE) < length
        key = tl.load(page + at, mask=inside[:, None], other=0).to(tl.float32)
        score = tl.where(inside, tl.sum(query[None, :] * key, 1) * scale, -1e30)
        new_top = tl.maximum(top, tl.max(score, 0))
        weight = tl.exp(score - new_top)
        shrink = tl.exp(top - new_top)
        value = tl.load(page + PAGE * D + at, mask=inside[:, None], other=0).to(tl.float32)
        acc = acc * shrink + tl.sum(weight[:, None] * value, 0)
        total = total * shrink + tl.sum(weight, 0)
        top = new_top
    tl.store(out + row * D + rd, acc / total)


@triton.jit
def split_k(a, b, c, M, N, K, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    """c [M, N] += a [M, K] @ b [K, N], each program over every SPLIT-th block of k."""
    n_tiles = tl.cdiv(N, BLOCK)
    rm = tl.program_id(0) // n_tiles * BLOCK + tl.arange(0, BLOCK)
    rn = tl.program_id(0) % n_tiles * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(tl.program_id(1) * BLOCK, K, BLOCK * SPLIT):
        rk = k + tl.arange(0, BLOCK)
        x = tl.load(a + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0)
        y = tl.load(b + rk[:, None] * N + rn[None, :], mask=(rk[:, None] < K) & (rn[None, :] < N), other=0)
        acc = tl.dot(x, y, acc)
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    tl.atomic_add(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty), mask=mask, sem="relaxed")


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
def grouped(a_pointers, b_pointers, c_pointers, shapes, groups, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    """Several GEMMs whose fp16 matrices are found through tables of addresses; shapes [groups, 3 (m, n, k)]."""
    tile = tl.program_id(0)
    before = 0
    half = tl.pointer_type(tl.float16)
    for g in range(groups):
        M = tl.load(shapes + 3 * g)
        N = tl.load(shapes + 3 * g + 1)
        K = tl.load(shapes + 3 * g + 2)
        n_tiles = tl.cdiv(N, BLOCK)
        tiles = tl.cdiv(M, BLOCK) * n_tiles
        while tile < before + tiles:
            a = tl.load(a_pointers + g).to(half)
            b = tl.load(b_pointers + g).to(half)
            c = tl.load(c_pointers + g).to(half)
            rm = (tile - before) // n_tiles * BLOCK + tl.arange(0, BLOCK)
            rn = (tile - before) % n_tiles * BLOCK + tl.arange(0, BLOCK)
            acc = tl.zeros((BLOCK, BLOCK), tl.float32)
            for k in range(0, K, BLOCK):
                rk = k + tl.arange(0, BLOCK)
                x = tl.load(a + rm[:, None] * K + rk[None, :], mask=rm[:, None] < M, other=0)
                acc += tl.dot(x, tl.load(b + rk[:, None] * N + rn[None, :], mask=rn[None, :] < N, other=0))
            mask = (rm[:, None] < M) & (rn[None, :] < N)
            tl.store(c + rm[:, None] * N + rn[None, :], acc.to(tl.float16), mask=mask)
            tile += PROGRAMS
        before += tiles


@triton.jit
def experts(
    x, w, out, order, owner, gates, n_rows, N: tl.constexpr, K: tl.constexpr, TOP: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Fused MoE layer: out[row] += gate * x[row // TOP] @ w[expert].T; `order` holds the (token, choice) rows sorted by
    expert, each expert's padded to BM with n_rows, `owner` the expert of every block of BM."""
    rows = tl.load(order + tl.program_id(0) * BM + tl.arange(0, BM))
    valid = rows < n_rows
    expert = tl.load(owner + tl.program_id(0))
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, K)
    token = rows // TOP
    a = tl.load(x + token[:, None] * K + rk[None, :], mask=valid[:, None], other=0)
    b = tl.load(w + expert * N * K + rn[None, :] * K + rk[:, None])
    product = tl.dot(a, b) * tl.load(gates + rows, mask=valid, other=0)[:, None]
    tl.atomic_add(out + token[:, None] * N + rn[None, :], product, mask=valid[:, None])


@triton.jit
def cross_entropy(logits, targets, losses, n, BLOCK: tl.constexpr):
    """Loss of every row; the logits' gradient takes the logits' place."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(logits + row * n + i, mask=i < n, other=-float("inf")).to(tl.float32)
    target = tl.load(targets + row)
    e = tl.exp(x - tl.max(x, 0))
    total = tl.sum(e, 0)
    tl.store(losses + row, tl.log(total) + tl.max(x, 0) - tl.sum(tl.where(i == target, x, 0.0), 0))
    tl.store(logits + row * n + i, e / total - tl.where(i == target, 1.0, 0.0), mask=i < n)


@triton.jit
def rope(x, base, D: tl.constexpr):
    """Rotates neighbouring pairs of x [positions, D] in place."""
    position = tl.program_id(0)
    at = x + position * D + tl.arange(0, D)
    even, odd = tl.split(tl.reshape(tl.load(at), (D // 2, 2)))
    angle = position * tl.exp2(-tl.log2(base) * tl.arange(0, D // 2) * 2 / D)
    c, s = tl.cos(angle), tl.sin(angle)
    tl.store(at, tl.interleave(even * c - odd * s, even * s + odd * c))


@triton.jit
def layer_norm(x, w, b, out, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < n
    v = tl.load(x + row * n + i, mask=mask, other=0).to(tl.float32)
    centred = tl.where(mask, v - tl.sum(v, 0) / n, 0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / n + eps)
    tl.store(out + row * n + i, centred * scale * tl.load(w + i, mask=mask) + tl.load(b + i, mask=mask), mask=mask)


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
def largest(x, out, N: tl.constexpr, K: tl.constexpr):
    row = tl.arange(0, 8)[:, None]
    values = tl.load(x + row * N + tl.arange(0, N)[None, :])
    tl.store(out + row * K + tl.arange(0, K)[None, :], tl.topk(values, K))


@triton.jit
def compact(x, out, count, n, BLOCK: tl.constexpr):
    """Keeps the positive values; blocks come in any order."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    keep = (v > 0).to(tl.int32)
    base = tl.atomic_add(count, tl.sum(keep, 0))
    tl.store(out + base + tl.cumsum(keep, 0) - keep, v, mask=v > 0)


@triton.jit
def masked_histogram(x, chosen, out, N: tl.constexpr, BINS: tl.constexpr):
    i = tl.arange(0, N)
    counts = tl.histogram(tl.load(x + i), BINS, mask=tl.load(chosen + i) != 0)
    tl.store(out + tl.arange(0, BINS), counts)


@triton.jit
def random_words(out, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b, c, d = tl.randint4x(seed, i)
    tl.store(out + i * 4, a)
    tl.store(out + i * 4 + 1, b)
    tl.store(out + i * 4 + 2, c)
    tl.store(out + i * 4 + 3, d)


@triton.jit
def quantise_mxfp4(x, codes, scales, N: tl.constexpr):
    """Rows of N to E2M1, two a byte, with an E8M0 scale for every 32."""
    row = tl.program_id(0)
    v = tl.reshape(tl.load(x + row * N + tl.arange(0, N)), (N // 32, 32)).to(tl.float32)
    e = tl.maximum((tl.max(tl.abs(v), 1).to(tl.int32, bitcast=True) >> 23) - 2, 0)
    tl.store(scales + row * (N // 32) + tl.arange(0, N // 32), e.to(tl.uint8))
    y = v * tl.exp2(127.0 - e.to(tl.float32))[:, None]
    m = tl.abs(y)
    code = (m > 0.25).to(tl.int32) + (m >= 0.75) + (m > 1.25) + (m >= 1.75) + (m > 2.5) + (m >= 3.5) + (m > 5)
    low, high = tl.split(tl.reshape(code | tl.where(y < 0, 8, 0), (N // 32, 16, 2)))
    at = codes + row * (N // 2) + tl.reshape(tl.arange(0, N // 2), (N // 32, 16))
    tl.store(at, (low | high << 4).to(tl.uint8))


@triton.jit
def int4_matmul(x, w, scale, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """out [M, N] = x [M, K] @ (w * scale), w signed 4-bit, two k a byte [K/2, N], the even one low."""
    rn = tl.arange(0, N)[None, :]
    packed = tl.load(w + tl.arange(0, K // 2)[:, None] * N + rn)
    both = tl.join((packed << 4).to(tl.int8) >> 4, packed >> 4)
    weight = tl.reshape(tl.permute(both, (0, 2, 1)), (K, N)).to(tl.bfloat16) * tl.load(scale + rn)
    a = tl.load(x + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :])
    tl.store(out + tl.arange(0, M)[:, None] * N + rn, tl.dot(a, weight.to(tl.bfloat16)))


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
