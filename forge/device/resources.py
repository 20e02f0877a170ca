"""What a compiled kernel takes of a CU: the emulated device's own rules and table, for the rest of forge."""

from cdna.resource_table import KernelUse, lds_error, table
from cdna.resources import WAVE_LANES, Resources, read_resources, waves_per_simd

__all__ = [
    "WAVE_LANES",
    "KernelUse",
    "Resources",
    "lds_error",
    "read_resources",
    "table",
    "waves_per_simd",
]
