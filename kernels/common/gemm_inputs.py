"""What the host side of a GEMM does with its inputs: refuse, align, pad."""

import torch


def check_gemm_inputs(a, w, bias):
    """ValueError unless a is [rows, k], w [n, k], bias [n] or None, all bf16, on the GPU where kernels are launched."""
    if a.dim() != 2 or w.dim() != 2 or a.shape[1] != w.shape[1] or 0 in a.shape or 0 in w.shape:
        raise ValueError(f"input [rows, k] and weight [n, k] expected, got {tuple(a.shape)} and {tuple(w.shape)}")
    if bias is not None and bias.shape != w.shape[:1]:
        raise ValueError(f"bias [{w.shape[0]}] expected, got {tuple(bias.shape)}")
    current = torch.empty(0, device="cuda").device  # the host where kernels are only compiled: it passes for the GPU
    if a.device != current:
        raise ValueError(f"the input must be on a GPU, the current one ({current}), got {a.device}")
    for name, x in (("input", a), ("weight", w), ("bias", bias)):
        if x is not None and x.dtype != torch.bfloat16:
            raise ValueError(f"{name} must be bfloat16, got {x.dtype}")
        if x is not None and x.device != a.device:
            raise ValueError(f"{name} must be on the GPU of the input, got {x.device}")


def input_key(a, w, bias):
    """What decides whether a plan made for other inputs serves these; aligned() sees to the rest."""
    of_bias = None if bias is None else (bias.shape, bias.dtype, bias.device)
    return (a.shape, w.shape, a.dtype, w.dtype, a.device, w.device, of_bias)


def check_hip_gemm_inputs(a, w, bias):
    """ValueError where bf16_gemm.h cannot take them."""
    check_gemm_inputs(a, w, bias)
    for name, size in (("k", w.shape[1]), ("n", w.shape[0])):
        if 2 * 256 * size >= 1 << 31:  # offsets within a tile have 31 bits
            raise ValueError(f"{name}={size} is too large: 256 rows of it take 2 GiB or more")


def multiple_of_8(n):
    return -(-n // 8) * 8


def padded_to_8(x):
    """x with zeros after its last row and column, so that accesses of 16 bytes fit rows and columns."""
    pads = [pad for size in reversed(x.shape) for pad in (0, multiple_of_8(size) - size)]
    return torch.nn.functional.pad(x, pads)


def aligned(x):
    """Contiguous, and beginning at a multiple of 16 bytes."""
    if x.is_contiguous() and x.data_ptr() % 16 == 0:
        return x
    return x.clone(memory_format=torch.contiguous_format)
