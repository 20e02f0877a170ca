"""Small layers of amd-moe-mxfp4 for tests of its variants."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from tests.support.mxfp4_values import exact, shuffled, spread, utils

# Experts of weights of their own; later ones repeat these. A prime number, so that no power of two leads from one
# expert to another of the same weights.
MOST_DRAWN = 61
Refused = dict[str, tuple[int, Callable[[Any], Any], str]]


class MoeCase:
    """A layer of `pad` columns, of which `hidden` and `inner` are used; the other weights are large."""

    # Terms are rounded to bf16, and their sum; a sum in fp32 now and then rounds to another code than one in float64.
    ROUNDING = 5e-3

    def __init__(
        self, ids: list[list[int]], experts: int, hidden: int = 256, inner: int = 256, pad: tuple[int, int] = (256, 256)
    ) -> None:
        self.ids = torch.tensor(ids, dtype=torch.int32)
        tokens = len(ids)
        self.hidden = spread(tokens, hidden, seed=0, powers=3)
        drawn = min(experts, MOST_DRAWN)
        gate_up = spread(drawn, 2, pad[1], pad[0], seed=1, powers=2) / 16
        down = spread(drawn, *pad, seed=2, powers=2) / 16
        gate_up[:, :, inner:] = gate_up[..., hidden:] = down[:, hidden:] = down[..., inner:] = 1e4
        which = torch.arange(experts) % drawn
        self.gate_up, self.down = (
            tuple(part[which] for part in utils.mxfp4_quantize(weights))
            for weights in (gate_up.view(drawn, 2 * pad[1], pad[0]), down)
        )
        self.weights = torch.rand(self.ids.shape, generator=torch.Generator().manual_seed(3))
        self.config = {"d_hidden": hidden, "d_hidden_pad": pad[0], "d_expert": inner, "d_expert_pad": pad[1]}
        for expert in set(range(experts)) - set(self.ids.flatten().tolist()):
            self.gate_up[1][expert] = self.down[1][expert] = 255  # not to be read: NaN

    def data(self) -> tuple[Any, ...]:
        """What custom_kernel takes; the parts that it does not read are missing."""
        (gate_up, gate_up_scale), (down, down_scale) = shuffled(*self.gate_up), shuffled(*self.down)
        weights = (gate_up, down, gate_up_scale, down_scale)
        return self.hidden, None, None, None, None, *weights, self.weights, self.ids, self.config

    def wanted(self, row: Any = None) -> torch.Tensor:
        """float64 [tokens, hidden]; what is quantised in between is rounded to bf16 first."""
        hidden, inner = self.config["d_hidden"], self.config["d_expert"]
        x = exact(*utils.mxfp4_quantize(self.hidden, ties="away"))
        middle = torch.empty((*self.ids.shape, inner), dtype=torch.float64)
        terms = torch.empty((*self.ids.shape, hidden), dtype=torch.float64)
        experts = [(expert, *torch.where(self.ids == expert)) for expert in self.ids.unique().tolist()]

        def used(weights: tuple[torch.Tensor, torch.Tensor], expert: int, rows: slice, columns: int) -> torch.Tensor:
            codes, scales = weights
            return exact(codes[expert, rows, : columns // 2], scales[expert, rows, : columns // 32])

        padded = self.config["d_expert_pad"]
        for expert, tokens, slots in experts:
            gate = x[tokens] @ used(self.gate_up, expert, slice(inner), hidden).T
            up = x[tokens] @ used(self.gate_up, expert, slice(padded, padded + inner), hidden).T
            middle[tokens, slots] = F.silu(gate) * up
        middle = exact(*utils.mxfp4_quantize(middle.bfloat16(), ties="away"))
        for expert, tokens, slots in experts:
            terms[tokens, slots] = middle[tokens, slots] @ used(self.down, expert, slice(hidden), inner).T
        return (terms * self.weights[..., None].double()).sum(1)


def routed(tokens: int, experts: int, each: int) -> list[list[int]]:
    """Experts that differ from each other for every token, drawn, and a shared one, the last."""
    gen = torch.Generator().manual_seed(tokens)
    return [[*torch.randperm(experts - 1, generator=gen)[: each - 1].tolist(), experts - 1] for _ in range(tokens)]


HIDDEN, GATE_UP, DOWN, GATE_UP_SCALE, WEIGHTS, IDS, CONFIG = 0, 5, 6, 7, 9, 10, 11
# A part of MoeCase([[0, 3], [1, 2]], 4).data(), what to make of it, and what the error must say.
REFUSED: Refused = {
    "hidden states in fp16": (HIDDEN, lambda x: x.half(), "hidden_states must be torch.bfloat16, got torch.float16"),
    "a token too few": (HIDDEN, lambda x: x[:1], "hidden_states must have the shape (2, 256), got (1, 256)"),
    "hidden states with gaps": (HIDDEN, lambda x: x.T.contiguous().T, "hidden_states must be contiguous"),
    "gate alone": (
        GATE_UP,
        lambda x: x[:, :256].contiguous(),
        "gate_up_weight_shuffled must have the shape (4, 512, 128), got (4, 256, 128)",
    ),
    "an expert's down weights missing": (DOWN, lambda x: x[:3], "down_weight_shuffled must have the shape"),
    "scales of another padding": (
        GATE_UP_SCALE,
        lambda x: x[:, :4].contiguous(),
        "gate_up_weight_scale_shuffled must have the shape (2048, 8), got (2048, 4)",
    ),
    "weights elsewhere": (WEIGHTS, lambda x: x.to("meta"), "topk_weights must be on "),
    "down weights with gaps": (
        DOWN,
        lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
        "down_weight_shuffled must be contiguous",
    ),
    "weights in bf16": (WEIGHTS, lambda x: x.bfloat16(), "topk_weights must be torch.float32, got torch.bfloat16"),
    "int64 ids": (IDS, lambda x: x.long(), "topk_ids must be torch.int32, got torch.int64"),
    "no tokens": (IDS, lambda x: x[:0], "topk_ids [tokens, topk]"),
    "width of 40": (CONFIG, lambda c: {**c, "d_hidden": 40}, "d_hidden must be a multiple of 32"),
    "padded to 128": (CONFIG, lambda c: {**c, "d_expert_pad": 384}, "d_expert_pad one of 256"),
}
