"""What amd-mxfp4-mm's variants take."""

import torch

from kernels.common.tensor_checks import check_tensor, round_up


def check_inputs(a, b_shuffle, b_scale_sh):
    """ValueError unless the tensors are as `custom_kernel` says."""
    if a.dim() != 2 or b_shuffle.dim() != 2:
        raise ValueError(
            f"a [M, K] and b_shuffle [N, K/2] expected, got shapes {tuple(a.shape)} and {tuple(b_shuffle.shape)}"
        )
    (m, k), n = a.shape, b_shuffle.shape[0]
    if m < 1 or n < 16 or n % 16 or k < 64 or k % 64:
        raise ValueError(f"a, b_shuffle: M >= 1, N a multiple of 16 and K of 64 expected, got {m=} {n=} {k=}")
    if max(m, n) * k >= 1 << 31 or m * n >= 1 << 31:
        raise ValueError(f"a, b_shuffle: offsets of 31 bits do not reach all elements at {m=} {n=} {k=}")
    check_tensor("a", a, (m, k), torch.bfloat16)
    check_tensor("b_shuffle", b_shuffle, (n, k // 2), torch.float4_e2m1fn_x2, torch.uint8, device=a.device)
    padded = (round_up(n, 256), round_up(k // 32, 8))
    check_tensor("b_scale_sh", b_scale_sh, padded, torch.float8_e8m0fnu, torch.uint8, device=a.device)
