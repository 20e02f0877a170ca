"""Planted faults, one of each kind that the checks look for: each is found and named.

In Triton where Triton lets one write it; else as an assembly program. tests/cdna/test_race_pairs.py has more waits and
races, lab/tests/test_wait_mutations.py compiled kernels that lose an instruction.
"""

# mypy: disable-error-code="no-untyped-def"

import struct

import pytest
import torch
import triton
import triton.language as tl

import cdna
from cdna import checks
from cdna.engine.library import engine
from cdna.launch.program import Program
from tests.support.assembled import program
from tests.support.checked_kernels import _exchange
from tests.support.checked_launch import buffer, clean, found, launch

ARCHS = ["gfx942", "gfx950"]


# --- bounds ------------------------------------------------------------------------------------------


def test_one_tensor_reached_from_another() -> None:
    """`x`'s pointer plus an offset that lands in `y`."""
    whole = torch.zeros(128, dtype=torch.int32)
    p = program("""
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
s_waitcnt lgkmcnt(0)
global_load_dword v2, v1, s[4:5] offset:256
s_waitcnt vmcnt(0)
""")
    finding = found(p, [("x", whole[:64].clone()), ("y", whole)], kinds="bounds")
    assert "past the end of `x` (i32[64])" in finding.message


@pytest.mark.parametrize("access", ["s_store_dword s6", "s_atomic_add s6"])
def test_scalar_store_outside(access: str) -> None:
    """Loads may be widened within 16 aligned bytes; what writes may not."""
    body = f"s_load_dwordx2 s[4:5], s[0:1], 0x0\ns_mov_b32 s6, 1\ns_waitcnt lgkmcnt(0)\n{access}, s[4:5], 0x4"
    finding = found(program(body), [("x", buffer(1))])
    assert finding.kind == "bounds" and "0 bytes past the end of `x`" in finding.message


STORE = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
s_waitcnt lgkmcnt(0)
global_store_dword v1, v0, s[4:5]
"""


def test_use_after_free() -> None:
    t = buffer()
    lib = engine().lib
    lib.cdna_memory_register(t.data_ptr(), t.nbytes, b"hipMalloc'ed memory", False)
    kernarg = struct.pack("<Q", t.data_ptr())
    p = program(STORE)
    with checks.use("bounds"):
        p.kernels["k"].launch((1, 1, 1), (64, 1, 1), kernarg)
        lib.cdna_memory_unregister(t.data_ptr())
        with pytest.raises(cdna.CheckError, match="which has been freed"):
            p.kernels["k"].launch((1, 1, 1), (64, 1, 1), kernarg)
        lib.cdna_memory_register(t.data_ptr(), t.nbytes, b"the same addresses again", False)
        p.kernels["k"].launch((1, 1, 1), (64, 1, 1), kernarg)
        lib.cdna_memory_unregister(t.data_ptr())


OWN_ADDRESSES = """
v_add_co_u32_e32 v2, vcc, s4, v1
v_mov_b32_e32 v3, s5
v_addc_co_u32_e32 v3, vcc, 0, v3, vcc
global_store_dword v[2:3], v0, off
"""


@pytest.mark.parametrize("store", [STORE, STORE.replace("global_store_dword v1, v0, s[4:5]", OWN_ADDRESSES)])
def test_past_the_end_of_a_tensor_behind_which_one_has_been_freed(store: str) -> None:
    t = buffer(128)
    lib, x = engine().lib, t[:32]
    lib.cdna_memory_register(t[32:].data_ptr(), 384, b"hipMalloc'ed memory", False)
    lib.cdna_memory_unregister(t[32:].data_ptr())
    finding = found(program(store), [("x", x)], kinds="bounds")
    told = "0 bytes past the end of `x` (i32[32]), in hipMalloc'ed memory, which has been freed"
    assert finding.message.endswith(told) and finding.tensor == "`x` (i32[32])"


def test_lds_outside_the_allocation() -> None:
    p = program("v_lshlrev_b32_e32 v1, 2, v0\nds_write_b32 v1, v0 offset:16\ns_waitcnt lgkmcnt(0)", lds_bytes=256)
    finding = found(p, [])
    assert finding.kind == "bounds"
    assert finding.lane == 60
    assert "the workgroup has 256 bytes" in finding.message


# --- wait --------------------------------------------------------------------------------------------

LOADS = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
s_waitcnt lgkmcnt(0)
global_load_dword v2, v1, s[4:5]
global_load_dword v3, v1, s[4:5]
"""


def test_a_full_vmcnt_holds_up_what_it_cannot_count() -> None:
    """The last load is issued when the first is back. LLVM counts on it: a Triton product waits for no 64th load."""

    def reads(more: int) -> Program:
        start = LOADS + "s_waitcnt vmcnt(0)\nglobal_load_dword v2, v1, s[4:5]\n"
        end = "v_mov_b32_e32 v4, v2\ns_waitcnt vmcnt(0)"
        return program(start + "global_load_dword v3, v1, s[4:5]\n" * more + end)

    clean(reads(63), [("x", buffer())])
    assert "needs s_waitcnt vmcnt(62)" in found(reads(62), [("x", buffer())]).message


def test_loaded_register_is_overwritten() -> None:
    finding = found(program(LOADS + "v_mov_b32_e32 v2, 0"), [("x", buffer())])
    assert finding.message.startswith("v2 is overwritten before the wait for it")
    clean(program(LOADS + "global_load_dword v2, v1, s[4:5]\ns_waitcnt vmcnt(0)"), [("x", buffer())])  # in order


OVERWRITE = """
v_lshlrev_b32_e32 v1, 4, v0
v_xor_b32_e32 v2, {theirs}, v1
v_add_u32_e32 v4, 7, v0
v_mov_b32_e32 v5, v4
v_mov_b32_e32 v6, v4
v_mov_b32_e32 v7, v4
ds_write_b128 v1, v[4:7]
s_waitcnt lgkmcnt(0)
s_barrier
{reads}
{wait}
s_barrier
v_add_u32_e32 v4, 8, v0
ds_write_b128 v1, v[4:7]
s_waitcnt lgkmcnt(0)
"""


@pytest.mark.parametrize(
    "reads", ["ds_read_b128 v[8:11], v2", "ds_read_b32 v8, v2", "ds_read2_b32 v[8:9], v2 offset1:1"]
)
def test_lds_read_not_waited_for_before_the_barrier(reads: str) -> None:
    """What another wave writes behind the barrier may come before it; a wave's own accesses stay in order."""

    def waves(wait: str, theirs: str = "0x400") -> Program:
        return program(OVERWRITE.format(reads=reads, wait=wait, theirs=theirs), lds_bytes=2048)

    clean(waves("s_waitcnt lgkmcnt(0)"), [], block=128)
    clean(waves("", theirs="0"), [], block=128)
    clean(waves("s_barrier\ns_waitcnt lgkmcnt(0)"), [], block=128)  # waited for before the last of them
    finding = found(waves(""), [], block=128)
    assert finding.kind == "wait" and finding.instruction == "ds_write_b128 v1, v[4:7]"
    assert "reads without waiting for it (s_waitcnt lgkmcnt) before the barrier" in finding.message
    assert "s_barrier" in finding.other_instruction


def test_a_scalar_load_under_way_says_nothing_of_reads_of_lds() -> None:
    """Older than those, it is left by a wait for the first of them, as HipKittens' products have it."""
    reads = "s_load_dword s4, s[0:1], 0x0\nds_read_b128 v[8:11], v2\nds_read_b128 v[12:15], v1"
    text = OVERWRITE.format(reads=reads, wait="s_waitcnt lgkmcnt(1)", theirs="0x400")
    clean(program(text, lds_bytes=2048), [("x", buffer())], block=128)


LEAVES = """
v_lshlrev_b32_e32 v1, 2, v0
v_xor_b32_e32 v2, 0x100, v1
v_add_u32_e32 v3, 7, v0
ds_write_b32 v1, v3
ds_write_b32 v1, v3 offset:512
s_waitcnt lgkmcnt(0)
s_barrier
v_mov_b32_e32 v5, 0x200
v_readfirstlane_b32 s4, v0
s_cmp_eq_u32 s4, 0
s_cbranch_scc1 stays
ds_add_u32 v5, v0
{leaving}
s_waitcnt lgkmcnt(0)
s_endpgm
stays:
s_barrier
ds_add_u32 v5, v0
{staying}
s_waitcnt lgkmcnt(0)
"""


@pytest.mark.parametrize(
    "leaving, staying", [("ds_read_b32 v4, v2", "ds_write_b32 v1, v0"), ("ds_write_b32 v1, v0", "ds_read_b32 v4, v2")]
)
def test_a_wave_that_has_ended_has_waited(leaving: str, staying: str) -> None:
    """Its end counts as its arrival at the barriers that it does not reach."""
    clean(program(LEAVES.format(leaving=leaving, staying=staying), lds_bytes=1024), [], block=128)


# --- race --------------------------------------------------------------------------------------------


@triton.jit
def _exchange_without_barrier(x, scratch, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(scratch + i, tl.load(x + i))
    tl.store(o + i, tl.load(scratch + B - 1 - i))


@pytest.mark.parametrize("arch", ARCHS)
def test_missing_debug_barrier(arch: str) -> None:
    x, scratch, out = torch.randn(256), torch.zeros(256), torch.zeros(256)
    with cdna.device(arch, checks="all"):
        _exchange[(1,)](x, scratch, out, B=256)
        scratch.zero_()
        with pytest.raises(cdna.CheckError) as caught:
            _exchange_without_barrier[(1,)](x, scratch, out, B=256)
    finding = caught.value.finding
    assert finding.kind == "race"
    assert "`scratch` (fp32[256])" in finding.message
    assert "of the same workgroup" in finding.message


# --- the others ----------------------------------------------------------------------------------------


READ_LDS = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
v_cmp_gt_u32_e32 vcc, 32, v0
s_and_saveexec_b64 s[8:9], vcc
ds_write_b32 v1, v0
s_mov_b64 exec, s[8:9]
ds_read_b32 v2, v1
s_waitcnt lgkmcnt(0)
"""
STORES = "; global_store_dword v1, v2, s[4:5]"
SWAPS_HALVES = "v_xor_b32_e32 v3, 128, v1; ds_bpermute_b32 v2, v3, v2; s_waitcnt lgkmcnt(0)"
MULTIPLIES = "v_mov_b32_e32 v3, v2; s_nop 4; v_mfma_f32_16x16x16_f16 v[4:7], v[2:3], v[12:13], 0; s_nop 15; s_nop 3"
TAKES_LDS = {
    "stores": STORES,
    "adds": "v_add_u32_e32 v2, 1, v2; v_add_u32_e32 v2, v2, v0" + STORES,
    "takes the larger": "v_max_u32_e32 v2, 1, v2" + STORES,
    "takes from lanes": SWAPS_HALVES + "; v_cndmask_b32_e32 v2, 0, v2, vcc" + STORES,
    "shifts over lanes": "v_mov_b32_dpp v2, v2 row_shr:1 row_mask:0xf bank_mask:0xf" + STORES,
    "writes back and reads": "ds_write_b32 v1, v2; ds_read_b32 v2, v1; s_waitcnt lgkmcnt(0)" + STORES,
    "adds to LDS": "ds_add_u32 v1, v2; s_waitcnt lgkmcnt(0)",
    "addresses": "v_and_b32_e32 v2, 4, v2; global_load_dword v2, v2, s[4:5]",
    "masks": "v_and_b32_e32 v2, 0xff, v2; v_or_b32_e32 v2, 0x100, v2" + STORES,
    "goes by lanes": "v_readlane_b32 s20, v2, 40; s_nop 4; v_writelane_b32 v3, s20, 1; s_nop 4; "
    "v_readlane_b32 s20, v3, 1; s_nop 4; v_mov_b32_e32 v2, s20" + STORES,
    "branches": "v_cmp_eq_u32_e32 vcc, 0, v2; s_and_saveexec_b64 s[8:9], vcc",
    "multiplies": MULTIPLIES.replace("v[12:13]", "v[2:3]") + "; v_mov_b32_e32 v2, v4" + STORES,
}


@pytest.mark.parametrize("takes", TAKES_LDS)
def test_unwritten_lds(takes: str) -> None:
    body = READ_LDS + TAKES_LDS[takes].replace("; ", "\n")
    finding = found(program(body, lds_bytes=256), [("x", torch.zeros(64, dtype=torch.int32))])
    assert finding.kind == "uninitialised"
    assert finding.message.startswith("reads LDS byte 128, which nothing has written, for `")
    assert finding.instruction.startswith("ds_read_b32 v2, v1")


LEAVES_LDS = {
    "not at all": "v_mov_b32_e32 v3, v2",
    "another chosen": "v_cndmask_b32_e32 v2, 0, v2, vcc" + STORES,
    "another chosen by a comparison with it": "v_cmp_lt_u32_e64 s[10:11], 7, v2; s_and_b64 vcc, vcc, s[10:11]; "
    "v_cndmask_b32_e32 v2, 0, v2, vcc" + STORES,
    "another chosen by a comparison of bytes": "v_cmp_lt_u16_sdwa s[10:11], v2, v0 src0_sel:BYTE_0 src1_sel:BYTE_0; "
    "s_nop 4; s_and_b64 vcc, vcc, s[10:11]; v_cndmask_b32_e32 v2, 0, v2, vcc" + STORES,
    "beside another byte": "v_lshl_or_b32 v2, v2, 8, v0" + STORES,
    "kept in another lane": "v_readlane_b32 s20, v2, 40; s_nop 4; v_writelane_b32 v3, s20, 1; "
    "v_writelane_b32 v3, s4, 0; s_nop 4; v_readlane_b32 s20, v3, 0; s_nop 4; v_mov_b32_e32 v2, s20" + STORES,
    "lanes off": "s_mov_b64 exec, vcc; v_max_u32_e32 v2, 1, v2" + STORES,
    "of other lanes": "v_max_u32_e32 v2, 1, v2; " + SWAPS_HALVES + "; v_cndmask_b32_e64 v2, v2, 0, vcc" + STORES,
    "written back": "v_mul_lo_u32 v2, v2, v2; ds_write_b32 v1, v2; ds_read_b32 v2, v1; s_waitcnt lgkmcnt(0); "
    "v_cndmask_b32_e32 v2, 0, v2, vcc" + STORES,
    # Rows 8 to 15 of A: of D they are in lanes 32 to 63.
    "rows of a product": "v_and_b32_e32 v3, 15, v0; v_lshlrev_b32_e32 v3, 4, v3; ds_read_b32 v2, v3; "
    "s_waitcnt lgkmcnt(0); v_mov_b32_e32 v12, 0; v_mov_b32_e32 v13, 0; "
    + MULTIPLIES
    + "; v_mov_b32_e32 v2, v4; s_mov_b64 exec, vcc"
    + STORES,
}


@pytest.mark.parametrize("leaves", LEAVES_LDS)
def test_lds_read_ahead_and_not_used_is_no_finding(leaves: str) -> None:
    """A merge reads what lies behind its list and does not choose it: each was a finding at the read."""
    body = READ_LDS + LEAVES_LDS[leaves].replace("; ", "\n")
    clean(program(body, lds_bytes=256), [("x", torch.zeros(64, dtype=torch.int32))])


def test_a_load_across_the_end_names_the_tensor() -> None:
    """Its first byte lies inside: it was told to be in memory of the host's, far from every tensor."""
    body = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
s_waitcnt lgkmcnt(0)
s_add_u32 s4, s4, 0x3ffffc
s_addc_u32 s5, s5, 0
v_mov_b32_e32 v2, s4
v_mov_b32_e32 v3, s5
global_load_dwordx2 v[4:5], v[2:3], off
s_waitcnt vmcnt(0)
"""
    finding = found(program(body), [("x", torch.zeros(1 << 20, dtype=torch.int32))])
    assert finding.kind == "bounds" and finding.message.endswith("0 bytes past the end of `x` (i32[1048576])")


def test_unwritten_address_register() -> None:
    body = (
        "s_load_dwordx2 s[4:5], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\nglobal_load_dword v2, v9, s[4:5]\ns_waitcnt vmcnt(0)"
    )
    finding = found(program(body), [("x", buffer())])
    assert (finding.kind, finding.message) == ("uninitialised", "v9 is an address, but no instruction has written it")


def test_an_address_that_is_lost_in_a_loop() -> None:
    body = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v3, 2, v0
s_mov_b32 s6, 3
s_waitcnt lgkmcnt(0)
round:
global_load_dword v2, v3, s[4:5]
s_waitcnt vmcnt(0)
s_sub_u32 s6, s6, 1
s_cmp_lg_u32 s6, 1
s_cbranch_scc1 keep
v_mov_b32_e32 v3, v9
keep:
s_cmp_lg_u32 s6, 0
s_cbranch_scc1 round"""
    finding = found(program(body), [("x", buffer())])
    assert finding.kind == "uninitialised"
    assert finding.message.startswith("v3 is an address made from v9, which no instruction has written")


STORE_V3 = "; global_store_dword v1, v3, s[4:5]"
UNWRITTEN = {  # v9, v20 and s20 have no value; what the finding says of the last instruction but a label and its s_nop
    "address": ("v_lshl_add_u32 v3, v9, 2, v1; global_store_dword v3, v0, s[4:5]", "v3 is an address made from v9"),
    "stored": ("v_add_u32_e32 v3, v9, v0" + STORE_V3, "stores what was computed from v9"),
    "lanes": ("v_cmp_eq_u32_e32 vcc, 0, v9; s_and_saveexec_b64 s[8:9], vcc", "which lanes go on depends on v9"),
    "moved to exec": ("v_cmp_eq_u32_e64 s[8:9], 0, v9; s_mov_b64 exec, s[8:9]", "which lanes go on depends on v9"),
    "branch": ("v_cmp_eq_u32_e32 vcc, 0, v9; s_cbranch_vccnz next; next:; s_nop 0", "a branch depends on v9"),
    "scalar": (
        "s_add_u32 s6, s20, 1; s_cmp_eq_u32 s6, 0; s_cbranch_scc1 next; next:; s_nop 0",
        "a branch depends on s20",
    ),
    "product": (
        "s_nop 1; v_mfma_f32_16x16x16_f16 v[2:5], v[20:21], v[0:1], 0; s_nop 10" + STORE_V3,
        "stores what was computed from v20",
    ),
    "accumulator": (
        "v_mov_b32_e32 v7, 0; v_mov_b32_e32 v6, 0; s_nop 1; "
        "v_mfma_f32_16x16x16_f16 v[2:5], v[6:7], v[6:7], v[20:23]; s_nop 10" + STORE_V3,
        "stores what was computed from v21",
    ),
    "some lanes": (
        "s_mov_b64 exec, 0xff; v_mov_b32_e32 v9, 1; s_mov_b64 exec, -1; v_add_u32_e32 v3, 1, v9" + STORE_V3,
        "stores what was computed from v9",
    ),
}
DEFINED = {  # the same registers where nothing depends on them
    "moved": "v_mov_b32_e32 v3, v9" + STORE_V3,  # padding, as compilers store it
    "masked": "v_add_u32_e32 v3, v9, v0; s_mov_b64 exec, 0" + STORE_V3,
    "selected": "v_cmp_gt_u32_e32 vcc, 64, v0; s_nop 1; v_cndmask_b32_e32 v3, v9, v0, vcc; v_add_u32_e32 v3, 1, v3"
    + STORE_V3,
    "decided": "v_cmp_eq_u32_e32 vcc, 0, v9; s_and_b64 vcc, vcc, 0; s_cbranch_vccnz next; next:; s_nop 0",
    "low half": "v_mov_b32_e32 v8, v0; v_lshlrev_b64 v[2:3], 2, v[8:9]; global_store_dword v2, v0, s[4:5]",
    "lanes off": "s_mov_b64 exec, 0xff; v_mov_b32_e32 v9, 1; v_add_u32_e32 v3, 1, v9" + STORE_V3,
}
START = "s_load_dwordx2 s[4:5], s[0:1], 0x0; s_waitcnt lgkmcnt(0); v_lshlrev_b32_e32 v1, 2, v0; "


@pytest.mark.parametrize("what", UNWRITTEN)
def test_what_depends_on_an_unwritten_register(what: str) -> None:
    body, message = UNWRITTEN[what]
    finding = found(program((START + body).replace("; ", "\n")), [("x", buffer())])
    assert finding.kind == "uninitialised"
    assert finding.message.startswith(f"{message}, which no instruction has written")
    assert finding.instruction == body.removesuffix("; next:; s_nop 0").rpartition("; ")[2]
    assert finding.lane in ((8,) if what == "some lanes" else (0, None))


@pytest.mark.parametrize("what", DEFINED)
def test_what_depends_on_no_unwritten_register(what: str) -> None:
    clean(program((START + DEFINED[what]).replace("; ", "\n")), [("x", buffer())])


def test_misaligned() -> None:
    scalar = program("s_add_u32 s0, s0, 2\ns_addc_u32 s1, s1, 0\ns_load_dword s4, s[0:1], 0x0\ns_waitcnt lgkmcnt(0)")
    assert found(scalar, [("x", buffer())]).kind == "alignment"
    atomic = program("v_mov_b32_e32 v1, 2\nds_add_u32 v1, v0\ns_waitcnt lgkmcnt(0)", lds_bytes=64)
    assert found(atomic, [], kinds="alignment").message.startswith("LDS atomic of 4 bytes at byte 2")


def test_divergent_barriers() -> None:
    """Wave 0 passes a barrier of its own, so that the two that follow meet askew."""
    body = (
        "v_readfirstlane_b32 s4, v0\ns_cmp_lg_u32 s4, 0\ns_cbranch_scc1 after\ns_barrier\nafter:\n{}s_barrier\ns_nop 0"
    )
    finding = found(program(body.format("")), [], block=128)
    assert finding.kind == "barrier"
    assert "in all they pass 2 and 1 barriers" in finding.message
    turns = "s_cbranch_scc0 both\ns_barrier\nboth:\n"  # the other wave's turn: two barriers each
    clean(program(body.format("") + "\n" + turns), [], block=128)


# --- switches ------------------------------------------------------------------------------------------


def test_each_check_is_switchable() -> None:
    p = program(LOADS + "v_add_u32_e32 v4, v2, v3", lds_bytes=0)
    for kinds in ({"bounds", "race"}, "none", ""):
        with checks.use(kinds):
            launch(p, [("x", buffer())])
    assert cdna.findings() == []
    assert found(p, [("x", buffer())], kinds="wait").kind == "wait"


def test_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    p = program(LOADS + "v_add_u32_e32 v4, v2, v3")
    monkeypatch.setenv("CDNA_CHECKS", "wait,race")
    with pytest.raises(cdna.CheckError):
        launch(p, [("x", buffer())])
    monkeypatch.setenv("CDNA_CHECKS", "report:all")
    cdna.findings()
    launch(p, [("x", buffer())])
    assert [f.kind for f in cdna.findings()] == ["wait"]


def test_unknown_check() -> None:
    with (
        pytest.raises(cdna.CdnaError, match="no check is called racing: all, none, or some of bounds, wait"),
        checks.use("racing"),
    ):
        pass
