"""amd-mixture-of-experts: a DeepSeek-style layer in fp16: softmax router, SwiGLU experts, a shared expert."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F

from task import input_t, output_t
from utils import linear, make_match_reference

# Between the logits of the last expert chosen and the first that is not. Rounding to fp16 moves each by half of 2^-8
# below 8, a sum in another order by as much again, and the scores' own rounding by 2^-11 of themselves.
ROUTER_MARGIN = 2**-6
REDRAWN = 8  # of the routed experts one in so many gets other weights, where not all are drawn anew


def generate_input(
    dhidden: int,
    dexpert: int,
    nroutedexperts: int,
    nsharedexperts: int,
    nexpertspertoken: int,
    bs: int,
    seqlen: int,
    seed: int,
) -> input_t:
    """Returns (x, weights, config): x fp16 [bs, seqlen, dhidden], config the sizes under their long names,
    and weights, all fp16 and stored (in, out) except the router, which is (out, in):

    router.weight                               [nroutedexperts, dhidden]
    experts.{i}.0.weight, .1.weight             [dhidden, dexpert]    gate, up
    experts.{i}.2.weight                        [dexpert, dhidden]    down
    shared_experts.0.weight, .1.weight          [dhidden, dexpert * nsharedexperts]
    shared_experts.2.weight                     [dexpert * nsharedexperts, dhidden]
    """
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device="cuda", dtype=torch.float16, generator=gen)

    x = normal(bs, seqlen, dhidden)
    weights = {"router.weight": normal(nroutedexperts, dhidden) / math.sqrt(dhidden)}
    # Every matrix is divided by the root of its output width, though the usual choice is the input's.
    widths = {f"experts.{i}": dexpert for i in range(nroutedexperts)}
    widths["shared_experts"] = dexpert * nsharedexperts
    for name, width in widths.items():
        weights[f"{name}.0.weight"] = normal(dhidden, width) / math.sqrt(width)
        weights[f"{name}.1.weight"] = normal(dhidden, width) / math.sqrt(width)
        weights[f"{name}.2.weight"] = normal(width, dhidden) / math.sqrt(dhidden)

    config = {
        "d_hidden": dhidden,
        "d_expert": dexpert,
        "n_routed_experts": nroutedexperts,
        "n_shared_experts": nsharedexperts,
        "n_experts_per_token": nexpertspertoken,
        "batch_size": bs,
        "seq_len": seqlen,
    }
    return x, weights, config


def settle(data: input_t) -> input_t:
    """The same data with other numbers for the tokens whose experts rounding would choose: there a right kernel, which
    adds in another order, may choose another. The evaluator asks for it for the data that it draws itself."""
    x, weights, config = data
    top_k, tokens = config["n_experts_per_token"], x.view(-1, x.shape[-1])
    router = weights["router.weight"].float().t()
    rows = torch.arange(len(tokens) if top_k < router.shape[1] else 0, device=x.device)
    for _ in range(tokens.shape[1]):
        if not len(rows):
            break
        logits = (tokens[rows].float() @ router).sort(dim=-1, descending=True).values
        rows = rows[logits[:, top_k - 1] - logits[:, top_k] < ROUTER_MARGIN]
        tokens[rows] = tokens[rows].roll(1, dims=-1)  # as good as drawn anew: the router's weights have no order
    return data


@torch.no_grad()
def redraw(data: input_t) -> input_t:
    """Changes the data: other tokens, another router, and other weights of the shared expert and of some others. To
    draw all of the weights takes a CPU as long as their products."""
    x, weights, config = data
    x.copy_(torch.randn_like(x))
    router = weights["router.weight"]
    router.copy_(torch.randn_like(router) / math.sqrt(config["d_hidden"]))
    routed = config["n_routed_experts"]
    some = torch.randperm(routed)[: -(-routed // REDRAWN)].tolist()
    for name in ("shared_experts", *(f"experts.{expert}" for expert in some)):
        for i in range(3):
            weight = weights[f"{name}.{i}.weight"]
            weight.copy_(torch.randn_like(weight) / math.sqrt(weight.size(1)))
    return data


def part(data: input_t, output: output_t, choose: Callable[[int, str], torch.Tensor]) -> tuple[input_t, output_t]:
    """A few of the tokens, which share the weights alone."""
    x, weights, config = data
    tokens, results = (one.reshape(-1, one.size(-1)) for one in (x, output))
    rows = choose(len(tokens), "tokens").to(x.device)
    return (tokens[rows][None], weights, {**config, "batch_size": 1, "seq_len": len(rows)}), results[rows][None]


def _expert(x: torch.Tensor, weights: dict[str, torch.Tensor], name: str) -> torch.Tensor:
    """SwiGLU: (silu(x @ gate) * (x @ up)) @ down, each step rounded to fp16. x, result: [..., d_hidden]."""
    gate, up, down = (weights[f"{name}.{i}.weight"].t() for i in range(3))  # (out, in)
    return linear(F.silu(linear(x, gate)) * linear(x, up), down)


@torch.no_grad()
def ref_kernel(data: input_t) -> output_t:
    """Softmax over all logits, the top k not renormalised; weighted expert outputs are added up in fp16, in
    the order of the experts, the shared expert's last. Returns fp16 [batch_size, seq_len, d_hidden]."""
    x, weights, config = data
    top_k = config["n_experts_per_token"]
    tokens = x.view(-1, x.shape[-1])  # [tokens, d_hidden]

    scores = linear(x, weights["router.weight"]).softmax(dim=-1)  # fp16 [batch_size, seq_len, experts]
    top_scores, top_experts = torch.topk(scores, k=top_k, dim=-1, sorted=False)
    chosen = top_experts.view(-1)  # [tokens * top_k]
    by_expert = chosen.argsort()
    counts = chosen.bincount(minlength=config["n_routed_experts"]).tolist()

    routed = torch.zeros_like(tokens)
    for expert, places in enumerate(by_expert.split(counts)):
        if len(places) == 0:
            continue
        rows = places // top_k  # a token chooses an expert once at most, so rows repeat no token
        out = _expert(tokens[rows], weights, f"experts.{expert}")
        routed[rows] += out * top_scores.view(-1, 1)[places]
    return routed.view_as(x) + _expert(x, weights, "shared_experts")


check_implementation = make_match_reference(ref_kernel, rtol=1e-2, atol=1e-2)
