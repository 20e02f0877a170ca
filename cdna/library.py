"""The engine as a loaded library: its instructions, and the functions that Python calls."""

from __future__ import annotations

import ctypes
import functools
import signal
from collections.abc import Callable
from typing import Any

from . import replay
from .build import engine_library
from .cards import ARCHS, get_card
from .checks import FindingRecord
from .decode import RECORD
from .errors import CdnaError
from .isa import TABLE, instructions

SAMPLED = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_char_p)  # cdna_log_sample's argument


class Launch(ctypes.Structure):
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
        ("device_number", ctypes.c_uint32),
        ("status", ctypes.c_uint32),
        ("fault_pc", ctypes.c_uint32),
        ("fault_wave", ctypes.c_uint32),
        ("fault_group", ctypes.c_uint32 * 3),
        ("fault_address", ctypes.c_uint64),
        ("message", ctypes.c_char * 512),
    ]


def _archs(name: str, only: str) -> list[str]:
    """Those that have an instruction; only: see OpInfo of engine/isa/core.h."""
    archs = sorted(instructions()[name].archs)
    if only in ("", *instructions()):
        return [arch for arch in archs if not only or arch in instructions()[only].archs]
    return [arch for arch in archs if get_card(arch).fp8_format == only]


class Engine:
    """`lib`: the library; `ops`: its table, by arch."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL(str(engine_library()))
        self.lib.cdna_op_name.restype = self.lib.cdna_op_signature.restype = ctypes.c_char_p
        self.lib.cdna_image_load.restype = ctypes.c_void_p
        self.lib.cdna_image_load.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_char_p]
        self.lib.cdna_find_kernel.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        self.lib.cdna_program_destroy.argtypes = [ctypes.c_void_p]
        self.lib.cdna_card.restype, self.lib.cdna_card.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
        self.lib.cdna_executed.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
        self.lib.cdna_launch.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.POINTER(Launch)]
        _declare(self.lib)
        # arch -> mnemonic -> (op, signature)
        self.ops: dict[str, dict[str, tuple[int, str]]] = {arch: {} for arch in ARCHS}
        for i in range(self.lib.cdna_op_count()):
            name, _, only = self.lib.cdna_op_name(i).decode().partition("@")
            if not self.lib.cdna_op_has_facts(i):
                raise CdnaError(f"{TABLE}: no facts of {name}: add its row")
            for arch in _archs(name.partition(" ")[0], only):
                if name in self.ops[arch]:
                    raise CdnaError(f"the engine lists {name} twice for {arch}")
                self.ops[arch][name] = (i, self.lib.cdna_op_signature(i).decode())


def _declare(lib: ctypes.CDLL) -> None:
    """Types of arguments and results; CdnaError where a structure's size differs from Python's."""
    u32, u64, pointer, text = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_char_p
    results = {
        text: ["cdna_op_name", "cdna_op_signature"],
        pointer: ["cdna_image_load", "cdna_card", "cdna_counters_create", "cdna_checks_new", "cdna_log_take"],
    }
    for kind, names in results.items():
        for name in names:
            getattr(lib, name).restype = kind
    lib.cdna_log_take_findings.restype = pointer
    lib.cdna_holds_addresses.restype = ctypes.c_bool
    lib.cdna_checks_findings.restype = ctypes.POINTER(FindingRecord)
    arguments = {
        "cdna_image_load": [text, u64, text],
        "cdna_find_kernel": [pointer, text],
        "cdna_program_destroy": [pointer],
        "cdna_card": [text],
        "cdna_executed": [pointer, text, pointer, pointer],
        "cdna_launch": [pointer, u32, ctypes.POINTER(Launch)],
        "cdna_checks_new": [u32, u32, u32],
        "cdna_checks_range": [pointer, u64, u64, u64, text],
        "cdna_checks_findings": [pointer, ctypes.POINTER(u32)],
        "cdna_checks_free": [pointer],
        "cdna_memory_register": [u64, u64, text],
        "cdna_memory_unregister": [u64],
        "cdna_mark_unwritten": [pointer, u64],
        "cdna_groups_per_cu": [pointer, u32, u32, u32, u32],
        "cdna_log_set": [u32],
        "cdna_log_sample": [SAMPLED],
        "cdna_counters_create": [ctypes.c_uint32],
        "cdna_watch_allocator": [text],
        "cdna_align_allocator": [text],
        "cdna_know_block": [u64, u64],
        "cdna_waits": [pointer, u32],
        "cdna_holds_addresses": [u64, u64, pointer, u32],
        "cdna_watch": [pointer, pointer, pointer],
        "cdna_written": [pointer, u32, pointer],
        "cdna_cancel": [],
        "cdna_end_at_interrupt": [u32],
    }
    for name, kinds in arguments.items():
        getattr(lib, name).argtypes = kinds
    replay.declare(lib)
    sizes = (lib.cdna_inst_bytes(), lib.cdna_launch_bytes(), lib.cdna_finding_bytes())
    if sizes != (RECORD.size, ctypes.sizeof(Launch), ctypes.sizeof(FindingRecord)):
        raise CdnaError(
            "the engine's structures and Python's differ: cdna/engine and cdna/*.py are of different versions"
        )


LOG_EXECUTED, LOG_COUNTERS = 1, 2  # LogMode of engine/run/launch_log.h
_log_mode = LOG_EXECUTED
_log_sampled: Any = None  # a SAMPLED, kept while the engine may call it


@functools.cache
def engine() -> Engine:
    """The loaded engine; builds it on first use. Launches that others make with it, the HIP runtime's, it logs."""
    loaded = Engine()
    loaded.lib.cdna_log_set(_log_mode)
    if _log_sampled is not None:
        loaded.lib.cdna_log_sample(_log_sampled)
    return loaded


def let_interrupts_end_launches() -> None:
    """Ctrl-C ends the launches under way where Python raises KeyboardInterrupt for it, which waits for their return."""
    engine().lib.cdna_end_at_interrupt(signal.getsignal(signal.SIGINT) is signal.default_int_handler)


def is_loaded() -> bool:
    """Whether anything has asked for the engine: without it nothing has run."""
    return engine.cache_info().currsize > 0


def log_launches(mode: int) -> None:
    """What the engine logs of launches that Python does not make: LOG_EXECUTED or LOG_COUNTERS."""
    global _log_mode
    _log_mode = mode
    if is_loaded():
        engine().lib.cdna_log_set(mode)


def sample_launches(of: Callable[[str], int] | None) -> None:
    """How a kernel's launches are counted, a counters.Sample; None: none is a sample."""
    global _log_sampled
    before, _log_sampled = _log_sampled, SAMPLED() if of is None else SAMPLED(lambda name: int(of(name.decode())))
    if is_loaded():
        engine().lib.cdna_log_sample(_log_sampled)
    del before  # not before the engine has forgotten it
