"""What is found in LDS does not depend on how accesses are kept: as bitmaps while no two waves' meet, else one by one.

An LDS atomic makes the checks keep everything one by one until the next barrier, so a program with one behind every
barrier tells what is to be found in the same program without.
"""

import random

import pytest

import cdna
from cdna import checks
from tests.support.assembled import program
from tests.support.checked_launch import launch

WAVES = 2
LDS_BYTES = 4096
OWN = LDS_BYTES  # a dword of each wave's own, for the atomic
START = f"""
v_and_b32_e32 v1, 63, v0
v_lshrrev_b32_e32 v2, 6, v0
v_lshlrev_b32_e32 v40, 2, v2
v_add_u32_e32 v40, {OWN}, v40
v_mov_b32_e32 v41, 1
ds_write_b32 v40, v41
"""
# Each wave writes its half of the LDS.
FILL = "v_lshlrev_b32_e32 v3, 11, v2\nv_lshl_add_u32 v3, v1, 4, v3\nv_mov_b32_e32 v10, v0\n"
FILL += "".join(f"v_mov_b32_e32 v{k}, 3\n" for k in range(11, 16))
FILL += "ds_write_b128 v3, v[12:15]\nds_write_b128 v3, v[12:15] offset:1024\ns_waitcnt lgkmcnt(0)\ns_barrier\n"
MEET = "ds_add_u32 v40, v41\ns_waitcnt lgkmcnt(0)\n"
WIDTHS = {"b8": 1, "b16": 2, "b32": 4, "b64": 8, "b128": 16}


def access(draw: random.Random) -> str:
    """A read or write of v10.. at base + lane * stride + wave * distance, by all lanes or some."""
    width = draw.choice(list(WIDTHS))
    size = WIDTHS[width]
    stride = size * draw.choice([1, 1, 1, 2])
    distance = draw.choice([0, 2, 4, 8, 64 * stride, 64 * stride, 64 * stride])
    base = draw.choice([size * draw.randrange(5), 256 * draw.randrange(5)])
    registers = {1: "v10", 2: "v10", 4: "v10", 8: "v[10:11]", 16: "v[12:15]"}[size]
    if draw.random() < 0.6:
        value = draw.choice(["v0", "7"])  # which differs between waves, or not
        text = "".join(f"v_mov_b32_e32 v{k}, {value}\n" for k in range(10, 16))
        text += f"ds_write_{width} v3, {registers}"
    else:
        text = f"ds_read_{'u8' if size == 1 else 'u16' if size == 2 else width} {registers}, v3"
    offset = draw.choice([0, size * draw.randrange(80), 256 * draw.randrange(8)])
    if base + 64 * stride + distance + offset <= LDS_BYTES:  # else it may meet the atomic's dwords
        text += f" offset:{offset}"
    if draw.random() < 0.2:
        text = f"s_mov_b64 exec, 0x{draw.getrandbits(31):x}\n{text}\ns_mov_b64 exec, -1"
    wait = "s_waitcnt lgkmcnt(0)\n" if draw.random() < 0.7 else ""
    if wait and text.startswith("ds_read"):
        first = 12 if size == 16 else 10
        wait += f"v_cmp_eq_u32_e32 vcc, v{first}, v{first}\ns_and_saveexec_b64 s[20:21], vcc\n"
    return f"v_mul_u32_u24_e32 v3, {stride}, v1\nv_mov_b32_e32 v4, {distance}\nv_mad_u32_u24 v3, v2, v4, v3\n" + (
        f"v_add_u32_e32 v3, {base}, v3\n{text}\n{wait}"
    )


def body(draw: random.Random, meets: bool) -> str:
    text = START + FILL * (draw.random() < 0.7)
    for _ in range(draw.randrange(1, 4)):
        text += MEET if meets else MEET.replace("ds_add_u32 v40, v41", "s_nop 0")
        text += "".join(access(draw) for _ in range(draw.randrange(1, 5)))
        text += "s_waitcnt lgkmcnt(0)\n" * (draw.random() < 0.6) + "s_barrier\n"
    return text


def findings(text: str) -> list[tuple[str, int | None, int | None, str, str, str]]:
    cdna.findings()
    with checks.use("all", raises=False):
        launch(program(text, lds_bytes=LDS_BYTES + 4 * WAVES), [], block=64 * WAVES)
    found = [(f.kind, f.wave, f.lane, f.instruction, f.other_instruction, f.message) for f in cdna.findings()]
    return sorted(found, key=str)


def test_both_ways_find_the_same() -> None:
    seen = set()
    for seed in range(300):
        quick, one_by_one = (findings(body(random.Random(seed), meets)) for meets in (False, True))
        assert quick == one_by_one, seed
        seen |= {"late" if f[5].endswith("before the barrier") else f[0] for f in quick} or {"nothing"}
    assert seen >= {"race", "uninitialised", "wait", "nothing", "late"}


@pytest.mark.parametrize("reads", [40, 1100])  # of each wave; more than are kept
def test_a_race_behind_many_harmless_accesses(reads: int) -> None:
    many = "v_lshlrev_b32_e32 v3, 2, v0\nds_write_b32 v3, v0\ns_waitcnt lgkmcnt(0)\n"
    many += "ds_read_b32 v5, v3\ns_waitcnt lgkmcnt(0)\n" * reads
    late = "v_xor_b32_e32 v3, 0x100, v3\nds_write_b32 v3, v0\ns_waitcnt lgkmcnt(0)\ns_barrier\n"
    assert findings(START + many + "s_waitcnt lgkmcnt(0)\ns_barrier\n" + late) == []
    first, *_ = findings(START + many + late)
    assert first[0] == "race"
    assert first[5].startswith("writes LDS byte 0, which wave 0 writes at `ds_write_b32 v3, v0` (")


def test_a_write_to_what_all_have_read() -> None:
    write = "v_cmp_eq_u32_e32 vcc, 1, v2\ns_and_b64 exec, vcc, exec\nds_write_b32 v3, v0\ns_waitcnt lgkmcnt(0)\n"
    read = START + FILL + "v_lshlrev_b32_e32 v3, 2, v1\nds_read_b32 v5, v3\ns_waitcnt lgkmcnt(0)\n"
    assert findings(read + "s_barrier\n" + write) == []
    first, *_ = findings(read + write)
    assert first[5] == "writes LDS byte 0, which wave 0 has read, with no barrier between the two"


@pytest.mark.parametrize(("write", "registers"), [("ds_write_b16", "v10"), ("ds_write_b64", "v[10:11]")])
def test_equal_values_across_dwords(write: str, registers: str) -> None:
    """Two waves' stores of one value are no race, wherever they lie; of another value they are."""
    place = "v_mul_u32_u24_e32 v3, 13, v1\nv_add_u32_e32 v3, 3, v3\n"  # at each byte of a dword
    for value, kinds in (("v1", []), ("v0", ["race"])):
        text = (
            f"v_mov_b32_e32 v10, {value}\nv_mov_b32_e32 v11, {value}\n{write} v3, {registers}\ns_waitcnt lgkmcnt(0)\n"
        )
        assert [f[0] for f in findings(START + place + text)][:1] == kinds
