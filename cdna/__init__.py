"""cdna: an emulated AMD CDNA3/CDNA4 GPU (gfx942: MI300X, gfx950: MI355X) on the CPU.

    import cdna
    with cdna.device("gfx942"):
        kernel[grid](cpu_tensor, ...)       # any @triton.jit kernel

The kernel is compiled for the arch by Triton's AMD backend; the resulting machine code's assembly is executed
instruction by instruction. Usable alone: nothing here needs the rest of this repository.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cards import ARCHS, Card, get_card
from .errors import CdnaError, KernelFault, LaunchError, ToolchainError, UnsupportedInstruction

if TYPE_CHECKING:
    from . import model, profile
    from .checks import CheckError, Finding
    from .code_objects.module import Module
    from .counters import Counters, counting
    from .launch_checks import unwritten_elements
    from .records import AutotunerChoice, LaunchRecord, autotuned, findings, waits
    from .watching import Stop, trace, watch

# What launches take is imported once it is asked for: programs that only compile, or start others, make no launch.
_MODULES = ("checks", "counters", "model", "profile", "records", "settings", "watching")
_NAMES = {
    "checks": ("CheckError", "Finding"),
    "counters": ("Counters", "counting"),
    "launch_checks": ("unwritten_elements",),
    "records": ("AutotunerChoice", "LaunchRecord", "autotuned", "findings", "waits"),
    "watching": ("Stop", "trace", "watch"),
}
_PLACES = {name: module for module, names in _NAMES.items() for name in names}

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
        return importlib.import_module(f".{name}", __name__)
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f".{_PLACES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


@contextmanager
def device(
    arch: str,
    checks: str | Iterable[str] | None = None,
    raises: bool = True,
    order_seed: int | None = None,
    card: str | None = None,
) -> Iterator[Card]:
    """Within the block, Triton kernels run on the emulated `arch` ("gfx942" or "gfx950") with CPU tensors.

    checks: "all", "none", or names of checks (see cdna.checks); None: what $CDNA_CHECKS says. raises: whether a finding
    is a CheckError, or only noted for `findings()`. order_seed: draws the order in which workgroups and waves run; 0 is
    the card's order, None what $CDNA_ORDER_SEED says. card: the model to emulate ("MI325X"); None: what $CDNA_CARD
    says, else the arch's usual one.
    """
    from . import triton
    from .checks import use
    from .settings import as_card, ordered

    with use(checks, raises), ordered(order_seed), as_card(arch, card):
        installation = triton.install(arch)
        try:
            yield installation.driver.arch
        finally:
            installation.remove()


def install(arch: str) -> Card:
    """Make the emulated `arch` Triton's device for the rest of the process."""
    from . import triton

    return triton.install(arch).driver.arch


def load(source: str | Path | bytes, arch: str | None = None) -> Module:
    """Load a code object: a .co or .hsaco file, a bundle, or its bytes. See code_objects.module."""
    from .code_objects.module import load as load_module

    return load_module(source, arch)


def stats() -> list[LaunchRecord]:
    """What the launches since the last call executed, one record a launch, in order.

    Each call takes the records away: a second one returns those of later launches only.
    """
    from .records import take_records

    return take_records()
