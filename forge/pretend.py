"""What check_worker.py puts in a GPU's place: enough for host code to decide what it launches, no more."""

from __future__ import annotations

import types
from typing import Any

import torch
from triton.backends.compiler import GPUTarget

from forge.device.cards import CARDS, HIP_VERSION


class CompileOnly:
    """Stands in for Triton's driver: knows the target, has no device."""

    def __init__(self, arch: str) -> None:
        self.target = GPUTarget("hip", arch, 64)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        return torch.cuda


def pretend_gpu(arch: str) -> None:
    """What host code asks torch.cuda for, where fake tensors do not answer."""
    card = CARDS[arch]
    properties = types.SimpleNamespace(
        name=card.name,
        gcnArchName=card.arch_name,
        multi_processor_count=card.compute_units,
        warp_size=64,
        total_memory=card.total_memory_bytes,
        major=card.capability[0],
        minor=card.capability[1],
    )
    generator = torch.Generator

    class Generator(generator):  # type: ignore[misc, valid-type]
        def __new__(cls, device: Any = "cpu") -> Any:
            return generator()  # draws nothing: the tensors are fake

    torch.Generator = Generator
    torch.version.hip = HIP_VERSION
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: 1
    torch.cuda.current_device = lambda: 0
    torch.cuda.set_device = lambda device: None
    torch.cuda.synchronize = lambda device=None: None
    torch.cuda.empty_cache = lambda: None
    torch.cuda.get_device_name = lambda device=None: card.name
    torch.cuda.get_device_capability = lambda device=None: card.capability
    torch.cuda.get_device_properties = lambda device=None: properties
