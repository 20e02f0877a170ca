"""Real GPUs: AMD's used as they are, NVIDIA's with HIP on them. Found without importing torch, which takes seconds."""

import importlib.util
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from forge.device import hook
from forge.device.base import EMULATED, Device, DeviceError, Fingerprint, causes
from forge.device.report import DeviceReport

# The AMD kernel driver lists its nodes here, GPUs and CPUs alike.
KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")
NVIDIA_GPUS = Path("/proc/driver/nvidia/gpus")
NO_GPU_REMEDY = f"use --device {EMULATED} to emulate one"


class Gpu(Device):
    """What the two kinds of GPU have in common."""

    emulated = False
    gpus: list[Any]

    def fingerprint(self) -> Fingerprint:
        return replace(super().fingerprint(), gpus=tuple(self.gpus))

    def begin(self) -> None:
        import torch

        torch.cuda.init()

    def count_work(self, on: bool = True, sample: str = "") -> None:
        pass  # a GPU times its kernels

    def case_report(self) -> DeviceReport:
        return DeviceReport()


class RocmDevice(Gpu):
    """An AMD GPU with a ROCm build of torch: nothing stands between it and the submission."""

    name = "rocm"
    dist_backend = "nccl"  # torch's name for RCCL

    def __init__(self) -> None:
        if missing := rocm_missing():
            raise DeviceError(f"device rocm is not usable here: {missing}; {NO_GPU_REMEDY}")
        self.gpus = amd_gpus()
        self.arch = self.gpus[0]
        self.label = f"{len(self.gpus)} x AMD {self.arch}"

    def environment(self) -> dict[str, str]:
        return {}

    def prepare(self) -> None:
        return None


class CudaDevice(Gpu):
    """An NVIDIA GPU with a CUDA build of torch: Triton kernels run as they are, HIP is built by nvcc (hip_on_cuda/)."""

    name = "cuda"
    dist_backend = "nccl"

    def __init__(self) -> None:
        if missing := cuda_missing():
            raise DeviceError(f"device cuda is not usable here: {missing}; {NO_GPU_REMEDY}")
        self.gpus = nvidia_gpus()
        capability = self.gpus[0]["capability"]
        self.arch = "sm_" + capability.replace(".", "")
        self.label = f"{len(self.gpus)} x {self.gpus[0]['name']}"

    def environment(self) -> dict[str, str]:
        # From 9.0 on, a GPU's own instructions (9.0a) are in no other's code.
        capabilities = {gpu["capability"] for gpu in self.gpus}
        archs = ";".join(sorted(c + "a" * (float(c) >= 9) for c in capabilities))
        return {**hook.environment(hook.CUDA), "TORCH_CUDA_ARCH_LIST": os.environ.get("TORCH_CUDA_ARCH_LIST", archs)}

    def prepare(self) -> None:
        os.environ.update(self.environment())  # for the processes that this one will spawn
        hook.install(hook.CUDA)

    def is_device_fault(self, error: BaseException) -> bool:
        """A torch whose extensions cannot be prepared."""
        return any(type(cause).__name__ == "NotPrepared" for cause in causes(error))


def rocm_missing() -> str:
    """Why device rocm cannot be used here; "" if it can."""
    if not amd_gpus():
        return "no AMD GPU found (the amdgpu driver lists none)"
    if not torch_build("hip"):
        return "there is an AMD GPU, but the installed torch is not a ROCm build"
    return ""


def cuda_missing() -> str:
    """Why device cuda cannot be used here; "" if it can."""
    if not NVIDIA_GPUS.is_dir() or not any(NVIDIA_GPUS.iterdir()):
        return "no NVIDIA GPU found (the NVIDIA driver lists none)"
    if not torch_build("cuda"):
        return "there is an NVIDIA GPU, but the installed torch is not a CUDA build"
    if not nvidia_gpus():
        return "there is an NVIDIA GPU, but nvidia-smi does not list it"
    return ""


def amd_gpus() -> list[str]:
    """The architecture of each AMD GPU that the kernel driver lists, such as ["gfx942", ...]."""
    found = []
    for node in sorted(KFD_NODES.glob("*/properties"), key=lambda path: int(path.parent.name)):
        try:
            pairs = [line.split() for line in node.read_text().splitlines()]
        except OSError:  # a node of another container
            continue
        properties = {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
        target = int(properties.get("gfx_target_version", 0))  # 90402: major 9, minor 4, stepping 2
        if target:  # a CPU's node has 0
            found.append(f"gfx{target // 10000}{target // 100 % 100}{target % 100:x}")
    return found


def nvidia_gpus() -> list[dict[str, str]]:
    """Name, compute capability and driver of each NVIDIA GPU."""
    fields = ("name", "compute_cap", "driver_version")
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
    try:
        listing = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [[cell.strip() for cell in line.split(",")] for line in listing.splitlines() if line.strip()]
    return [{"name": name, "capability": capability, "driver": driver} for name, capability, driver in rows]


def torch_build(kind: str) -> str:
    """The version of "hip" or "cuda" that the installed torch was built with; "" if none."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return ""
    text = (Path(spec.origin).parent / "version.py").read_text()
    built = re.search(rf"^{kind}[^=\n]*= *['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return built[1] if built else ""
