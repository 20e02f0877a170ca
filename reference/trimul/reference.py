"""trimul: the triangle multiplicative update with outgoing edges, of AlphaFold's pair representation, in fp32."""

import math

import torch
import torch.nn.functional as F

from task import input_t, output_t
from utils import make_match_reference

EPS = 1e-5  # of both layer norms
BLOCK_VALUES = 1 << 24  # of x, and of the product, that the reference works on at once: whole it needs a dozen times x
PROBE_COLUMNS = 16  # that a probe's mask keeps, at most


def generate_input(
    seqlen: int, bs: int, dim: int, hiddendim: int, seed: int, nomask: bool, distribution: str
) -> input_t:
    """Returns (x, mask, weights, config): x fp32 [bs, seqlen, seqlen, dim], mask [bs, seqlen, seqlen], fp32 ones with
    nomask and int64 zeros and ones without it, config hidden_dim and dim, and weights, all fp32 and (out, in):

    norm.weight, norm.bias                                      [dim]
    left_proj, right_proj, left_gate, right_gate, out_gate      [hiddendim, dim]    each with .weight
    to_out_norm.weight, to_out_norm.bias                        [hiddendim]
    to_out.weight                                               [dim, hiddendim]

    The seed decides x of a normal distribution and the mask. Cauchy's is drawn on the CPU, and the weights on the GPU,
    from generators that nobody seeds. The leaderboard hands nomask over as a word, and "False" is true as well.
    """
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    shape = (bs, seqlen, seqlen)
    if distribution == "cauchy":  # heavy tails: of the largest case's values some are beyond 1e8
        x = torch.distributions.Cauchy(0, 2).sample((*shape, dim)).to("cuda")
    else:
        x = torch.randn((*shape, dim), device="cuda", generator=gen)
    mask = torch.ones(shape, device="cuda") if nomask else torch.randint(0, 2, shape, device="cuda", generator=gen)

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(size, device="cuda")

    weights = {"norm.weight": normal(dim), "norm.bias": normal(dim)}
    for name in ("left_proj", "right_proj", "left_gate", "right_gate", "out_gate"):
        weights[f"{name}.weight"] = normal(hiddendim, dim) / math.sqrt(hiddendim)  # the output's width
    weights |= {"to_out_norm.weight": normal(hiddendim), "to_out_norm.bias": normal(hiddendim)}
    weights["to_out.weight"] = normal(dim, hiddendim) / math.sqrt(dim)
    return x, mask, weights, {"hidden_dim": hiddendim, "dim": dim}


@torch.no_grad()
def probe(data: input_t) -> input_t:
    """Changes the mask to zeros but for a few columns, the last among them, so that each of them is much of the output:
    of 1024 columns the tolerance hides eight that are left out, and official cases hide the mask, which is all ones."""
    mask = data[1]
    columns = mask.shape[-1]
    keep = torch.randperm(columns - 1)[: max(min(PROBE_COLUMNS, columns // 4) - 1, 0)]
    mask.zero_()
    mask[..., [*keep.tolist(), columns - 1]] = 1
    return data


@torch.no_grad()
def ref_kernel(data: input_t) -> output_t:
    """Returns fp32 [bs, seqlen, seqlen, dim]. Works on blocks of rows i, so that no intermediate is as large as x."""
    x, mask, weights, config = data
    bs, n, _, dim = x.shape
    hidden = config["hidden_dim"]
    left, right = (torch.empty((hidden, n, n), device=x.device) for _ in range(2))  # of one of bs: [h, i, k], [h, j, k]
    gate = torch.empty((n, n, hidden), device=x.device)  # [i, j, h]
    out = torch.empty_like(x)
    blocks = torch.arange(n).split(max(1, BLOCK_VALUES // (n * max(dim, hidden))))

    def linear(rows: torch.Tensor, name: str) -> torch.Tensor:
        return F.linear(rows, weights[f"{name}.weight"])

    def norm(rows: torch.Tensor, name: str) -> torch.Tensor:
        return F.layer_norm(rows, rows.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], EPS)

    for b in range(bs):
        for block in blocks:
            i = slice(int(block[0]), int(block[-1]) + 1)
            rows = norm(x[b, i], "norm")  # [i, k, dim]
            for side, name in ((left, "left"), (right, "right")):
                value = linear(rows, f"{name}_proj") * mask[b, i, :, None]
                side[:, i] = (value * linear(rows, f"{name}_gate").sigmoid()).permute(2, 0, 1)
            gate[i] = linear(rows, "out_gate").sigmoid()
        for block in blocks:
            i = slice(int(block[0]), int(block[-1]) + 1)
            product = torch.bmm(left[:, i], right.mT).permute(1, 2, 0)  # [i, j, h], summed over k
            out[b, i] = linear(norm(product, "to_out_norm") * gate[i], "to_out")
    return out


check_implementation = make_match_reference(ref_kernel, rtol=0.02, atol=0.02)
