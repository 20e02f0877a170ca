"""What every variant of skinny-gemm-fp8 does on the host: checks its inputs, registers the PyTorch operator."""

import torch

from kernels.common.tensor_checks import check_on_gpu, check_tensor

WORKGROUPS = 2 * 304  # two for each CU of an MI300X


def split_k(n_tiles, k, block_k):
    """Slices of k that fill the card with two workgroups a CU, each with two blocks of block_k at least."""
    return max(1, min(WORKGROUPS // n_tiles, k // (2 * block_k)))


def check_inputs(a, b, scale, fp8_types):
    """(m, n, k); ValueError unless skinny_gemm_fp8 takes these, of one of fp8_types."""
    check_on_gpu("a", a)
    m, k = a.shape if a.dim() == 2 else (0, 0)
    if not 1 <= m <= 32 or k < 64 or k % 64:
        raise ValueError(f"a must have the shape [m, k] with m at most 32 and k a multiple of 64, got {list(a.shape)}")
    n = b.shape[0] if b.dim() == 2 else 0
    if n < 1:
        raise ValueError(f"b must have the shape [n, {k}] with n at least 1, got {list(b.shape)}")
    check_tensor("a", a, (m, k), *fp8_types, device=a.device)
    check_tensor("b", b, (n, k), a.dtype, device=a.device)
    check_tensor("scale", scale, (1,), torch.float32, device=a.device)
    return m, n, k


def register_operator(skinny_gemm_fp8):
    """torch.ops.cdna_forge.skinny_gemm_fp8: this function for models, torch.compile and graphs."""

    @torch.library.custom_op("cdna_forge::skinny_gemm_fp8", mutates_args=())
    def operator(a: torch.Tensor, b: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return skinny_gemm_fp8(a, b, scale)

    @operator.register_fake
    def fake(a, b, scale):
        return a.new_empty((a.shape[0], b.shape[0]), dtype=torch.float16)
