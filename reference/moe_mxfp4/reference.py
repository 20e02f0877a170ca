"""amd-moe-mxfp4: DeepSeek-R1's mixture of experts with MXFP4 weights and activations.

    out[i] = sum over its experts e of weight[i, e] * (MXFP4(silu(x @ gate_e.T) * (x @ up_e.T)) @ down_e.T)
    with x = MXFP4(hidden_states[i])

The leaderboard's reference is aiter's fused_moe, at f3be04a on its runner. All the task's cases take one path
there: the hidden states are quantised in "even" mode with ties away from zero, the first GEMM's fp32 result
goes through SwiGLU and is rounded to bf16, that is quantised likewise, and the second GEMM's fp32 result is
weighted and added up. aiter adds with bf16 atomics, which round at each of nine additions, in no fixed order;
here the sum is fp32 and rounded once.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F

from task import input_t, output_t
from utils import (
    MX_BLOCK,
    beside,
    make_match_reference,
    mxfp4_dequantize,
    mxfp4_quantize,
    on_host,
    shuffle_scale,
    shuffle_weight,
)

PAD_ALIGN = 256  # aiter's kernels want both widths of the weights in multiples of this
REDRAWN = 8  # of the routed experts that tokens choose one in so many gets other weights, where not all are drawn anew


def generate_input(
    dhidden: int,
    dexpert: int,
    nroutedexperts: int,
    nexpertspertoken: int,
    nsharedexperts: int,
    bs: int,
    seed: int,
) -> input_t:
    """Returns a tuple. E: all experts, the last nsharedexperts of them shared; h and d: dhidden and dexpert,
    padded; topk = nexpertspertoken + nsharedexperts.

    hidden_states                  bf16 [bs, dhidden]
    gate_up_weight                 fp4x2 [E, 2*d, h/2], the d rows of gate, then those of up
    down_weight                    fp4x2 [E, h, d/2]
    gate_up_weight_scale           e8m0 [E*2*d, h/32]
    down_weight_scale              e8m0 [E*h, d/32]
    gate_up_weight_shuffled        the same four as utils.shuffle_weight and utils.shuffle_scale order them
    down_weight_shuffled
    gate_up_weight_scale_shuffled
    down_weight_scale_shuffled
    topk_weights                   fp32 [bs, topk]: softmax over the routed, not renormalised; shared: 1
    topk_ids                       int32 [bs, topk]: routed experts in no particular order, then the shared
    config                         the sizes
    """
    experts = nroutedexperts + nsharedexperts
    padded_hidden = -(-dhidden // PAD_ALIGN) * PAD_ALIGN
    padded_expert = -(-dexpert // PAD_ALIGN) * PAD_ALIGN
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16, generator=gen)

    hidden_states = normal(bs, dhidden)
    router_weight = normal(nroutedexperts, dhidden) / math.sqrt(dhidden)
    topk_weights, topk_ids = _route(hidden_states, router_weight, nexpertspertoken, nsharedexperts)

    # The largest case draws 1.9 GB at once, since a GPU's generator cannot draw it in pieces. A CPU's draws the same
    # numbers expert by expert, and one is quantised while the next is drawn.
    host = on_host(hidden_states)
    at_once = 1 if host else experts

    def drawn(rows: int, columns: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        codes = torch.empty((experts, rows, columns // 2), device="cuda", dtype=torch.uint8)
        scales = torch.empty((experts * rows, columns // MX_BLOCK), device="cuda", dtype=torch.uint8)

        def quantize(one: tuple[tuple[torch.Tensor, ...], torch.Tensor]) -> None:
            there, weight = one
            for place, now in zip(there, _quantize_weight(weight.div_(math.sqrt(width)))):
                place.copy_(now.view(torch.uint8))

        places = zip(codes.split(at_once), scales.split(at_once * rows))
        weights = ((there, normal(len(there[0]), rows, columns)) for there in places)
        beside(weights, quantize, torch.get_num_threads() if host else 1)
        return codes.view(torch.float4_e2m1fn_x2), scales.view(torch.float8_e8m0fnu)

    gate_up = drawn(2 * padded_expert, padded_hidden, dhidden)
    down = drawn(padded_hidden, padded_expert, dexpert)

    config = {
        "d_hidden": dhidden,
        "d_expert": dexpert,
        "d_hidden_pad": padded_hidden,
        "d_expert_pad": padded_expert,
        "n_routed_experts": nroutedexperts,
        "n_shared_experts": nsharedexperts,
        "n_experts_per_token": nexpertspertoken,
        "total_top_k": nexpertspertoken + nsharedexperts,
        "bs": bs,
    }
    return (
        hidden_states,
        gate_up[0], down[0], gate_up[1], down[1],
        shuffle_weight(gate_up[0]), shuffle_weight(down[0]),
        shuffle_scale(gate_up[1].view(torch.uint8)).view(torch.float8_e8m0fnu),
        shuffle_scale(down[1].view(torch.uint8)).view(torch.float8_e8m0fnu),
        topk_weights, topk_ids, config,
    )  # fmt: skip


def _route(
    hidden_states: torch.Tensor, router_weight: torch.Tensor, chosen: int, shared: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """topk_weights, topk_ids, as generate_input has them."""
    tokens, routed = len(hidden_states), len(router_weight)
    probabilities = F.linear(hidden_states, router_weight).softmax(dim=-1)  # bf16 [tokens, routed]
    weights, ids = torch.topk(probabilities, k=chosen, dim=-1, sorted=False)
    shared_ids = torch.arange(routed, routed + shared, device=ids.device, dtype=torch.int32)
    ones = torch.ones((tokens, shared), device=ids.device, dtype=torch.float32)
    return (
        torch.cat([weights.to(torch.float32), ones], dim=-1),
        torch.cat([ids.to(torch.int32), shared_ids.expand(tokens, -1)], dim=-1),
    )


@torch.no_grad()
def redraw(data: input_t) -> input_t:
    """Changes the data: other hidden states, other experts for them, and other weights of the shared experts and of
    some that the tokens choose. To draw and quantise all of the weights takes a CPU minutes."""
    hidden_states, topk_weights, topk_ids, config = data[0], data[9], data[10], data[11]
    routed, d_hidden, chosen = config["n_routed_experts"], config["d_hidden"], config["n_experts_per_token"]

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device=hidden_states.device, dtype=torch.bfloat16)

    hidden_states.copy_(normal(*hidden_states.shape))
    router_weight = normal(routed, d_hidden) / math.sqrt(d_hidden)
    for there, now in zip(
        (topk_weights, topk_ids), _route(hidden_states, router_weight, chosen, config["n_shared_experts"])
    ):
        there.copy_(now)
    experts = topk_ids[:, :chosen].unique().tolist()
    some = [experts[i] for i in torch.randperm(len(experts))[: -(-len(experts) // REDRAWN)].tolist()]
    for expert in [*some, *range(routed, routed + config["n_shared_experts"])]:
        for first, width in ((1, d_hidden), (2, config["d_expert"])):
            codes, scales, shuffled, shuffled_scales = data[first : first + 7 : 2]
            rows = slice(expert * codes.shape[1], (expert + 1) * codes.shape[1])
            weight = normal(1, codes.shape[1], 2 * codes.shape[2]).div_(math.sqrt(width))
            new, new_scales = _quantize_weight(weight)
            for there, now in (
                (codes[expert], new[0]),
                (scales[rows], new_scales),
                (shuffled[expert], shuffle_weight(new)[0]),
                (shuffled_scales[rows], shuffle_scale(new_scales.view(torch.uint8))),
            ):
                there.view(torch.uint8).copy_(now.view(torch.uint8))
    return data


def part(data: input_t, output: output_t, choose: Callable[[int, str], torch.Tensor]) -> tuple[input_t, output_t]:
    """A few of the tokens, and the experts that they chose. Of the weights' orders there is the one that is read."""
    rows = choose(len(output), "tokens").to(output.device)
    experts, topk_ids = data[10][rows].unique(return_inverse=True)
    weights = []
    for codes, scales in ((data[1], data[3]), (data[2], data[4])):
        of_experts = scales.view(torch.uint8).view(len(codes), -1)[experts].view(-1, scales.shape[-1])
        weights.append((codes.view(torch.uint8)[experts].view(codes.dtype), of_experts.view(scales.dtype)))
    (gate_up, gate_up_scale), (down, down_scale) = weights
    config = {**data[11], "bs": len(rows)}
    few = (data[0][rows], gate_up, down, gate_up_scale, down_scale, *[None] * 4, data[9][rows], topk_ids.int(), config)
    return few, output[rows]


def _quantize_weight(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """bf16 [E, n, k] -> (fp4x2 [E, n, k/2], e8m0 [E*n, k/32]). aiter's torch quantiser: it bumps at 1.5."""
    codes, scales = mxfp4_quantize(weight, bump_at=1.5)
    return codes.view(torch.float4_e2m1fn_x2), scales.view(-1, scales.shape[-1]).view(torch.float8_e8m0fnu)


def _mxfp4(x: torch.Tensor) -> torch.Tensor:
    """fp32 values of x after quantisation as fused_moe does it to activations of up to 1024 tokens."""
    return mxfp4_dequantize(*mxfp4_quantize(x, ties="away"))


@torch.no_grad()
def ref_kernel(data: input_t) -> output_t:
    """bf16 [bs, dhidden]. Experts that no token chose are not looked at. Weights' padding takes no part."""
    hidden_states, gate_up, down, gate_up_scale, down_scale, *_, topk_weights, topk_ids, config = data
    d_hidden, d_expert = config["d_hidden"], config["d_expert"]
    padded_expert, padded_hidden = config["d_expert_pad"], config["d_hidden_pad"]
    gate_up_scale = gate_up_scale.view(len(gate_up), 2 * padded_expert, -1)
    down_scale = down_scale.view(len(down), padded_hidden, -1)

    x = _mxfp4(hidden_states)  # fp32 [bs, d_hidden]
    out = torch.zeros_like(x)
    for expert in topk_ids.unique().tolist():
        tokens, slots = (topk_ids == expert).nonzero(as_tuple=True)
        weight = mxfp4_dequantize(gate_up[expert], gate_up_scale[expert])[:, :d_hidden]  # [2*d, d_hidden]
        gate = x[tokens] @ weight[:d_expert].T  # [tokens, d_expert]
        up = x[tokens] @ weight[padded_expert : padded_expert + d_expert].T
        inner = _mxfp4((F.silu(gate) * up).to(torch.bfloat16))
        weight = mxfp4_dequantize(down[expert], down_scale[expert])[:d_hidden, :d_expert]
        out.index_add_(0, tokens, (inner @ weight.T) * topk_weights[tokens, slots, None])
    return out.to(torch.bfloat16)


check_implementation = make_match_reference(ref_kernel, rtol=5e-02, atol=5e-02)
