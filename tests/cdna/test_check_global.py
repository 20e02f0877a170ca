"""What races in global memory does not depend on how a wave's accesses are looked at: all at once, where its lanes lie
side by side in memory that nobody has touched, or lane by lane, as where they lie the other way round.
"""

import random

import pytest

import cdna
from cdna import checks
from tests.support.assembled import program
from tests.support.checked_launch import buffer, launch

GROUPS = 3
DWORDS = 1024
START = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_and_b32_e32 v1, 63, v0
v_lshrrev_b32_e32 v2, 6, v0
s_waitcnt lgkmcnt(0)
"""
REVERSE = "v_sub_u32_e32 v1, 63, v1\n"
SUFFIX = {1: "dword", 2: "dwordx2", 4: "dwordx4"}


def access(draw: random.Random) -> str:
    """A load or store of v[12:15] at base + workgroup * apart + wave * distance + lane."""
    dwords = draw.choice([1, 2, 4])
    registers = {1: "v12", 2: "v[12:13]", 4: "v[12:15]"}[dwords]
    apart, distance = (draw.choice([0, 256 * dwords, 512 * dwords]) for _ in range(2))
    base = 4 * draw.choice([0, 0, 64, 2])
    text = f"s_mul_i32 s6, s2, {apart}\ns_add_u32 s6, s6, {base}\nv_mul_u32_u24_e32 v3, {4 * dwords}, v1\n"
    text += f"v_mov_b32_e32 v4, {distance}\nv_mad_u32_u24 v3, v2, v4, v3\nv_add_u32_e32 v3, s6, v3\n"
    if draw.random() < 0.5:
        return text + f"global_load_{SUFFIX[dwords]} {registers}, v3, s[4:5]\ns_waitcnt vmcnt(0)\n"
    value = draw.choice(["s2", "v2", "0", "7"])  # of a workgroup, of a wave, what is there, the same everywhere
    text += "".join(f"v_mov_b32_e32 v{k}, {value}\n" for k in range(12, 16))
    return text + f"global_store_{SUFFIX[dwords]} v3, {registers}, s[4:5]\ns_waitcnt vmcnt(0)\n"


def findings(draw: random.Random, reverse: bool) -> set[tuple[str, str, str]]:
    """Kind, instruction and its line. The other access, of the first lane that is told, depends on their order."""
    body = START + (REVERSE if reverse else "v_mov_b32_e32 v1, v1\n")
    body += "".join(access(draw) + "s_barrier\n" * (draw.random() < 0.5) for _ in range(draw.randrange(1, 5)))
    cdna.findings()
    with checks.use("race,bounds", raises=False):
        launch(program(body), [("x", buffer(4 * DWORDS))], groups=GROUPS, block=128)
    return {(f.kind, f.instruction, f.source) for f in cdna.findings()}


def test_both_ways_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDNA_THREADS", "1")  # or the order of workgroups differs from run to run
    found = 0
    for seed in range(80):
        side_by_side, reversed_lanes = (findings(random.Random(seed), reverse) for reverse in (False, True))
        assert side_by_side == reversed_lanes, seed
        found += bool(side_by_side)
    assert 16 < found < 64


# Workgroup 0 stores and sets a flag; workgroup 1 waits for the flag and reads by a scalar load, as clang makes of a
# plain read. {release}, {acquire}: what orders the two.
SCALAR_READ = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
s_mov_b64 exec, 1
v_mov_b32_e32 v1, 0
v_mov_b32_e32 v2, 7
s_waitcnt lgkmcnt(0)
s_cmp_lg_u32 s2, 0
s_cbranch_scc1 wait
global_store_dword v1, v2, s[4:5]
{release}
global_store_dword v1, v2, s[4:5] offset:256 sc1
s_endpgm
wait:
global_load_dword v3, v1, s[4:5] offset:256 sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s6, v3
s_cmp_eq_u32 s6, 0
s_cbranch_scc1 wait
{acquire}
s_load_dword s7, s[4:5], 0x0
s_waitcnt lgkmcnt(0)
"""


@pytest.mark.parametrize(
    "release, acquire, found",
    [("s_nop 0", "s_nop 0", ["race"]), ("buffer_wbl2 sc1\ns_waitcnt vmcnt(0)", "buffer_inv sc1", [])],
)
def test_a_scalar_load_races_too(release: str, acquire: str, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDNA_THREADS", "1")
    cdna.findings()
    with checks.use("race", raises=False):
        launch(program(SCALAR_READ.format(release=release, acquire=acquire)), [("x", buffer(128))], groups=2)
    findings = cdna.findings()
    assert [finding.kind for finding in findings] == found
    assert all(finding.instruction.startswith("s_load_dword s7") for finding in findings)
