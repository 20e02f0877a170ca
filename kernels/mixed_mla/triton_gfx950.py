"""amd-mixed-mla in Triton: decode attention of 16 heads on one latent cache, split over the tokens, in two launches.

The first launch gives every request to SPLITS workgroups, each with a contiguous part of its tokens; the second merges
their results. A token's first 512 columns are loaded once and are both key and value.

The cache is read in fp8 (or bf16, by the tuning table) and widened to bf16, which is exact; q stays bf16, so the error
beside an exact computation on the same cache is bf16's rounding of the probabilities. fp8 halves what bf16 would read,
and reading is what bounds this problem.

Everything is computed transposed: scores [tokens, heads] = kv @ q.T and out [512, heads] += kv[:, :512].T @ p. Both
products then have their long side in their rows, which Triton deals out to the waves. With the heads in the rows all
waves would compute the same 16 rows of scores.
"""

import torch
import triton
import triton.language as tl

from kernels.mixed_mla.inputs import check_inputs
from kernels.mixed_mla.triton_gfx950_tuning import DEFAULT, TUNING

COMPUTE_UNITS = 256  # MI355X
MOST_SPLITS = 64  # for shapes outside the table: beyond, merging takes longer than it saves
HEADS = tl.constexpr(16)
LATENT = tl.constexpr(512)  # columns that are key and value
ROPE = tl.constexpr(64)  # columns that are key alone
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def mla_decode_kernel(
    q_ptr,  # bf16 [queries][HEADS][LATENT + ROPE]
    kv_ptr,  # fp8 e4m3fn or bf16 [tokens][LATENT + ROPE]
    kv_scale_ptr,  # fp32 [1], unused unless FP8
    qo_indptr_ptr,  # int32 [requests + 1]: where a request's queries begin
    kv_indptr_ptr,  # int32 [requests + 1]: where its tokens begin
    out_ptr,  # bf16 [queries][HEADS][LATENT], unused unless SPLITS is 1
    partial_ptr,  # fp32 [SPLITS][queries][HEADS][LATENT], unused where SPLITS is 1
    weight_ptr,  # fp32 [SPLITS][queries][HEADS]: log2 of the sum of exponentials that a partial result is a mean of
    n_queries,
    q_seq_len,  # the most queries of a request
    sm_scale,
    BLOCK_KV: tl.constexpr,
    SPLITS: tl.constexpr,
    FP8: tl.constexpr,
):
    split = tl.program_id(0) % SPLITS
    request = tl.program_id(0) // SPLITS // q_seq_len
    turn = tl.program_id(0) // SPLITS % q_seq_len
    first_query = tl.load(qo_indptr_ptr + request)
    later = tl.load(qo_indptr_ptr + request + 1) - first_query - turn - 1  # queries of the request after this one
    if later >= 0:
        kv_first = tl.load(kv_indptr_ptr + request)
        tokens = tl.load(kv_indptr_ptr + request + 1) - kv_first - later  # a query sees none that a later one adds
        per_split = tl.cdiv(tl.cdiv(tokens, SPLITS), BLOCK_KV) * BLOCK_KV
        kv_first += split * per_split
        tokens = tl.minimum(tokens - split * per_split, per_split)

        head = tl.arange(0, HEADS)
        latent = tl.arange(0, LATENT)
        rope = LATENT + tl.arange(0, ROPE)
        row = (first_query + turn) * HEADS + head
        q_latent = tl.load(q_ptr + row[:, None] * (LATENT + ROPE) + latent[None, :])
        q_rope = tl.load(q_ptr + row[:, None] * (LATENT + ROPE) + rope[None, :])
        score_scale = sm_scale * LOG2_E  # exponentials are powers of two here
        if FP8:
            score_scale *= tl.load(kv_scale_ptr)

        tile_ptr = kv_ptr + kv_first.to(tl.int64) * (LATENT + ROPE)
        highest = tl.full((HEADS,), float("-inf"), dtype=tl.float32)
        total = tl.zeros((BLOCK_KV, HEADS), dtype=tl.float32)  # added up once, behind the loop
        acc = tl.zeros((LATENT, HEADS), dtype=tl.float32)
        for start in range(0, tokens, BLOCK_KV):
            token = start + tl.arange(0, BLOCK_KV)
            inside = (token < tokens)[:, None]
            offset = token[:, None] * (LATENT + ROPE)
            kv = tl.load(tile_ptr + offset + latent[None, :], mask=inside, other=0.0).to(tl.bfloat16)
            k_rope = tl.load(tile_ptr + offset + rope[None, :], mask=inside, other=0.0).to(tl.bfloat16)
            scores = tl.dot(k_rope, q_rope.T, tl.dot(kv, q_latent.T)) * score_scale
            scores = tl.where(inside, scores, float("-inf"))
            higher = tl.maximum(highest, tl.max(scores, axis=0))
            p = tl.exp2(scores - higher[None, :])
            shrink = tl.exp2(highest - higher)[None, :]
            total = total * shrink + p
            acc = tl.dot(kv.T, p.to(tl.bfloat16), acc * shrink)
            highest = higher

        weight = tl.sum(total, axis=0)
        mean = acc / tl.where(weight == 0, 1.0, weight)[None, :]
        if FP8:
            mean *= tl.load(kv_scale_ptr)
        if SPLITS == 1:
            tl.store(out_ptr + row[:, None] * LATENT + latent[None, :], mean.T.to(tl.bfloat16))
        else:
            row += split * n_queries * HEADS
            tl.store(partial_ptr + row[:, None].to(tl.int64) * LATENT + latent[None, :], mean.T)
            tl.store(weight_ptr + row, tl.where(weight == 0, float("-inf"), highest + tl.log2(weight)))


@triton.jit
def mla_merge_kernel(
    partial_ptr,  # fp32 [SPLITS][rows][LATENT], a row being a head of a query
    weight_ptr,  # fp32 [SPLITS][rows], log2
    out_ptr,  # bf16 [rows][LATENT]
    n_rows,
    SPLITS: tl.constexpr,
    PLACES: tl.constexpr,  # a power of two, SPLITS or more
):
    row = tl.program_id(0)
    latent = tl.arange(0, LATENT)
    split = tl.arange(0, PLACES)
    weight = tl.load(weight_ptr + split * n_rows + row, mask=split < SPLITS, other=float("-inf"))
    highest = tl.max(weight, axis=0)
    share = tl.exp2(weight - tl.where(highest == float("-inf"), 0.0, highest))  # all 0 for a request without tokens
    place = (split * n_rows + row)[:, None].to(tl.int64) * LATENT + latent[None, :]
    partial = tl.load(partial_ptr + place, mask=(split < SPLITS)[:, None], other=0.0)
    acc = tl.sum(partial * share[:, None], axis=0)
    total = tl.sum(share, axis=0)
    tl.store(out_ptr + row * LATENT + latent, (acc / tl.where(total == 0, 1.0, total)).to(tl.bfloat16))


def mla_decode(q, kv_data, qo_indptr, kv_indptr, config, row):
    """Launch with the given row of the tuning table; shapes and dtypes as `custom_kernel` has checked them."""
    n_queries, splits = q.shape[0], row["SPLITS"]
    kv, kv_scale = kv_data["fp8"] if row["KV"] == "fp8" else (kv_data["bf16"], q)
    out = torch.empty((n_queries, HEADS.value, LATENT.value), dtype=torch.bfloat16, device=q.device)
    if splits > 1:
        partial = torch.empty((splits, *out.shape), dtype=torch.float32, device=q.device)
        weight = torch.empty((splits, *out.shape[:2]), dtype=torch.float32, device=q.device)
    else:
        partial = weight = out  # not touched
    mla_decode_kernel[(config["batch_size"] * config["q_seq_len"] * splits,)](
        q,
        kv,
        kv_scale,
        qo_indptr,
        kv_indptr,
        out,
        partial,
        weight,
        n_queries,
        config["q_seq_len"],
        config["sm_scale"],
        BLOCK_KV=row["BLOCK_KV"],
        SPLITS=splits,
        FP8=row["KV"] == "fp8",
        num_warps=row["num_warps"],
        num_stages=row["num_stages"],
    )
    if splits > 1:
        n_rows, places = n_queries * HEADS.value, triton.next_power_of_2(splits)
        waves = max(1, places // 16)  # 128 registers a lane at most
        mla_merge_kernel[(n_rows,)](partial, weight, out, n_rows, SPLITS=splits, PLACES=places, num_warps=waves)
    return out


def tuning_row(data):
    """The row that custom_kernel(data) uses: the table's, or DEFAULT with enough splits for all compute units."""
    config = data[-1]
    shape = (config["batch_size"], config["q_seq_len"], config["kv_seq_len"])
    if shape in TUNING:
        return TUNING[shape]
    blocks = triton.cdiv(config["kv_seq_len"], DEFAULT["BLOCK_KV"])
    wanted = triton.cdiv(COMPUTE_UNITS, max(1, config["batch_size"] * config["q_seq_len"]))
    return {**DEFAULT, "SPLITS": max(1, min(blocks, wanted, MOST_SPLITS))}


def custom_kernel(data):
    """(q, kv_data, qo_indptr, kv_indptr, config) -> bf16 [queries, 16, 512].

    q bf16 [queries, 16, 576]; of kv_data either fp8 (e4m3fn [tokens, 1, 576], fp32 [1]) or bf16 [tokens, 1, 576], as
    the tuning row says; *_indptr int32 [batch_size + 1]. A request may have any number of tokens, and at most
    config["q_seq_len"] queries: the i-th of n sees all tokens but the last n - 1 - i.
    """
    q, kv_data, qo_indptr, kv_indptr, config = data
    row = tuning_row(data)
    check_inputs(q, kv_data, qo_indptr, kv_indptr, config, row["KV"])
    return mla_decode(q, kv_data, qo_indptr, kv_indptr, config, row)
