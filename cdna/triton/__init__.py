"""Triton on the emulated device: versions 3.4 to 3.9, each through the interfaces that it has (versions.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import CdnaError

if TYPE_CHECKING:
    from ..cards import Card
    from .driver import Installation


def install(arch: str) -> Installation:
    """Put the emulated `arch` in the place of Triton's device; CdnaError where the Triton at hand cannot serve."""
    import triton
    from triton.backends import backends

    from .versions import interface_of

    interface_of(triton.__version__)
    if "amd" not in backends:
        raise CdnaError(
            f"Triton {triton.__version__} was built without its AMD backend: install the triton wheel from PyPI"
        )
    from .driver import Installation

    return Installation(arch)


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
    from ..checks import use
    from ..engine.library import engine
    from ..engine.settings import as_card, ordered

    with use(checks, raises), ordered(order_seed), as_card(arch, card):
        installation = install(arch)
        apart = engine().lib.cdna_host_apart(False)  # in a process that has GPU tensors, too
        try:
            yield installation.driver.arch
        finally:
            installation.remove()
            engine().lib.cdna_host_apart(apart)
