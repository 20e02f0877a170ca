"""amd-fp8-mm: c = (a * a_scale) @ (b * b_scale).T, operands e4m3fnuz, scales fp32, c bf16."""

from collections.abc import Callable

import torch

from task import input_t, output_t
from utils import make_match_reference

BLOCK = 128  # a scale covers 128 of k; of b, also 128 of n


def generate_input(m: int, n: int, k: int, seed: int) -> input_t:
    """Returns, all column-major (the transposes of what is drawn) but c:

    a        e4m3fnuz [m, k], strides (1, m)
    b        e4m3fnuz [n, k], strides (1, n)
    a_scale  fp32 [m, ceil(k/128)], strides (1, m)
    b_scale  fp32 [ceil(n/128), ceil(k/128)], strides (1, ceil(n/128))
    c        bf16 [m, n], zeros, row-major: to be written and returned

    Scales are standard normal: they may be negative, or close to zero.
    """
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    n_blocks, k_blocks = -(-n // BLOCK), -(-k // BLOCK)

    def normal(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.randn((rows, columns), dtype=dtype, device="cuda", generator=gen)

    a = normal(k, m, torch.bfloat16).to(torch.float8_e4m3fnuz)
    b = normal(k, n, torch.bfloat16).to(torch.float8_e4m3fnuz)
    a_scale = normal(k_blocks, m, torch.float32)
    b_scale = normal(k_blocks, n_blocks, torch.float32)
    c = torch.zeros((m, n), dtype=torch.bfloat16, device="cuda")
    return a.T, b.T, a_scale.T, b_scale.T, c


def part(data: input_t, output: output_t, choose: Callable[[int, str], torch.Tensor]) -> tuple[input_t, output_t]:
    """A few of a's rows."""
    a, b, a_scale, b_scale, c = data
    rows = choose(len(a), "rows").to(a.device)
    return (a.view(torch.uint8)[rows].view(a.dtype), b, a_scale[rows], b_scale, c[rows]), output[rows]


def ref_kernel(data: input_t) -> output_t:
    """Dequantises both operands to fp32, multiplies in fp32, rounds once to bf16. Writes and returns c."""
    a, b, a_scale, b_scale, c = data
    m, k = a.shape
    n = b.shape[0]
    scale_of_a = a_scale.repeat_interleave(BLOCK, dim=1)[:, :k]  # [m, k]
    scale_of_b = b_scale.repeat_interleave(BLOCK, dim=0).repeat_interleave(BLOCK, dim=1)[:n, :k]  # [n, k]
    a32 = a.contiguous().float() * scale_of_a
    b32 = b.float() * scale_of_b
    c.copy_(a32 @ b32.T)
    return c


check_implementation = make_match_reference(ref_kernel, rtol=2e-02, atol=1e-03)
