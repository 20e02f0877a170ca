"""The two emulated archs as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Arch:
    """Facts of one GPU arch.

    Sources: AMD's ROCm documentation, page "GPU hardware specifications" (CUs, LDS, XCDs, clocks);
    LLVM's AMDGPUUsage (register granules).
    """

    name: str
    product: str
    compute_units: int
    xcds: int
    lds_bytes: int  # per CU, and so the most one workgroup may have
    lds_banks: int
    memory_bytes: int
    clock_mhz: int
    max_waves_per_simd: int = 8
    vgprs_per_lane: int = 512  # architectural + accumulation, per SIMD lane
    vgpr_granule: int = 8


ARCHS = {
    "gfx942": Arch("gfx942", "AMD Instinct MI300X", 304, 8, 64 << 10, 32, 192 << 30, 2100),
    "gfx950": Arch("gfx950", "AMD Instinct MI355X", 256, 8, 160 << 10, 64, 288 << 30, 2400),
}


def get_arch(name: str) -> Arch:
    """The arch of that name; ValueError lists those known."""
    if name not in ARCHS:
        raise ValueError(f"unknown arch {name!r}: the emulated device knows {', '.join(ARCHS)}")
    return ARCHS[name]
