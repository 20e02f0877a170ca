"""Which device a tensor claims to be on.

Every tensor really lies in CPU memory. Its claim is a tag in its __dict__: the index of a GPU, or CPU. A
tensor without a tag (made where nothing looks, such as inside autograd) counts as being on the current GPU
and is never the reason of an error.
"""

import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.multiprocessing import reductions
from torch.utils._device import DeviceContext

TAG = "_claimed_device"
PINNED = "_claimed_pinned"
CPU = -1
HOST_INDEX = 127  # of a GPU, where C++ code's factories ask torch's dispatcher for the host's memory
CPU_DEVICE = torch.device("cpu")

# Told of a tensor that is said to be in host memory, or in the GPU's after all, before it is; None: nobody asks.
told: Callable[[torch.Tensor, int], None] | None = None

# Keeps Propagation out of a call, for callers that tag the result themselves. Without it, a C method that is
# replaced in torch.Tensor would hand Propagation its replacement, and so be called twice.
quiet = torch._C.DisableTorchFunction

# C getters, which see the device that the memory is really on.
_REAL_DEVICE = torch._C.TensorBase.device.__get__


class _Current(threading.local):
    """The current GPU is a property of the thread, and starts at 0, as with a real one."""

    index = 0
    ambient: int | None = None  # tag of the operation under way, for what it makes on its way


current = _Current()
_gpu_devices: list[torch.device] = []


def device_count() -> int:
    """Number of emulated GPUs: POPCORN_GPUS, which the leaderboard's runner sets, or 1."""
    try:
        return max(1, int(os.environ.get("POPCORN_GPUS", "1")))
    except ValueError:
        return 1


def gpu(index: int) -> torch.device:
    while len(_gpu_devices) <= index:
        _gpu_devices.append(torch.device("cuda", len(_gpu_devices)))
    return _gpu_devices[index]


def checked(index: int) -> int:
    """`index` if there is such a GPU."""
    if not 0 <= index < device_count():
        count = device_count()
        raise RuntimeError(
            f"HIP error: invalid device ordinal (cuda:{index}; this machine has {count} emulated "
            f"GPU{'s' if count > 1 else ''}, set by POPCORN_GPUS)"
        )
    return index


def target(device: Any) -> int | None:
    """The tag that a `device=` argument asks for; None for a device that is neither GPU nor CPU ("meta")."""
    if device is None:
        device = default_device()
    if type(device) is int:
        return checked(device)
    if type(device) is str:
        device = torch.device(device)
    if device.type == "cuda":
        return current.index if device.index is None else checked(device.index)
    return CPU if device.type == "cpu" else None


def default_device() -> torch.device:
    """Of `with torch.device(...)` or torch.set_default_device: each puts a DeviceContext on the stack."""
    for position in range(torch._C._len_torch_function_stack() - 1, -1, -1):
        mode = torch._C._get_function_stack_at(position)
        if isinstance(mode, DeviceContext):
            return mode.device
    return CPU_DEVICE


def real_device(tensor: torch.Tensor) -> torch.device:
    with quiet():
        return _REAL_DEVICE(tensor)


def tag_of(tensor: torch.Tensor) -> int | None:
    """The tensor's tag: a GPU's index or CPU, None where it has none."""
    return tensor.__dict__.get(TAG)


def mark(tensor: Any, tag: int | None) -> Any:
    """Let a tensor claim a device; returns it."""
    if tag is not None and isinstance(tensor, torch.Tensor):
        if told is not None and CPU in (tag, tensor.__dict__.get(TAG)):
            told(tensor, tag)
        tensor.__dict__[TAG] = tag
    return tensor


def storage_of(tensor: torch.Tensor) -> Any:
    """None if it has none, as a sparse tensor, or a wrapper of vmap's."""
    with quiet(), contextlib.suppress(RuntimeError, NotImplementedError):
        return tensor.untyped_storage()
    return None


def pin(tensor: Any) -> Any:
    """Let a tensor, and all its views, claim to lie in pinned host memory, which a GPU reaches; returns it."""
    setattr(storage_of(tensor), PINNED, True)
    if told is not None:
        told(tensor, CPU)
    return tensor


def is_pinned(tensor: torch.Tensor) -> bool:
    return hasattr(storage_of(tensor), PINNED)


def know_memory(tensor: torch.Tensor, owner: Any = None) -> None:
    """Tell the checks of a GPU's tensor whose memory torch's allocator has not given; owner: what it ends with."""
    if told is not None:
        from cdna.engine.library import engine

        lib, storage = engine().lib, storage_of(tensor)
        lib.cdna_know_block(storage.data_ptr(), storage.nbytes())
        if owner is not None:
            weakref.finalize(owner, lib.cdna_forget_block, storage.data_ptr()).atexit = False


def tell_checks() -> None:
    """From now on, have the checks of launches told which tensors no kernel reaches."""
    global told
    from cdna.checks.launch_checks import OF_DEVICE, OF_HOST, expect_claims
    from cdna.checks.launch_checks import PINNED as REACHED

    claim = expect_claims()

    def tell(tensor: torch.Tensor, tag: int) -> None:
        storage = storage_of(tensor)
        if storage is not None:
            claim(storage.data_ptr(), OF_DEVICE if tag != CPU else REACHED if hasattr(storage, PINNED) else OF_HOST)

    told = tell


def device_of(tag: int) -> torch.device:
    return CPU_DEVICE if tag == CPU else gpu(tag)


def claimed(tensor: torch.Tensor) -> torch.device:
    """The device that the tensor shows to a submission."""
    tag = tensor.__dict__.get(TAG)
    if tag is None:
        real = real_device(tensor)
        return gpu(current.index) if real.type == "cpu" else real
    return device_of(tag)


def publish(function: Callable[..., Any]) -> None:
    """Let pickle find a function in torch: the receiving process may not have imported this package yet."""
    function.__module__ = reductions.__name__
    setattr(reductions, function.__name__, function)
