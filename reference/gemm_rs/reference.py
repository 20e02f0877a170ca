"""amd-gemm-rs: every rank multiplies its slice of k; the products are summed and scattered over the rows."""

from collections.abc import Callable

import torch
import torch.distributed as dist

from task import input_t, output_t
from utils import linear, match_allclose


def generate_input(rank: int, world_size: int, m: int, n: int, k: int, has_bias: bool, seed: int) -> input_t:
    """Returns (input, weight, bias), uniform in [-0.01, 0.01): bf16 [m, k/W], [n, k/W], [n] or None.

    Input and weight differ from rank to rank, the bias is the same on all.
    """
    if m % world_size or k % world_size:
        raise ValueError(f"m={m} and k={k} must be multiples of world_size={world_size}")
    device = torch.device(f"cuda:{rank}")
    gen = torch.Generator(device=device)
    gen.manual_seed(seed + rank)

    def uniform(*shape: int) -> torch.Tensor:
        return (torch.rand(shape, dtype=torch.bfloat16, device=device, generator=gen) * 2 - 1) * 0.01

    local_k = k // world_size
    a, weight = uniform(m, local_k), uniform(n, local_k)
    if not has_bias:
        return a, weight, None
    gen.manual_seed(seed)
    return a, weight, uniform(n)


def ref_kernel(data: input_t) -> output_t:
    """Returns bf16 [m/W, n]. Each rank adds the bias before the sum, so it counts W times."""
    a, weight, bias = data
    partial = linear(a, weight)  # [m, n], rounded to bf16 before bias and sum
    if bias is not None:
        partial = partial + bias
    out = partial.new_empty((partial.shape[0] // dist.get_world_size(), partial.shape[1]))
    dist.reduce_scatter_tensor(out, partial)
    return out


def part(data: input_t, output: output_t, choose: Callable[[int, str], torch.Tensor]) -> tuple[input_t, output_t]:
    """A few rows of each rank's output, the same on all."""
    a, weight, bias = data
    rows = choose(len(output), "rows of each rank").to(a.device)
    return (a.view(-1, len(output), a.size(1))[:, rows].flatten(0, 1), weight, bias), output[rows]


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return match_allclose(output, ref_kernel(data), rtol=1e-2, atol=1e-2)
