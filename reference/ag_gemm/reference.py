"""amd-ag-gemm: every rank gathers all rows of the input and multiplies them by its share of the weight."""

from collections.abc import Callable

import torch
import torch.distributed as dist

from task import input_t, output_t
from utils import linear, match_allclose


def generate_input(rank: int, world_size: int, m: int, n: int, k: int, has_bias: bool, seed: int) -> input_t:
    """Returns (input, weight, bias), uniform in [-0.01, 0.01): bf16 [m/W, k], [n/W, k], [n/W] or None.

    All three differ from rank to rank.
    """
    if m % world_size or n % world_size:
        raise ValueError(f"m={m} and n={n} must be multiples of world_size={world_size}")
    device = torch.device(f"cuda:{rank}")
    gen = torch.Generator(device=device)
    gen.manual_seed(seed + rank)

    def uniform(*shape: int) -> torch.Tensor:
        return (torch.rand(shape, dtype=torch.bfloat16, device=device, generator=gen) * 2 - 1) * 0.01

    local_n = n // world_size
    a, weight = uniform(m // world_size, k), uniform(local_n, k)
    return a, weight, uniform(local_n) if has_bias else None


def ref_kernel(data: input_t) -> output_t:
    """Returns bf16 [m, n/W]."""
    a, weight, bias = data
    gathered = a.new_empty((a.shape[0] * dist.get_world_size(), a.shape[1]))  # [m, k]
    dist.all_gather_into_tensor(gathered, a)
    out = linear(gathered, weight)  # rounded to bf16 before the bias
    return out if bias is None else out + bias


def part(data: input_t, output: output_t, choose: Callable[[int, str], torch.Tensor]) -> tuple[input_t, output_t]:
    """A few rows of each rank's input, the same on all."""
    a, weight, bias = data
    rows = choose(len(a), "rows of each rank").to(a.device)
    return (a[rows], weight, bias), output.view(-1, len(a), output.size(1))[:, rows].flatten(0, 1)


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return match_allclose(output, ref_kernel(data), rtol=1e-2, atol=1e-2)
