"""What a compiled kernel takes of a CU: the emulated device's own rules and table, for the rest of forge."""

from cdna.binary.resource_table import FIGURES, KernelUse, figures, lds_error, table
from cdna.binary.resources import WAVE_LANES, Resources, read_resources, waves_per_simd

__all__ = [
    "FIGURES",
    "WAVE_LANES",
    "KernelUse",
    "Resources",
    "figures",
    "lds_error",
    "read_resources",
    "table",
    "waves_per_simd",
]
