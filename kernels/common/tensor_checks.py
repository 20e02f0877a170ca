"""What a kernel's host side asks of the tensors that it is given, before anything is launched."""

import torch


def check_on_gpu(name, x):
    """ValueError unless x lies on the current GPU, where kernels are launched."""
    if x.is_cuda:
        if x.device.index != torch.cuda.current_device():
            raise ValueError(f"{name} must be on the current GPU, cuda:{torch.cuda.current_device()}, got {x.device}")
    elif torch.empty(0, device="cuda").is_cuda:  # where kernels are only compiled, the host passes for the GPU
        raise ValueError(f"{name} must be on a GPU, got {x.device}")


def check_tensor(name, x, dtypes, shape, device):
    """ValueError, of one line, unless x is contiguous and of one of these dtypes, of this shape, on this device."""
    if x.dtype not in dtypes:
        raise ValueError(f"{name} must be {' or '.join(map(str, dtypes))}, got {x.dtype}")
    if x.shape != shape:
        raise ValueError(f"{name} must have the shape {list(shape)}, got {list(x.shape)}")
    if x.device != device:
        raise ValueError(f"{name} must be on {device} like the first input, got {x.device}")
    if not x.is_contiguous():
        raise ValueError(f"{name} must be contiguous, got the strides {list(x.stride())} of shape {list(x.shape)}")
