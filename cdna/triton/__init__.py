"""Triton on the emulated device: versions 3.4 to 3.9, each through the interfaces that it has (versions.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import CdnaError

if TYPE_CHECKING:
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
