"""amd-all2all: tokens go to the ranks of their experts, a stand-in expert runs, weighted sums come back.

Rank r owns experts r*E/W ... (r+1)*E/W - 1, and each of them multiplies a token by 1 + r.
"""

import dataclasses

import torch
import torch.distributed as dist

from task import input_t, output_t
from utils import match_allclose


@dataclasses.dataclass
class MoEConfig:
    num_experts: int
    experts_per_token: int
    hidden_dim: int
    max_num_tokens: int
    in_dtype: torch.dtype = torch.float16
    out_dtype: torch.dtype = torch.float16


class RankTestData:
    """One rank's tokens, on its own GPU.

    num_tokens  1 ... max_num_tokens - 1
    indices     int32 [num_tokens, experts_per_token], a token's experts, all different, in no order
    weights     fp32 [num_tokens, experts_per_token], uniform in [0, 1)
    x           in_dtype [num_tokens, hidden_dim]
    """

    def __init__(self, cfg: MoEConfig, rng: torch.Generator, rank: int) -> None:
        on = {"generator": rng, "device": torch.device(f"cuda:{rank}")}
        self.num_tokens = int(torch.randint(1, cfg.max_num_tokens, [1], **on).item())
        shape = (self.num_tokens, cfg.experts_per_token)
        self.indices = torch.empty(shape, dtype=torch.int32, device=on["device"])
        for experts in self.indices:
            experts.copy_(torch.randperm(cfg.num_experts, **on)[: cfg.experts_per_token])
        self.weights = torch.rand(shape, dtype=torch.float32, **on)
        self.x = torch.randn((self.num_tokens, cfg.hidden_dim), dtype=cfg.in_dtype, **on)


def generate_input(
    num_experts: int,
    experts_per_token: int,
    hidden_dim: int,
    max_num_tokens: int,
    seed: int,
    rank: int,
    world_size: int,
) -> input_t:
    """Returns (config, this rank's tokens, rank, world_size)."""
    gen = torch.Generator(device=torch.device(f"cuda:{rank}"))
    gen.manual_seed(seed + rank)
    cfg = MoEConfig(num_experts, experts_per_token, hidden_dim, max_num_tokens)
    return cfg, RankTestData(cfg, gen, rank), rank, world_size


def ref_kernel(data: input_t) -> output_t:
    """Returns out_dtype [num_tokens, hidden_dim].

    A token's contributions are added in the order of its experts' numbers, rounded to out_dtype each time.
    """
    cfg, mine, rank, world_size = data
    experts_per_rank = cfg.num_experts // world_size
    k = cfg.experts_per_token
    experts = mine.indices.long()  # [tokens, k]

    # Dispatch. Sorted by expert, the copies are sorted by destination rank too.
    order = experts.view(-1).argsort()  # [tokens * k], places in the flat [tokens, k]
    send_counts = (experts.view(-1) // experts_per_rank).bincount(minlength=world_size)
    recv_counts = torch.empty_like(send_counts)
    dist.all_to_all_single(recv_counts, send_counts)
    sent, received = send_counts.tolist(), recv_counts.tolist()
    arrived = mine.x.new_empty((sum(received), cfg.hidden_dim))
    dist.all_to_all_single(arrived, mine.x[order // k], received, sent)

    # Combine: the rows go back the way they came, so they return in the order they were sent.
    done = arrived.to(cfg.out_dtype) * (1 + rank)
    returned = done.new_empty((len(order), cfg.hidden_dim))
    dist.all_to_all_single(returned, done, sent, received)
    by_slot = torch.empty_like(returned)
    by_slot[order] = returned
    by_slot = by_slot.view(mine.num_tokens, k, cfg.hidden_dim)

    out = torch.zeros((mine.num_tokens, cfg.hidden_dim), dtype=cfg.out_dtype, device=mine.x.device)
    tokens = torch.arange(mine.num_tokens, device=out.device)
    for slots in experts.argsort(dim=1).unbind(1):  # each token's first expert, then each one's second, ...
        out += by_slot[tokens, slots].float() * mine.weights[tokens, slots, None]
    return out


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return match_allclose(output, ref_kernel(data), rtol=1e-2, atol=5e-3)
