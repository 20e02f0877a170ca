"""amd-mla-decode in HIP: a decoding step of multi-head latent attention with absorbed projections, in six launches.

1. down_kernel       q_latent = x @ Q_down.T, and the new token's latent, x @ KV_down.T, into its place in the cache
2. query_kernel      q_latent @ Q_up.T, tails rotated
3. absorb_kernel     by head, times W_UK: queries for latents
4. attention_kernel  flash decoding over the latents, whose tails are rotated on their way into LDS
5. value_kernel      by head, times W_UV
6. out_kernel        y = values @ W_O.T

mla_attention_gfx942.h and mla_projections_gfx942.h say how, docs/kernels/mla_decode_hip.md why.
"""

import functools
import math

import torch

from kernels.common.hip_extension import load_extension
from kernels.common.hip_source import hip_source
from kernels.mla_decode.hip_gfx942_tuning import DEFAULT, TUNING
from kernels.mla_decode.mla_inputs import SIZES, head_sizes, mla_inputs, rope_table

HIP_SOURCE = hip_source("mla_decode_gfx942.hip")
SUPPORTED = {
    "n_heads": 128, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "kv_lora_rank": 512,
}  # fmt: skip
COMPUTE_UNITS = 304  # MI300X
KEYS = 16  # of the attention's tile, as in mla_attention_gfx942.h
TILE_M, TILE_N = 128, 64  # of the projections


@functools.cache
def extension():
    return load_extension("mla_decode_hip", HIP_SOURCE, functions=["mla_decode"])


class Plan:
    """Buffers that a call writes before it reads them, and counters that it leaves at zero."""

    def __init__(self, device, batch, dim, rank, heads, nope, rope, value, latent, split_down, split_out):
        def empty(*shape, dtype=torch.bfloat16):
            return torch.empty(shape, dtype=dtype, device=device)

        def zeros(n):
            return torch.zeros(n, dtype=torch.int32, device=device)

        row_tiles = -(-batch // TILE_M)
        down_tiles = row_tiles * (-(-rank // TILE_N) + (latent + rope) // TILE_N)
        out_tiles = row_tiles * -(-dim // TILE_N)
        parts = 2 * COMPUTE_UNITS  # of a request's tokens: two a workgroup at most
        self.buffers = [
            empty(batch, rank),  # q_latent
            empty(batch, heads, nope),  # q_nope
            empty(batch, heads, latent + rope),  # q
            empty(batch, heads, latent),  # o
            empty(batch, heads, value),  # values
            empty(max(down_tiles * split_down, out_tiles * split_out), TILE_M, TILE_N, dtype=torch.float32),  # slices
            zeros(max(down_tiles, out_tiles)),  # slices_arrived
            empty(parts, heads, latent),  # partial
            empty(parts, heads, dtype=torch.float32),  # weight
            zeros(batch),  # arrived
        ]
        self.addresses = [buffer.data_ptr() for buffer in self.buffers]


plan_of = functools.lru_cache(maxsize=1)(Plan)  # the last shape's


def tuning_row(data):
    """The row that custom_kernel(data) uses, with no more slices of k than it has lines of 64."""
    config, x, _ = data
    row = TUNING.get((x.shape[0], config.dim, config.q_lora_rank), DEFAULT)
    return {**row, "SPLIT_DOWN": min(row["SPLIT_DOWN"], -(-config.dim // 64))}


def custom_kernel(data):
    """(config, x, kv_cache) as the problem hands them over -> (y bf16 [batch, 1, dim], kv_cache.data).

    Appends the token's latent to the cache: data at position seq_len, and seq_len itself.
    """
    config, x, kv_cache = data
    sizes = head_sizes(config)
    for name, size in zip(SIZES, sizes):
        if size != SUPPORTED[name]:
            raise ValueError(f"{name} must be {SUPPORTED[name]}, got {size}")
    if config.q_lora_rank % 16 or config.q_lora_rank == 0:
        raise ValueError(f"q_lora_rank must be a multiple of 16, got {config.q_lora_rank}")
    if config.dim % 8 or config.dim == 0:
        raise ValueError(f"dim must be a multiple of 8, got {config.dim}")
    weights, cache, length = mla_inputs(data)
    (q_down, q_up, kv_down, kv_up, w_o), (batch, capacity) = weights, cache.shape[:2]
    n_tiles = batch * -(-length // KEYS)
    if n_tiles * COMPUTE_UNITS >= 2**31:
        raise ValueError(
            f"at most 2^31 / {COMPUTE_UNITS} tiles of {KEYS} tokens expected, got {batch} x {length} tokens"
        )
    row = tuning_row(data)
    plan = plan_of(x.device, batch, config.dim, config.q_lora_rank, *sizes, row["SPLIT_DOWN"], row["SPLIT_OUT"])
    table = rope_table(capacity, config.qk_rope_head_dim, x.device)
    y = torch.empty_like(x)
    extension().mla_decode(
        *(tensor.data_ptr() for tensor in (x, q_down, q_up, kv_down, kv_up, w_o, table, cache, y)),
        *plan.addresses,
        batch,
        length,
        capacity,
        config.dim,
        config.q_lora_rank,
        row["SPLIT_DOWN"],
        row["SPLIT_OUT"],
        min(COMPUTE_UNITS, n_tiles),
        math.log2(math.e) / math.sqrt(config.qk_nope_head_dim + config.qk_rope_head_dim),
    )
    kv_cache.seq_len = length
    return y, cache
