"""Triton on an emulated GPU: cdna launches the kernels, and what it cannot know of torch is added here."""

from __future__ import annotations

import functools
from typing import Any

import torch
import triton

import cdna
from cdna.triton_driver import Launcher
from forge.device.asgpu import graphs, tags

# A launcher is called with the grid, the queue, the kernel, two kinds of metadata and two hooks before the
# kernel's own arguments.
LEADING_ARGUMENTS = 9


class CheckedLauncher(Launcher):
    """Refuses a tensor in host memory, as the driver of a real GPU does."""

    def __call__(self, *args: Any) -> None:
        for position, value in enumerate(args[LEADING_ARGUMENTS:]):
            if (
                isinstance(value, torch.Tensor)
                and tags.tag_of(value) == tags.CPU
                and not tags.is_pinned(value)
            ):
                raise ValueError(
                    f"Pointer argument (at {position}) cannot be accessed from Triton (cpu tensor?)"
                )
        if not graphs.record(functools.partial(super().__call__, *args)):
            super().__call__(*args)


def apply(arch: str) -> None:
    cdna.install(arch)
    driver = triton.runtime.driver.active
    driver.launcher_cls = CheckedLauncher
    driver.get_active_torch_device = lambda: tags.gpu(tags.current.index)
    # As on a real GPU, Triton's caches of compiled kernels go by the number that torch.cuda.current_device() gives.
    driver.get_current_device = lambda: tags.current.index
    driver.set_current_device = torch.cuda.set_device
