"""What differs between Triton's versions where the emulated device meets them: one row a minor version.

The rest of this folder asks `interface()` and holds no version numbers. All the versions in the table call a launcher
and a driver's `load_binary` alike, and all name compiled kernels by a hash of their own sources: several may share a
cache folder.
"""

import functools
import re
import warnings
from dataclasses import dataclass
from typing import Any

from ..errors import CdnaError


@dataclass(frozen=True)
class Interface:
    """What a minor version of Triton does in its own way."""

    driver_slot: str  # attribute of triton.runtime.driver that holds the active driver
    descriptor_flags: tuple[str, ...]  # of a tensor descriptor on the host, each passed as an i1 after its strides
    brings_linker: bool  # links AMD binaries in process; before, with the ld.lld of a ROCm installation
    remembers_arch: bool  # converts floats for the first arch that a process compiles for, whichever it is asked for


# fmt: off
INTERFACES = {
    (3, 4): Interface("active",  (),                               brings_linker=False, remembers_arch=True),
    (3, 5): Interface("_active", ("padding",),                     brings_linker=True,  remembers_arch=True),
    (3, 6): Interface("_active", ("padding",),                     brings_linker=True,  remembers_arch=True),
    (3, 7): Interface("_active", ("padding", "round_f32_to_tf32"), brings_linker=True,  remembers_arch=False),
    (3, 8): Interface("_active", ("padding", "round_f32_to_tf32"), brings_linker=True,  remembers_arch=False),
    (3, 9): Interface("_active", ("padding", "round_f32_to_tf32"), brings_linker=True,  remembers_arch=False),
}
# fmt: on
OLDEST, NEWEST = min(INTERFACES), max(INTERFACES)


def minor_of(version: str) -> tuple[int, int]:
    """(3, 6) of "3.6.0" or "3.6.0+rocm7.1"."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if not found:
        raise CdnaError(f"Triton {version}: not a version number; {_remedy()}")
    return int(found[1]), int(found[2])


def interface_of(version: str) -> Interface:
    """The row of a version; of one that is newer than all rows the last; CdnaError for older ones."""
    minor = minor_of(version)
    if minor < OLDEST:
        raise CdnaError(f"Triton {version} is too old for the emulated device: {_remedy()}")
    return INTERFACES.get(minor, INTERFACES[NEWEST])


@functools.cache
def interface() -> Interface:
    """The row of the Triton that this process has imported, or would."""
    import triton

    if minor_of(triton.__version__) > NEWEST:
        warnings.warn(f"Triton {triton.__version__} was never tried on the emulated device: {_remedy()}", stacklevel=2)
    return interface_of(triton.__version__)


def _remedy() -> str:
    return "take one of {}.{} to {}.{}".format(*OLDEST, *NEWEST)


def value_of_flag(descriptor: Any, flag: str) -> bool:
    """A descriptor's flag as the kernel gets it."""
    value = getattr(descriptor, flag, False)
    return value == "nan" if flag == "padding" else bool(value)
