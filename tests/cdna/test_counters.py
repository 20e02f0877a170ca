"""Counters of launches against counts made by hand, and what the time model must keep to."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import cdna
from cdna.engine.library import Launch, engine
from cdna.launch.program import Kernel
from cdna.observe.counters import Sample, clear_caches
from cdna.observe.model import modelled_time_us
from cdna.observe.records import take_records
from tests.support.assembled import program
from tests.support.counted import EACH_ITS_LINE, add_kernel, addition, aligned, run


def count_of(counters: cdna.Counters, mnemonic: str) -> cdna.counters.InstructionCount:
    return next(i for i in counters.instructions if i.mnemonic.startswith(mnemonic))


@triton.jit
def square_kernel(a_ptr, c_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(a_ptr + i[:, None] * N + i[None, :])
    tl.store(c_ptr + i[:, None] * N + i[None, :], tl.dot(a, a))


def test_bytes_of_an_addition() -> None:
    n = 1 << 16
    c = addition(n, 1024).counters
    assert c is not None
    assert (c.groups, c.waves_per_group) == (64, 4)
    assert c.l2_read_bytes == c.fabric_read_bytes == c.hbm_read_bytes == 8 * n
    assert c.l2_write_bytes == c.fabric_write_bytes == c.hbm_write_bytes == 4 * n
    assert c.left_dirty_bytes == 4 * n  # the L2s hold it all until the end
    assert c.l1_reads == 8 * n // 128 and c.l1_hits == 0
    assert c.segments == c.ideal_segments == 12 * n // 64
    assert c.active_lanes == 1.0


def test_an_l2_keeps_its_lines_for_the_next_launch() -> None:
    load = EACH_ITS_LINE.replace("s20", "0") + "global_load_dword v2, v1, s[2:3]\ns_waitcnt vmcnt(0)\n"
    once, again = (run(load, waves=16, buffer=1 << 17, launches=n) for n in (1, 2))
    assert once.fabric_read_bytes == again.l2_read_bytes == 1 << 17
    assert again.fabric_read_bytes == 0


def test_what_an_xcd_has_written_others_read_anew() -> None:
    """Workgroups 0 and 1 run on two XCDs. Both read a line of each lane's; in the second launch too, for the first has
    written them behind its loads."""
    load = EACH_ITS_LINE.replace("s20", "0") + "global_load_dword v2, v1, s[2:3]\ns_waitcnt vmcnt(0)\n"
    store = "s_cmp_lg_u32 s20, 0\ns_cbranch_scc1 end\nglobal_store_dword v1, v2, s[2:3]\nend:\n"
    again = run(load + store, waves=16, groups=2, buffer=1 << 17, launches=2)
    assert again.fabric_read_bytes == 1 << 17  # of the other XCD


def test_a_time_is_the_same_whatever_was_counted_before() -> None:
    """Workgroups of a CU find some of each other's lines in its L1, as who asks first has it."""
    body = "s_lshr_b32 s21, s20, 8\nv_lshl_add_u32 v1, s21, 6, v0\nv_lshlrev_b32 v1, 7, v1\nv_mov_b32 v3, 0x2000\n"
    body += "global_load_dword v2, v1, s[2:3]\nv_add_u32 v1, v1, v3\n" * 5 + "s_waitcnt vmcnt(0)\n"
    first = run(body, waves=16, groups=608, buffer=1 << 18)
    run("v_mov_b32 v1, 0\nglobal_load_dword v2, v1, s[2:3]\ns_waitcnt vmcnt(0)\n")
    assert run(body, waves=16, groups=608, buffer=1 << 18).cold.cycles == first.cold.cycles


def test_the_memory_side_cache_holds_what_fits() -> None:
    """64 MB of 256, more than the L2s do: all of it is there in the second launch."""
    load = EACH_ITS_LINE + "global_load_dword v2, v1, s[2:3]\ns_waitcnt vmcnt(0)\n"
    again = run(load, waves=16, groups=512, buffer=1 << 26, launches=2)
    assert again.fabric_read_bytes > 1 << 25 and again.hbm_read_bytes == 0


PROBES = 32  # workgroups of a sample's that tell how many of the others work


def counted(sample: Sample | bool, launch: Callable[[], object]) -> list[cdna.Counters]:
    with cdna.device("gfx942", card="MI308X"), cdna.counting(sample):
        clear_caches()
        launch()
    return [record.counters for record in take_records() if record.counters is not None]


def test_sample_of_a_large_grid() -> None:
    """Three rounds of eight run, and stand for the grid."""
    card = cdna.get_card("gfx942", "MI308X")
    groups = 8 * 2 * card.compute_units  # two workgroups of 16 waves on a CU
    n = 1024 * groups
    x, y, out = (aligned(n, torch.float32) for _ in range(3))

    def add() -> None:
        add_kernel[(groups,)](x, y, out, n, BLOCK=1024, num_warps=16)

    (sample,), (whole,) = counted(True, add), counted(False, add)
    assert (whole.groups_run, sample.groups_run, sample.groups) == (groups, groups * 3 // 8 + PROBES, groups)
    assert sample.unit_cycles == whole.unit_cycles
    names = "segments l1_reads l2_read_bytes l2_write_bytes fabric_read_bytes hbm_read_bytes fabric_write_bytes "
    names += "hbm_write_bytes"
    for name in names.split():
        assert getattr(sample, name) == pytest.approx(getattr(whole, name), rel=0.01), name
    # Some sets of an L2 are full early.
    assert sample.left_dirty_bytes == pytest.approx(whole.left_dirty_bytes, rel=0.1)
    assert modelled_time_us(sample).us == pytest.approx(modelled_time_us(whole).us, rel=0.02)


@triton.jit
def bounded_kernel(n_groups, x, out, BLOCK: tl.constexpr):
    if tl.program_id(0) >= n_groups:
        return
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 2 * tl.load(x + i))


@pytest.mark.parametrize("working", [0.45, 0.7])  # of the grid: not the rounds in its middle, and these as well
def test_sample_of_a_grid_that_is_an_upper_bound(working: float) -> None:
    card = cdna.get_card("gfx942", "MI308X")
    grid = 8 * 2 * card.compute_units
    groups = round(working * grid)
    x, out = (aligned(1024 * grid, torch.float32) for _ in range(2))

    def double(grid: int) -> Callable[[], object]:
        return lambda: bounded_kernel[(grid,)](groups, x, out, BLOCK=1024, num_warps=16)

    (sample,), (exact,) = counted(True, double(grid)), counted(False, double(groups))
    assert sample.groups == pytest.approx(groups, rel=0.02)
    for name in ("segments", "l2_read_bytes", "l2_write_bytes", "hbm_read_bytes"):
        assert getattr(sample, name) == pytest.approx(getattr(exact, name), rel=0.03), name
    assert modelled_time_us(sample).us == pytest.approx(modelled_time_us(exact).us, rel=0.05)


def test_sample_of_workgroups_that_ask_for_many_lines() -> None:
    """66,048 lines of each of the first round: room for twice as many is not there for all of them, and they work."""
    round_ = cdna.get_card("gfx942").compute_units  # a workgroup takes a CU's LDS
    body = f"""v_lshlrev_b32 v1, 7, v0
      s_movk_i32 s4, 1
      s_cmp_lt_u32 s20, {round_}
      s_cbranch_scc0 again
      s_movk_i32 s4, 1032
    again:
      global_load_dword v2, v1, s[2:3] sc1
      s_sub_u32 s4, s4, 1
      s_cmp_lg_u32 s4, 0
      s_cbranch_scc1 again
      s_waitcnt vmcnt(0)
      s_endpgm"""
    sample = run(body, lds=1 << 16, groups=4 * round_, sample=True)
    assert (sample.groups_run, sample.groups, sample.unrecorded_lines) == (3 * round_ + PROBES, 4 * round_, 0)


def test_sample_leaves_products_out() -> None:
    """Of a small grid all workgroups run; matrix instructions are counted, and compute nothing."""
    a = torch.ones(32, 32, dtype=torch.float16)
    products = {}
    for sample in (False, True):
        c = torch.zeros(32, 32)
        with cdna.device("gfx942"), cdna.counting(sample):
            square_kernel[(1,)](a, c, N=32)
        counters = take_records()[-1].counters
        assert counters is not None and counters.groups_run == counters.groups == 1
        products[sample] = counters.unit_cycles["matrix"], bool((c == 32).all())
    assert products[False] == (products[True][0], True)
    assert not products[True][1]


@triton.jit
def uneven_kernel(counts, a, c, N: tl.constexpr):
    group = tl.program_id(0)
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tile = tl.load(a + i * N + j)
    sums = tl.zeros((N, N), dtype=tl.float32)
    for _ in range(tl.load(counts + group)):
        sums += tl.dot(tile, tile)
    tl.store(c + group * 16 + (i * N + j) % 16, sums)


def test_sample_of_kernels_that_others_decide_for() -> None:
    """What multiplies unlike amounts, as others tell it: rounds all over a grid of 13 stand for it. The others run
    whole, and so do small grids, whose products are right: a router may be among them."""
    card = cdna.get_card("gfx942", "MI308X")
    groups = 13 * 2 * card.compute_units
    counts = (torch.arange(groups, dtype=torch.int32) * 1979 % groups * 9 // groups).contiguous()
    a, c = aligned(32 * 32, torch.float16).fill_(1), torch.zeros(16 * groups)
    x, out = torch.ones(1024 * 4 * card.compute_units), torch.zeros(1024 * 4 * card.compute_units)

    def launches() -> None:
        uneven_kernel[(groups,)](counts, a, c, N=32, num_warps=16)
        uneven_kernel[(8,)](counts + 1, a, c, N=32, num_warps=16)
        add_kernel[(len(x) // 1024,)](x, x, out, len(x), BLOCK=1024, num_warps=16)

    whole = counted(Sample.NONE, launches)
    c.zero_(), out.zero_()
    sample = counted(Sample.PRODUCTS, launches)
    assert [one.groups_run for one in sample] == [groups * 7 // 13 + PROBES, 8, len(x) // 1024]
    assert c[:16].eq(32 * (counts[0] + 1)).all() and out.eq(2).all()
    executed = [sum(one.executed for one in counters.instructions) for counters in (sample[0], whole[0])]
    assert executed[0] == pytest.approx(executed[1], rel=0.05)
    assert modelled_time_us(sample[0]).us == pytest.approx(modelled_time_us(whole[0]).us, rel=0.1)


def test_sample_of_unlike_workgroups() -> None:
    """Of seven four have little to do; of those that are recorded one of six."""
    groups = 8 * 2 * cdna.get_card("gfx942", "MI308X").compute_units
    a, c = aligned(32 * 32, torch.float16), torch.zeros(16 * groups)
    us = []
    for pattern in ([10, 10, 80, 80, 10, 10, 80], [40]):
        counts = torch.tensor(pattern, dtype=torch.int32).repeat(groups // len(pattern) + 1)
        (sample,) = counted(True, lambda: uneven_kernel[(groups,)](counts, a, c, N=32, num_warps=16))  # noqa: B023
        us.append(modelled_time_us(sample).us)
    assert us[0] == pytest.approx(us[1], rel=0.15)


def test_sample_of_rounds_that_differ() -> None:
    """Work grows with a workgroup's number, and begins anew every 4096, as in causal attention whose heads fill several
    rounds: in the rounds that run there is little to do."""
    saw = (
        "v_lshlrev_b32 v1, 7, v0\nglobal_load_dword v2, v1, s[2:3]\n"
        "s_lshr_b32 s21, s20, 9\ns_and_b32 s21, s21, 7\ns_mul_i32 s21, s21, 8\ns_add_u32 s21, s21, 8\n"
        "again:\nv_exp_f32 v4, v4\nglobal_load_dword v2, v1, s[2:3] sc1\ns_sub_u32 s21, s21, 1\n"
        "s_cmp_lg_u32 s21, 0\ns_cbranch_scc1 again\n"
    )
    whole, sample = (run(saw, groups=8192, lds=1 << 15, sample=sample) for sample in (False, True))
    assert sample.groups_run < 2500
    assert sample.cold.cycles == pytest.approx(whole.cold.cycles, rel=0.2)
    for name in ("l2_read_bytes", "vector_instructions", "segments"):
        assert getattr(sample, name) == pytest.approx(getattr(whole, name), rel=0.2), name


def test_a_count_is_one_of_the_cards_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the seed of the order that is asked for: a modelled time is the same with any."""
    made: list[Launch] = []

    def make(**fields: Any) -> Launch:
        made.append(Launch(**fields))
        return made[-1]

    monkeypatch.setattr("cdna.launch.program.Launch", make)
    n = 16
    for counting in (cdna.counting(), contextlib.nullcontext()):
        with cdna.device("gfx942", order_seed=7), counting:
            square_kernel[(1,)](aligned(n * n, torch.float16), torch.empty(n, n), N=n, num_warps=1)
    assert [launch.order_seed for launch in made] == [0, 7]


def test_matrix_instructions_of_a_product() -> None:
    n = 64
    a, out = aligned(n * n, torch.float16).view(n, n), torch.empty(n, n)
    with cdna.device("gfx942"), cdna.counting():
        square_kernel[(1,)](a, out, N=n, num_warps=4)
    c = take_records()[-1].counters
    assert c is not None
    # A SIMD does 512 FLOPs a cycle on f16; an instruction is 16x16x16 or 32x32x8.
    assert c.unit_cycles["matrix"] == 2 * n**3 // 512
    assert sum(i.executed for i in c.instructions if i.unit == "matrix") * 16 * 16 * 16 in (n**3, n**3 // 2)


@pytest.mark.parametrize(
    "arch, text, cycles",
    [
        ("gfx942", "v_mfma_f32_16x16x16_f16 a[0:3], v[2:3], v[4:5], 0", 16),
        ("gfx942", "v_mfma_f32_32x32x16_fp8_fp8 a[0:15], v[2:3], v[4:5], 0", 32),
        ("gfx942", "v_mfma_f32_16x16x8_xf32 a[0:3], v[2:3], v[4:5], 0", 16),
        ("gfx942", "v_mfma_f32_16x16x4_f32 a[0:3], v2, v4, 0", 32),
        ("gfx942", "v_mfma_f32_32x32x2_f32 a[0:15], v2, v4, 0", 64),
        ("gfx942", "v_mfma_f32_32x32x4_2b_f16 a[0:31], v[2:3], v[4:5], 0", 64),
        ("gfx942", "v_mfma_f32_4x4x4_16b_f16 a[0:3], v[2:3], v[4:5], 0", 8),
        ("gfx942", "v_mfma_f64_16x16x4_f64 a[0:7], v[2:3], v[4:5], 0", 32),
        ("gfx942", "v_smfmac_f32_16x16x64_fp8_fp8 a[0:3], v[2:3], v[4:7], v8", 16),
        ("gfx950", "v_mfma_f64_16x16x4_f64 a[0:7], v[2:3], v[4:5], 0", 64),
        ("gfx950", "v_mfma_f32_16x16x32_f16 a[0:3], v[2:5], v[6:9], 0", 16),
        ("gfx950", "v_mfma_f32_16x16x128_f8f6f4 a[0:3], v[2:9], v[10:17], 0", 32),
        ("gfx950", "v_mfma_f32_16x16x128_f8f6f4 a[0:3], v[2:5], v[6:9], 0 cbsz:4 blgp:4", 16),
        ("gfx950", "v_mfma_f32_32x32x64_f8f6f4 a[0:15], v[2:5], v[6:13], 0 cbsz:4", 64),
    ],
)
def test_cycles_of_matrix_instructions(arch: str, text: str, cycles: int) -> None:
    assert run("\n".join([text] * 3), arch).unit_cycles["matrix"] == 3 * cycles


@pytest.mark.parametrize(
    "arch, text, stride, cycles, conflicts",
    [
        # Bytes between lanes; cycles for the wave; those that conflicts cost.
        ("gfx942", "ds_read_b32 v2, v1", 4, 2, 0),
        ("gfx942", "ds_read_b32 v2, v1", 0, 2, 0),  # one dword for all
        ("gfx942", "ds_read_b32 v2, v1", 8, 4, 2),
        ("gfx942", "ds_read_b32 v2, v1", 128, 64, 62),  # every lane in bank 0
        ("gfx942", "ds_read_b32 v2, v1", 132, 2, 0),  # padded rows
        ("gfx942", "ds_read_b64 v[2:3], v1", 8, 4, 0),
        ("gfx942", "ds_read_b128 v[2:5], v1", 16, 8, 0),
        ("gfx942", "ds_write_b128 v1, v[2:5]", 16, 8, 0),
        ("gfx942", "ds_read_b128 v[2:5], v1", 128, 64, 56),
        ("gfx942", "ds_write_b128 v1, v[2:5]", 20, 64, 56),  # not aligned to 16 bytes: lane by lane
        ("gfx942", "ds_add_u32 v1, v2", 0, 64, 62),  # atomics on one dword, one by one
        ("gfx942", "ds_read2_b32 v[2:3], v1 offset1:1", 8, 8, 4),
        ("gfx950", "ds_read_b32 v2, v1", 4, 1, 0),
        ("gfx950", "ds_read_b64 v[2:3], v1", 8, 2, 0),
        ("gfx950", "ds_read_b128 v[2:5], v1", 16, 4, 0),
        ("gfx950", "ds_read_b96 v[2:4], v1", 16, 8, 0),
        ("gfx950", "ds_write_b64 v1, v[2:3]", 8, 4, 0),
        ("gfx950", "ds_read_b128 v[2:5], v1", 256, 64, 60),
        ("gfx950", "ds_read_b128 v[2:5], v1 offset:8", 16, 64, 60),
    ],
)
def test_lds_banks(arch: str, text: str, stride: int, cycles: int, conflicts: int) -> None:
    c = run(f"v_mul_u32_u24 v1, {stride}, v0\n{text}\ns_waitcnt lgkmcnt(0)", arch, lds=64 * 256)
    counted = count_of(c, "ds_")
    assert (counted.cycles, counted.conflict_cycles) == (cycles, conflicts)
    assert (c.unit_cycles["lds"], c.lds_conflict_cycles) == (cycles, conflicts)


@pytest.mark.parametrize(
    "text, stride, lines, segments, ideal",
    [
        ("global_load_dword v2, v1, s[2:3]", 4, 2, 4, 4),
        ("global_load_dword v2, v1, s[2:3]", 256, 64, 64, 4),  # a line for every lane
        ("global_load_dword v2, v1, s[2:3]", 0, 1, 1, 4),
        ("global_load_dwordx4 v[2:5], v1, s[2:3]", 16, 8, 16, 16),
        ("global_load_dwordx4 v[2:5], v1, s[2:3] offset:64", 16, 9, 16, 16),
        ("global_load_ubyte v2, v1, s[2:3]", 1, 1, 1, 1),
        ("global_store_dwordx2 v1, v[2:3], s[2:3]", 8, 4, 8, 8),
        ("global_atomic_add v1, v2, s[2:3]", 4, 2, 4, 4),
    ],
)
def test_coalescing(text: str, stride: int, lines: int, segments: int, ideal: int) -> None:
    counted = count_of(run(f"v_mul_u32_u24 v1, {stride}, v0\n{text}"), "global_")
    assert (counted.lines, counted.segments, counted.ideal_segments) == (lines, segments, ideal)


def test_l1_keeps_lines_and_l2_is_shared_by_an_xcd() -> None:
    load = "v_lshlrev_b32 v1, 2, v0\nglobal_load_dword v2, v1, s[2:3]\ns_waitcnt vmcnt(0)\n"
    c = run(load + load, groups=16)
    assert (c.l1_reads, c.l1_hits) == (16 * 4, 16 * 2)
    assert c.l2_read_bytes == 16 * 256
    assert c.fabric_read_bytes == 8 * 256  # workgroups 0 to 7 and 8 to 15 lie on eight XCDs, two on each
    assert c.hbm_read_bytes == 256  # the memory-side cache serves all XCDs
    around = run(load.replace("s[2:3]", "s[2:3] sc1") * 2)
    assert (around.l1_reads, around.l1_hits) == (4, 0)


def test_l2_evicts_what_does_not_fit() -> None:
    """One wave walks 8 MiB twice: an L2 of 4 MiB has nothing left, the memory-side cache all."""
    body = """
      s_mov_b32 s8, 2
    again:
      v_lshlrev_b32 v1, 4, v0
      s_movk_i32 s9, 0x2000
    more:
      global_load_dwordx4 v[4:7], v1, s[2:3]
      v_add_u32 v1, 0x400, v1
      s_sub_u32 s9, s9, 1
      s_cmp_lg_u32 s9, 0
      s_cbranch_scc1 more
      s_sub_u32 s8, s8, 1
      s_cmp_lg_u32 s8, 0
      s_cbranch_scc1 again
    """
    c = run(body, buffer=8 << 20)
    assert c.l2_read_bytes == c.fabric_read_bytes == 16 << 20
    assert c.hbm_read_bytes == 8 << 20
    half = run(body.replace("0x2000", "0x800"), buffer=8 << 20)  # 2 MiB: the second walk stays in the L2
    assert half.fabric_read_bytes < 1.1 * (2 << 20)


def test_divergence_barriers_and_waits() -> None:
    body = "s_mov_b64 exec, 0xffff\nv_mov_b32 v1, 0\nv_mov_b32 v2, 0\nv_mov_b32 v3, 0\ns_barrier\ns_barrier"
    c = run(body, groups=3, waves=4)
    assert c.barriers == 3 * 2
    assert c.waits == 3 * 4
    assert c.active_lanes == pytest.approx((64 + 3 * 16) / (4 * 64))


def test_counting_changes_no_result_and_is_off_by_itself() -> None:
    x, y = torch.randn(5000), torch.randn(5000)
    out = torch.empty(5000)
    with cdna.device("gfx950"):
        add_kernel[(5,)](x, y, out, 5000, BLOCK=1024)
        assert take_records()[-1].counters is None
        with cdna.counting():
            add_kernel[(5,)](x, y, out, 5000, BLOCK=1024)
    record = take_records()[-1]
    assert record.counters is not None and torch.equal(out, x + y)
    assert sum(i.executed for i in record.counters.instructions) == record.wave_instructions


def test_a_fault_under_counting_is_a_fault() -> None:
    with pytest.raises(cdna.KernelFault, match="memory access fault"):
        run("v_mov_b32 v1, 0\nv_mov_b32 v2, 0\nglobal_load_dword v3, v[1:2], off", groups=64)


def test_launches_that_the_engine_logs_are_counted_the_same() -> None:
    """The HIP runtime's launches come this way: begin and end around cdna_launch, and no Python between."""
    kernel: Kernel = program("v_mov_b32 v1, 0\nds_read_b32 v2, v1", lds_bytes=64).kernels["k"]
    lib = engine().lib
    handle = ctypes.c_void_p(kernel.program._handle)

    def launch() -> None:
        setup = Launch(
            groups=(5, 1, 1),
            block=(128, 1, 1),
            n_threads=1,
            kernarg=ctypes.cast(ctypes.c_char_p(bytes(8)), ctypes.c_void_p),
            kernarg_bytes=8,
        )
        log = lib.cdna_log_begin(handle, 0, ctypes.byref(setup))
        lib.cdna_launch(handle, 0, ctypes.byref(setup))
        lib.cdna_log_end(log, handle, ctypes.byref(setup))

    with cdna.counting():
        take_records()
        direct = kernel.launch((5, 1, 1), (128, 1, 1), bytes(8))
        assert direct.counters is not None
        take_records()
        launch()
        launch()
        logged = take_records()
    assert logged == [direct, direct]
    launch()
    (uncounted,) = take_records()
    assert uncounted == dataclasses.replace(direct, counters=None)


# --- polls -----------------------------------------------------------------------------------------------


def waiting(turns: int, poll: str) -> str:
    """A wave that sleeps and then does `poll`, so often, and at the end stores."""
    return f"""
        s_movk_i32 s4, {turns}
        v_lshlrev_b32 v2, 2, v0
    again:
        s_sleep 1
        {poll}
        s_sub_u32 s4, s4, 1
        s_cmp_lg_u32 s4, 0
        s_cbranch_scc1 again
        global_store_dword v2, v1, s[2:3]
        s_endpgm
    """


POLL = "global_load_dword v1, v2, s[2:3] sc1\ns_waitcnt vmcnt(0)\nv_cmp_eq_u32 vcc, v1, v2"


@pytest.mark.parametrize(
    ("poll", "is_poll"),
    [
        (POLL, True),
        ("s_load_dword s5, s[2:3], 0x0\ns_waitcnt lgkmcnt(0)", True),
        (POLL + "\nglobal_store_dword v2, v0, s[2:3]", False),
        (POLL + "\nglobal_atomic_add v2, v0, s[2:3]", False),
        (POLL + "\ns_barrier", False),
        (POLL + "\nds_write_b32 v2, v1", False),  # fills a ring that other waves read
        ("ds_bpermute_b32 v1, v2, v0\n" + POLL, True),
        ("v_add_u32 v1, v1, v1", False),  # asks nobody
        (POLL + "\nv_add_u32 v1, v1, v1" * 100, True),
        (POLL + "\nv_add_u32 v1, v1, v1" * 2100, False),  # too long to be one
    ],
)
def test_asking_again_is_not_counted(poll: str, is_poll: bool) -> None:
    """How often a wave asks depends on how fast the emulation is, not on the kernel."""
    few, many = (run(waiting(turns, poll), lds=1024) for turns in (2, 300))
    sleeps = count_of(many, "s_sleep")
    assert sleeps.executed == 300 and sleeps.polls == (299 if is_poll else 0)
    same = [few.unit_cycles == many.unit_cycles, few.segments == many.segments, few.cold == many.cold]
    same += [few.l2_read_bytes == many.l2_read_bytes, few.l1_reads == many.l1_reads, few.waits == many.waits]
    assert all(same) if is_poll else not same[0] and not same[2], (few, many)
    if is_poll:
        assert count_of(few, "s_sleep").polls == 1 and few.active_lanes == many.active_lanes
        once = run(waiting(1, poll))  # the last turn is counted: it saw what it waited for
        assert once.unit_cycles == many.unit_cycles and once.cold == many.cold


def test_two_waits_in_turn_are_each_counted_once() -> None:
    """Another s_sleep ends what was held back, and does not take it for a poll."""
    both = waiting(50, POLL).replace("again", "second").replace("s_movk_i32 s4, 50", "s_movk_i32 s4, 50", 1)
    twice = run(waiting(50, POLL).partition("global_store")[0] + both)
    once = run(waiting(50, POLL))
    assert [i.polls for i in twice.instructions if i.mnemonic.startswith("s_sleep")] == [49, 49]
    assert twice.segments - once.segments == 4  # the second wait's last load: 256 bytes


@pytest.mark.parametrize("groups", [60, 200])  # a round on 80 CUs, and several
def test_workgroups_without_work_stand_for_none_of_a_whole_grid(groups: int) -> None:
    x, out = (aligned(1024 * 1000, torch.float32) for _ in range(2))

    def double(grid: int) -> Callable[[], object]:
        return lambda: bounded_kernel[(grid,)](groups, x, out, BLOCK=1024, num_warps=16)

    (bound,), (exact,) = counted(False, double(1000)), counted(False, double(groups))
    assert bound.groups == bound.groups_run == groups
    assert modelled_time_us(bound).us == pytest.approx(modelled_time_us(exact).us, rel=0.01)


@triton.jit
def last_adds_up_kernel(x, partial, arrived, out, BLOCK: tl.constexpr, OF: tl.constexpr):
    group, tile, i = tl.program_id(0), tl.program_id(0) // OF, tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(8 + group * 7 % 61 * 8):
        total += tl.load(x + (group + k) * BLOCK + i)
    tl.store(partial + group * BLOCK + i, total)
    if tl.atomic_add(arrived + tile, 1) == OF - 1:
        for part in range(OF):
            total += tl.load(partial + (tile * OF + part) * BLOCK + i)
        tl.store(out + tile * BLOCK + i, total)


def test_who_arrives_last_is_the_same_one_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDNA_THREADS", "4")
    x, partial, out = (aligned(64 * n, torch.float32) for n in (600, 64, 16))

    def launch() -> None:
        arrived = torch.zeros(16, dtype=torch.int32)
        last_adds_up_kernel[(64,)](x, partial, arrived, out, BLOCK=64, OF=4, num_warps=1)

    assert len({modelled_time_us(counted(False, launch)[0]).us for _ in range(6)}) == 1


def test_tensors_begin_where_a_gpu_would_begin_them() -> None:
    with cdna.counting():
        tensors = [torch.empty(n, dtype=torch.uint8) for n in (1, 70, 513, 3000, 4096, 100_001, 3 << 20)]
    assert not any(t.data_ptr() % 4096 for t in tensors)  # of 512: a page is the host's as little as the line
