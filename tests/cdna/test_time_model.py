"""What the time model must keep to: mechanisms of the replay in cycles worked out by hand."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import cdna
from cdna.cards import get_card
from cdna.observe.model import modelled_case_us, modelled_time_us
from cdna.observe.records import LaunchRecord, take_records
from cdna.observe.replay import Change
from cdna.profile.kernel import profiles
from tests.support.counted import EACH_ITS_LINE, add_kernel, addition, run

CARD = get_card("gfx942")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def counted() -> cdna.Counters:
    load = "v_lshlrev_b32 v1, 2, v0\nglobal_load_dword v2, v1, s[2:3]\ns_waitcnt vmcnt(0)\nv_exp_f32 v2, v2\n"
    mfma = "v_mfma_f32_16x16x16_f16 a[0:3], v[2:3], v[4:5], 0\n" * 10
    lds = "ds_write_b32 v1, v2\ns_barrier\nds_read_b32 v2, v1\ns_waitcnt lgkmcnt(0)\n"
    return run(load + mfma + lds, lds=4096, groups=608, waves=4)


def test_more_work_never_takes_less_time(counted: cdna.Counters) -> None:
    before = modelled_time_us(counted)
    assert before.us >= max(before.parts_us.values()) > 0
    for name in ("hbm_read_bytes", "hbm_write_bytes", "left_dirty_bytes", "atomics_on_line", "cache_maintenance"):
        more = dataclasses.replace(counted, **{name: getattr(counted, name) * 100 + 10**9})
        assert modelled_time_us(more).us > before.us, name
    for unit in ("matrix", "vector", "lds", "memory"):
        cycles = counted.unit_cycles | {unit: counted.unit_cycles[unit] * 10_000}
        assert modelled_time_us(dataclasses.replace(counted, unit_cycles=cycles)).us > before.us, unit
    for level in counted.busiest_xcd:
        busy = counted.busiest_xcd | {level: 10**9}
        assert modelled_time_us(dataclasses.replace(counted, busiest_xcd=busy)).us > before.us, level
    assert modelled_time_us(counted, warm=True).us <= before.us


@pytest.mark.parametrize(
    "bound, change",
    [
        ("matrix", {"unit_cycles": {"matrix": 10**9}}),
        ("LDS", {"unit_cycles": {"lds": 10**9}}),
        ("vector", {"unit_cycles": {"vector": 10**9}}),
        ("L1", {"unit_cycles": {"memory": 10**9}}),
        ("L2", {"busiest_xcd": {"l2_read": 10**9}}),
        ("fabric", {"busiest_xcd": {"fabric_read": 10**9}}),
        ("HBM", {"hbm_read_bytes": 10**12}),
        ("atomics", {"atomics_on_line": 10**6}),
        ("fences", {"cache_maintenance": 10**6}),
        ("launch", {}),
    ],
)
def test_bound_is_what_takes_longest(counted: cdna.Counters, bound: str, change: dict) -> None:
    idle = dataclasses.replace(
        counted,
        unit_cycles=dict.fromkeys(counted.unit_cycles, 0),
        busiest_xcd=dict.fromkeys(counted.busiest_xcd, 0),
        cold=dataclasses.replace(counted.cold, cycles=0),
        hbm_read_bytes=0,
        hbm_write_bytes=0,
    )
    new = {k: getattr(idle, k) | v if isinstance(v, dict) else v for k, v in change.items()}
    assert modelled_time_us(dataclasses.replace(idle, **new)).bound == bound


# --- mechanisms ----------------------------------------------------------------------------------------


def cycles(body: str, lds: int = 0, waves: int = 1, groups: int = 1, arch: str = "gfx942") -> float:
    """Of the whole launch, from its first instruction to its last, with cold caches."""
    return run(body, arch, lds=lds, waves=waves, groups=groups).cold.cycles


MFMA = "v_mfma_f32_32x32x8_f16 a[0:15], v[2:3], v[4:5], 0\n"  # 32 cycles
LOAD = "v_lshlrev_b32 v1, 2, v0\nglobal_load_dword v2, v1, s[2:3]\n"


def test_waves_share_a_matrix_core_and_simds_do_not() -> None:
    empty = cycles("")
    alone = cycles(MFMA * 100) - empty
    assert alone == pytest.approx(100 * 32, rel=0.02)
    assert cycles(MFMA * 100, waves=4) - empty == pytest.approx(alone, rel=0.02)
    assert cycles(MFMA * 100, waves=8) - empty == pytest.approx(2 * alone, rel=0.02)


def test_vector_instructions_hide_behind_matrix_instructions() -> None:
    empty = cycles("")
    both = cycles((MFMA + "v_add_u32 v6, v6, v6\n" * 4) * 100) - empty
    assert both == pytest.approx(100 * 32, rel=0.05)  # 16 of the 32 cycles are the vector instructions'
    too_many = cycles((MFMA + "v_add_u32 v6, v6, v6\n" * 10) * 100) - empty
    assert too_many == pytest.approx(100 * 44, rel=0.05)


def test_a_wave_waits_for_the_result_of_a_matrix_instruction() -> None:
    """Adding to a result goes on at the matrix core's pace; reading it takes three wait states more."""
    adds = "v_mfma_f32_16x16x16_f16 v[4:7], v[0:1], v[2:3], v[4:7]\n" * 100
    reads = "v_mfma_f32_16x16x16_f16 v[4:7], v[4:5], v[2:3], 0\n" * 100
    empty = cycles("")
    assert cycles(adds) - empty == pytest.approx(100 * 16, rel=0.05)
    assert cycles(reads) - empty == pytest.approx(100 * 28, rel=0.05)


@pytest.mark.parametrize(
    ("arch", "text", "each"),
    [
        ("gfx950", "v_exp_f32 v2, v3", 8),
        ("gfx942", "v_exp_f32 v2, v3", 16),
        ("gfx950", "v_permlane32_swap_b32 v2, v3", 8),
        ("gfx950", "v_add_u32 v2, v3, v3", 4),
        ("gfx950", "ds_write_b32 v2, v3", 8),
        ("gfx950", "ds_write_b64 v2, v[4:5]", 12),
        ("gfx950", "ds_write_b128 v2, v[4:7]", 20),
        ("gfx950", "ds_read_b32 v6, v2", 4),
    ],
)
def test_a_wave_issues_as_measured(arch: str, text: str, each: int) -> None:
    empty = cycles("v_mov_b32 v2, 0", arch=arch, lds=64)
    body = "v_mov_b32 v2, 0\n" + (text + "\n") * 100
    assert cycles(body, arch=arch, lds=64) - empty == pytest.approx(100 * each, rel=0.25)


def test_two_waves_issue_fp32_at_once() -> None:
    """On gfx942, where the operands differ."""
    empty = cycles("", waves=8)
    differ = cycles("v_add_f32 v2, v3, v4\n" * 400, waves=8) - empty
    same = cycles("v_add_f32 v2, v3, v3\n" * 400, waves=8) - empty
    assert differ == pytest.approx(400 * 4, rel=0.05) and same == pytest.approx(400 * 8, rel=0.05)


def test_a_wait_takes_the_latency_and_work_before_it_hides_it() -> None:
    no_wait = cycles("v_lshlrev_b32 v1, 2, v0\n")
    waits = cycles(LOAD + "s_waitcnt vmcnt(0)\n")
    assert waits - no_wait == pytest.approx(CARD.memory_cycles, abs=40)
    warm = run(LOAD + "s_waitcnt vmcnt(0)\n").warm.cycles - run("v_lshlrev_b32 v1, 2, v0\n").warm.cycles
    assert warm == pytest.approx(CARD.memory_side_cycles, abs=40)
    again = cycles((LOAD + "s_waitcnt vmcnt(0)\n") * 2) - waits  # the L1 has it
    assert again == pytest.approx(CARD.l1_cycles, abs=40)
    busy = cycles(LOAD + MFMA * 40 + "s_waitcnt vmcnt(0)\n")
    assert busy == pytest.approx(no_wait + 40 * 32, rel=0.05)


def test_the_lines_of_a_profile_wait_as_long_as_its_caches_let_them() -> None:
    """Not for HBM where the memory-side cache answers."""
    counters = run(LOAD + "s_waitcnt vmcnt(0)\n")
    record = LaunchRecord("k", (1, 1, 1), (64, 1, 1), 0, 0, counters=counters)
    for warm, latency in ((False, CARD.memory_cycles), (True, CARD.memory_side_cycles)):
        (profile,) = profiles([record], warm)
        waited = {one.mnemonic: one.spent.get("memory", 0.0) for line in profile.lines for one in line.instructions}
        assert waited["s_waitcnt"] == pytest.approx(latency, abs=40)
        assert profile.counters.spent["memory"] > 0.2 and profile.time.us == modelled_time_us(record, warm).us
        assert sum(profile.counters.spent.values()) == pytest.approx(1)


def test_a_cold_scalar_load_takes_longer_than_the_next_of_its_line() -> None:
    once = "s_load_dword s4, s[2:3], 0x0\ns_waitcnt lgkmcnt(0)\n"
    empty, cold, both = cycles(""), cycles(once), cycles(once * 2)
    assert cold - empty == pytest.approx(CARD.scalar_next_cycles, abs=40)  # the kernel's arguments were the first
    assert empty > CARD.scalar_cold_cycles
    assert both - cold == pytest.approx(CARD.scalar_cycles, abs=40)


def test_lines_in_flight_limit_what_a_cu_can_load() -> None:
    """A CU that waits for 32 KB at a time gets them once in a latency."""
    loads = "v_lshlrev_b32 v1, 4, v0\n" + "".join(
        f"global_load_dwordx4 v[4:7], v1, s[2:3]\nv_add_u32 v1, 0x{1024:x}, v1\n" for _ in range(192)
    )
    taken = run(loads + "s_waitcnt vmcnt(0)\n", buffer=1 << 18).cold.cycles - cycles("")
    rounds = 192 * 1024 / CARD.l1_in_flight_bytes
    assert taken == pytest.approx(rounds * CARD.memory_cycles, rel=0.15)


def test_a_store_into_the_l2_is_acknowledged_at_once() -> None:
    store = "v_lshlrev_b32 v1, 2, v0\nglobal_store_dword v1, v0, s[2:3]\ns_waitcnt vmcnt(0)\n"
    taken = cycles(store) - cycles("v_lshlrev_b32 v1, 2, v0\n")
    assert CARD.l2_cycles < taken == pytest.approx(CARD.store_cycles, abs=40)


def test_what_is_left_dirty_is_no_more_than_what_is_written() -> None:
    """Counts are rounded when they are scaled: on each of eight XCDs 512 bytes to two thirds, and all 4096."""
    store = "global_store_dword v1, v0, s[2:3]\n"
    counters = run(f"v_lshlrev_b32 v1, 2, v0\n{store * 2}v_add_u32 v1, 0x100, v1\n{store}", groups=8)
    last = [one.index for one in counters.instructions if one.mnemonic == "global_store_dword"][-1]
    assert counters.replay is not None and counters.left_dirty_bytes == counters.fabric_write_bytes == 8 * 512
    left = counters.replay.changed(Change({last: "it"}))
    assert left is not None and left.write == pytest.approx(2 / 3) and left.time.cycles <= counters.cold.cycles


def test_the_oldest_wave_is_served_first_at_the_l1() -> None:
    """A young wave waits for its first place in the queue, and has its next ones soon. Were places given in the order
    of arrival, it would wait as long for each."""
    loads = "v_lshlrev_b32 v1, 4, v0\n" + "global_load_dwordx4 v[4:7], v1, s[2:3]\nv_add_u32 v1, 0x4000, v1\n" * 8
    counters = run(loads + "s_waitcnt vmcnt(0)\n", waves=16, buffer=1 << 18)
    first, *rest = (i.spent.get("L1", 0) for i in counters.instructions if i.mnemonic == "global_load_dwordx4")
    assert first > sum(rest) / 2 and first > 4 * rest[-1]


def test_a_launch_of_many_rounds_takes_no_less_than_its_traffic() -> None:
    """Whoever replays a few of its rounds must not take the last, which has none behind it, for the others."""
    n = 1 << 23
    modelled = modelled_time_us(addition(n, 1024))
    assert modelled.parts_us["replay"] > 0.95 * modelled.parts_us["HBM"]


def test_a_barrier_waits_for_the_slowest_wave() -> None:
    slow_wave = "v_cmp_gt_u32 vcc, 64, v0\ns_cbranch_vccz skip\n" + "s_nop 15\n" * 50 + "skip:\n"
    one_slow = cycles(slow_wave + "s_barrier\n" + slow_wave, waves=4)
    assert one_slow - cycles("", waves=4) == pytest.approx(2 * 50 * 64, rel=0.05)


def test_a_workgroup_too_many_takes_a_round_more() -> None:
    """One workgroup of 64 KB of LDS fits on a CU; the next starts when it has left."""
    full = cycles(MFMA * 1000, lds=65536, waves=4, groups=CARD.compute_units)
    more = cycles(MFMA * 1000, lds=65536, waves=4, groups=CARD.compute_units + 1)
    assert more == pytest.approx(2 * full + CARD.refill_group_cycles, rel=0.1)
    five = cycles(MFMA * 1000, lds=65536, waves=4, groups=5 * CARD.compute_units)  # three rounds are replayed
    assert five == pytest.approx(5 * full + 4 * CARD.refill_group_cycles, rel=0.1)


MUCH = "v_exp_f32 v4, v4\n" * 1000  # 16 cycles each


def last_adds_up(groups: int, slices: int, after: str) -> str:
    """Workgroups that count themselves on their tile's counter; the last of `slices` goes on with `after`."""
    return (
        f"v_mov_b32 v3, 1\ns_and_b32 s21, s20, {groups // slices - 1}\ns_lshl_b32 s21, s21, 7\nv_mov_b32 v1, s21\n"
        "v_cmp_eq_u32 vcc, 0, v0\ns_and_b64 exec, exec, vcc\nglobal_atomic_add v2, v1, v3, s[2:3] sc0\n"
        f"s_waitcnt vmcnt(0)\nv_readfirstlane_b32 s22, v2\ns_cmp_lg_u32 s22, {slices - 1}\ns_cbranch_scc1 done\n"
        f"{after}done:\ns_nop 0\n"
    )


@pytest.mark.parametrize("groups, slices", [(64, 64), (64, 8), (256, 16)])
def test_the_workgroup_that_arrives_last_has_its_work_in_the_time(groups: int, slices: int) -> None:
    """Which one that is depends on when each was done: none is chosen beforehand."""
    code = (last_adds_up(groups, slices, after) for after in ("", MUCH))
    little, much = (run(each, groups=groups).cold.cycles for each in code)
    assert much - little > 15_000


def only_in(group: int, code: str) -> str:
    return f"s_cmp_lg_u32 s20, {group}\ns_cbranch_scc1 done\n{code}done:\ns_nop 0\n"


@pytest.mark.parametrize("sample", (False, True))
@pytest.mark.parametrize("longest, groups", [(0, 256), (100, 256), (0, 4096), (1, 4096)])  # one round, and several
def test_a_launch_waits_for_the_workgroup_that_has_much_more_to_do(longest: int, groups: int, sample: bool) -> None:
    """None of those chosen beforehand: the whole of what it executes is in the time, and what it asks of memory."""
    work = "v_lshlrev_b32 v1, 7, v0\nglobal_load_dword v2, v1, s[2:3]\n" + "v_exp_f32 v4, v4\n" * 10

    def counters(more: str) -> cdna.Counters:
        return run(work + only_in(longest, more), groups=groups, lds=1 << 15, sample=sample)

    loads = "s_waitcnt vmcnt(0)\nglobal_load_dword v5, v1, s[2:3] sc1\n" * 100  # around the L1
    little, much, waits = (counters(more) for more in ("", MUCH, loads))
    assert not little.longest_times
    assert much.longest_group == longest and much.longest_times > 10
    assert much.cold.cycles > 16_000 and much.cold.others_cycles == pytest.approx(little.cold.cycles, rel=0.03)
    assert waits.cold.cycles > 90 * CARD.l2_cycles
    assert sum(much.spent.values()) == pytest.approx(1) and much.spent["issue"] > little.spent["issue"]


@pytest.mark.parametrize("sample", (False, True))
def test_of_many_rounds_as_many_workgroups_add_up_as_there_are_tiles(sample: bool) -> None:
    """The slices of a tile lie rounds apart: of a sample of rounds none would arrive last."""
    groups, slices = 4096, 4

    def time_of(after: str) -> float:
        code = last_adds_up(groups, slices, after)
        return run(code, groups=groups, lds=1 << 15, buffer=1 << 17, sample=sample).cold.cycles

    last_of_a_place = groups / slices / CARD.compute_units / 2  # two workgroups share a CU
    assert time_of(MUCH) - time_of("") == pytest.approx(16_000 * last_of_a_place, rel=0.3)


def test_the_l1_joins_only_lanes_that_it_takes_at_once() -> None:
    """Four neighbours with 16 bytes each of four lines: of a line others ask too, at other times."""
    lines = "v_and_b32 v1, 3, v0\nv_lshlrev_b32 v1, 8, v1\nv_lshrrev_b32 v2, 2, v0\nv_lshl_add_u32 v1, v2, 4, v1\n"
    apart, joined = (
        run(where + "global_load_dwordx4 v[4:7], v1, s[2:3]\n") for where in (lines, "v_lshlrev_b32 v1, 4, v0\n")
    )
    assert (apart.unit_cycles["memory"], joined.unit_cycles["memory"]) == (64, 16)
    assert apart.segments == joined.segments == 16


def test_workgroups_share_their_cus_l1() -> None:
    """24 KB of each, twice: one has room for that, two have not unless they read the same."""
    load = "global_load_dword v2, v1, s[2:3]\ns_waitcnt vmcnt(0)\n"
    body = "v_lshlrev_b32 v1, 7, v0\n" + load + "s_barrier\n" + load
    own = EACH_ITS_LINE + body.partition("\n")[2]
    many = 2 * CARD.compute_units
    assert run(body, waves=3, lds=1 << 15).l1_hits == 192
    apart = run(own, waves=3, groups=many, lds=1 << 15, buffer=many << 17)
    assert apart.l1_hits == 0 and apart.l2_read_bytes == many * 2 * 192 * 128
    same = run(body, waves=3, groups=many, lds=1 << 15)
    assert same.l1_hits == many * 192 * 3 / 2 and same.l2_read_bytes == CARD.compute_units * 192 * 128
    around = run(body.replace("s[2:3]", "s[2:3] sc1"), waves=3, groups=many, lds=1 << 15)
    assert around.l1_hits == 0 and around.l2_read_bytes == apart.l2_read_bytes


def test_a_line_that_another_workgroup_has_just_asked_for_is_no_sooner_there() -> None:
    lines = "v_and_b32 v1, 15, v0\nv_lshlrev_b32 v1, 7, v1\n"
    load = lines + "global_load_dword v2, v1, s[2:3]\ns_waitcnt vmcnt(0)\n"
    alone, two = (run(load, groups=n * CARD.compute_units, lds=1 << 15) for n in (1, 2))

    def waited(counters: cdna.Counters) -> float:  # at its second s_waitcnt, for each cycle of issue
        wait = [one for one in counters.instructions if one.mnemonic == "s_waitcnt"][1]
        return wait.spent["memory"] / wait.spent["issue"]

    assert waited(two) == pytest.approx(waited(alone), rel=0.1) and two.l2_read_bytes == alone.l2_read_bytes


TIMED_WHERE_IT_LIES = """
import sys, torch
moved = torch.zeros(int(sys.argv[1]), dtype=torch.uint8)
from tests.support.counted import EACH_ITS_LINE, run
load = EACH_ITS_LINE + "global_load_dword v2, v1, s[2:3]\\ns_waitcnt vmcnt(0)\\n"
counters = run(load, waves=16, groups=208, buffer=208 << 17, launches=2)
print(counters.cold.cycles.hex(), counters.fabric_read_bytes)
"""


def test_time_is_the_same_wherever_buffers_lie() -> None:
    """26 MB, which nearly fill the L2s: which lines share a set there depends on pages."""
    told = set()
    for moved_bytes in ("4096", str(77 * 4096 + (1 << 25))):  # and the system places a process's memory at random
        command = [sys.executable, "-c", TIMED_WHERE_IT_LIES, moved_bytes]
        told.add(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout)
    assert len(told) == 1


def test_power_lowers_the_clock_of_busy_matrix_cores() -> None:
    busy = run(MFMA * 2000, groups=CARD.compute_units, waves=4)
    idle = run("s_nop 15\n" * 1000, groups=CARD.compute_units, waves=4)
    assert modelled_time_us(idle).clock == "boost" and idle.cold.mhz == CARD.clock_mhz
    assert modelled_time_us(busy).clock == "sustained" and modelled_time_us(busy).bound == "matrix"
    assert CARD.sustained_mhz <= busy.cold.mhz < 1.2 * CARD.sustained_mhz


def test_power_goes_with_the_cube_of_the_clock() -> None:
    """Of a matrix core that is busy for a quarter of the time; one for a twentieth keeps its clock."""
    often, seldom = (run((MFMA + "s_nop 15\n" * n) * 400, groups=CARD.compute_units, waves=4).cold for n in (2, 10))
    assert often.mhz == pytest.approx(CARD.sustained_mhz / often.matrix_share ** (1 / 3), rel=0.02)
    assert CARD.sustained_mhz < often.mhz < CARD.clock_mhz == seldom.mhz


def test_a_busy_lds_takes_power_too() -> None:
    busy = MFMA + "ds_read_b128 v[8:11], v1\n" * 4
    dry, wet = (
        run(body * 300, groups=CARD.compute_units, waves=4, lds=4096).cold for body in (MFMA + "s_nop 15\n", busy)
    )
    assert wet.matrix_share < 1.1 * dry.matrix_share and wet.mhz < 0.97 * CARD.sustained_mhz / wet.matrix_share ** (
        1 / 3
    )


def test_operands_of_eight_bits_take_less_power() -> None:
    card = get_card("gfx950")
    wide, narrow = (
        run(f"v_mfma_f32_16x16x32_{kind} a[0:3], {operands}, 0\n" * 2000, "gfx950", groups=card.compute_units, waves=4)
        for kind, operands in (("f16", "v[0:3], v[4:7]"), ("fp8_fp8", "v[0:1], v[2:3]"))
    )
    gained = narrow.cold.mhz / wide.cold.mhz
    assert gained == pytest.approx(card.eight_bit_power ** (-1 / 3), rel=0.02)


def test_the_lds_queue_holds_a_wave_up() -> None:
    """Reads with a conflict of 32 lanes take 64 cycles each; beyond the queue's eight a wave waits to issue them."""
    head, read = "v_and_b32 v0, 63, v0\nv_lshlrev_b32 v1, 7, v0\n", "ds_read_b32 v2, v1\n"
    few, many = (cycles(head + read * n + "v_mov_b32 v3, 0\n" * 20, lds=8192) for n in (8, 28))
    assert many - few == pytest.approx(20 * 64, rel=0.15)


def test_scratch_beyond_the_l1_is_loaded_from_the_l2() -> None:
    """64 dwords of each lane of 16 waves are 256 KB: a dword that came back from the L1 costs its latency alone."""

    def loads(dwords: int) -> cdna.Counters:
        offsets = [4 * (i % dwords) for i in range(128)]
        body = "".join(f"scratch_load_dword v2, off, off offset:{o}\ns_waitcnt vmcnt(0)\n" for o in offsets)
        return run(body, waves=16, scratch=256)

    few, many = loads(4), loads(64)
    assert many.l2_read_bytes > 8 * few.l2_read_bytes > 0
    assert many.cold.cycles > few.cold.cycles


LOOP = """
  s_movk_i32 s8, 200
again:
  {body}
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 again
"""


def test_a_power_of_two_stride_loses_the_l1() -> None:
    """Rows at a stride of 4096 bytes fall into one of the L1's four sets; at 4096 + 128 they spread."""

    def walk(stride: int) -> cdna.Counters:
        head = f"v_and_b32 v0, 63, v0\nv_mul_u32_u24 v1, {stride}, v0\n"
        body = "global_load_dword v2, v1, s[2:3]\nglobal_load_dword v3, v1, s[2:3] offset:4\ns_waitcnt vmcnt(0)"
        return run(head + LOOP.format(body=body), groups=304, waves=2, buffer=64 * 4224)

    same, spread = walk(4096), walk(4224)
    assert same.l1_hits <= spread.l1_hits
    assert modelled_time_us(same).us >= modelled_time_us(spread).us


# --- launches ----------------------------------------------------------------------------------------------


def test_time_does_not_beat_the_data_sheet() -> None:
    """A stream cannot be faster than 5.3 TB/s, nor matrix products than the matrix cores' peak."""
    n = 1 << 22
    modelled = modelled_time_us(addition(n, 4096))
    assert modelled.us > 12 * n / 5.3e12 * 1e6
    assert modelled.bound in ("HBM", "latency", "L1")


def test_non_temporal_loads_are_read_from_hbm_faster() -> None:
    """What a launch reads with `nt` alone takes the time of that rate, and what of others the rest."""
    load = "v_lshlrev_b32 v1, 4, v0\ns_lshl_b32 s4, s20, 12\nv_add_u32 v1, v1, s4\n"
    plain, marked = (
        run(
            load + f"global_load_dwordx4 v[4:7], v1, s[2:3]{nt}\ns_waitcnt vmcnt(0)\n",
            groups=4096,
            waves=4,
            buffer=1 << 24,
        )
        for nt in ("", " nt")
    )
    assert plain.hbm_read_bytes == marked.hbm_read_bytes > 16_000_000
    times = [modelled_time_us(one).parts_us["HBM"] for one in (plain, marked)]
    assert times[1] / times[0] == pytest.approx(CARD.hbm_read_gb_s / CARD.hbm_nt_read_gb_s, rel=1e-3)
    assert modelled_time_us(marked).us < modelled_time_us(plain).us


def test_launches_add_up(counted: cdna.Counters) -> None:
    """The second's preparation passes while the first runs: none is paid twice."""
    one, three = modelled_time_us(counted), modelled_case_us([counted] * 3)
    body = one.us - CARD.launch_us
    behind = body + max(CARD.queued_launch_us, CARD.launch_us - body)
    assert three.us == pytest.approx(one.us + 2 * behind)
    assert one.bound == "launch"
    assert three.parts_us["launch"] == pytest.approx(three.us - 3 * body)
    assert modelled_case_us([]).us == 0


def test_lanes_on_one_dword_come_one_after_the_other() -> None:
    """64 on one dword; 64 on the 32 dwords of each of two lines; and the same from four workgroups."""
    add = "global_atomic_add v1, v2, s[2:3]\n"
    on_one, on_all = f"v_mov_b32 v1, 0\n{add}", f"v_lshlrev_b32 v1, 2, v0\n{add}"
    assert run(on_one).atomics_on_line == 64
    assert run(on_all).atomics_on_line == 1
    assert run(on_all, groups=4).atomics_on_line == 4
    assert run(f"v_and_b32 v1, 60, v0\n{add}").atomics_on_line == 4


def test_a_launch_behind_a_long_kernel_costs_a_dispatch(counted: cdna.Counters) -> None:
    """And behind a short one what that leaves of the whole: a queue starts no more than one kernel in `launch_us`."""

    def lasting(us: float) -> cdna.Counters:
        cold = dataclasses.replace(counted.cold, cycles=us * counted.cold.mhz)
        idle, still = dict.fromkeys(counted.unit_cycles, 0), dict.fromkeys(counted.busiest_xcd, 0)
        none = dataclasses.replace(counted, unit_cycles=idle, busiest_xcd=still, hbm_read_bytes=0, hbm_write_bytes=0)
        return dataclasses.replace(none, cold=cold)

    long, short = lasting(50), lasting(0.5)
    assert modelled_case_us([long, short]).us == pytest.approx(CARD.launch_us + 50 + CARD.queued_launch_us + 0.5)
    assert modelled_case_us([short, short]).us == pytest.approx(2 * CARD.launch_us + 0.5)


def test_a_time_names_the_clock_that_sees_it(counted: cdna.Counters) -> None:
    assert [modelled_case_us([counted], clock=clock).seen_by for clock in ("alone", "graph")] == ["alone", "graph"]


def test_clocks_see_more_or_less_of_a_launch(counted: cdna.Counters) -> None:
    one = modelled_time_us(counted)
    body = one.us - CARD.launch_us
    queue, graph = (modelled_case_us([counted] * 2, clock=clock) for clock in ("queue", "graph"))
    assert queue.us == pytest.approx(2 * (body + max(CARD.queued_launch_us, CARD.launch_us - body)))
    assert graph.us == pytest.approx(2 * (body + CARD.next_launch_us)) and graph.bound != "launch"
    with pytest.raises(ValueError, match="no clock 'wall': there are alone, queue, graph"):
        modelled_case_us([counted], clock="wall")


def test_an_uncounted_launch_has_no_modelled_time() -> None:
    out = torch.empty(64)
    with cdna.device("gfx942"):
        add_kernel[(1,)](out, out, out, 64, BLOCK=64)
    with pytest.raises(ValueError, match="was not counted"):
        modelled_time_us(take_records()[-1])
