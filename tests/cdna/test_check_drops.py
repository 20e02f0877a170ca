"""Launches that go on after a finding: what lies outside is neither written nor read; the host's memory stays whole."""

from contextlib import nullcontext

import pytest
import torch

import cdna
from cdna import checks
from tests.support.assembled import program
from tests.support.checked_launch import Plain, buffer, launch, memory

LOAD_X = "s_load_dwordx2 s[4:5], s[0:1], 0x0\nv_lshlrev_b32_e32 v1, 2, v0\ns_waitcnt lgkmcnt(0)\n"


def goes_on(text: str, tensors: Plain, kinds: str = "bounds") -> list[cdna.Finding]:
    cdna.findings()
    with checks.use(kinds, raises=False):
        launch(program(text), tensors)
    return cdna.findings()


def test_stores_outside_are_dropped() -> None:
    whole = torch.zeros(96, dtype=torch.int32)
    (finding,) = goes_on(LOAD_X + "v_mov_b32_e32 v2, 7\nglobal_store_dword v1, v2, s[4:5]", [("x", whole[:32].clone())])
    assert (finding.kind, finding.lane, finding.count) == ("bounds", 32, 32)


@pytest.mark.parametrize("raises", [False, True])  # the second of which stops the wave before the access
@pytest.mark.parametrize("access", ["global_store_dword v1, v2, s[4:5]", "global_atomic_add v1, v2, s[4:5]"])
def test_memory_behind_a_tensor_stays(access: str, raises: bool) -> None:
    whole = torch.zeros(64, dtype=torch.int32)
    short = checks.Memory([checks.Tensor(whole.data_ptr(), 128, whole.data_ptr(), "`x` (i32[32])")], False)
    p = program(LOAD_X + f"v_mov_b32_e32 v2, 7\n{access}")
    with checks.use("bounds", raises=raises), pytest.raises(cdna.CheckError) if raises else nullcontext():
        p.kernels["k"].launch((1, 1, 1), (64, 1, 1), whole.data_ptr().to_bytes(8, "little"), memory=short)
    assert whole.tolist() == [7 * (not raises)] * 32 + [0] * 32


@pytest.mark.parametrize("kinds", ["bounds", "bounds,unwritten"])
def test_loads_outside_give_a_pattern_even_where_nothing_is_mapped(kinds: str) -> None:
    out = buffer()
    text = LOAD_X + (
        "s_load_dwordx2 s[6:7], s[0:1], 0x8\nv_mov_b32_e32 v3, 0\nv_mov_b32_e32 v4, 0\n"
        "v_cmp_gt_u32_e32 vcc, 32, v0\nv_mov_b32_e32 v5, s4\nv_mov_b32_e32 v6, s5\ns_waitcnt lgkmcnt(0)\n"
        "s_nop 1\nv_cndmask_b32_e32 v3, v3, v5, vcc\nv_cndmask_b32_e32 v4, v4, v6, vcc\n"
        "global_load_dword v2, v[3:4], off\ns_waitcnt vmcnt(0)\nglobal_store_dword v1, v2, s[6:7]"
    )
    x = torch.full((64,), 5, dtype=torch.int32)
    findings = goes_on(text, [("x", x), ("o", out)], kinds)
    assert [(f.kind, f.lane) for f in findings] == [("bounds", 32)]
    assert out.tolist() == [5] * 32 + [0x7FC5A5A5] * 32


def test_scalar_accesses_outside() -> None:
    whole = torch.zeros(1 << 19, dtype=torch.int32)  # in which nothing else of the process lies
    x, out = whole[:4], whole[1024:1088]
    text = LOAD_X + (
        "s_load_dwordx2 s[6:7], s[0:1], 0x8\ns_load_dword s8, s[4:5], 0x100000\ns_waitcnt lgkmcnt(0)\n"
        "s_mov_b32 s9, 3\ns_store_dword s9, s[4:5], 0x40\nv_mov_b32_e32 v2, s8\nglobal_store_dword v1, v2, s[6:7]"
    )
    assert [f.kind for f in goes_on(text, [("x", x), ("o", out)])] == ["bounds"] * 2
    assert set(out.tolist()) == {0x7FC5A5A5}


def test_nothing_is_dropped_without_the_check() -> None:
    whole = torch.zeros(64, dtype=torch.int32)
    p = program(LOAD_X + "v_mov_b32_e32 v2, 7\nglobal_store_dword v1, v2, s[4:5]")
    with checks.use("race", raises=False):
        p.kernels["k"].launch(
            (1, 1, 1), (64, 1, 1), whole.data_ptr().to_bytes(8, "little"), memory=memory([("x", whole[:32])])
        )
    assert set(whole.tolist()) == {7}
