"""amd-mla-decode: one decoding step of multi-head latent attention (DeepSeek-V3's sizes) in bf16."""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from task import input_t, output_t
from utils import verbose_allclose

# The reference expands keys and values of every head: 64 KiB a cached token. Whole requests are taken
# together up to this many bytes, so that a 34 GB expansion also fits where there is no 192 GB GPU.
EXPANSION_BYTES = 4 << 30


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


def _attend(config: Config, q: torch.Tensor, latents: torch.Tensor) -> torch.Tensor:
    """q: bf16 [b, heads, 1, nope + rope], rotated; latents: bf16 [b, length, kv_lora_rank + rope], not.
    Returns bf16 [b, 1, heads * v]."""
    batch, length, _ = latents.shape
    heads, nope, v_dim = config.n_heads, config.qk_nope_head_dim, config.v_head_dim
    compressed, k_rope = latents.split([config.kv_lora_rank, config.qk_rope_head_dim], dim=-1)
    expanded = F.linear(compressed, config.KV_proj_up_weight).view(batch, length, heads, nope + v_dim)
    k_nope, v = expanded.permute(0, 2, 1, 3).split([nope, v_dim], dim=-1)  # [b, heads, length, nope | v]
    k_rope = _rope(k_rope[:, None], first=0).expand(-1, heads, -1, -1)  # [b, heads, length, rope]
    k = torch.cat([k_nope, k_rope], dim=-1)
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1))  # bf16 [b, heads, 1, length]
    return torch.matmul(scores.softmax(dim=-1), v).view(batch, 1, heads * v_dim)


@torch.no_grad()
def ref_kernel(data: input_t) -> output_t:
    """Appends the new latent to the cache (which it changes), attends, projects. Returns (y, whole cache)."""
    config, x, cache = data
    nope, rope = config.qk_nope_head_dim, config.qk_rope_head_dim

    latents, length = cache(F.linear(x, config.KV_proj_down_weight))
    q = F.linear(F.linear(x, config.Q_proj_down_weight), config.Q_proj_up_weight)
    q = q.view(x.size(0), 1, config.n_heads, nope + rope).permute(0, 2, 1, 3)  # [b, heads, 1, nope + rope]
    q_nope, q_rope = q.split([nope, rope], dim=-1)
    q = torch.cat([q_nope, _rope(q_rope, first=length - 1)], dim=-1)

    request_bytes = length * config.n_heads * (nope + config.v_head_dim) * x.element_size()
    together = max(1, EXPANSION_BYTES // request_bytes)
    parts = [_attend(config, *part) for part in zip(q.split(together), latents.split(together))]
    return F.linear(torch.cat(parts), config.wo_weight), cache.get_data()


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
