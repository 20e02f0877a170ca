"""swiglu-fp8: out = fp8(silu(gate) * up / scale), between the two GEMMs of Llama 3.1 405B's MLP in FP8.

Everything between the fp16 input and the fp8 output is fp32: silu(g) = g / (1 + exp(-g)), times up, times
1 / scale, clamped to +-240, the largest value of e4m3fnuz, and rounded to nearest with ties to even.
"""

import torch
import torch.nn.functional as F

from task import input_t, output_t
from utils import match_fp8

FP8 = torch.float8_e4m3fnuz
FP8_MAX = torch.finfo(FP8).max  # 240; beyond it the conversion gives NaN, not 240


def generate_input(rows: int, n: int, seed: int) -> input_t:
    """Returns (gate_up, scale):

    gate_up  fp16 [rows, 2*n], a row's n columns of gate, then its n of up
    scale    fp32 [1], drawn so that some elements get clamped
    """
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    gate_up = torch.randn((rows, 2 * n), dtype=torch.float16, device="cuda", generator=gen)
    scale = (1 + torch.rand(1, dtype=torch.float32, device="cuda", generator=gen)) / 96
    return gate_up, scale


@torch.no_grad()
def ref_kernel(data: input_t) -> output_t:
    """Returns out: e4m3fnuz [rows, n]."""
    gate_up, scale = data
    gate, up = gate_up.float().chunk(2, dim=-1)  # fp32 [rows, n] each
    return (F.silu(gate) * up * (1 / scale)).clamp(-FP8_MAX, FP8_MAX).to(FP8)


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """To a step of fp8: see utils.match_fp8."""
    return match_fp8(output, ref_kernel(data))
