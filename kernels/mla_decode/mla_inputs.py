"""What amd-mla-decode's variants do with their inputs: checks, and the rotation's angles."""

import functools

import torch

from kernels.common.tensor_checks import check_on_gpu, check_tensor

SIZES = ("n_heads", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank")


def head_sizes(config):
    """What SIZES names: heads, nope, rope, value, latent."""
    return tuple(getattr(config, name) for name in SIZES)


@functools.lru_cache(maxsize=1)
def rope_table(capacity, width, device):
    """bf16 [capacity][width]: by position, width/2 cosines, then as many sines; rounded where the reference rounds.

    Positions are bf16 as well: beyond 256, neighbours share an angle.
    """
    half = width // 2
    frequency = 10000 ** (-torch.arange(half, dtype=torch.bfloat16) / half)  # on the CPU, as the reference does it
    position = torch.arange(capacity, device=device).to(torch.bfloat16)
    angle = torch.outer(position, frequency.to(device))
    return torch.cat((angle.cos(), angle.sin()), dim=-1)


def mla_inputs(data):
    """(weights, cache, length) of (config, x, kv_cache) as the problem hands them over, checked.

    weights: q down, q up, kv down, kv up, o; cache bf16 [batch, capacity, latent + rope]; length: with the new token.
    """
    config, x, kv_cache = data
    heads, nope, rope, value, latent = head_sizes(config)
    rank, dim = config.q_lora_rank, config.dim
    if x.dim() != 3 or x.shape[0] == 0 or x.shape[1] != 1:
        raise ValueError(f"x [batch, 1, dim] of at least one request expected, got {tuple(x.shape)}")
    batch = x.shape[0]
    check_on_gpu("x", x)
    check_tensor("x", x, (batch, 1, dim), torch.bfloat16)
    cache, length = kv_cache.data, kv_cache.seq_len + 1
    capacity = cache.shape[1]
    check_tensor("kv_cache.data", cache, (batch, capacity, latent + rope), torch.bfloat16, device=x.device)
    if not 0 < length <= capacity:
        raise ValueError(f"the cache is full: it holds {capacity} tokens, this would be number {length}")
    weight_shapes = {
        "Q_proj_down_weight": (rank, dim),
        "Q_proj_up_weight": (heads * (nope + rope), rank),
        "KV_proj_down_weight": (latent + rope, dim),
        "KV_proj_up_weight": (heads * (nope + value), latent),
        "wo_weight": (dim, heads * value),
    }
    weights = [getattr(config, name) for name in weight_shapes]
    for weight, (name, shape) in zip(weights, weight_shapes.items()):
        check_tensor(name, weight, shape, torch.bfloat16, device=x.device)
    return weights, cache, length
