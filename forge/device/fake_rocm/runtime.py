"""torch.cuda, torch.accelerator and torch.version of an emulated GPU.

torch's own Python code runs unchanged wherever it can: what a CPU build lacks are the C functions below it.
"""

import collections
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from cdna.cards import Card
from forge.device.cards import CARDS, HIP_VERSION, MIB, WARP_SIZE
from forge.device.fake_rocm import hip, streams, tags


@dataclass(frozen=True)
class DeviceProperties:
    """torch.cuda.get_device_properties(), with the attribute names that it has there."""

    name: str
    major: int
    minor: int
    gcnArchName: str
    total_memory: int
    multi_processor_count: int
    warp_size: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    L2_cache_size: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    regs_per_multiprocessor: int = 65536
    max_threads_per_multi_processor: int = 2048
    max_threads_per_block: int = 1024
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    pci_bus_id: int = 0
    pci_device_id: int = 0
    pci_domain_id: int = 0
    uuid: str = "00000000-0000-0000-0000-000000000000"

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"gcnArchName='{self.gcnArchName}', total_memory={self.total_memory // MIB}MB, "
            f"multi_processor_count={self.multi_processor_count}, uuid={self.uuid}, "
            f"L2_cache_size={self.L2_cache_size // MIB}MB)"
        )


def properties(card: Card) -> DeviceProperties:
    major, minor = card.capability
    return DeviceProperties(
        name=card.product,
        major=major,
        minor=minor,
        gcnArchName=card.target_id,
        total_memory=card.memory_bytes,
        multi_processor_count=card.compute_units,
        warp_size=WARP_SIZE,
        clock_rate=card.clock_mhz * 1000,
        memory_clock_rate=card.memory_clock_mhz * 1000,
        memory_bus_width=card.memory_bus_bits,
        L2_cache_size=card.l2_bytes,
        shared_memory_per_block=card.lds_bytes,
        shared_memory_per_block_optin=card.lds_bytes,
        shared_memory_per_multiprocessor=card.lds_bytes,
    )


def _host_available_bytes() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _exchange_device(index: int) -> int:
    """Make `index` current, unless it is negative; returns the one before."""
    before = tags.current.index
    if index >= 0:
        tags.current.index = tags.checked(index)
        hip.set_device(index)
    return before


class _Ranges:
    """The C side of torch.cuda.nvtx: keeps count, shows nothing."""

    def __init__(self) -> None:
        self.depth = 0
        self.started = 0

    def rangePushA(self, message: str) -> int:
        self.depth += 1
        return self.depth - 1

    def rangePop(self) -> int:
        self.depth -= 1
        return self.depth

    def rangeStartA(self, message: str) -> int:
        self.started += 1
        return self.started

    def rangeEnd(self, handle: int) -> None:
        pass

    def markA(self, message: str) -> None:
        pass


def _nothing(*args: Any, **kwargs: Any) -> None:
    """For calls that only order, free or announce work."""


def _no_statistics(device: Any = None) -> dict[str, int]:
    """The caching allocator's counters. There is no such allocator here: each of them reads zero."""
    return collections.defaultdict(int, num_alloc_retries=0, num_ooms=0)


# torch.cuda.tunable chooses among hipBLASLt's kernels, of which there is none here.
TUNING: tuple[str, ...] = (
    "enable",
    "tuning_enable",
    "record_untuned_enable",
    "set_filename",
    "set_rotating_buffer_size",
)
TUNING += ("set_max_tuning_duration", "set_max_tuning_iterations", "set_numerical_check_tolerances")


def _preference(original: Callable[..., Any]) -> Callable[..., Any]:
    """A setter of torch.backends.cuda that only reads: a CPU build refuses to prefer a GPU's library."""
    return lambda backend=None: original()


def _c_functions(card: Card) -> dict[str, Any]:
    """What torch.cuda calls in torch._C, where a CPU build has nothing."""
    return {
        "_cuda_getDeviceCount": tags.device_count,
        "_cuda_getDevice": lambda: tags.current.index,
        "_cuda_setDevice": _exchange_device,
        "_cuda_exchangeDevice": _exchange_device,
        "_cuda_maybeExchangeDevice": _exchange_device,
        "_cuda_synchronize": hip.synchronize,
        "_cuda_isInBadFork": lambda: False,
        "_cuda_emptyCache": _nothing,
        "_cuda_ipc_collect": _nothing,
        "_cuda_sleep": _nothing,
        "_cuda_getArchFlags": lambda: card.name,
        "_cuda_canDeviceAccessPeer": lambda device, peer: device != peer,
        "_cuda_getCompiledVersion": lambda: 0,
        "_cuda_resetPeakMemoryStats": _nothing,
        "_cuda_resetAccumulatedMemoryStats": _nothing,
        "_cuda_set_sync_debug_mode": _nothing,
        "_cuda_get_sync_debug_mode": lambda: 0,
        "_cuda_setMemoryFraction": _nothing,
        "_cuda_getMemoryFraction": lambda device: 1.0,
    }


_DTYPES = tuple(x for x in vars(torch).values() if isinstance(x, torch.dtype) and not str(x).startswith("torch.q"))


def _accelerator_functions(memory: Callable[[int], tuple[int, int]]) -> dict[str, Any]:
    """What torch.accelerator calls in torch._C, where a CPU build says that there is none."""
    return {
        "_accelerator_getAccelerator": lambda: torch.device("cuda"),
        "_accelerator_getDeviceIndex": lambda: tags.current.index,
        "_accelerator_setDeviceIndex": _exchange_device,
        "_accelerator_exchangeDevice": _exchange_device,
        "_accelerator_maybeExchangeDevice": _exchange_device,
        "_accelerator_getStream": streams.current_stream,
        "_accelerator_setStream": streams.set_stream,
        "_accelerator_synchronizeDevice": lambda *device: hip.synchronize(),
        "_accelerator_emptyCache": _nothing,
        "_accelerator_emptyHostCache": _nothing,
        "_accelerator_isAllocatorInitialized": lambda: False,  # statistics are empty, and resetting them does nothing
        "_accelerator_getMemoryInfo": memory,
        "_accelerator_getDeviceCapability": lambda device: {"supported_dtypes": set(_DTYPES)},
    }


def apply(arch: str) -> None:
    card = CARDS[arch]
    torch.version.hip = HIP_VERSION
    torch.version.cuda = None
    cuda = torch.cuda
    known = properties(card)

    def memory(device: int) -> tuple[int, int]:
        return min(_host_available_bytes(), known.total_memory), known.total_memory

    for name, function in (_c_functions(card) | _accelerator_functions(memory)).items():
        setattr(torch._C, name, function)
    cuda._initialized = True
    cuda.is_available = lambda: True
    cuda.device_count = cuda.random.device_count = tags.device_count
    cuda.memory_stats = cuda.memory.memory_stats = _no_statistics
    cuda.set_stream = streams.set_stream
    cuda.nvtx._nvtx = _Ranges()
    for name, value in {
        "_get_device_properties": lambda index: known,
        "_exchange_device": _exchange_device,
        "_maybe_exchange_device": _exchange_device,
        "_is_in_bad_fork": lambda: False,  # as a CUDA build says in forks of a process that has asked for devices
        "_cudart": SimpleNamespace(
            cudaMemGetInfo=memory,
            cudaProfilerStart=lambda: 0,
            cudaProfilerStop=lambda: 0,
            cudaDeviceSynchronize=lambda: 0,
            cudaGetErrorString=lambda code: f"error {code}",
            cudaError=SimpleNamespace(success=0),
        ),
    }.items():
        setattr(cuda, name, value)
    backends = torch.backends.cuda
    for name in ("preferred_blas_library", "preferred_linalg_library", "preferred_rocm_fa_library"):
        setattr(backends, name, _preference(getattr(backends, name)))
    for name in TUNING:
        setattr(torch.cuda.tunable, name, _nothing)
    torch.cuda.tunable.is_enabled = lambda: False
