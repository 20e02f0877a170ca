"""Mutants of a kernel: each wait that matters is named when it is weaker, and each wait state when it is gone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lab.path_mutations import judge

# Loads one round ahead, shares through LDS, multiplies; a wait that nothing needs stands before the end.
KERNEL = """.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
k:
s_load_dwordx4 s[4:7], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 4, v0
s_waitcnt lgkmcnt(0)
global_load_dwordx4 v[4:7], v1, s[4:5]
loop:
global_load_dwordx4 v[8:11], v1, s[4:5] offset:64
s_waitcnt vmcnt(1)
ds_write_b128 v1, v[4:7]
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b64 v[12:13], v1 offset:16
ds_read_b64 v[14:15], v1 offset:32
s_waitcnt lgkmcnt(1)
v_mul_f32_e32 v13, v12, v13
s_waitcnt lgkmcnt(0)
s_barrier
v_mul_f32_e32 v12, v12, v13
s_nop 1
v_mfma_f32_16x16x16_f16 v[20:23], v[12:13], v[14:15], v[20:23]
s_waitcnt vmcnt(0)
v_mov_b32_e32 v4, v8
v_mov_b32_e32 v5, v9
s_cbranch_scc1 loop
s_nop 2
global_store_dwordx4 v1, v[20:23], s[6:7]
s_nop 0
v_mov_b32_e32 v24, 0
s_waitcnt vmcnt(0)
s_endpgm
.section .rodata
.amdhsa_kernel k
.amdhsa_next_free_vgpr 64
.end_amdhsa_kernel
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_no_mutant_that_matters_is_missed(tmp_path: Path, seed: int) -> None:
    file = tmp_path / "k.s"
    file.write_text(KERNEL)
    found = judge(file, most=100, walks=30, seed=seed)
    assert found == Counter(
        {
            "lgkmcnt named": 4,
            "vmcnt named": 2,
            "vmcnt harmless": 1,
            "nop named": 2,
            "nop harmless: own": 1,
        }
    )
