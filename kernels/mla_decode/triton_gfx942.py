"""amd-mla-decode in Triton: a decoding step of multi-head latent attention with absorbed projections, seven launches.

1. linear_kernel     q_latent = x @ Q_down.T
2. linear_kernel     the new token's latent, x @ KV_down.T, into its place in the cache
3. query_kernel      per head: q = q_latent @ Q_up.T, its tail rotated, the rest times W_UK: queries for latents
4. rope_kernel       the rotated tails of all cached latents, once for all heads
5. attention_kernel  flash decoding over the latents: keys and values of all heads are the same 512 numbers a token
6. value_kernel      merges the splits of the keys, times W_UV
7. linear_kernel     y = values @ W_O.T

Keys and values of single heads are never made: scores = (q W_UK) . latent, and values = (sum of p * latent) W_UV, so a
token costs 576 numbers read and 128 * (576 + 512) multiply-adds. Products are bf16 with fp32 sums; what goes to
memory between launches is bf16. The rotation rounds to bf16 at each step, as the reference's does.
"""

import functools
import math

import torch
import triton
import triton.language as tl

from kernels.common.launch_options import launch_options, power_of_two_divisor
from kernels.common.split_k import split_k_workspace, store_sum_of_slices
from kernels.common.workgroup_order import xcd_contiguous
from kernels.mla_decode.mla_inputs import SIZES, head_sizes, mla_inputs, rope_table
from kernels.mla_decode.triton_gfx942_tuning import DEFAULT, TUNING

N_XCD = 8  # MI300X
COMPUTE_UNITS = 304
ROPE_POSITIONS = 64  # of a workgroup that rotates the cache's tails


@triton.jit
def linear_kernel(
    a_ptr,  # bf16 [M][K]
    w_ptr,  # bf16 [N][K]
    c_ptr,  # bf16 [M][..], rows c_stride apart
    partial_ptr,  # fp32 [SPLIT_K][M][N], unused where SPLIT_K is 1
    arrived_ptr,  # int32 [tiles], zero between launches
    M,
    c_stride,
    N: tl.constexpr,
    K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SPLIT_K: tl.constexpr,
    XCDS: tl.constexpr,
):
    """c = a @ w.T. The tiles of a column of tiles, and the slices of a tile, run side by side on one XCD."""
    EVEN_K: tl.constexpr = K % BLOCK_K == 0
    BLOCKS: tl.constexpr = (K + BLOCK_K - 1) // BLOCK_K
    order = xcd_contiguous(tl.program_id(0), tl.num_programs(0), XCDS)
    tile = order // SPLIT_K
    part = order % SPLIT_K
    rows = tl.cdiv(M, BLOCK_M)
    rm = tile % rows * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tile // rows * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    # Rows past the end are computed from row 0 and not stored.
    a = a_ptr + tl.where(rm < M, rm, 0)[:, None] * K + rk[None, :]
    w = w_ptr + tl.where(rn < N, rn, 0)[None, :] * K + rk[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for block in range(part * BLOCKS // SPLIT_K, (part + 1) * BLOCKS // SPLIT_K):
        k = block * BLOCK_K
        if EVEN_K:
            acc = tl.dot(tl.load(a + k), tl.load(w + k), acc)
        else:
            x = tl.load(a + k, mask=k + rk[None, :] < K, other=0.0)
            acc = tl.dot(x, tl.load(w + k, mask=k + rk[:, None] < K, other=0.0), acc)

    inside = (rm[:, None] < M) & (rn[None, :] < N)
    offset = rm[:, None] * N + rn[None, :]
    c_offset = rm.to(tl.int64)[:, None] * c_stride + rn[None, :]
    store_sum_of_slices(acc, c_ptr, partial_ptr, arrived_ptr, offset, inside, M * N, tile, part, SPLIT_K, c_offset)


@triton.jit
def rotated(low, high, cos, sin):
    """bf16 halves of vectors, rotated (rotate-half form); products and sum round to bf16, as in the reference."""
    low, high = low.to(tl.float32), high.to(tl.float32)
    cos, sin = cos.to(tl.float32), sin.to(tl.float32)
    new_low = (low * cos).to(tl.bfloat16).to(tl.float32) - (high * sin).to(tl.bfloat16).to(tl.float32)
    new_high = (high * cos).to(tl.bfloat16).to(tl.float32) + (low * sin).to(tl.bfloat16).to(tl.float32)
    return new_low.to(tl.bfloat16), new_high.to(tl.bfloat16)


@triton.jit(do_not_specialize=["length"])
def query_kernel(
    latent_ptr,  # bf16 [batch][RANK]
    up_ptr,  # bf16 [HEADS][NOPE + ROPE][RANK]
    key_up_ptr,  # bf16 [HEADS][NOPE + VALUE][LATENT]: W_UK, then W_UV, of each head
    table_ptr,  # bf16 [capacity][ROPE]: cosines, then sines
    q_ptr,  # bf16 [batch][HEADS][LATENT + ROPE]
    batch,
    length,  # of the sequence, the new token included
    HEADS: tl.constexpr,
    RANK: tl.constexpr,
    NOPE: tl.constexpr,
    ROPE: tl.constexpr,
    VALUE: tl.constexpr,
    LATENT: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    HALF: tl.constexpr = ROPE // 2
    head = tl.program_id(0)
    rm = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    rk = tl.arange(0, BLOCK_K)
    r_nope = tl.arange(0, NOPE)
    r_half = tl.arange(0, HALF)
    a = latent_ptr + tl.where(rm < batch, rm, 0)[:, None] * RANK + rk[None, :]
    up = up_ptr + head * (NOPE + ROPE) * RANK + rk[:, None]
    nope = tl.zeros((BLOCK_M, NOPE), dtype=tl.float32)
    low = tl.zeros((BLOCK_M, HALF), dtype=tl.float32)
    high = tl.zeros((BLOCK_M, HALF), dtype=tl.float32)
    for k in range(0, RANK, BLOCK_K):
        x = tl.load(a + k)
        nope = tl.dot(x, tl.load(up + k + r_nope[None, :] * RANK), nope)
        low = tl.dot(x, tl.load(up + k + (NOPE + r_half)[None, :] * RANK), low)
        high = tl.dot(x, tl.load(up + k + (NOPE + HALF + r_half)[None, :] * RANK), high)

    inside = rm[:, None] < batch
    q = q_ptr + (rm[:, None] * HEADS + head) * (LATENT + ROPE)
    cos = tl.load(table_ptr + (length - 1) * ROPE + r_half)[None, :]
    sin = tl.load(table_ptr + (length - 1) * ROPE + HALF + r_half)[None, :]
    low, high = rotated(low.to(tl.bfloat16), high.to(tl.bfloat16), cos, sin)
    tl.store(q + LATENT + r_half[None, :], low, mask=inside)
    tl.store(q + LATENT + HALF + r_half[None, :], high, mask=inside)

    nope = nope.to(tl.bfloat16)
    key_up = key_up_ptr + (head * (NOPE + VALUE) + r_nope)[:, None] * LATENT
    for n in range(0, LATENT, BLOCK_N):
        rn = n + tl.arange(0, BLOCK_N)
        absorbed = tl.dot(nope, tl.load(key_up + rn[None, :]))
        tl.store(q + rn[None, :], absorbed.to(tl.bfloat16), mask=inside)


@triton.jit(do_not_specialize=["length"])
def rope_kernel(
    cache_ptr,  # bf16 [batch][capacity][LATENT + ROPE]
    table_ptr,  # bf16 [capacity][ROPE]: cosines, then sines
    rope_ptr,  # bf16 [batch][capacity][ROPE]
    length,
    capacity,
    LATENT: tl.constexpr,
    ROPE: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    HALF: tl.constexpr = ROPE // 2
    position = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    low_column = tl.arange(0, HALF)[None, :]
    inside = position[:, None] < length
    first = tl.program_id(1).to(tl.int64) * capacity
    cached = cache_ptr + first * (LATENT + ROPE) + position[:, None] * (LATENT + ROPE) + LATENT + low_column
    table = table_ptr + position[:, None] * ROPE + low_column
    low, high = rotated(
        tl.load(cached, mask=inside),
        tl.load(cached + HALF, mask=inside),
        tl.load(table, mask=inside),
        tl.load(table + HALF, mask=inside),
    )
    out = rope_ptr + first * ROPE + position[:, None] * ROPE + low_column
    tl.store(out, low, mask=inside)
    tl.store(out + HALF, high, mask=inside)


@triton.jit(do_not_specialize=["length"])
def attention_kernel(
    q_ptr,  # bf16 [batch][HEADS][LATENT + ROPE]
    cache_ptr,  # bf16 [batch][capacity][LATENT + ROPE]
    rope_ptr,  # bf16 [batch][capacity][ROPE]: the cache's tails, rotated
    o_ptr,  # bf16 [SPLITS][batch][HEADS][LATENT]: weighted means of the latents of each split
    lse_ptr,  # fp32 [SPLITS][batch][HEADS]: log2 of the sums of their weights
    batch,
    length,
    capacity,
    scale,  # of scores, times log2(e)
    HEADS: tl.constexpr,
    LATENT: tl.constexpr,
    ROPE: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SPLITS: tl.constexpr,
    XCDS: tl.constexpr,
):
    HEAD_BLOCKS: tl.constexpr = HEADS // BLOCK_H
    # Workgroups of the same keys are neighbours, so that they share an L2.
    order = xcd_contiguous(tl.program_id(0), tl.num_programs(0), XCDS)
    request = order // (HEAD_BLOCKS * SPLITS)
    split = order // HEAD_BLOCKS % SPLITS
    head = request * HEADS + order % HEAD_BLOCKS * BLOCK_H + tl.arange(0, BLOCK_H)
    r_latent = tl.arange(0, LATENT)[None, :]
    r_rope = tl.arange(0, ROPE)[None, :]
    q = tl.load(q_ptr + head[:, None] * (LATENT + ROPE) + r_latent)
    q_rope = tl.load(q_ptr + head[:, None] * (LATENT + ROPE) + LATENT + r_rope)
    cache = cache_ptr + request.to(tl.int64) * capacity * (LATENT + ROPE)
    rope = rope_ptr + request.to(tl.int64) * capacity * ROPE

    n_blocks = tl.cdiv(length, BLOCK_N)
    first = split * n_blocks // SPLITS
    last = (split + 1) * n_blocks // SPLITS
    top = tl.full((BLOCK_H,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_H,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_H, LATENT), dtype=tl.float32)
    # Each block of keys is on its way while the one before it is worked on. Past the end the last key is read again.
    row = tl.minimum(first * BLOCK_N + tl.arange(0, BLOCK_N), length - 1)[:, None]
    next_latent = tl.load(cache + row * (LATENT + ROPE) + r_latent)
    next_rope = tl.load(rope + row * ROPE + r_rope)
    for block in range(first, last):
        latent = next_latent
        k_rope = next_rope
        position = block * BLOCK_N + tl.arange(0, BLOCK_N)
        row = tl.minimum(position + BLOCK_N, length - 1)[:, None]
        next_latent = tl.load(cache + row * (LATENT + ROPE) + r_latent)
        next_rope = tl.load(rope + row * ROPE + r_rope)

        scores = tl.dot(q, tl.trans(latent))
        scores = tl.dot(q_rope, tl.trans(k_rope), scores)
        scores = tl.where(position[None, :] < length, scores * scale, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp2(scores - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        total = total * shrink + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.bfloat16), latent, acc * shrink[:, None])
        top = new_top

    out = (split * batch * HEADS).to(tl.int64) + head
    tl.store(o_ptr + out[:, None] * LATENT + r_latent, (acc / total[:, None]).to(tl.bfloat16))
    tl.store(lse_ptr + out, top + tl.log2(total))


@triton.jit
def value_kernel(
    o_ptr,  # bf16 [SPLITS][batch][HEADS][LATENT]
    lse_ptr,  # fp32 [SPLITS][batch][HEADS]
    value_up_ptr,  # bf16 [HEADS][NOPE + VALUE][LATENT]: W_UK, then W_UV, of each head
    values_ptr,  # bf16 [batch][HEADS][VALUE]
    batch,
    HEADS: tl.constexpr,
    NOPE: tl.constexpr,
    VALUE: tl.constexpr,
    LATENT: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SPLITS: tl.constexpr,
):
    head = tl.program_id(0)
    rm = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    rk = tl.arange(0, BLOCK_K)
    r_value = tl.arange(0, VALUE)
    inside = rm < batch
    row = tl.where(inside, rm, 0).to(tl.int64) * HEADS + head
    w = value_up_ptr + (head * (NOPE + VALUE) + NOPE + r_value)[None, :] * LATENT + rk[:, None]

    top = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    for split in range(SPLITS):
        top = tl.maximum(top, tl.load(lse_ptr + split * batch * HEADS + row))
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    values = tl.zeros((BLOCK_M, VALUE), dtype=tl.float32)
    for split in range(SPLITS):
        place = split * batch * HEADS + row
        weight = tl.exp2(tl.load(lse_ptr + place) - top)
        total += weight
        part = tl.zeros((BLOCK_M, VALUE), dtype=tl.float32)
        for k in range(0, LATENT, BLOCK_K):
            o = tl.load(o_ptr + place[:, None] * LATENT + k + rk[None, :])
            part = tl.dot(o, tl.load(w + k), part)
        values += part * weight[:, None]
    values = (values / total[:, None]).to(tl.bfloat16)
    tl.store(values_ptr + row[:, None] * VALUE + r_value[None, :], values, mask=inside[:, None])


class Plan:
    """Buffers that a call writes before it reads them."""

    def __init__(self, device, batch, capacity, rank, heads, value, latent, rope, splits):
        def empty(*shape, dtype=torch.bfloat16):
            return torch.empty(shape, dtype=dtype, device=device)

        self.q_latent = empty(batch, rank)
        self.q = empty(batch, heads, latent + rope)
        self.rope = empty(batch, capacity, rope)
        self.o = empty(splits, batch, heads, latent)
        self.lse = empty(splits, batch, heads, dtype=torch.float32)
        self.values = empty(batch, heads * value)


plan_of = functools.lru_cache(maxsize=1)(Plan)  # the last shape's


def linear(a, w, c, split_k, config):
    """c = a @ w.T: a bf16 [m, k], w bf16 [n, k], c bf16 [m, n], of which only rows have to be contiguous."""
    m, n = a.shape[0], w.shape[0]
    block_m, block_n = rows_of_tile(m, config["BLOCK_M"]), config["LINEAR_N"]
    n_tiles = triton.cdiv(m, block_m) * triton.cdiv(n, block_n)
    partial = arrived = a  # not touched
    if split_k > 1:
        partial, arrived = split_k_workspace(a.device, split_k * m * n, n_tiles)
    linear_kernel[(n_tiles * split_k,)](
        a,
        w,
        c,
        partial,
        arrived,
        m,
        c.stride(0),
        N=n,
        K=a.shape[1],
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=config["LINEAR_K"],
        SPLIT_K=split_k,
        XCDS=N_XCD,
        **launch_options(waves=4, stages=2),
    )


def rows_of_tile(batch, most):
    """Of the products whose rows are requests."""
    return max(16, min(most, triton.next_power_of_2(batch)))


def mla_decode(x, weights, cache, length, y, sizes, row):
    """Launch with the given row of the tuning table: writes the latent at length - 1 into cache, and y.

    x bf16 [batch, dim]; weights as mla_inputs returns them; cache bf16 [batch, capacity, latent + rope]; y bf16
    [batch, dim]; sizes: heads, nope, rope, value, latent.
    """
    q_down, q_up, kv_down, kv_up, w_o = weights
    heads, nope, rope, value, latent = sizes
    batch, capacity, rank = x.shape[0], cache.shape[1], q_down.shape[0]
    splits = min(row["SPLITS"], triton.cdiv(length, row["BLOCK_N"]))
    plan = plan_of(x.device, batch, capacity, rank, heads, value, latent, rope, splits)
    table = rope_table(capacity, rope, x.device)
    block_m = rows_of_tile(batch, row["HEAD_M"])
    by_head = (heads, triton.cdiv(batch, block_m))
    dims = {"HEADS": heads, "NOPE": nope, "VALUE": value, "LATENT": latent}

    linear(x, q_down, plan.q_latent, row["SPLIT_Q"], row)
    linear(x, kv_down, cache[:, length - 1], row["SPLIT_KV"], row)
    query_kernel[by_head](
        plan.q_latent,
        q_up,
        kv_up,
        table,
        plan.q,
        batch,
        length,
        **dims,
        RANK=rank,
        ROPE=rope,
        BLOCK_M=block_m,
        BLOCK_K=power_of_two_divisor(rank, row["QUERY_K"]),
        BLOCK_N=min(128, latent),
        **launch_options(waves=4, stages=2),
    )
    rope_kernel[(triton.cdiv(length, ROPE_POSITIONS), batch)](
        cache,
        table,
        plan.rope,
        length,
        capacity,
        LATENT=latent,
        ROPE=rope,
        BLOCK_N=ROPE_POSITIONS,
        **launch_options(waves=4, stages=1),
    )
    block_h = min(row["BLOCK_H"], heads)
    attention_kernel[(batch * splits * (heads // block_h),)](
        plan.q,
        cache,
        plan.rope,
        plan.o,
        plan.lse,
        batch,
        length,
        capacity,
        math.log2(math.e) / math.sqrt(nope + rope),
        HEADS=heads,
        LATENT=latent,
        ROPE=rope,
        BLOCK_H=block_h,
        BLOCK_N=row["BLOCK_N"],
        SPLITS=splits,
        XCDS=N_XCD,
        **launch_options(row["num_warps"], stages=1),  # the loop fetches ahead by itself
    )
    value_kernel[by_head](
        plan.o,
        plan.lse,
        kv_up,
        plan.values,
        batch,
        **dims,
        BLOCK_M=block_m,
        BLOCK_K=min(128, latent),
        SPLITS=splits,
        **launch_options(waves=4, stages=2),
    )
    linear(plan.values, w_o, y, row["SPLIT_OUT"], row)


def tuning_row(data):
    """The row that custom_kernel(data) uses: the table's, or DEFAULT with enough splits for all compute units."""
    config, x, _ = data
    row = TUNING.get((x.shape[0], config.dim, config.q_lora_rank))
    if row is None:
        workgroups = x.shape[0] * triton.cdiv(config.n_heads, DEFAULT["BLOCK_H"])
        row = {**DEFAULT, "SPLITS": triton.cdiv(COMPUTE_UNITS, workgroups)}
    return row


def custom_kernel(data):
    """(config, x, kv_cache) as the problem hands them over -> (y bf16 [batch, 1, dim], kv_cache.data).

    Appends the token's latent to the cache: data at position seq_len, and seq_len itself.
    """
    config, x, kv_cache = data
    heads, nope, rope, value, latent = sizes = head_sizes(config)
    for name, size in zip(SIZES, sizes):
        if size < 32 or size & (size - 1):
            raise ValueError(f"{name} must be a power of two and at least 32, got {size}")
    if config.q_lora_rank % 16 or config.q_lora_rank == 0:
        raise ValueError(f"q_lora_rank must be a multiple of 16, got {config.q_lora_rank}")
    weights, cache, length = mla_inputs(data)
    batch, dim = x.shape[0], config.dim
    y = torch.empty((batch, 1, dim), dtype=torch.bfloat16, device=x.device)
    mla_decode(x.view(batch, dim), weights, cache, length, y.view(batch, dim), sizes, tuning_row(data))
    kv_cache.seq_len = length
    return y, cache
