"""Pairs of programs, one right and one that lacks a barrier, a fence, a flag or a wait: the checks tell them apart.

Kernels that a compiler can write are in tests/support/hip/race_pairs.hip, the others are assembly here.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import cdna
from cdna import checks
from cdna.launch.module import ObjectKernel
from tests.support.assembled import program
from tests.support.checked_launch import buffer, launch
from tests.support.hip_programs import ROOT, preload
from tests.support.limits import ENDS_S
from tests.support.race_pairs import PAIRS, compiled, findings

STOP = ("barrier_in_a_branch", "barriers_in_a_loop")
OTHERWISE = {**dict.fromkeys(STOP, "barrier"), "async_copy": "wait"}  # else a race
# Others go on with what a workgroup's atomic has told them while that one is held up behind it.
PACED = ("reset_by_the_last_block", "count_overwritten", "last_block", "sense_barrier")


@pytest.mark.sampled
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("pair", PAIRS)
def test_pair(arch: str, pair: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDNA_THREADS", "1")
    assert findings(arch, f"{pair}_safe") == []
    racy = findings(arch, f"{pair}_racy")
    assert OTHERWISE.get(pair, "race") in {finding.kind for finding in racy}
    assert all("race_pairs.hip:" in finding.source for finding in racy)


def test_pairs_whose_threads_are_held_up(tmp_path: Path) -> None:
    kernels = [f"{pair}_{kind}" for pair in PACED for kind in ("safe", "racy")]
    variables = {**os.environ, "CDNA_THREADS": "16", "LD_PRELOAD": str(preload("late_lock.c", tmp_path))}
    command = [sys.executable, "-m", "tests.support.race_pairs", "100", *kernels]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=ENDS_S)
    assert done.stdout.split() == kernels[1::2], done.stdout + done.stderr


START = "s_load_dwordx2 s[4:5], s[0:1], 0x0; v_lshlrev_b32_e32 v1, 2, v0; s_waitcnt lgkmcnt(0); "
FLAT = START + "v_mov_b32_e32 v2, s4; v_mov_b32_e32 v3, s5; "
FILL = "v_lshlrev_b32_e32 v1, 2, v0; ds_write_b32 v1, v0; "
LOAD = START + "global_load_dword v4, v1, s[4:5]"
FLAT_LOAD = FLAT + "flat_load_dword v4, v[2:3]"
VM, LGKM = "s_waitcnt vmcnt(0)", "s_waitcnt lgkmcnt(0)"
READ_LDS = FILL + "ds_read_b32 v4, v1"
TO_LDS = "s_nop 0; global_load_lds_dword v1, s[4:5]"
OF_WAVE = "v_lshrrev_b32_e32 v2, 6, v0; v_readfirstlane_b32 s6, v2; s_lshl_b32 m0, s6, 8; "
OTHERS = "s_barrier; v_xor_b32_e32 v3, 0x100, v1; ds_read_b32 v4, v3; s_waitcnt lgkmcnt(0) vmcnt(0)"
WAITS = {  # what comes first; the wait that the safe one has, and the racy one's, too weak or none; what follows it
    "load": (LOAD, VM, "", "v_add_u32_e32 v5, v4, v4"),
    "first of two loads": (
        LOAD + "; global_load_dword v5, v1, s[4:5]",
        "s_waitcnt vmcnt(1)",
        "s_waitcnt vmcnt(2)",
        f"v_mov_b32_e32 v6, v4; {VM}",
    ),
    "load behind a store": (
        LOAD + "; global_store_dword v1, v0, s[4:5]",
        "s_waitcnt vmcnt(1)",
        LGKM,
        "v_mov_b32_e32 v6, v4",
    ),
    "read and overwritten": (LOAD, VM, "", "v_add_u32_e32 v4, 1, v4"),
    "overwritten": (LOAD, VM, "", "v_mov_b32_e32 v4, 0"),
    "address": (LOAD, VM, "", f"v_and_b32_e32 v4, 0, v4; global_load_dword v5, v4, s[4:5]; {VM}"),
    "data of a store": (LOAD, VM, "", "global_store_dword v1, v4, s[4:5]"),
    "upper half of a pair": (
        START + "global_load_dwordx2 v[4:5], v1, s[4:5] offset:-4",
        VM,
        "",
        "v_mov_b32_e32 v6, v5",
    ),
    # A load of one half zeroes the other.
    "half of a register": (
        START + "global_load_short_d16_hi v4, v1, s[4:5]",
        VM,
        "",
        "global_store_short v1, v4, s[4:5]",
    ),
    "atomic's result": (
        START + "v_mov_b32_e32 v2, 1; global_atomic_add v4, v1, v2, s[4:5] sc0",
        VM,
        "",
        "v_mov_b32_e32 v5, v4",
    ),
    "scalar load": ("s_load_dwordx2 s[4:5], s[0:1], 0x0", LGKM, "", "s_load_dword s6, s[4:5], 0x0"),
    "scalar loads in any order": (
        "s_load_dword s4, s[0:1], 0x0; s_load_dword s5, s[0:1], 0x4",
        LGKM,
        "s_waitcnt lgkmcnt(1)",
        f"s_mov_b32 s6, s4; {LGKM}",
    ),
    "clock": ("s_memtime s[4:5]", LGKM, "", "s_mov_b32 s6, s4"),
    "read of LDS": (READ_LDS, LGKM, "", "v_mov_b32_e32 v5, v4"),
    "first of two reads of LDS": (
        READ_LDS + "; ds_read_b32 v5, v1",
        "s_waitcnt lgkmcnt(1)",
        "s_waitcnt lgkmcnt(2)",
        f"v_mov_b32_e32 v6, v4; {LGKM}",
    ),
    "lanes of another": ("ds_bpermute_b32 v4, v0, v0", LGKM, "", "v_mov_b32_e32 v5, v4"),
    "flat, by vmcnt": (FLAT_LOAD, f"{VM} lgkmcnt(0)", VM, f"v_mov_b32_e32 v5, v4; {LGKM}"),
    "flat, by lgkmcnt": (FLAT_LOAD, f"{VM} lgkmcnt(0)", LGKM, f"v_mov_b32_e32 v5, v4; {VM}"),
    "straight to LDS": (f"{START}s_mov_b32 m0, 0; {TO_LDS}", VM, LGKM, f"ds_read_b32 v4, v1; {LGKM}"),
    "other wave's, straight to LDS": (START + OF_WAVE + TO_LDS, VM, "", OTHERS),
    "before a barrier": (FILL + "v_xor_b32_e32 v2, 0x100, v1", LGKM, "", f"s_barrier; ds_read_b32 v4, v2; {LGKM}"),
}


def wait_findings(text: str) -> list[cdna.Finding]:
    cdna.findings()
    with checks.use("wait", raises=False):
        launch(program(text.replace("; ", "\n"), lds_bytes=512), [("x", buffer(128))], block=128)
    return cdna.findings()


@pytest.mark.parametrize("name", WAITS)
def test_wait(name: str) -> None:
    before, enough, too_little, after = WAITS[name]
    assert wait_findings(f"{before}; {enough}; {after}") == []
    found = wait_findings("; ".join(part for part in (before, too_little, after) if part))
    assert [finding.kind for finding in found] == ["wait"]  # the fault itself, not what comes of it
    assert ("overwritten" in found[0].message) == (name == "overwritten")
    assert "s_waitcnt" in found[0].message and found[0].instruction and found[0].other_instruction


@pytest.mark.parametrize("pair", STOP)
def test_a_missed_barrier_stops_the_launch(pair: str) -> None:
    given, out = torch.zeros(4096, dtype=torch.int32), torch.zeros(4096, dtype=torch.int32)
    with (
        checks.use("barrier"),
        pytest.raises(cdna.CheckError, match="barrier: wave . waits at this barrier, which wave"),
    ):
        ObjectKernel(compiled("gfx942").kernels[f"{pair}_racy"])((2,), (256,), given, out, given)


def test_waves_may_leave_before_a_barrier() -> None:
    """Those that have nothing to do, as kernels have them whose last workgroup is not full."""
    leaves = "v_readfirstlane_b32 s4, v0; s_cmp_lg_u32 s4, 0; s_cbranch_scc1 end; " + FILL
    text = leaves + "s_waitcnt lgkmcnt(0); s_barrier; ds_read_b32 v2, v1; s_waitcnt lgkmcnt(0); end:; s_nop 0"
    with checks.use("all"):
        launch(program(text.replace("; ", "\n"), lds_bytes=512), [], block=128)


@pytest.mark.parametrize("pair", ["reverse", "neighbour"])
def test_a_missing_barrier_is_the_fault_where_nothing_is_there_yet(pair: str) -> None:
    given, out = torch.ones(4096, dtype=torch.int32), torch.zeros(4096, dtype=torch.int32)
    with checks.use("all"), pytest.raises(cdna.CheckError, match="race: .* LDS byte .* with no barrier between"):
        ObjectKernel(compiled("gfx942").kernels[f"{pair}_racy"])((1,), (256,), given, out, given)


READS = "v_lshlrev_b32_e32 v1, 2, v0; ds_read_b32 v2, v1 offset:512; s_waitcnt lgkmcnt(0); "
READS += "v_cmp_eq_u32_e32 vcc, v2, v2; s_and_saveexec_b64 s[8:9], vcc"


@pytest.mark.parametrize(
    "behind",
    [
        "s_barrier",
        "s_nop 0",  # to the end
        "s_load_dwordx2 s[4:5], s[0:1], 0x0; s_waitcnt lgkmcnt(0); global_load_dword v3, v2, s[4:5]",  # out of bounds
    ],
)
def test_what_no_wave_writes_is_told_at_the_barrier_or_before_what_comes_of_it(behind: str) -> None:
    text = f"{READS}; {behind}; s_waitcnt vmcnt(0)"
    with checks.use("all"), pytest.raises(cdna.CheckError) as raised:
        launch(program(text.replace("; ", "\n"), lds_bytes=1024), [("x", buffer(128))], block=128)
    assert "uninitialised: reads LDS byte" in str(raised.value).splitlines()[0]
