"""Devices: which GPU, real or emulated, a submission runs on. `resolve` is cheap and imports no torch."""

import os

from forge.device import triton_versions
from forge.device.base import Device, DeviceError
from forge.device.cards import CARDS
from forge.device.emulated import EmulatedDevice
from forge.device.gpu import CudaDevice, RocmDevice, cuda_missing, rocm_missing

NAMES = ("auto", "rocm", "cuda", *CARDS)

__all__ = ["NAMES", "Device", "DeviceError", "prepare", "resolve"]


def resolve(name: str, arch: str) -> Device:
    """The device called `name`; `arch` is the architecture of the problem's own GPU.

    `auto` is the first that this machine has of: an AMD GPU, an NVIDIA GPU, `arch` emulated.
    """
    if name not in NAMES:
        raise DeviceError(f"unknown device {name!r}: choose one of {', '.join(NAMES)}")
    if name == "auto":
        name = "rocm" if not rocm_missing() else "cuda" if not cuda_missing() else arch
    if name == "rocm":
        return RocmDevice()
    if name == "cuda":
        return CudaDevice()
    if name not in CARDS:
        raise DeviceError(
            f"architecture {name!r} cannot be emulated: this machine has no GPU that torch can use, "
            f"so name --device {' or '.join(CARDS)}"
        )
    return EmulatedDevice(CARDS[name])


def prepare(arch: str) -> None:
    """Make the emulated `arch` torch's device "cuda" in this process and those it starts: for cdna's pytest plugin."""
    device = resolve(arch, arch)
    triton_versions.take(os.environ.get(triton_versions.VARIABLE) or triton_versions.INSTALLED)
    device.prepare()
