"""What nobody has written of memory is told where it decides something, or reaches the host; and nowhere else."""

# mypy: disable-error-code="no-untyped-def"

import re

import pytest
import torch
import triton
import triton.language as tl

import cdna
from cdna.checks.launch_checks import mark_unwritten, unwritten_elements
from cdna.launch.program import Program
from tests.support.assembled import program
from tests.support.checked_launch import clean
from tests.support.hip_programs import PROGRAMS, run_built

SOURCE = PROGRAMS / "unwritten.hip"
NOTHING = r"which nothing has written: write them before"
STORED = r"where .*\b{}\(.*\) at `.*unwritten\.hip:\d+\) has stored what it made of memory that nothing had written"
READS = r"a copy of {0} bytes to the host reads {1} bytes of the \d+ bytes of hipMalloc .*, the first at offset {2}, "
DECIDES = r"on gfx942: unwritten: reads 4 bytes at offset \d+ of the \d+ bytes of hipMalloc .*and it decides `{}"
FOUND = {
    "never written": READS.format(4096, 4096, 0) + NOTHING,
    "computed": READS.format(4096, 4096, 0) + STORED.format("twice"),
    "copied twice": READS.format(4096, 4096, 0) + STORED.format("copy"),
    "copied by the host": READS.format(4096, 4096, 0) + NOTHING,
    "computed in part": READS.format(4096, 2048, 2048) + STORED.format("twice"),
    "computed and copied": READS.format(4096, 2048, 2048) + STORED.format("copy"),
    "branch": DECIDES.format("s_and_saveexec_b64"),
    "branch on a copy": r"where what nothing had written was stored by copy\(.*" + "and it decides `s_and_saveexec_b64",
    "scalar branch": DECIDES.format("s_cbranch_scc1"),
    "address": DECIDES.format("global_store_dword"),
    "sum": READS.format(4, 4, 0) + STORED.format("adds<float>"),
    "integer sum": READS.format(4, 4, 0) + STORED.format("adds<int>"),
    "sum of it": READS.format(4, 4, 0) + STORED.format("adds<float>"),
    "integer sum of it": READS.format(4, 4, 0) + STORED.format("adds<int>"),
    "compare-and-swap": DECIDES.format("s_"),
    "LDS": READS.format(4096, 4096, 0) + STORED.format("turns"),
    "sum in LDS": READS.format(16, 16, 0) + STORED.format("counts"),
    "register": READS.format(4096, 4096, 0) + NOTHING,
    "halves": READS.format(2048, 2048, 0) + STORED.format("next<half>"),
    "bytes": READS.format(1024, 1024, 0) + STORED.format("next<unsigned char>"),
    "malloc": READS.format(4096, 4096, 0) + STORED.format("takes"),
    "end of a large one": READS.format(4096, 4096, (300 << 20) - 4096) + NOTHING,
    "doubles": READS.format(8192, 8192, 0) + STORED.format("next<double>"),
}


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """What a run that goes on after findings says of each."""
    done = run_built(SOURCE, *FOUND, CDNA_CHECKS="report:all")
    assert done.returncode == 0, done.stderr
    parts = re.split(rf"^({'|'.join(FOUND)})\n", done.stderr, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("name", FOUND)
def test_a_way_to_the_host_or_to_what_decides(said: dict[str, str], name: str) -> None:
    findings = [line for line in said[name].splitlines() if line.startswith("cdna: ")]
    assert len(findings) == 1 and "unwritten: " in findings[0], said[name]
    assert re.search(FOUND[name], findings[0]), said[name]


def test_correct_programs_have_no_finding() -> None:
    """Structs with padding, by registers, LDS and copies; tails of tiles; sums over rows of which some are missing."""
    done = run_built(SOURCE, "right", CDNA_CHECKS="all")
    assert (done.returncode, done.stderr) == (0, "right\n")


@pytest.mark.parametrize("name", ["computed", "branch"])
def test_a_finding_ends_the_work(name: str) -> None:
    assert run_built(SOURCE, name, CDNA_CHECKS="all").returncode == 1
    assert run_built(SOURCE, name, CDNA_CHECKS="none").returncode == 0


# --- what instructions make of it ----------------------------------------------------------------------------

LOADS = """
s_load_dwordx4 s[4:7], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
s_waitcnt lgkmcnt(0)
global_load_dword v2, v1, s[4:5]
v_mov_b32_e32 v9, 0
s_mov_b32 s10, 0
s_mov_b32 s11, -1
s_waitcnt vmcnt(0)
"""
STORES = "\nglobal_store_dword v1, v2, s[6:7]"
WORD = 0x7FC57FC5
HALVES = "v_xor_b32_e32 v3, 128, v1; ds_bpermute_b32 v2, v3, v2; s_waitcnt lgkmcnt(0)"
MAKES = {  # of v2, undefined in lanes 32 to 63: the lanes in which the result is; v9 is 0, s[10:11] lanes 32 to 63
    "itself": ("v_mov_b32_e32 v2, v2", range(32, 64)),
    "a sum": ("v_add_u32_e32 v2, v2, v0", range(32, 64)),
    "a bit": ("v_and_b32_e32 v2, 1, v2; v_add_u32_e32 v2, 4, v2", range(32, 64)),
    "the larger": ("v_max_u32_e32 v2, v2, v0", range(32, 64)),
    "its half": ("v_lshrrev_b32_e32 v2, 16, v2", range(32, 64)),
    "a comparison": ("v_cmp_lt_u32_e32 vcc, 7, v2; s_nop 4; v_cndmask_b32_e64 v2, 3, 5, vcc", range(32, 64)),
    "of other lanes": (HALVES, range(32)),
    "of the lane before": ("s_nop 4; v_mov_b32_dpp v2, v2 row_shr:1 row_mask:0xf bank_mask:0xf", range(32, 64)),
    "by LDS": ("v_mul_lo_u32 v2, v2, v2; ds_write_b32 v1, v2; ds_read_b32 v2, v1; s_waitcnt lgkmcnt(0)", range(32, 64)),
    # Column i of B is lanes i, 16 + i, 32 + i, ...: each has undefined ones of A and B.
    "a product": ("s_nop 4; v_mfma_f32_16x16x4_f32 v[4:7], v2, v2, 0; s_nop 15; v_mov_b32_e32 v2, v4", range(64)),
    "what it is no part of": ("v_mov_b32_e32 v2, v9", ()),
    "0 times": ("v_mul_lo_u32 v2, v2, v9", ()),
    "less itself": ("v_sub_u32_e32 v2, v2, v2", ()),
    "masked": ("v_and_b32_e32 v2, v2, v9", ()),
    "another chosen": ("v_cndmask_b32_e64 v2, v2, v0, s[10:11]", ()),
    "beside a defined byte": ("v_lshl_or_b32 v2, v2, 8, v0", ()),
    "bytes of both": ("s_mov_b32 s12, 0x05040302; v_perm_b32 v2, v2, v0, s12", ()),
    "a half of it replaced": ("v_mov_b32_sdwa v2, v0 dst_sel:WORD_0 dst_unused:UNUSED_PRESERVE src0_sel:DWORD", ()),
}


def kernel(body: str) -> Program:
    return program(LOADS + body.replace("; ", "\n") + STORES, lds_bytes=256)


def launched(body: str, known: torch.Tensor) -> torch.Tensor:
    x, out = torch.zeros(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    mark_unwritten(x.data_ptr(), x.nbytes)
    x[: len(known)] = known
    clean(kernel(body), [("x", x), ("out", out)])
    return out


@pytest.mark.parametrize("what", MAKES)
def test_what_instructions_make_of_it(what: str) -> None:
    """Certainly undefined lanes hold the word of unwritten memory; all others what they should."""
    body, lanes = MAKES[what]
    known = torch.arange(5, 37, dtype=torch.int32)
    out, whole = launched(body, known), launched(body, torch.cat([known, torch.full((32,), WORD, dtype=torch.int32)]))
    assert (out == WORD).nonzero().flatten().tolist() == list(lanes)
    defined = torch.tensor([lane not in lanes for lane in range(64)])
    assert torch.equal(out[defined & (torch.arange(64) < 32)], whole[defined & (torch.arange(64) < 32)])


@triton.jit
def _tiles(a, b, out, M, K: tl.constexpr, N: tl.constexpr, BM: tl.constexpr):
    rm, rn, rk = tl.arange(0, BM), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + rm[:, None] * K + rk[None, :])  # all rows, those that are there and the rest of the tile
    y = tl.load(b + rk[:, None] * N + rn[None, :])
    product = tl.dot(x, y)
    product = product / tl.sum(x.to(tl.float32), 1)[:, None]
    tl.store(out + rm[:, None] * N + rn[None, :], product, mask=rm[:, None] < M)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_rows_behind_the_last_spoil_no_other(arch: str) -> None:
    m, k, n = 21, 64, 32
    whole, b, out = torch.rand(64, k).half(), torch.rand(k, n).half(), torch.zeros(64, n)
    a = torch.zeros(64, k, dtype=torch.float16)
    mark_unwritten(a.data_ptr(), a.nbytes)
    a[:m] = whole[:m]
    with cdna.device(arch, checks="all"):
        _tiles[(1,)](a, b, out, m, K=k, N=n, BM=64)
    right = (whole.float() @ b.float() / whole.float().sum(1, keepdim=True))[:m]
    assert torch.allclose(out[:m], right, rtol=1e-3) and not out[m:].any()
    with cdna.device(arch, checks="all"):
        _tiles[(1,)](a, b, out, m + 2, K=k, N=n, BM=64)
    assert unwritten_elements(out)[m : m + 2].all() and not unwritten_elements(out)[:m].any()


@triton.jit
def _add_at(x, B: tl.constexpr):
    tl.atomic_add(x + tl.arange(0, B), 1)


@triton.jit
def _swap(x, B: tl.constexpr):
    tl.atomic_xchg(x + tl.arange(0, B), 1)


def test_triton_atomics(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum of parts (split-K) that nobody has set to zero stays undefined; a swap writes."""
    monkeypatch.setenv("AMDGCN_USE_BUFFER_ATOMICS", "0")  # Triton 3.6 has no such swap
    x = torch.zeros(64, dtype=torch.int32)
    mark_unwritten(x.data_ptr(), x.nbytes)
    x[:60] = 1
    with cdna.device("gfx942", checks="all"):
        _add_at[(2,)](x, B=64)
    assert x[:60].tolist() == [3] * 60 and unwritten_elements(x)[60:].all()
    with cdna.device("gfx942", checks="all"):
        _swap[(1,)](x, B=64)
    assert x.tolist() == [1] * 64


@triton.jit
def _marks(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, 1, mask=tl.load(x + i) > 0)


def test_triton_lanes() -> None:
    x, out = torch.zeros(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    mark_unwritten(x.data_ptr(), x.nbytes)
    x[:60] = 1
    with cdna.device("gfx942", checks="all"), pytest.raises(cdna.CheckError) as caught:
        _marks[(1,)](x, out, B=64)
    finding = caught.value.finding
    assert finding.kind == "unwritten" and "at offset 240 of `x`" in finding.message
    x[60:] = 0
    with cdna.device("gfx942", checks="all"):
        _marks[(1,)](x, out, B=64)


def test_what_torch_makes_within_the_block_is_unwritten() -> None:
    with cdna.device("gfx942", checks="all"):
        made, zeros, ones = torch.empty(1000), torch.zeros(1000), torch.ones(1000) + 1
        large = torch.empty(80 << 20)
    assert all(unwritten_elements(x).all() for x in (made, large[:1000], large[-1000:]))
    assert not unwritten_elements(zeros).any() and not unwritten_elements(ones).any()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int16", "uint8", "complex64"])
def test_elements_of_a_tensor(dtype: str) -> None:
    x = torch.zeros(8, 16, dtype=getattr(torch, dtype))
    mark_unwritten(x.data_ptr(), x.nbytes)
    assert unwritten_elements(x).all() and unwritten_elements(x.T).shape == (16, 8)
    x[3:] = 1
    assert unwritten_elements(x).sum() == 48 and unwritten_elements(x[:3]).all()
    assert not unwritten_elements(x[0, 3:].to_sparse()).any() and not unwritten_elements(x[:0]).any()
    if x.is_floating_point():
        x[:] = 1
        x[5, 7] = torch.full((1,), WORD | WORD << 32, dtype=torch.int64).view(x.dtype)[0]
        assert unwritten_elements(x).nonzero().tolist() == [[5, 7]]
