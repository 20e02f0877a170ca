"""Small layers of amd-moe-mxfp4 for tests of its variants."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tests.support.mxfp4_values import exact, shuffled, spread, utils


class MoeCase:
    """A layer of `pad` columns, of which `hidden` and `inner` are used; the other weights are large."""

    def __init__(
        self, ids: list[list[int]], experts: int, hidden: int = 256, inner: int = 256, pad: tuple[int, int] = (256, 256)
    ) -> None:
        self.ids = torch.tensor(ids, dtype=torch.int32)
        tokens = len(ids)
        self.hidden = spread(tokens, hidden, seed=0, powers=3)
        gate_up = spread(experts, 2, pad[1], pad[0], seed=1, powers=2) / 16
        down = spread(experts, *pad, seed=2, powers=2) / 16
        gate_up[:, :, inner:] = gate_up[..., hidden:] = down[:, hidden:] = down[..., inner:] = 1e4
        self.gate_up = utils.mxfp4_quantize(gate_up.view(experts, 2 * pad[1], pad[0]))
        self.down = utils.mxfp4_quantize(down)
        self.weights = torch.rand(self.ids.shape, generator=torch.Generator().manual_seed(3))
        self.config = {"d_hidden": hidden, "d_hidden_pad": pad[0], "d_expert": inner, "d_expert_pad": pad[1]}
        for expert in set(range(experts)) - set(self.ids.flatten().tolist()):
            self.gate_up[1][expert] = self.down[1][expert] = 255  # not to be read: NaN

    def data(self) -> tuple[Any, ...]:
        """What custom_kernel takes; the parts that it does not read are missing."""
        (gate_up, gate_up_scale), (down, down_scale) = shuffled(*self.gate_up), shuffled(*self.down)
        weights = (gate_up, down, gate_up_scale, down_scale)
        return self.hidden, None, None, None, None, *weights, self.weights, self.ids, self.config

    def output(self) -> torch.Tensor:
        """float64 [tokens, hidden]; what is quantised in between is rounded to bf16 first."""
        hidden, inner = self.config["d_hidden"], self.config["d_expert"]
        x = exact(*utils.mxfp4_quantize(self.hidden, ties="away"))
        gate_up = exact(*self.gate_up).unflatten(1, (2, -1))[:, :, :inner, :hidden]
        down = exact(*self.down)[:, :hidden, :inner]
        out = torch.zeros(x.shape, dtype=torch.float64)
        for token, experts in enumerate(self.ids.tolist()):
            for slot, expert in enumerate(experts):
                gate, up = gate_up[expert] @ x[token]
                middle = exact(*utils.mxfp4_quantize((F.silu(gate) * up).bfloat16(), ties="away"))
                out[token] += down[expert] @ middle * self.weights[token, slot].double()
        return out


def routed(tokens: int, experts: int, each: int) -> list[list[int]]:
    """Experts that differ from each other for every token, drawn, and a shared one, the last."""
    gen = torch.Generator().manual_seed(tokens)
    return [[*torch.randperm(experts - 1, generator=gen)[: each - 1].tolist(), experts - 1] for _ in range(tokens)]
