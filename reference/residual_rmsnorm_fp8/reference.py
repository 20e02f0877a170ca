"""residual-rmsnorm-fp8: residual += x; out = fp8(rmsnorm(residual) * weight / scale), of Llama 3.1 405B.

Rounded in the model's own order, as Hugging Face's LlamaRMSNorm and vLLM's fused kernel have it:

    residual = x + residual                        fp16
    r        = rsqrt(mean(residual^2) + eps)       fp32, one for each row
    y        = fp16(residual * r) * weight         product in fp32, rounded; product in fp16
    out      = e4m3fnuz(clamp(y * (1 / scale)))    fp32; to +-240, the type's largest; nearest, ties to even
"""

import torch

from task import input_t, output_t
from utils import match_fp8, verbose_allequal

FP8 = torch.float8_e4m3fnuz
FP8_MAX = torch.finfo(FP8).max  # 240; beyond it the conversion gives NaN, not 240
EPS = 1e-5  # rms_norm_eps of Llama 3.1


def generate_input(rows: int, hidden: int, seed: int) -> input_t:
    """Returns (x, residual, weight, scale, eps):

    x         fp16 [rows, hidden]
    residual  fp16 [rows, hidden], which the kernel updates in place
    weight    fp16 [hidden]
    scale     fp32 [1], drawn so that 240 * scale is 2.5 to 5 standard deviations: some elements get clamped
    eps       float
    """
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    x = torch.randn((rows, hidden), dtype=torch.float16, device="cuda", generator=gen)
    residual = torch.randn((rows, hidden), dtype=torch.float16, device="cuda", generator=gen)
    weight = 1 + 0.1 * torch.randn(hidden, dtype=torch.float16, device="cuda", generator=gen)
    scale = (1 + torch.rand(1, dtype=torch.float32, device="cuda", generator=gen)) / 96
    return x, residual, weight, scale, EPS


@torch.no_grad()
def ref_kernel(data: input_t) -> output_t:
    """Returns (out, residual) and leaves data as it is."""
    x, residual, weight, scale, eps = data
    residual = x + residual  # fp16 [rows, hidden]
    wide = residual.float()
    r = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)  # fp32 [rows, 1]
    y = (wide * r).half() * weight
    out = (y.float() * (1 / scale)).clamp(-FP8_MAX, FP8_MAX).to(FP8)
    return out, residual


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """The residual exactly, since an fp16 addition has one result; out to a step of fp8 (utils.match_fp8)."""
    if not isinstance(output, (tuple, list)) or len(output) != 2:
        return False, f"output is of type {type(output).__name__}, wanted the two tensors (out, residual)"
    out, residual = ref_kernel(data)
    same, reasons = verbose_allequal(output[1], residual, same_dtype=True)
    if not same:
        return False, "residual: " + "; ".join(reasons)
    good, reason = match_fp8(output[0], out)
    return good, "out: " + reason
