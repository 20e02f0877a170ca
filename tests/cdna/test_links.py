"""Accesses to peers' memory: what crosses the links, and how long that takes, beside what was measured on MI300X."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

import cdna
from cdna.cards import get_card
from cdna.engine.library import engine
from cdna.observe.counters import clear_caches
from cdna.observe.model import modelled_time_us
from cdna.observe.records import take_records
from tests.support.assembled import program

CARD = get_card("gfx942")
SLICE = 1 << 20  # bytes of a rank's memory


@contextmanager
def ranks(n: int) -> Iterator[int]:
    """The address of n slices: one of this GPU and the others of its peers."""
    data = torch.zeros(n * SLICE + 4096, dtype=torch.uint8)
    base = data.data_ptr() + -data.data_ptr() % 4096
    lib = engine().lib
    for rank in range(1, n):
        lib.cdna_owner_add(*(ctypes.c_uint64(x) for x in (base + rank * SLICE, SLICE, 1000 + rank)))
    try:
        yield base
    finally:
        for rank in range(1, n):
            lib.cdna_owner_remove(ctypes.c_uint64(base + rank * SLICE))


START = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
s_waitcnt lgkmcnt(0)
v_and_b32 v0, 0x3ff, v0
v_lshlrev_b32 v1, 2, v0
"""


def run(body: str, n_ranks: int, groups: int = 1, waves: int = 1) -> cdna.Counters:
    """s[4:5]: the address of the slices; s2: workgroup; v0: work-item; v1: 4 times it."""
    start = (
        "s_load_dwordx2 s[4:5], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\nv_and_b32 v0, 0x3ff, v0\nv_lshlrev_b32 v1, 2, v0\n"
    )
    kernel = program(start + body).kernels["k"]
    with ranks(n_ranks) as base, cdna.counting():
        clear_caches()
        record = kernel.launch((groups, 1, 1), (64 * waves, 1, 1), base.to_bytes(8, "little"))
    take_records()
    assert record.counters is not None
    return record.counters


def at(rank: int) -> str:
    return f"v_add_u32 v1, {rank * SLICE:#x}, v1\n"


def test_bytes_that_cross() -> None:
    load, store = "global_load_dword v2, v1, s[4:5]", "global_store_dword v1, v2, s[4:5]"
    own = run(f"{load}\ns_waitcnt vmcnt(0)\n{store}\n", 2)
    assert (own.link_read_bytes, own.link_write_bytes) == (0, 0) and "signals" not in modelled_time_us(own).parts_us
    there = run(f"{at(1)}{load}\ns_waitcnt vmcnt(0)\n{store}\n", 2)
    assert (there.link_read_bytes, there.link_write_bytes) == (256, 256)
    assert there.hbm_read_bytes == own.hbm_read_bytes - 256 and there.hbm_write_bytes == own.hbm_write_bytes - 256
    both = run(f"{at(1)}{store}\n{at(1)}{store}\n{store}\n", 3)
    assert both.link_write_bytes == 768 and both.busiest_link == {"link_read": 0, "link_write": 512}


def test_the_l2_answers_plain_loads_alone() -> None:
    """Four workgroups, 8 apart, on one XCD: with sc1 every one asks the peer."""
    plain = run(f"{at(1)}global_load_dword v2, v1, s[4:5]\n", 2, groups=32)
    assert plain.link_read_bytes == 8 * 256
    around = run(f"{at(1)}global_load_dword v2, v1, s[4:5] sc0 sc1\n", 2, groups=32)
    assert around.link_read_bytes == 32 * 256


def test_a_load_from_a_peer_takes_the_links_latency() -> None:
    wait = "global_load_dword v2, v1, s[4:5]\ns_waitcnt vmcnt(0)\n"
    own, there = run(f"{at(0)}{wait}", 2).cold.cycles, run(f"{at(1)}{wait}", 2).cold.cycles
    assert there - own == pytest.approx(CARD.link_cycles - CARD.memory_cycles, abs=20)


# Pulls 2 bytes a lane from each of eight slices in turn, one load of a wave under way, as infervisor/plow's probe does.
def pull(groups: int, loads: int) -> str:
    return f"""
s_mul_i32 s6, s2, 0x200
s_and_b32 s7, s2, 7
v_lshlrev_b32 v1, 1, v0
v_add_u32 v1, s6, v1
s_mov_b32 s8, 0
next_rank:
s_add_i32 s9, s7, s8
s_and_b32 s9, s9, 7
s_mul_i32 s9, s9, {SLICE:#x}
v_add_u32 v3, s9, v1
s_mov_b32 s10, {loads}
next_load:
global_load_ushort v2, v3, s[4:5]
s_waitcnt vmcnt(0)
v_add_u32 v3, {groups * 512:#x}, v3
s_sub_i32 s10, s10, 1
s_cmp_lg_u32 s10, 0
s_cbranch_scc1 next_load
s_add_i32 s8, s8, 1
s_cmp_lt_u32 s8, 8
s_cbranch_scc1 next_rank
"""


@pytest.mark.parametrize(("groups", "measured_gb_s"), [(19, 18.4), (76, 72.6), (152, 141.8), (304, 240.5)])
def test_pulls_from_all_peers_reach_what_was_measured(groups: int, measured_gb_s: float) -> None:
    """Linear in workgroups: what is under way and the latency decide, not the links."""
    loads = 6
    c = run(pull(groups, loads), 8, groups, waves=4)
    assert c.link_read_bytes == groups * loads * 7 * 512
    gb_s = groups * loads * 8 * 512 / (c.cold.us * 1e3)
    assert gb_s == pytest.approx(measured_gb_s, rel=0.1)


STORES = (
    """
s_mul_i32 s6, s2, 0x4000
v_lshlrev_b32 v1, 4, v0
v_add_u32 v1, s6, v1
"""
    + "global_store_dwordx4 v1, v[4:7], s[4:5]\nv_add_u32 v1, 0x1000, v1\n" * 4
)


# A workgroup's stores go to the rank of its number modulo 8.
TO_ALL = """
s_and_b32 s7, s2, 7
s_mul_i32 s7, s7, 0x100000
s_add_u32 s4, s4, s7
s_addc_u32 s5, s5, 0
s_lshr_b32 s2, s2, 3
"""


def test_links_bound_what_is_stored() -> None:
    """48 GB/s to one peer; to seven at once more, and less than seven times that."""
    one = run(f"v_mov_b32 v1, 0\ns_add_u32 s4, s4, {SLICE:#x}\ns_addc_u32 s5, s5, 0\n{STORES}", 8, 64, 4)
    assert one.link_write_bytes == SLICE and one.busiest_link["link_write"] == SLICE
    us = SLICE / CARD.link_alone_gb_s * 1e-3
    assert modelled_time_us(one).parts_us["links"] == pytest.approx(us)
    assert one.cold.us == pytest.approx(us, rel=0.1) and modelled_time_us(one).bound == "links"
    all_of_them = run(TO_ALL + STORES, 8, 512, 4)
    assert all_of_them.link_write_bytes == 7 * SLICE
    assert modelled_time_us(all_of_them).parts_us["links"] == pytest.approx(7 * SLICE / CARD.links_write_gb_s * 1e-3)


@pytest.mark.parametrize("groups", [128, 304, 512])
def test_senders_have_the_links_to_themselves(groups: int) -> None:
    """The first eighth of the workgroups stores, the others end at once: as fast as if there were no others."""
    to_peer = f"s_add_u32 s4, s4, {SLICE:#x}\ns_addc_u32 s5, s5, 0\n{STORES}"
    alone = run(to_peer, 2, groups // 8, 4)
    some = run(f"s_cmp_ge_u32 s2, {groups // 8}\ns_cbranch_scc1 over\n{to_peer}over:\n", 2, groups, 4)
    assert some.link_write_bytes == alone.link_write_bytes == groups // 8 * 0x4000
    assert some.cold.us == pytest.approx(alone.cold.us, rel=0.25)


@pytest.mark.parametrize("groups", [304, 512, 608])
def test_two_senders_of_a_cu_have_two_shares(groups: int) -> None:
    """The first half of the workgroups stores to a peer, the others read and are done: the links are never
    idle while one CU has more to send than another, and need no longer than for the senders alone."""
    own = "global_load_dword v2, v1, s[4:5]\ns_waitcnt vmcnt(0)\n"
    to_peer = f"s_lshl_b32 s6, s2, 11\nv_lshlrev_b32 v1, 4, v0\nv_add_u32 v1, s6, v1\n{at(1)}"
    to_peer += "global_store_dwordx4 v1, v[4:7], s[4:5]\n" * 4
    some = run(f"{own}s_cmp_ge_u32 s2, {groups // 2}\ns_cbranch_scc1 over\n{to_peer}over:\n", 2, groups, 4)
    assert some.link_write_bytes == groups // 2 * 0x4000
    links_us = some.link_write_bytes / CARD.link_alone_gb_s * 1e-3
    assert links_us < some.cold.us < 1.1 * links_us


def test_a_kernel_that_stores_to_peers_and_waits_takes_a_round_of_signals() -> None:
    store = f"{at(1)}global_store_dword v1, v2, s[4:5] sc0 sc1\n"
    without, waits = run(store, 2), run(f"{store}s_branch over\ns_sleep 1\nover:\n", 2)
    own = run("global_store_dword v1, v2, s[4:5] sc0 sc1\ns_branch over\ns_sleep 1\nover:\n", 2)
    assert "signals" not in modelled_time_us(without).parts_us and "signals" not in modelled_time_us(own).parts_us
    assert modelled_time_us(waits).us - modelled_time_us(without).us == pytest.approx(CARD.signals_us, abs=0.5)
