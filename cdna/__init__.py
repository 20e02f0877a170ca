"""cdna: an emulated AMD CDNA3/CDNA4 GPU (gfx942: MI300X, gfx950: MI355X) on the CPU.

    import cdna
    with cdna.device("gfx942"):
        kernel[grid](cpu_tensor, ...)       # any @triton.jit kernel

The kernel is compiled for the arch by Triton's AMD backend; the resulting machine code's assembly is executed
instruction by instruction. Usable alone: nothing here needs the rest of this repository.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from . import checks as _checks
from . import model, profile
from .cards import ARCHS, Card, get_card
from .checks import CheckError, Finding
from .counters import Counters, counting
from .errors import CdnaError, KernelFault, LaunchError, ToolchainError, UnsupportedInstruction
from .records import AutotunerChoice, LaunchRecord, autotuned, findings, take_records, waits
from .settings import as_card, ordered
from .watching import Stop, trace, watch

if TYPE_CHECKING:
    from .code_objects.module import Module

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
    "waits",
    "watch",
]


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

    with _checks.use(checks, raises), ordered(order_seed), as_card(arch, card):
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
    return take_records()
