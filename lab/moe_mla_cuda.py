"""Times the Triton variants of amd-mixture-of-experts and amd-mla-decode on this machine's NVIDIA GPU, beside PyTorch.

    python lab/moe_mla_cuda.py [-o RESULTS.jsonl] [--rows]

The official benchmark shapes. Beside ours, on the same data in the same run: for the experts a loop over experts on
sorted tokens, and grouped GEMMs (torch's grouped_mm, of weights that are stacked beforehand, which is not timed); for
MLA scaled_dot_product_attention on the absorbed form (latents as the one key and value head) and on the expanded one
(keys and values of every head, some requests at a time), each as a whole layer, and the absorbed one's attention alone.
Medians by GPU events, the L2 flushed before each call. --rows: also other rows of our tuning tables. Results are
compared first, with the loop's and the absorbed layer's: exit code 1 where one is far off. Of the experts ours is what
`--also sm_90` takes in, and beside it the MI300X's row.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import triton

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "reference")]

from forge.task.problem import Problem, find_problem  # noqa: E402
from kernels.mla_decode import mla_inputs as mla  # noqa: E402
from kernels.mla_decode import triton_gfx942 as mla_decode  # noqa: E402
from kernels.mla_decode import triton_gfx942_tuning as mla_tuning  # noqa: E402
from kernels.moe import triton_gfx942_tuning as moe_tuning  # noqa: E402
from kernels.moe.moe_inputs import moe_inputs, shape_of_table  # noqa: E402
from kernels.moe.triton_kernels import moe  # noqa: E402
from lab.hopper.moe import triton as moe_hopper  # noqa: E402

FAR_OFF = {"amd-mixture-of-experts": 5e-3, "amd-mla-decode": 2e-2}  # relative L2; grouped GEMMs may be in bf16
WARM_UP_MS, MEASURED_MS = 20, 150
EXPANDED_REQUESTS = 16  # at a time
MOE_ROWS: list[dict[str, int]] = [
    {"GATE_N": 128, "GROUP_M": 16},
    {"DOWN_N": 256, "GROUP_M": 16},
    {"GATE_N": 128, "DOWN_N": 256, "GROUP_M": 16, "BLOCK_K": 32, "num_stages": 4},
    {"GATE_N": 128, "DOWN_N": 256, "GROUP_M": 16, "num_warps": 8},
]
MLA_ROWS: list[dict[str, int]] = [
    {"BLOCK_N": 64},
    {"BLOCK_H": 128, "num_warps": 8},
    {"SPLIT_Q": 4, "SPLIT_KV": 14, "SPLIT_OUT": 2},
    {"SPLIT_Q": 4, "SPLIT_KV": 14, "SPLIT_OUT": 2, "LINEAR_N": 128, "BLOCK_N": 64},
]

Call = Callable[[], torch.Tensor]


def expert_loop(data: Any) -> torch.Tensor:
    x, weights, config = data
    tokens, top_k = x.view(-1, x.shape[-1]), config["n_experts_per_token"]
    scores, experts = (tokens @ weights["router.weight"].t()).softmax(-1).topk(top_k)
    order = experts.flatten().argsort()
    counts = experts.flatten().bincount(minlength=config["n_routed_experts"]).tolist()
    y = swiglu(tokens, *(weights[f"shared_experts.{i}.weight"] for i in range(3)))
    for expert, places in enumerate(order.split(counts)):
        rows = places // top_k
        out = swiglu(tokens[rows], *(weights[f"experts.{expert}.{i}.weight"] for i in range(3)))
        y.index_add_(0, rows, out * scores.flatten()[places, None])
    return y.view_as(x)


def swiglu(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return (F.silu(x @ gate) * (x @ up)) @ down


class GroupedGemms:
    """Weights stacked once: the shared expert is the last group, of all tokens."""

    def __init__(self, data: Any) -> None:
        self.x, weights, self.config = data
        names = [f"experts.{i}" for i in range(self.config["n_routed_experts"])] + ["shared_experts"]
        self.dtype = torch.float16
        try:
            probe = torch.ones(16, 16, dtype=self.dtype, device="cuda")
            ends = torch.tensor([16], dtype=torch.int32, device="cuda")
            torch._grouped_mm(probe, probe[None], offs=ends)
        except RuntimeError:
            self.dtype = torch.bfloat16
        both = [torch.cat([weights[f"{name}.{i}.weight"] for i in (0, 1)], dim=1) for name in names]
        self.gate_up = torch.stack(both).to(self.dtype)
        self.down = torch.stack([weights[f"{name}.2.weight"] for name in names]).to(self.dtype)
        self.router = weights["router.weight"]

    def __call__(self) -> torch.Tensor:
        tokens, top_k = self.x.view(-1, self.x.shape[-1]), self.config["n_experts_per_token"]
        scores, experts = (tokens @ self.router.t()).softmax(-1).topk(top_k)
        order = experts.flatten().argsort()
        counts = F.one_hot(experts.flatten(), self.config["n_routed_experts"]).sum(0)
        everything = torch.full((1,), len(tokens), device="cuda")
        self.ends = torch.cat([counts, everything]).cumsum(0).int()
        wide = tokens.to(self.dtype)
        self.rows = torch.cat([wide[order // top_k], wide])
        out = self.products()
        y = out[len(order) :].clone()
        y.index_add_(0, order // top_k, out[: len(order)] * scores.flatten()[order, None].to(self.dtype))
        return y.view_as(self.x)

    def products(self) -> torch.Tensor:
        both = torch._grouped_mm(self.rows, self.gate_up, offs=self.ends)
        gate, up = both.chunk(2, dim=-1)
        return torch._grouped_mm(F.silu(gate) * up, self.down, offs=self.ends)


class MlaLayer:
    """What a PyTorch program would do, the rotation by tables that are made beforehand."""

    def __init__(self, data: Any) -> None:
        self.config, self.x, self.cache = data
        heads, nope, rope, value, latent = self.sizes = mla.head_sizes(self.config)
        self.prefill = self.cache.seq_len
        self.scale = 1 / math.sqrt(nope + rope)
        kv_up = self.config.KV_proj_up_weight.view(heads, nope + value, latent)
        self.w_uk, self.w_uv = kv_up.split([nope, value], dim=1)
        table = mla.rope_table(self.cache.data.shape[1], rope, self.x.device)  # cosines, then sines, of half a width
        half = table.view(table.shape[0], 2, rope // 2)
        self.cos, self.sin = (half[:, i].repeat(1, 2) for i in (0, 1))

    def rotated(self, x: torch.Tensor, first: int, last: int) -> torch.Tensor:
        low, high = x.chunk(2, dim=-1)
        return x * self.cos[first:last] + torch.cat((-high, low), dim=-1) * self.sin[first:last]

    def queries(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Of each head, apart: [batch, heads, nope], [batch, heads, rope] rotated; and the cache's filled part."""
        heads, nope, rope, _, _ = self.sizes
        x, config, end = self.x[:, 0], self.config, self.prefill + 1
        self.cache.data[:, self.prefill] = x @ config.KV_proj_down_weight.t()
        q = (x @ config.Q_proj_down_weight.t()) @ config.Q_proj_up_weight.t()
        q_nope, q_rope = q.view(-1, heads, nope + rope).split([nope, rope], dim=-1)
        return q_nope, self.rotated(q_rope, end - 1, end), self.cache.data[:, :end]

    def absorbed(self) -> torch.Tensor:
        q_nope, q_rope, latents = self.queries()
        self.q = torch.cat([torch.einsum("bhd,hdl->bhl", q_nope, self.w_uk), q_rope], dim=-1)
        latent = self.sizes[-1]
        tails = self.rotated(latents[..., latent:], 0, latents.shape[1])
        self.keys = torch.cat([latents[..., :latent], tails], dim=-1)
        values = torch.einsum("bhl,hdl->bhd", self.absorbed_attention(), self.w_uv)
        return values.flatten(1) @ self.config.wo_weight.t()

    def absorbed_attention(self) -> torch.Tensor:
        """Heads are queries of one key head."""
        keys = self.keys[:, None]
        return F.scaled_dot_product_attention(self.q[:, None], keys, keys[..., : self.sizes[-1]], scale=self.scale)[
            :, 0
        ]

    def expanded(self) -> torch.Tensor:
        q_nope, q_rope, latents = self.queries()
        heads, nope, _, value, latent = self.sizes
        q = torch.cat([q_nope, q_rope], dim=-1)[:, :, None]
        parts = []
        for some, of in zip(q.split(EXPANDED_REQUESTS), latents.split(EXPANDED_REQUESTS)):
            both = (of[..., :latent] @ self.config.KV_proj_up_weight.t()).view(*of.shape[:2], heads, nope + value)
            tails = self.rotated(of[..., latent:], 0, of.shape[1])[:, :, None].expand(-1, -1, heads, -1)
            keys = torch.cat([both[..., :nope], tails], dim=-1).transpose(1, 2)
            values = both[..., nope:].transpose(1, 2)
            parts.append(F.scaled_dot_product_attention(some, keys, values, scale=self.scale))
        return torch.cat(parts).flatten(1) @ self.config.wo_weight.t()


def moe_calls(data: Any, rows: bool) -> tuple[dict[str, Call], dict[str, Call]]:
    """Ways whose results are compared with the first one's; and what is only timed."""
    x, router, matrices, sizes = moe_inputs(data)
    tokens = x.view(-1, x.shape[-1])
    table = moe_tuning.TUNING.get(shape_of_table(sizes), moe_tuning.DEFAULT)
    grouped = GroupedGemms(data)
    ways: dict[str, Call] = {
        "PyTorch, a loop over experts": lambda: expert_loop(data),
        "ours, Triton": lambda: moe_hopper.custom_kernel(data),
        "ours, the MI300X's row": lambda: moe(tokens, router, matrices, sizes, table).view(x.shape),
    }
    for other in MOE_ROWS if rows else []:
        row = {**table, **other}
        ways[f"ours, {other}"] = lambda row=row: moe(tokens, router, matrices, sizes, row).view(x.shape)  # type: ignore[misc]
    ways[f"PyTorch, grouped GEMMs in {grouped.dtype}"] = grouped
    return ways, {"both grouped GEMMs and SwiGLU alone": grouped.products}


def mla_calls(data: Any, rows: bool) -> tuple[dict[str, Call], dict[str, Call]]:
    layer = MlaLayer(data)
    config, x, cache = data

    def ours() -> torch.Tensor:
        cache.seq_len = layer.prefill
        return mla_decode.custom_kernel(data)[0][:, 0]

    def with_row(row: dict[str, int]) -> Call:
        def call() -> torch.Tensor:
            cache.seq_len = layer.prefill
            weights, of, length = mla.mla_inputs(data)
            y = torch.empty_like(x[:, 0])
            mla_decode.mla_decode(x[:, 0], weights, of, length, y, layer.sizes, row)
            return y

        return call

    ways: dict[str, Call] = {"PyTorch, SDPA on the absorbed form": layer.absorbed, "ours, Triton": ours}
    table = mla_tuning.TUNING[x.shape[0], config.dim, config.q_lora_rank]
    for other in MLA_ROWS if rows else []:
        ways[f"ours, {other}"] = with_row({**table, **other})
    ways["PyTorch, SDPA on the expanded form"] = layer.expanded
    return ways, {"SDPA alone, absorbed": layer.absorbed_attention}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, help="append each time to this file, a line of JSON")
    parser.add_argument("--rows", action="store_true", help="time other rows of our tuning tables as well")
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {triton.__version__}", flush=True)
    wrong = 0
    for name, calls in (("amd-mixture-of-experts", moe_calls), ("amd-mla-decode", mla_calls)):
        problem = find_problem(name)
        for case in problem.benchmarks:
            data = inputs(problem, case)
            compared, timed = calls(data, options.rows)
            exact = next(iter(compared.values()))().double()
            for way, call in {**compared, **timed}.items():
                line: dict[str, Any] = {"problem": name, "case": case, "way": way}
                try:
                    if way in compared:
                        line["rel_l2"] = float((call().double() - exact).norm() / exact.norm())
                    line["us"] = 1e3 * triton.testing.do_bench(call, WARM_UP_MS, MEASURED_MS, return_mode="median")
                    wrong += not line.get("rel_l2", 0) < FAR_OFF[name]
                except (RuntimeError, triton.errors.TritonError) as error:
                    line["error"] = str(error).splitlines()[0]
                print(line, flush=True)
                if options.output:
                    with options.output.open("a") as lines:
                        print(json.dumps(line), file=lines)
            del data, compared, timed, exact
            torch.cuda.empty_cache()
    return 1 if wrong else 0


def inputs(problem: Problem, case: Any) -> Any:
    sys.path.insert(0, str(problem.directory))
    for module in ("reference", "task"):
        sys.modules.pop(module, None)
    reference: Any = import_module("reference")
    sys.path.remove(str(problem.directory))
    return reference.generate_input(**case)


if __name__ == "__main__":
    sys.exit(main())
