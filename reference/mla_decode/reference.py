"""amd-mla-decode: one decoding step of multi-head latent attention (DeepSeek-V3's sizes) in bf16."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from task import input_t, output_t
from utils import linear, verbose_allclose

# The reference expands keys and values of every head: 64 KiB a cached token, 34 GB of the largest case. So it takes one
# request and as many heads as expand to this many bytes. In a CPU's cache little is copied (torch's batched product
# would copy the weight for each request, and values into another order); a GPU wants few launches. Only the order of
# sums may differ, as it does between CPUs.
EXPANSION_BYTES = (1 << 30) if torch.backends.cuda.is_built() else (8 << 20)


class KVCache(nn.Module):
    """Latents of past tokens: buffer `data`, bf16 [batch, max_seq_len, kv_lora_rank + rope], filled up to
    position `seq_len`. The rope columns are stored before rotation."""

    def __init__(self, kv_cache_shape: tuple[int, ...], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.data: torch.Tensor
        self.register_buffer("data", torch.zeros(kv_cache_shape, dtype=torch.bfloat16))
        self.seq_len = 0

    def zero(self) -> None:
        self.data.zero_()

    def get_data(self) -> torch.Tensor:
        return self.data

    def forward(self, c_kv: torch.Tensor) -> tuple[torch.Tensor, int]:
        """Appends c_kv [batch, new, width]; returns the filled part [batch, seq_len, width], and seq_len."""
        end = self.seq_len + c_kv.size(1)
        if end > self.data.size(1):
            raise ValueError(f"the cache holds {self.data.size(1)} tokens, {end} are asked of it")
        self.data = self.data.to(c_kv.dtype)
        self.data[:, self.seq_len : end] = c_kv
        self.seq_len = end
        return self.data[:, :end], end


@dataclass
class Config:
    """Sizes and weights. Weights are bf16 and (out, in), as nn.Linear holds them."""

    batch_size: int
    dim: int
    n_heads: int
    q_lora_rank: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    seq_len: int
    max_seq_len: int
    kv_cache_shape: tuple[int, ...]
    Q_proj_down_weight: torch.Tensor  # [q_lora_rank, dim]
    Q_proj_up_weight: torch.Tensor  # [n_heads * (nope + rope), q_lora_rank]
    KV_proj_down_weight: torch.Tensor  # [kv_lora_rank + rope, dim]
    KV_proj_up_weight: torch.Tensor  # [n_heads * (nope + v), kv_lora_rank]
    wo_weight: torch.Tensor  # [dim, n_heads * v]


def generate_input(batchsize: int, dim: int, dq: int, prefill: int, seed: int) -> input_t:
    """Returns (config, x, cache): x bf16 [batchsize, 1, dim], the cache filled up to prefill."""
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    heads, nope, rope, v, kv_rank, max_seq_len = 128, 128, 64, 128, 512, 8192

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.bfloat16, generator=gen, device="cuda")

    def weight(out: int, width: int) -> torch.Tensor:
        return normal(out, width) / math.sqrt(width)

    cache_shape = (batchsize, max_seq_len, kv_rank + rope)
    config = Config(
        batch_size=batchsize,
        dim=dim,
        n_heads=heads,
        q_lora_rank=dq,
        kv_lora_rank=kv_rank,
        qk_nope_head_dim=nope,
        qk_rope_head_dim=rope,
        v_head_dim=v,
        seq_len=1,
        max_seq_len=max_seq_len,
        kv_cache_shape=cache_shape,
        # drawn in this order
        Q_proj_down_weight=weight(dq, dim),
        KV_proj_down_weight=weight(kv_rank + rope, dim),
        Q_proj_up_weight=weight((nope + rope) * heads, dq),
        KV_proj_up_weight=weight((nope + v) * heads, kv_rank),
        wo_weight=weight(dim, v * heads),
    )
    x = normal(batchsize, 1, dim)
    cache = KVCache(cache_shape).to("cuda")
    cache(normal(batchsize, prefill, kv_rank + rope))
    return config, x, cache


def _rope(x: torch.Tensor, first: int) -> torch.Tensor:
    """Rotates x [..., positions, width], rotate-half form, position numbers from `first`.

    Every step rounds to bf16: frequency, position (exact to 256), angle, cosine, sine, both products, sum.
    """
    half = x.size(-1) // 2
    # on the CPU whatever the device of x: a GPU's pow may round a frequency the other way
    theta = (10000 ** (-torch.arange(half, dtype=torch.bfloat16) / half)).to(x.device)
    positions = torch.arange(first, first + x.size(-2), device=x.device).to(torch.bfloat16)
    angles = torch.outer(positions, theta).repeat(1, 2)  # bf16 [positions, width]
    rotated = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * angles.cos() + rotated * angles.sin()


def _attend(q: torch.Tensor, latents: torch.Tensor, k_rope: torch.Tensor, up_weight: torch.Tensor) -> torch.Tensor:
    """Some heads of a request. q: bf16 [heads, 1, nope + rope] and k_rope [length, rope], rotated; latents
    [length, kv_lora_rank]; up_weight [heads, nope + v, kv_lora_rank]. Returns bf16 [heads, 1, v]."""
    heads, width, _ = up_weight.shape
    nope = q.size(-1) - k_rope.size(-1)
    expanded = linear(latents, up_weight.flatten(0, 1)).view(-1, heads, width).transpose(0, 1)
    k_nope, v = expanded.split([nope, width - nope], dim=-1)  # [heads, length, nope | v]
    k = torch.cat([k_nope, k_rope.expand(heads, -1, -1)], dim=-1)
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1))  # bf16 [heads, 1, length]
    return torch.matmul(scores.softmax(dim=-1), v)


@torch.no_grad()
def ref_kernel(data: input_t) -> output_t:
    """Appends the new latent to the cache (which it changes), attends, projects. Returns (y, whole cache)."""
    config, x, cache = data
    nope, rope = config.qk_nope_head_dim, config.qk_rope_head_dim

    latents, length = cache(linear(x, config.KV_proj_down_weight))
    q = linear(linear(x, config.Q_proj_down_weight), config.Q_proj_up_weight)
    q = q.view(x.size(0), 1, config.n_heads, nope + rope).permute(0, 2, 1, 3)  # [b, heads, 1, nope + rope]
    q_nope, q_rope = q.split([nope, rope], dim=-1)
    q = torch.cat([q_nope, _rope(q_rope, first=length - 1)], dim=-1)

    k_rope = _rope(latents[..., config.kv_lora_rank :], first=0)
    up_weight = config.KV_proj_up_weight.view(config.n_heads, nope + config.v_head_dim, config.kv_lora_rank)
    together = max(1, EXPANSION_BYTES // (length * up_weight.size(1) * x.element_size()))
    values = torch.empty(x.size(0), config.n_heads, 1, config.v_head_dim, dtype=x.dtype, device=x.device)
    for request, rope_of_request in enumerate(k_rope):
        compressed = latents[request, :, : config.kv_lora_rank].contiguous()
        heads = zip(q[request].split(together), up_weight.split(together), values[request].split(together))
        for q_of_heads, weight, out in heads:
            out.copy_(_attend(q_of_heads, compressed, rope_of_request, weight))
    return linear(values.view(x.size(0), 1, -1), config.wo_weight), cache.get_data()


def part(data: input_t, output: output_t, choose: Callable[[int, str], torch.Tensor]) -> tuple[input_t, output_t]:
    """A few of the requests, which share the weights alone."""
    config, x, cache = data
    y, latents = output
    rows = choose(len(x), "requests").to(x.device)
    few = KVCache((0,))
    few.data, few.seq_len = cache.data[rows], cache.seq_len
    shape = (len(rows), *config.kv_cache_shape[1:])
    return (replace(config, batch_size=len(rows), kv_cache_shape=shape), x[rows], few), (y[rows], latents[rows])


def check_implementation(data: input_t, output: output_t) -> str:
    """Both outputs, y and the cache, at rtol 2e-2 and atol 8e-3, the differences rounded to bf16.

    Returns what is wrong; "" if nothing is. A text alone, without a bool, is what this problem's own harness
    expects: a (True, "") it would take for a failure.
    """
    if not isinstance(output, (tuple, list)) or len(output) != 2:
        return f"output is of type {type(output).__name__}, wanted the two tensors (y, cache)"
    # off the GPU while the reference needs its memory
    got = [part.cpu() if isinstance(part, torch.Tensor) else part for part in output]
    expected = ref_kernel(data)
    for name, ours, theirs in zip(("y", "cache"), expected, got):
        if isinstance(theirs, torch.Tensor):
            theirs = theirs.to(ours.device)
        good, reasons = verbose_allclose(theirs, ours, rtol=2e-02, atol=8e-03, diff_dtype=None)
        if not good:
            return f"{name}: " + "; ".join(reasons)
    return ""
