"""cdna: an emulated AMD CDNA3/CDNA4 GPU (gfx942: MI300X, gfx950: MI355X) on the CPU.

    import cdna
    with cdna.device("gfx942"):
        kernel[grid](cpu_tensor, ...)       # any @triton.jit kernel

The kernel is compiled for the arch by Triton's AMD backend; the resulting machine code's assembly is executed
instruction by instruction. Usable alone: nothing here needs the rest of this repository.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cards import ARCHS, Card, get_card
from .errors import CdnaError, KernelFault, LaunchError, ToolchainError, UnsupportedInstruction

if TYPE_CHECKING:
    from . import profile
    from .checks import CheckError
    from .checks.launch_checks import unwritten_elements
    from .launch.module import Module
    from .observe import model
    from .observe.counters import Counters, counting
    from .observe.records import AutotunerChoice, LaunchRecord, autotuned, findings, waits
    from .observe.watching import Stop, trace, watch
    from .results import Finding
    from .triton import device

# What launches take is imported once it is asked for: programs that only compile, or start others, make no launch.
_PLACES = {
    "checks": ("CheckError",),
    "checks.launch_checks": ("unwritten_elements",),
    "engine.settings": (),
    "observe.counters": ("Counters", "counting"),
    "observe.model": (),
    "observe.records": ("AutotunerChoice", "LaunchRecord", "autotuned", "findings", "waits"),
    "observe.watching": ("Stop", "trace", "watch"),
    "profile": (),
    "results": ("Finding",),
    "triton": ("device",),
}
_MODULES = {place.rpartition(".")[2]: place for place in _PLACES}
_NAMES = {name: place for place, names in _PLACES.items() for name in names}

__all__ = [
    "ARCHS",
    "AutotunerChoice",
    "Card",
    "CdnaError",
    "CheckError",
    "Counters",
    "Finding",
    "KernelFault",
    "LaunchError",
    "LaunchRecord",
    "Stop",
    "ToolchainError",
    "UnsupportedInstruction",
    "autotuned",
    "counting",
    "device",
    "findings",
    "get_card",
    "install",
    "load",
    "model",
    "profile",
    "stats",
    "trace",
    "unwritten_elements",
    "waits",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{_MODULES[name]}", __name__)
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f".{_NAMES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def install(arch: str) -> Card:
    """Make the emulated `arch` Triton's device for the rest of the process."""
    from . import triton

    return triton.install(arch).driver.arch


def load(source: str | Path | bytes, arch: str | None = None) -> Module:
    """Load a code object: a .co or .hsaco file, a bundle, or its bytes. See launch/module.py."""
    from .launch.module import load as load_module

    return load_module(source, arch)


def stats() -> list[LaunchRecord]:
    """What the launches since the last call executed, one record a launch, in order.

    Each call takes the records away: a second one returns those of later launches only.
    """
    from .observe.records import take_records

    return take_records()
