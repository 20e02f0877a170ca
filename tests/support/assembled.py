"""Kernels written in assembly, for tests of the engine alone: nothing of torch is imported."""

from cdna.launch.program import Program


def program(body: str, arch: str = "gfx942", lds_bytes: int = 0, scratch_bytes: int = 0) -> Program:
    """An assembly program with one kernel `k`: kernel arguments at s[0:1], workgroup in s2, work-item in v0."""
    return Program(f"""
.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
.text
k:
{body}
s_endpgm
.section .rodata
.amdhsa_kernel k
.amdhsa_group_segment_fixed_size {lds_bytes}
.amdhsa_private_segment_fixed_size {scratch_bytes}
.amdhsa_user_sgpr_kernarg_segment_ptr 1
.amdhsa_user_sgpr_count 2
.amdhsa_next_free_vgpr 64
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: 16
    .group_segment_fixed_size: {lds_bytes}
    .private_segment_fixed_size: {scratch_bytes}
    .max_flat_workgroup_size: 1024
    .args: []
...
.end_amdgpu_metadata
""")
