"""How many waves of a kernel fit on a SIMD of gfx942 and gfx950.

Registers: LLVM's AMDGPU backend (AMDGPUBaseInfo.cpp, getNumWavesPerEUWithNumVGPRs; GCNSubtarget.cpp,
getOccupancyWithNumSGPRs), whose figure for registers alone is the "Occupancy" line of its assembly. LDS: how
many workgroups a compute unit's holds, in the granules of getLdsDwGranularity. LLVM's own figure leaves out
the LDS that a launch asks for, and Triton asks for all of it at launch.
"""

from __future__ import annotations

from forge.device.cards import CARDS

SIMDS_PER_CU = 4
WAVES_PER_SIMD = 8
VGPRS_PER_SIMD = 512  # ordinary and accumulation registers together, a lane
VGPR_GRANULE = 8
SGPR_STEPS = ((80, 10), (88, 9), (100, 8))  # up to so many SGPRs, so many waves; 7 beyond
LDS_GRANULE_BYTES = {"gfx942": 512, "gfx950": 1280}


def _up(value: int, granule: int) -> int:
    return -(-value // granule) * granule


def waves_by_registers(vgprs: int, sgprs: int) -> int:
    """Waves a SIMD; `vgprs` counts AGPRs as well."""
    by_vgprs = VGPRS_PER_SIMD // _up(max(vgprs, 1), VGPR_GRANULE)
    by_sgprs = next((waves for most, waves in SGPR_STEPS if sgprs <= most), 7)
    return min(WAVES_PER_SIMD, by_vgprs, by_sgprs)


def waves_per_simd(arch: str, vgprs: int, sgprs: int, lds_bytes: int, waves_per_workgroup: int) -> float:
    """Waves a SIMD, averaged over a compute unit's four: whole workgroups only. 0 if none fits."""
    workgroups = waves_by_registers(vgprs, sgprs) * SIMDS_PER_CU // waves_per_workgroup
    if lds_bytes:
        workgroups = min(workgroups, CARDS[arch].lds_bytes // _up(lds_bytes, LDS_GRANULE_BYTES[arch]))
    return workgroups * waves_per_workgroup / SIMDS_PER_CU
