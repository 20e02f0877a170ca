"""What a compiled kernel takes of a CU: the emulated device's own rules, for the rest of forge."""

from cdna.resources import Resources, read_resources, waves_per_simd

__all__ = ["Resources", "read_resources", "waves_per_simd"]
