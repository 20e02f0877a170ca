"""The engine as a loaded library: its instructions, and the functions that Python calls."""

import ctypes
import functools
import signal
from collections.abc import Callable
from typing import Any

from ..cards import ARCHS, get_card
from ..errors import CdnaError
from ..isa import instructions
from ..isa.rows import TABLE
from ..isa.signature import Signature
from . import abi
from .build import engine_library

SAMPLED = abi.callback("SampleOf")
Launch = abi.structure("Launch")


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
        abi.declare(self.lib)
        # arch -> mnemonic, and behind it the form -> (op, signature)
        self.ops: dict[str, dict[str, tuple[int, Signature]]] = {arch: {} for arch in ARCHS}
        for i in range(self.lib.cdna_op_count()):
            name, _, only = self.lib.cdna_op_name(i).decode().partition("@")
            if not self.lib.cdna_op_has_facts(i):
                raise CdnaError(f"{TABLE}: no facts of {name}: add its row")
            mnemonic, _, form = name.partition(" ")
            signature = instructions()[mnemonic].signature
            for arch in _archs(mnemonic, only):
                if name in self.ops[arch]:
                    raise CdnaError(f"the engine lists {name} twice for {arch}")
                self.ops[arch][name] = (i, signature.to_lds() if form == "lds" else signature)
        for one in instructions().values():
            for arch in one.archs if one.first_name else ():
                self.ops[arch][one.name] = self.ops[arch][one.first_name]


LOG_EXECUTED, LOG_COUNTERS = map(abi.constant, ("LOG_EXECUTED", "LOG_COUNTERS"))
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
