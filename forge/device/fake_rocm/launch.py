"""Triton on an emulated GPU: cdna launches the kernels, and what it cannot know of torch is added here."""

import contextlib
import fcntl
import functools
import importlib
import os
from collections.abc import Callable
from typing import Any

import torch
import triton

import cdna
from cdna.engine.build import generated_headers
from cdna.triton.launcher import Launcher
from forge.device.fake_rocm import capturing, tags
from forge.device.fake_rocm import kept as builder

# A launcher is called with the grid, the queue, the kernel, two kinds of metadata and two hooks before the
# kernel's own arguments.
LEADING_ARGUMENTS = 9

# What the first HIP extension of a process imports, half a second of a core: hipify's tables above all, and setuptools,
# for which torch.utils.cpp_extension asks. That itself stays out: a submission that forgets to import it would find it.
OF_EXTENSIONS = (
    "setuptools",
    "torch.utils.hipify.hipify_python",
    "forge.device.fake_rocm.hipify",
    "forge.device.fake_rocm.locks",
    "forge.device.fake_rocm.torch_headers",
    "cdna.hip.run",
    "cdna.checks.launch_checks",
)


class CheckedLauncher(Launcher):
    """Refuses a tensor in host memory, as the driver of a real GPU does."""

    def __call__(self, *args: Any) -> None:
        for position, value in enumerate(args[LEADING_ARGUMENTS:]):
            if isinstance(value, torch.Tensor) and tags.tag_of(value) == tags.CPU and not tags.is_pinned(value):
                raise ValueError(f"Pointer argument (at {position}) cannot be accessed from Triton (cpu tensor?)")
        if not capturing.record(functools.partial(super().__call__, *args)):
            super().__call__(*args)


def apply(arch: str) -> None:
    cdna.install(arch)
    builder.serve_triton()
    driver = triton.runtime.driver.active
    driver.launcher_cls = CheckedLauncher
    driver.get_active_torch_device = lambda: tags.gpu(tags.current.index)
    # As on a real GPU, Triton's caches of compiled kernels go by the number that torch.cuda.current_device() gives.
    driver.get_current_device = lambda: tags.current.index
    driver.set_current_device = torch.cuda.set_device


def share_among_forks() -> None:
    """Take the costs of a first launch and a first extension, before ranks are forked; they then compile one at a time:
    all want the same kernels at the same time, and the others find them in Triton's cache."""
    import triton.experimental.gluon.nvidia.hopper  # with the first launch

    for name in OF_EXTENSIONS:
        with contextlib.suppress(ImportError):  # who needs it says so
            importlib.import_module(name)
    generated_headers()
    triton.runtime.cache.triton_key()
    triton.compiler.compile = one_at_a_time(triton.compiler.compile)


def one_at_a_time(compile: Callable[..., Any]) -> Callable[..., Any]:
    lock = os.memfd_create("compiling")  # lockf, unlike flock, keeps processes apart that were forked with it open

    @functools.wraps(compile)
    def compile_alone(*args: Any, **kwargs: Any) -> Any:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        try:
            return compile(*args, **kwargs)
        finally:
            fcntl.lockf(lock, fcntl.LOCK_UN)

    return compile_alone
