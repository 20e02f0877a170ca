"""Runs Triton kernels on the emulated device: a Triton driver and backend for CPU tensors.

Triton compiles and links for the arch as it would beside the real card; the AMDGCN assembly, which travels behind the
linked binary, is what gets loaded (the binary itself where inline assembly took an assembler), and launches go to
`cdna.launch.program`.
"""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import triton
from triton.backends import Backend
from triton.backends.amd.compiler import HIPBackend
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.compiler import CompiledKernel
from triton.runtime.autotuner import Autotuner

from .. import checks
from ..binary.asm import AsmFile
from ..binary.compiled import parsed
from ..binary.compiler_notes import warn_of
from ..cards import Card
from ..engine.settings import emulated_card
from ..launch.program import Kernel, Program
from ..observe.counters import clear_caches, counting
from ..observe.model import modelled_case_us
from ..observe.records import AutotunerChoice, note_benchmark, note_choice, take_records
from . import kept, known_faults
from .added_by_trials import Trials
from .cache_key import keep_triton_key
from .launcher import Launcher, in_autotuner, source_files
from .linker import provide_linker
from .versions import interface, minor_of

# Stands between a linked binary and its assembly: readers of ELF files take no notice of what follows the sections.
_ASSEMBLY = b"\n; assembly for the emulated device\n"


class EmulatedBackend(HIPBackend):
    """Triton's AMD backend; its binaries have their assembly behind them."""

    first_arch = ""  # that this process has compiled for

    def arch_before(self) -> str:
        """Another arch that this process compiled for first, where Triton's code depends on that; else ""."""
        known = interface().remembers_arch and self.first_arch != self.target.arch
        return self.first_arch if known else ""

    def add_stages(self, stages: dict, options: Any, language: Any) -> None:
        super().add_stages(stages, options, language)
        to_llir, to_hsaco = stages["llir"], stages["hsaco"]
        minor = minor_of(triton.__version__)
        ttgir = ""

        def remembering(module: Any, metadata: dict) -> Any:
            nonlocal ttgir
            ttgir = str(module)
            EmulatedBackend.first_arch = EmulatedBackend.first_arch or self.target.arch
            try:
                return to_llir(module, metadata)
            except RuntimeError as error:
                if reason := known_faults.why_refused(ttgir, minor):
                    raise RuntimeError(f"{error}: {reason}") from error
                raise

        def with_assembly(assembly: str, metadata: dict) -> bytes:
            # Linked although it is not executed: what LLVM refuses to assemble (inline assembly, say) fails here as
            # it does for a real card, and `kernel.asm` holds what it holds there.
            notes = known_faults.notes_on(ttgir, assembly, minor, self.arch_before())
            return to_hsaco(assembly, metadata) + _ASSEMBLY + f"{assembly}\n{notes}".encode()

        stages["llir"], stages["hsaco"] = remembering, with_assembly
        if kept.ask is not None:
            kept.from_cache(stages, self, options)

    def hash(self) -> str:
        other = self.arch_before()  # a real GPU has cache entries of its own
        return f"{super().hash()}-cdna-notes-{known_faults.KNOWN}" + (f"-after-{other}" if other else "")


def rename_source(asm: AsmFile, kernel: str, file: str) -> None:
    """Name the file whose kernel was asked for, where Triton's cache has it as compiled of the same text elsewhere.

    file: "" where it is not known. Functions of other modules keep the names that they were compiled under.
    """
    if not file or file in asm.files.values() or kernel not in asm.labels:
        return
    own = [number for number, name in asm.files.items() if Path(name).name == Path(file).name]
    used = Counter(statement.source[0] for statement in asm.statements[asm.labels[kernel] :] if statement.source[1])
    for number in own or [number for number, _ in used.most_common(1)]:
        if number in asm.files:
            asm.files[number] = file


class _Utils:
    """The part of a Triton driver that loads binaries and knows the device."""

    def __init__(self, arch: Card) -> None:
        self.arch = arch
        self._programs: dict[bytes, Program] = {}

    def load_binary(
        self, name: str, binary: bytes, lds_bytes: int, device: int
    ) -> tuple[Program, Kernel, int, int, int]:
        """(module, function, registers, spills, most work-items of a workgroup)."""
        code, _, assembly = binary.partition(_ASSEMBLY)
        program = self._programs.get(assembly)
        if program is None:
            asm = parsed(assembly.decode(), code)
            rename_source(asm, name, source_files.get(name, ""))
            program = self._programs[assembly] = Program(asm)
        kernel = program.kernels[name]
        behind = assembly.decode().rpartition("\n\t.end_amdgpu_metadata")[2]
        warn_of(name, self.arch.name, known_faults.texts_in(behind))
        return (
            program,
            kernel,
            kernel.metadata.get(".vgpr_count", 0),
            kernel.metadata.get(".vgpr_spill_count", 0),
            1024,
        )

    def unload_module(self, module: Any) -> None:
        """Of a GPU's kernel that ends meanwhile; what is emulated is not unloaded by a driver (`ended`)."""

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
    """Modelled time of the launches since the last call; where they were not counted, cycles that their instructions
    take of their units, as a stand-in for milliseconds."""
    records = take_records("bench")
    counted = [record.counters for record in records if record.counters is not None]
    if counted and len(counted) == len(records):
        return modelled_case_us(counted).us * 1e-3
    return sum(record.cycles for record in records) * 1e-6


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
    """triton.testing.do_bench for a device without a clock: runs `fn` once and returns its modelled time in ms.

    It orders configurations, and is no measurement (docs/time-model.md). Outside of Triton's autotuner its launches are
    a program's like all others.
    """
    _work_ms()
    if not in_autotuner():
        note_benchmark()
    with counting():
        fn()
        work = _work_ms()
    if quantiles is not None:
        return [work] * len(quantiles) if len(quantiles) > 1 else work
    return [work] if return_mode == "all" else work


AUTOTUNE = "CDNA_AUTOTUNE"


def first_that_runs(bench: Callable[..., Any]) -> Callable[..., Any]:
    """Autotuner._bench, which with $CDNA_AUTOTUNE=first tries no configuration after one that ran."""

    def bench_until_one_runs(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        if os.environ.get(AUTOTUNE) != "first":
            return bench(tuner, *args, **kwargs)
        if tuner.__dict__.get("_cdna_found"):
            return [math.inf] * 3
        timed = bench(tuner, *args, **kwargs)
        tuner._cdna_found = min(timed) < math.inf
        return timed

    def watched(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            timed = bench_until_one_runs(tuner, *args, **kwargs)
        finally:
            clear_caches()  # of what a trial leaves there
        if (trials := tuner.__dict__.get("_cdna_trials")) is not None and min(timed) < math.inf:
            trials.ended(timed)
        return timed

    return watched


def telling(run: Callable[..., Any]) -> Callable[..., Any]:
    """Autotuner.run, which then notes what it chose where it had to choose."""

    def run_and_tell(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        known, tuner._cdna_found = len(tuner.cache), False
        looks = len(tuner.configs) > 1 and bool(checks.settings().kinds)
        tuner._cdna_trials = trials = Trials(tuner, {**dict(zip(tuner.arg_names, args)), **kwargs}) if looks else None
        result = run(tuner, *args, **kwargs)
        if len(tuner.cache) > known:
            timings = {
                config: (ms[0] if isinstance(ms, list) else ms) * 1e3 for config, ms in tuner.configs_timings.items()
            }
            us = timings.pop(tuner.best_config)
            note_choice(
                AutotunerChoice(
                    tuner.base_fn.__name__,
                    str(tuner.best_config),
                    us,
                    tuple(sorted(timings.values())),
                    trials.added_to() if trials is not None else (),
                )
            )
        return result

    return run_and_tell


class EmulatedDriver(DriverBase):
    """The active Triton driver while a cdna device is."""

    def __init__(self, arch: Card) -> None:
        super().__init__()
        self.arch = arch
        self.utils = _Utils(arch)
        self.launcher_cls = Launcher
        # Triton caches compiled kernels by device number: one per arch keeps the archs of one process apart.
        self.device_number = int(arch.name[3:], 16)

    @classmethod
    def is_active(cls) -> bool:
        """As AMD's own driver says, which packages ask; where torch is a CPU's it is chosen by cdna.device alone."""
        torch = sys.modules.get("torch")
        return torch is not None and torch.version.hip is not None and torch.cuda.is_available()

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
        """For who writes C source of a kernel (triton.tools.compile): launches need none."""
        from triton.backends.amd.driver import ty_to_cpp

        return ty_to_cpp(ty)

    def assemble_tensormap_to_arg(self, tensormaps_info: Any, args: Any) -> Any:
        return args


def ending(end: Callable[[Any], None]) -> Callable[[Any], None]:
    """CompiledKernel.__del__: it unloads by the driver that is active then, behind the block another's or none."""

    def ended(kernel: Any) -> None:
        if isinstance(kernel.module, Program):
            if hook := triton.knobs.runtime.kernel_unload_hook:
                hook(kernel.module, kernel.function, kernel.name, kernel.metadata_group, kernel.hash)
            kernel.module = None
        end(kernel)

    return ended


if hasattr(CompiledKernel, "__del__"):  # from Triton 3.8 on
    CompiledKernel.__del__ = ending(CompiledKernel.__del__)


class Installation:
    """Triton's global state with an emulated device in place; `remove` puts back what was there."""

    def __init__(self, arch_name: str) -> None:
        import triton
        from triton.backends import backends

        self._slot = interface().driver_slot
        provide_linker()
        keep_triton_key()
        self.driver = EmulatedDriver(emulated_card(arch_name))
        self._triton = triton
        self._backends = backends
        self._previous = (getattr(triton.runtime.driver, self._slot), backends["amd"], triton.testing.do_bench)
        triton.runtime.driver.set_active(self.driver)
        backends["amd"] = Backend(compiler=EmulatedBackend, driver=EmulatedDriver)
        triton.testing.do_bench = do_bench
        self._run, self._bench = Autotuner.run, Autotuner._bench
        Autotuner._bench = first_that_runs(Autotuner._bench)
        Autotuner.run = telling(Autotuner.run)

    def remove(self) -> None:
        Autotuner.run, Autotuner._bench = self._run, self._bench
        driver, self._backends["amd"], self._triton.testing.do_bench = self._previous
        setattr(self._triton.runtime.driver, self._slot, driver)
