"""skinny-gemm-fp8: c = (a @ b.T) * scale for at most 32 rows of a, operands e4m3fnuz, c fp16.

A projection of Llama 3.1 405B while decoding a small batch: b has to come from memory, a fits in a cache.
Products are summed in fp32 and rounded to fp16 once.
"""

import torch

from task import input_t, output_t
from utils import make_match_reference

FP8 = torch.float8_e4m3fnuz
FP8_MAX = torch.finfo(FP8).max  # 240
SPREAD = 32  # standard deviation of the operands: their largest values fill the range of the type
B_ROWS_AT_ONCE = 2048  # fp32 copies of b in pieces: whole, the largest would take 870 MB


def generate_input(m: int, n: int, k: int, seed: int) -> input_t:
    """Returns (a, b, scale):

    a      e4m3fnuz [m, k]
    b      e4m3fnuz [n, k], k contiguous: in BLAS terms a column-major [k, n]
    scale  fp32 [1], drawn so that c has a standard deviation of 0.5 to 1.5
    """
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        values = torch.randn(shape, dtype=torch.bfloat16, device="cuda", generator=gen)
        return (values * SPREAD).clamp_(-FP8_MAX, FP8_MAX).to(FP8)

    a, b = normal(m, k), normal(n, k)
    scale = (0.5 + torch.rand(1, dtype=torch.float32, device="cuda", generator=gen)) / (SPREAD**2 * k**0.5)
    return a, b, scale


@torch.no_grad()
def ref_kernel(data: input_t) -> output_t:
    """Returns c: fp16 [m, n]."""
    a, b, scale = data
    pieces = [a.float() @ rows.float().T for rows in b.split(B_ROWS_AT_ONCE)]  # fp32 [m, up to 2048] each
    return (torch.cat(pieces, dim=1) * scale).half()


# Room for split-K sums in fp16 atomics: 64 splits come to 0.75 of it. Zeros miss it everywhere but near 0.
check_implementation = make_match_reference(ref_kernel, rtol=5e-3, atol=5e-3)
