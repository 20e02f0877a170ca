"""Refuses inputs that a kernel would read wrongly, before anything is launched."""

import torch


def current_gpu():
    """Where kernels are launched."""
    return torch.empty(0, device="cuda").device  # not torch.cuda's word: a host that only compiles passes for the GPU


def checked(name, tensor, dtype, shape, device):
    """The tensor, if it has this type and shape, lies on this device without gaps and begins at a multiple of 16 bytes.

    Else a ValueError that names it. shape: a tuple, in which None stands for any size.
    """
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"{name} must be a tensor, got {type(tensor).__name__}")
    if tensor.dtype != dtype or tensor.device != device:
        raise ValueError(f"{name} must be {dtype} on {device}, got {tensor.dtype} on {tensor.device}")
    if tensor.shape != shape and not (
        tensor.dim() == len(shape) and all(n in (None, m) for n, m in zip(shape, tensor.shape))
    ):
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(f"{name} must have shape [{wanted}], got {list(tensor.shape)}")
    if not tensor.is_contiguous() or tensor.data_ptr() % 16:
        place = f"strides {tensor.stride()} at address {tensor.data_ptr():#x}"
        raise ValueError(f"{name} must be contiguous and begin at a multiple of 16 bytes, got {place}")
    return tensor
