"""amd-mxfp4-mm: c = MXFP4(a) @ MXFP4(b).T, a bf16 and quantised on the way in, b given quantised, c bf16.

The leaderboard's reference calls aiter: dynamic_mxfp4_quant of its Triton operators, then gemm_a4w4. The
former scales in "even" mode and rounds ties to the even code; the latter accumulates in fp32 and rounds once,
to bf16.
"""

import torch

from task import input_t, output_t
from utils import make_match_reference, mxfp4_dequantize, mxfp4_quantize, shuffle_scale, shuffle_weight

TILE_ROWS, TILE_K = 16, 64  # of the weight shuffle, in elements


def generate_input(m: int, n: int, k: int, seed: int) -> input_t:
    """Returns (a, b, b_q, b_shuffle, b_scale_sh):

    a           bf16 [m, k]
    b           bf16 [n, k]
    b_q         fp4x2 [n, k/2]: MXFP4 codes of b, two to a byte, even k in the low nibble
    b_shuffle   fp4x2 [n, k/2]: the same bytes in the order of utils.shuffle_weight
    b_scale_sh  e8m0 [n up to 256, k/32 up to 8]: scales of b in the order of utils.shuffle_scale
    """
    if n % TILE_ROWS or k % TILE_K:
        raise ValueError(f"n must be a multiple of {TILE_ROWS} and k of {TILE_K}, got {n=} {k=}")
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    a = torch.randn((m, k), dtype=torch.bfloat16, device="cuda", generator=gen)
    b = torch.randn((n, k), dtype=torch.bfloat16, device="cuda", generator=gen)
    codes, scales = mxfp4_quantize(b)
    b_q = codes.view(torch.float4_e2m1fn_x2)
    return a, b, b_q, shuffle_weight(b_q), shuffle_scale(scales).view(torch.float8_e8m0fnu)


@torch.no_grad()
def ref_kernel(data: input_t) -> output_t:
    """fp32 product of the dequantised operands, every term of it exact, rounded to bf16 [m, n]."""
    a, b, *_ = data
    a_dequantised = mxfp4_dequantize(*mxfp4_quantize(a))  # fp32 [m, k]
    b_dequantised = mxfp4_dequantize(*mxfp4_quantize(b))  # fp32 [n, k]; b's codes are those of b_q
    return (a_dequantised @ b_dequantised.T).to(torch.bfloat16)


check_implementation = make_match_reference(ref_kernel, rtol=1e-02, atol=1e-02)
