"""Runs Triton kernels on the emulated device: a Triton driver and backend for CPU tensors.

Triton compiles and links for the arch as it would beside the real card; the AMDGCN assembly, which travels behind the
linked binary, is what gets loaded, and launches go to `cdna.engine`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from triton import knobs
from triton.backends import Backend
from triton.backends.amd.compiler import HIPBackend
from triton.backends.amd.driver import expand_signature
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from . import tensors
from .cards import Card as Arch
from .counters import trials
from .engine import Kernel, Program, take_records
from .engine import emulated_card as get_arch
from .errors import CdnaError, LaunchError

_FORMATS = {
    "i1": "<b",
    "i8": "<b",
    "i16": "<h",
    "i32": "<i",
    "i64": "<q",
    "u1": "<B",
    "u8": "<B",
    "u16": "<H",
    "u32": "<I",
    "u64": "<Q",
    "fp16": "<e",
    "fp32": "<f",
    "f32": "<f",
    "fp64": "<d",
}
# Stands between a linked binary and its assembly: readers of ELF files take no notice of what follows the sections.
_ASSEMBLY = b"\n; assembly for the emulated device\n"


class EmulatedBackend(HIPBackend):
    """Triton's AMD backend; its binaries have their assembly behind them."""

    def add_stages(self, stages: dict, options: Any, language: Any) -> None:
        super().add_stages(stages, options, language)
        to_ttgir, to_hsaco = stages["ttgir"], stages["hsaco"]

        def with_assembly(assembly: str, metadata: dict) -> bytes:
            # Linked although it is not executed: what LLVM refuses to assemble (inline assembly, say) fails here as
            # it does for a real card, and `kernel.asm` holds what it holds there.
            return to_hsaco(assembly, metadata) + _ASSEMBLY + assembly.encode()

        stages["hsaco"] = with_assembly

        def without_failing_exchange(source: Any, metadata: dict) -> Any:
            # Triton 3.7.1 asks LLVM for a buffer atomic "exch" that LLVM calls "swap", and fails to compile: an
            # exchange is kept away from buffer instructions. The kernel then is what TRITON_HIP_USE_BUFFER_ATOMICS=0
            # gives on a real card.
            if " exch," not in str(source):
                return to_ttgir(source, metadata)
            before = knobs.amd.use_buffer_atomics
            knobs.amd.use_buffer_atomics = False
            try:
                return to_ttgir(source, metadata)
            finally:
                knobs.amd.use_buffer_atomics = before

        stages["ttgir"] = without_failing_exchange

    def hash(self) -> str:
        return super().hash() + "-cdna-elf"  # a real GPU has cache entries of its own


def _flatten(value: Any, signature: Any) -> Iterator[tuple[Any, str]]:
    """(argument, Triton type) of every run-time argument; constexprs are compiled in."""
    if isinstance(signature, tuple):
        for inner, inner_signature in zip(value, signature):
            yield from _flatten(inner, inner_signature)
    elif signature != "constexpr":
        yield value, signature


def _pack(value: Any, type_name: str) -> bytes:
    if type_name.startswith("*"):
        if value is None:
            return bytes(8)
        pointer = value.data_ptr() if hasattr(value, "data_ptr") else int(value)
        return struct.pack("<Q", pointer)
    if type_name == "bf16":  # passed as the upper half of a float, rounded to nearest even
        raw = struct.unpack("<I", struct.pack("<f", float(value)))[0]
        return struct.pack("<H", (raw + 0x7FFF + (raw >> 16 & 1)) >> 16 & 0xFFFF)
    if type_name not in _FORMATS:
        raise LaunchError(f"kernel argument of type {type_name} is not supported by the emulated device")
    number = float(value) if _FORMATS[type_name][1] in "efd" else int(value)
    return struct.pack(_FORMATS[type_name], number)


def _expand_descriptor(descriptor: Any) -> list[Any]:
    """A host tensor descriptor as the arguments that Triton's AMD lowering takes for it."""
    return [
        descriptor.base,
        *descriptor.shape,
        *descriptor.strides,
        descriptor.padding == "nan",
        getattr(descriptor, "round_f32_to_tf32", False),
        *descriptor.shape,
        *descriptor.strides,
    ]


class Launcher:
    """What Triton calls for `kernel[grid](...)`."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self.signature = list(source.signature.values())
        self.names = list(source.signature)
        self.expanded = expand_signature(self.signature, None)
        self.num_warps = metadata.num_warps
        self.lds_bytes = metadata.shared

    def __call__(
        self,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: int,
        kernel: Kernel,
        packed_metadata: Any,
        launch_metadata: Any,
        enter_hook: Callable | None,
        exit_hook: Callable | None,
        *args: Any,
    ) -> None:
        if enter_hook is not None:
            enter_hook(launch_metadata)
        values: list[Any] = []
        names: list[str] = []
        for name, argument, signature in zip(self.names, args, self.signature):
            expanded = (
                _expand_descriptor(argument)
                if isinstance(signature, str) and signature.startswith("tensordesc")
                else [argument]
            )
            values += expanded
            names += [name] * len(expanded)
        kernarg = bytearray(kernel.kernarg_bytes)
        layout = iter(kernel.arguments)
        given: list[tuple[str, Any, str]] = []
        for name, value, signature in zip(names, values, self.expanded):
            for item, type_name in _flatten(value, signature):
                given.append((name, item, type_name))
                slot = next(layout)
                data = _pack(item, type_name)
                kernarg[slot[".offset"] : slot[".offset"] + len(data)] = data
        grid = (int(grid_x), int(grid_y), int(grid_z))
        if min(grid) > 0:
            kernel.launch(
                grid,
                (64 * self.num_warps, 1, 1),
                bytes(kernarg),
                self.lds_bytes - kernel.static_lds_bytes,
                lambda: tensors.memory_of(given),
            )
        if exit_hook is not None:
            exit_hook(launch_metadata)


class _Utils:
    """The part of a Triton driver that loads binaries and knows the device."""

    def __init__(self, arch: Arch) -> None:
        self.arch = arch
        self._programs: dict[bytes, Program] = {}

    def load_binary(
        self, name: str, binary: bytes, lds_bytes: int, device: int
    ) -> tuple[Program, Kernel, int, int, int]:
        """(module, function, registers, spills, most work-items of a workgroup)."""
        assembly = binary.partition(_ASSEMBLY)[2]
        program = self._programs.get(assembly)
        if program is None:
            program = self._programs[assembly] = Program(assembly.decode())
        kernel = program.kernels[name]
        return (
            program,
            kernel,
            kernel.metadata.get(".vgpr_count", 0),
            kernel.metadata.get(".vgpr_spill_count", 0),
            1024,
        )

    def get_device_properties(self, device: int) -> dict[str, Any]:
        """The real card's properties, as Triton asks for them."""
        return {
            "max_shared_mem": self.arch.lds_bytes,
            "warpSize": 64,
            "multiprocessor_count": self.arch.compute_units,
            "arch": self.arch.name,
            "sm_clock_rate": self.arch.clock_mhz * 1000,
            "mem_clock_rate": 0,
            "mem_bus_width": 8192,
            "max_num_regs": self.arch.vgprs_per_lane,
            "cooperativeLaunch": 1,
        }


class Event:
    """A torch.cuda.Event look-alike: the emulated device has no clock, so it counts work instead (see `do_bench`)."""

    work_ms = 0.0

    def __init__(self, enable_timing: bool = False, **_: Any) -> None:
        self.at_ms = 0.0

    def record(self, *_: Any) -> None:
        Event.work_ms += _work_ms()
        self.at_ms = Event.work_ms

    def elapsed_time(self, end: Event) -> float:
        return end.at_ms - self.at_ms

    def synchronize(self) -> None:
        pass


def _work_ms() -> float:
    """Cycles that instructions executed since the last call take of their units, as a stand-in for milliseconds."""
    return sum(record.cycles for record in take_records("bench")) * 1e-6


class _Interface:
    """What triton.testing wants of torch.cuda."""

    Event = Event

    @staticmethod
    def synchronize(device: Any = None) -> None:
        pass

    @staticmethod
    def current_device() -> int:
        return 0


def do_bench(
    fn: Callable[[], Any],
    warmup: int = 25,
    rep: int = 100,
    grad_to_none: Any = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    **_: Any,
) -> Any:
    """triton.testing.do_bench for a device without a clock: runs `fn` once and returns its work.

    The value orders configurations (cycles of the units that execute them); it is no time, and must not be reported as
    one.
    """
    _work_ms()
    with trials():
        fn()
    work = _work_ms()
    if quantiles is not None:
        return [work] * len(quantiles) if len(quantiles) > 1 else work
    return [work] if return_mode == "all" else work


class EmulatedDriver(DriverBase):
    """The active Triton driver while a cdna device is."""

    def __init__(self, arch: Arch) -> None:
        super().__init__()
        self.arch = arch
        self.utils = _Utils(arch)
        self.launcher_cls = Launcher
        # Triton caches compiled kernels by device number: one per arch keeps the archs of one process apart.
        self.device_number = int(arch.name[3:], 16)

    @classmethod
    def is_active(cls) -> bool:
        return False  # never chosen by itself, only by cdna.device

    def get_current_device(self) -> int:
        return self.device_number

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("hip", self.arch.name, 64)

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> type[_Interface]:
        return _Interface

    def get_benchmarker(self) -> Callable:
        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        return None

    def clear_cache(self, cache: Any) -> None:
        pass

    def map_python_to_cpp_type(self, ty: str) -> str:
        raise CdnaError(f"the emulated device launches from Python, no C++ type for {ty} is needed")

    def assemble_tensormap_to_arg(self, tensormaps_info: Any, args: Any) -> Any:
        return args


class Installation:
    """Triton's global state with an emulated device in place; `remove` puts back what was there."""

    def __init__(self, arch_name: str) -> None:
        import triton
        from triton.backends import backends

        if "amd" not in backends:
            raise CdnaError(
                f"Triton {triton.__version__} was built without its AMD backend: install the triton wheel from PyPI"
            )
        self.driver = EmulatedDriver(get_arch(arch_name))
        self._triton = triton
        self._backends = backends
        self._previous = (triton.runtime.driver._active, backends["amd"], triton.testing.do_bench)
        triton.runtime.driver.set_active(self.driver)
        backends["amd"] = Backend(compiler=EmulatedBackend, driver=EmulatedDriver)
        triton.testing.do_bench = do_bench

    def remove(self) -> None:
        self._triton.runtime.driver._active, self._backends["amd"], self._triton.testing.do_bench = self._previous
