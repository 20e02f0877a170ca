"""Programs and kernels on the emulated device: assembly text in, launches out.

`Program(asm_text)` decodes a whole assembly file for its arch; `Program.kernels[name].launch(...)` runs one.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from . import checks, counters, launch_log
from .asm import AsmFile, source_line
from .build import engine_library
from .cards import ARCHS, Card, get_card
from .decode import RECORD
from .errors import CdnaError, KernelFault, LaunchError
from .hazards import Hazard
from .image import ImageBuilder


class _Launch(ctypes.Structure):
    """Launch of engine/program.h."""

    _fields_ = [
        ("groups", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("dynamic_lds_bytes", ctypes.c_uint32),
        ("n_threads", ctypes.c_uint32),
        ("kernarg", ctypes.c_char_p),
        ("kernarg_bytes", ctypes.c_uint32),
        ("cooperative", ctypes.c_uint32),
        ("executed", ctypes.c_void_p),
        ("cancel", ctypes.c_void_p),
        ("observers", ctypes.c_void_p),
        ("checks", ctypes.c_void_p),
        ("order_seed", ctypes.c_uint64),
        ("card", ctypes.c_void_p),
        ("status", ctypes.c_uint32),
        ("fault_pc", ctypes.c_uint32),
        ("fault_wave", ctypes.c_uint32),
        ("fault_group", ctypes.c_uint32 * 3),
        ("fault_address", ctypes.c_uint64),
        ("message", ctypes.c_char * 512),
    ]


_FAULTED, _REFUSED = 1, 3  # LaunchStatus


class _Engine:
    def __init__(self) -> None:
        self.lib = ctypes.CDLL(str(engine_library()))
        self.lib.cdna_op_name.restype = self.lib.cdna_op_signature.restype = ctypes.c_char_p
        self.lib.cdna_image_load.restype = ctypes.c_void_p
        self.lib.cdna_image_load.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_char_p]
        self.lib.cdna_find_kernel.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        self.lib.cdna_program_destroy.argtypes = [ctypes.c_void_p]
        self.lib.cdna_card.restype, self.lib.cdna_card.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
        self.lib.cdna_launch.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.POINTER(_Launch)]
        if self.lib.cdna_inst_bytes() != RECORD.size or self.lib.cdna_launch_bytes() != ctypes.sizeof(_Launch):
            raise CdnaError(
                "the engine's records and Python's differ in size: cdna/engine and cdna/*.py are of different versions"
            )
        checks.declare(self.lib)
        # arch -> mnemonic -> (op, signature); `name@gfx950` in the engine's table stands for that arch alone
        self.ops: dict[str, dict[str, tuple[int, str]]] = {arch: {} for arch in ARCHS}
        for i in range(self.lib.cdna_op_count()):
            name, _, only = self.lib.cdna_op_name(i).decode().partition("@")
            for arch in [only] if only else ARCHS:
                if name in self.ops[arch]:
                    raise CdnaError(f"the engine lists {name} twice for {arch}")
                self.ops[arch][name] = (i, self.lib.cdna_op_signature(i).decode())


@functools.cache
def engine() -> _Engine:
    """The loaded engine; builds it on first use."""
    loaded = _Engine()
    counters.engine_loaded(loaded.lib)
    return loaded


def n_threads() -> int:
    """Host threads a launch uses: $CDNA_THREADS, else every core this process may run on."""
    return int(os.environ.get("CDNA_THREADS") or len(os.sched_getaffinity(0)))


_models: dict[str, str] = {}  # arch -> the card that `cdna.device` was given
_order_seeds: list[int] = []


def emulated_card(arch: str) -> Card:
    """The card of launches for `arch`: what `cdna.device` was given, else $CDNA_CARD's, else the arch's default."""
    return get_card(arch, _models.get(arch))


@contextmanager
def as_card(arch: str, model: str | None) -> Iterator[None]:
    """Within the block, launches for `arch` run on this model; None leaves what is set."""
    before = dict(_models)
    if model is not None:
        _models[arch] = get_card(arch, model).model
    try:
        yield
    finally:
        _models.clear()
        _models.update(before)


def order_seed() -> int:
    """What draws the order of workgroups and waves: `cdna.device`'s seed, else $CDNA_ORDER_SEED; 0: the card's."""
    if _order_seeds:
        return _order_seeds[-1]
    text = os.environ.get("CDNA_ORDER_SEED") or "0"
    if not text.isdecimal():
        raise CdnaError(f"CDNA_ORDER_SEED={text}: a whole number from 1 on, or 0 for the card's order")
    return int(text)


@contextmanager
def ordered(seed: int | None) -> Iterator[None]:
    """Within the block, launches run in the order that this seed draws; None leaves what is set."""
    if seed is not None and seed < 0:
        raise CdnaError(f"order_seed={seed}: a whole number from 1 on, or 0 for the card's order")
    _order_seeds.append(order_seed() if seed is None else seed)
    try:
        yield
    finally:
        _order_seeds.pop()


@dataclass
class LaunchRecord:
    """What one launch executed."""

    kernel: str
    grid: tuple[int, int, int]  # workgroups
    block: tuple[int, int, int]  # work-items
    lds_bytes: int
    wave_instructions: int
    by_class: dict[str, int] = field(default_factory=dict)
    counters: counters.Counters | None = None  # where counting is on
    trial: bool = False  # one of an autotuner's


# Launches since each reader last asked. Bounded: a program that never asks must not grow.
_records: dict[str, deque[LaunchRecord]] = {name: deque(maxlen=100_000) for name in ("user", "bench")}


def take_records(reader: str = "user") -> list[LaunchRecord]:
    """The launches since this reader's last call, in order; readers ("user", "bench") do not take from each other."""
    if engine.cache_info().currsize:  # nothing ran otherwise
        for fields in launch_log.take(engine().lib, instruction_class):
            for records in _records.values():
                records.append(LaunchRecord(**fields))
    taken = list(_records[reader])
    _records[reader].clear()
    return taken


def instruction_class(mnemonic: str) -> str:
    """Coarse class of a mnemonic, as counters report it."""
    if mnemonic.startswith(("v_mfma", "v_smfmac")):
        return "matrix"
    if mnemonic.startswith("ds_"):
        return "lds"
    if mnemonic.startswith(("global_", "flat_", "buffer_", "tbuffer_", "scratch_")):
        return "memory"
    if mnemonic.startswith(("s_load", "s_store", "s_buffer_", "s_scratch_", "s_atomic_")):
        return "scalar memory"
    if mnemonic.startswith("v_"):
        return "vector"
    if mnemonic.startswith(
        ("s_branch", "s_cbranch", "s_barrier", "s_waitcnt", "s_nop", "s_endpgm", "s_sleep", "s_setprio")
    ):
        return "control"
    return "scalar"


class Program:
    """A decoded assembly file, loaded."""

    def __init__(self, source: str | AsmFile) -> None:
        """source: assembly text, or what a code object was read into."""
        builder = ImageBuilder(source, engine().ops)
        image = builder.build()
        self.asm, self.arch, self.n_vgpr = builder.asm, builder.arch, builder.decoder.n_vgpr
        message = ctypes.create_string_buffer(256)
        self._handle = engine().lib.cdna_image_load(image, len(image), message)
        if not self._handle:
            raise CdnaError(message.value.decode())
        self.hazards: list[Hazard] | None = None  # those not told yet; None: not looked for
        self.classes = [instruction_class(s.mnemonic) for s in self.asm.statements]
        self.kernels = {name: Kernel(self, name, number) for number, name in enumerate(self.asm.descriptors)}

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            engine().lib.cdna_program_destroy(self._handle)

    def where(self, index: int) -> str:
        """Instruction text and source line of a statement."""
        statement = self.asm.statements[index]
        return f"`{statement.mnemonic} {statement.operands}` ({source_line(self.asm, statement)})"


class Kernel:
    """One kernel of a program: its arguments, and how to launch it."""

    def __init__(self, program: Program, name: str, number: int) -> None:
        self.program, self.name, self._number = program, name, number
        self.metadata = program.asm.metadata.get(name, {})
        self.arguments: list[dict] = self.metadata.get(".args", [])
        self.static_lds_bytes: int = self.metadata.get(".group_segment_fixed_size", 0)
        self.kernarg_bytes: int = self.metadata.get(".kernarg_segment_size", 0)

    def launch(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        kernarg: bytes,
        dynamic_lds_bytes: int = 0,
        memory: checks.Memory | Callable[[], checks.Memory] = checks.UNKNOWN_MEMORY,
    ) -> LaunchRecord:
        """Run the kernel to its end.

        grid: workgroups per dimension. block: work-items of a workgroup. kernarg: the explicit arguments, laid out as
        the kernel's metadata says; hidden ones are filled in. Pointers in it are host addresses. memory: what the
        launch may touch, or a function that says so, asked only where checks want to know.
        KernelFault names kernel, instruction, source line, workgroup and wave; LaunchError tells what does not fit.
        """
        card = emulated_card(self.program.arch)
        executed = (ctypes.c_uint64 * len(self.program.asm.statements))()
        launch = _Launch(
            groups=grid,
            block=block,
            dynamic_lds_bytes=dynamic_lds_bytes,
            n_threads=n_threads(),
            kernarg=kernarg,
            kernarg_bytes=len(kernarg),
            executed=ctypes.addressof(executed),
            order_seed=order_seed(),
            card=engine().lib.cdna_card(card.model.encode()),
        )
        chosen = checks.settings()
        checked = None
        if chosen.kinds:
            if "hazard" in chosen.kinds:
                checks.note(checks.hazards(self.program, self.name), chosen.raises)
            memory = memory() if callable(memory) else memory
            checked = checks.LaunchChecks(engine().lib, chosen.kinds, chosen.raises, memory)
            launch.checks = checked.handle.value
        counted = counters.begin(engine().lib)
        if counted is not None:
            launch.observers = counted.source
        try:
            engine().lib.cdna_launch(self.program._handle, self._number, ctypes.byref(launch))
            totals = None
            if counted is not None and not launch.status:
                totals = counted.result(
                    card.model, self.program, block, self.static_lds_bytes + dynamic_lds_bytes, executed
                )
        finally:
            if counted is not None:
                counted.close()
        if checked is not None:
            checked.finish(self.name, self.program)
        message = launch.message.decode(errors="replace")
        if launch.status == _FAULTED:
            raise KernelFault(
                f"{self.name} on {self.program.arch}: {message}\n"
                f"  at {self.program.where(launch.fault_pc)}, workgroup {tuple(launch.fault_group)}, "
                f"wave {launch.fault_wave}"
            )
        if launch.status == _REFUSED:
            raise LaunchError(f"{self.name}: {message}")
        by_class: dict[str, int] = {}
        for name, count in zip(self.program.classes, executed):
            if count:
                by_class[name] = by_class.get(name, 0) + count
        record = LaunchRecord(
            self.name,
            grid,
            block,
            self.static_lds_bytes + dynamic_lds_bytes,
            sum(by_class.values()),
            by_class,
            totals,
            counters.trying,
        )
        for records in _records.values():
            records.append(record)
        return record
