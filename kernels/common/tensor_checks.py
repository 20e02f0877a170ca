"""What a kernel's host side asks of the tensors that it is given, before anything is launched."""

import torch


def check_on_gpu(name, x):
    """ValueError unless x lies on the current GPU, where kernels are launched."""
    if x.is_cuda:
        if x.device.index != torch.cuda.current_device():
            raise ValueError(f"{name} must be on the current GPU, cuda:{torch.cuda.current_device()}, got {x.device}")
    elif torch.empty(0, device="cuda").is_cuda:  # where kernels are only compiled, the host passes for the GPU
        raise ValueError(f"{name} must be on a GPU, got {x.device}")


def check_tensor(name, x, shape, *dtypes, device=None):
    """ValueError with tensor and rule, unless x has this shape, one of these dtypes and this device, and lies in one
    piece that begins at a multiple of 16 bytes, as what torch allocates does. A single number may lie anywhere."""
    if tuple(x.shape) != tuple(shape):
        raise ValueError(f"{name} must have the shape {tuple(shape)}, got {tuple(x.shape)}")
    if x.dtype not in dtypes:
        raise ValueError(f"{name} must be {' or '.join(map(str, dtypes))}, got {x.dtype}")
    if not x.is_contiguous():
        raise ValueError(f"{name} must be contiguous, got strides {tuple(x.stride())} for the shape {tuple(x.shape)}")
    if x.numel() > 1 and x.data_ptr() % 16:
        raise ValueError(f"{name} must begin at a multiple of 16 bytes, got one at {x.data_ptr():#x}")
    if device is not None and x.device != device:
        raise ValueError(f"{name} must be on {device}, where the other tensors are, got {x.device}")


def round_up(n, multiple):
    return -(-n // multiple) * multiple
