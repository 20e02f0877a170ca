"""What a kernel's host side asks about fp8 outputs, before anything is launched."""

import torch

from kernels.common.tensor_checks import check_tensor

FNUZ_ONLY = (torch.float8_e4m3fnuz,)  # CDNA3's own
FP8_TYPES = (*FNUZ_ONLY, torch.float8_e4m3fn)  # and OCP's


def check_quantisation(scale, fp8, fp8_types, clear, device):
    """ValueError unless scale is fp32 [1], fp8 one of fp8_types, and clear None or a contiguous tensor, all there."""
    check_tensor("scale", scale, (1,), torch.float32, device=device)
    if fp8 not in fp8_types:
        raise ValueError(f"fp8 must be {' or '.join(map(str, fp8_types))}, got {fp8}")
    if clear is not None:
        check_tensor("clear", clear, clear.shape, clear.dtype, device=device)
        if clear.numel() >= 1 << 30:
            raise ValueError(f"clear must have fewer than 2^30 elements, got {clear.numel()}")
