"""amd-mixed-mla: decode attention of DeepSeek-R1's absorbed latent form, 16 heads on one latent cache.

    out = softmax(q @ k.T / sqrt(576)) @ v    k: all 576 columns of the cache, v: its first 512

The leaderboard's reference is aiter's mla_decode_fwd with q and cache in fp8 e4m3fn, one scale each: scores,
softmax and sums in fp32, result bf16. aiter also rounds the probabilities to fp8, an error far below the
tolerance; here they stay in fp32.
"""

from collections.abc import Callable

import torch

from task import input_t, output_t
from utils import fp8_to_f32, make_match_reference, mxfp4_quantize

NUM_HEADS = 16
NUM_KV_HEADS = 1
KV_LORA_RANK = 512
QK_ROPE_HEAD_DIM = 64
QK_HEAD_DIM = KV_LORA_RANK + QK_ROPE_HEAD_DIM
V_HEAD_DIM = KV_LORA_RANK
SM_SCALE = 1.0 / QK_HEAD_DIM**0.5

ROWS_AT_ONCE = 1 << 16  # of the cache: elementwise passes over 1.2e9 elements take pieces of this many rows


def generate_input(batchsize: int, qseqlen: int, kvseqlen: int, seed: int) -> input_t:
    """Returns (q, kv_data, qo_indptr, kv_indptr, config):

    q          bf16 [batchsize * qseqlen, 16, 576]
    kv_data    one cache in three forms, the tokens of all requests one after another:
               "bf16"   bf16 [tokens, 1, 576]
               "fp8"    (e4m3fn [tokens, 1, 576], fp32 [1]: the scale to multiply by)
               "mxfp4"  (fp4x2 [tokens, 1, 288], e8m0 [tokens up to 256, 24]: 18 scales a token, then padding)
    qo_indptr  int32 [batchsize + 1]: request i has the queries qo_indptr[i] ... qo_indptr[i + 1] - 1
    kv_indptr  int32 [batchsize + 1]: likewise for its tokens
    config     the sizes and the softmax scale
    """
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    shape = (batchsize * qseqlen, NUM_HEADS, QK_HEAD_DIM)
    q = torch.randn(shape, dtype=torch.bfloat16, device="cuda", generator=gen)
    shape = (batchsize * kvseqlen, NUM_KV_HEADS, QK_HEAD_DIM)
    kv = torch.randn(shape, dtype=torch.bfloat16, device="cuda", generator=gen)
    kv_data = {"bf16": kv, "fp8": quantize_fp8(kv), "mxfp4": quantize_mxfp4(kv)}
    requests = torch.arange(0, batchsize + 1, dtype=torch.int32, device="cuda")
    config = {
        "batch_size": batchsize,
        "num_heads": NUM_HEADS,
        "num_kv_heads": NUM_KV_HEADS,
        "qk_head_dim": QK_HEAD_DIM,
        "kv_lora_rank": KV_LORA_RANK,
        "qk_rope_head_dim": QK_ROPE_HEAD_DIM,
        "v_head_dim": V_HEAD_DIM,
        "q_seq_len": qseqlen,
        "kv_seq_len": kvseqlen,
        "sm_scale": SM_SCALE,
    }
    return q, kv_data, requests * qseqlen, requests * kvseqlen, config


@torch.no_grad()
def quantize_fp8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x bf16 -> (e4m3fn of x / scale, scale fp32 [1]) with scale = amax(x) / 448.

    The scale is computed in bf16 and the quotient is rounded to bf16 before fp8: both as the organisers do.
    """
    limit = torch.finfo(torch.float8_e4m3fn).max
    amax = torch.maximum(x.amax(), -x.amin())
    scale = amax.clamp(min=1e-12) / limit
    out = torch.empty(x.shape, dtype=torch.float8_e4m3fn, device=x.device)
    for rows, target in zip(x.split(ROWS_AT_ONCE), out.split(ROWS_AT_ONCE)):
        target.copy_((rows / scale).clamp(min=-limit, max=limit))
    return out, scale.to(torch.float32).reshape(1)


@torch.no_grad()
def quantize_mxfp4(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x bf16 [tokens, heads, d] -> (fp4x2 [tokens, heads, d/2], e8m0 [tokens*heads up to 256, d/32 up to 8]).

    The codes are those of aiter.utility.fp4_utils at f3be04a, the version on the leaderboard's runner: unlike
    amd-mxfp4-mm's quantiser it rounds ties away from zero (aiter #2249 changed that later, and trimmed the
    scales' padding). The padding columns hold 0; the padding rows are uninitialised there and 0 here.
    """
    codes, scales = mxfp4_quantize(x, ties="away")
    rows, columns = scales.view(-1, scales.shape[-1]).shape
    padded = torch.zeros((-(-rows // 256) * 256, -(-columns // 8) * 8), dtype=torch.uint8, device=x.device)
    padded[:rows, :columns] = scales.view(rows, columns)
    return codes.view(torch.float4_e2m1fn_x2), padded.view(torch.float8_e8m0fnu)


@torch.no_grad()
def probe(data: input_t) -> input_t:
    """Changes the data to numbers that each cache holds exactly, so that no rounding hides tokens left out.

    They are powers of two, 1, 2 and 4 for a third of normally distributed values each. A random walk over the tokens is
    all of the output: of q, the 512 columns that V has too are small, or else each token's V would add to the same sum.
    """
    q, kv_data, *_ = data
    kv = kv_data["bf16"]
    for rows in (*q.split(ROWS_AT_ONCE), *kv.split(ROWS_AT_ONCE)):
        size = rows.abs()
        rows.copy_(torch.copysign(2.0 ** ((size > 0.43).to(rows.dtype) + (size > 0.97)), rows))
    q[..., :KV_LORA_RANK] /= 16
    kv /= 2
    for name, quantize in (("fp8", quantize_fp8), ("mxfp4", quantize_mxfp4)):
        for before, after in zip(kv_data[name], quantize(kv)):
            before.view(torch.uint8).copy_(after.view(torch.uint8))
    return data


@torch.no_grad()
def redraw(data: input_t) -> input_t:
    """Changes the data: new queries, and each request gets the tokens of another, in all three forms of the cache."""
    q, kv_data, _, _, config = data
    q.copy_(torch.randn_like(q))
    requests, tokens = config["batch_size"], config["kv_seq_len"]
    order = torch.randperm(requests).tolist()  # a circle through all of them: none keeps its own
    codes, scales = kv_data["mxfp4"]
    for form in (kv_data["bf16"], kv_data["fp8"][0], codes, scales[: requests * tokens]):
        rows = form.view(torch.uint8).view(requests, -1)
        first = rows[order[0]].clone()
        for place, other in zip(order, order[1:]):
            rows[place] = rows[other]
        rows[order[-1]] = first
    return data


@torch.no_grad()
def part(data: input_t, output: output_t, choose: Callable[[int, str], torch.Tensor]) -> tuple[input_t, output_t]:
    """A few of the requests, and that of the largest query, which sets the scale of all. Of the cache's forms there is
    fp8 alone then, which the reference reads."""
    q, kv_data, _, _, config = data
    requests, queries = config["batch_size"], config["q_seq_len"]
    largest = q.view(requests, -1).abs().amax(dim=1).argmax()
    rows = torch.cat([choose(requests, "requests").to(q.device), largest[None]]).unique()
    kv, scale = kv_data["fp8"]
    few = kv.view(torch.uint8).view(requests, -1)[rows].view(-1, *kv.shape[1:]).view(kv.dtype)
    q, output = (one.view(requests, queries, *one.shape[1:])[rows].flatten(0, 1) for one in (q, output))
    places = torch.arange(len(rows) + 1, dtype=torch.int32, device=q.device)
    config = {**config, "batch_size": len(rows)}
    return (q, {"fp8": (few, scale)}, places * queries, places * config["kv_seq_len"], config), output


@torch.no_grad()
def ref_kernel(data: input_t) -> output_t:
    """bf16 [batchsize * qseqlen, 16, 512]. Query i of n sees the tokens up to the (n - i)-th from the end."""
    q, kv_data, qo_indptr, kv_indptr, config = data
    q_fp8, q_scale = quantize_fp8(q)
    kv_fp8, kv_scale = kv_data["fp8"]
    out = torch.empty((*q.shape[:2], config["v_head_dim"]), dtype=torch.bfloat16, device=q.device)
    starts, ends = qo_indptr.tolist(), kv_indptr.tolist()
    for request in range(config["batch_size"]):
        queries = slice(starts[request], starts[request + 1])
        tokens = slice(ends[request], ends[request + 1])
        q32 = fp8_to_f32(q_fp8[queries])  # [queries, 16, 576]
        kv32 = fp8_to_f32(kv_fp8[tokens, 0])  # [tokens, 576]
        scores = (q32 @ kv32.T) * (q_scale * kv_scale * config["sm_scale"])  # [queries, 16, tokens]
        n, _, n_tokens = scores.shape
        if n > 1:
            hidden = torch.ones((n, n_tokens), dtype=torch.bool, device=q.device).triu(n_tokens - n + 1)
            scores.masked_fill_(hidden[:, None, :], -torch.inf)
        values = kv32[:, : config["v_head_dim"]]
        out[queries] = (scores.softmax(dim=-1) @ values * kv_scale).to(torch.bfloat16)
    return out


check_implementation = make_match_reference(ref_kernel, rtol=1e-01, atol=1e-01, tol_err_ratio=0.05)
