"""LDS instructions with two addresses, and those that move data between lanes, against plain models."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from cdna.errors import UnsupportedInstruction
from cdna.testing.snippet import POISON, run
from tests.support.valu_inputs import active, masks

ALL = (1 << 64) - 1
LANES = range(64)


@pytest.mark.parametrize("stride", ["", "st64"])
@pytest.mark.parametrize("dwords", [1, 2])
def test_ds_read2_write2(dwords: int, stride: str) -> None:
    rng = random.Random(dwords)
    memory, size, unit = rng.randbytes(4096), 4 * dwords, 4 * dwords * (64 if stride else 1)
    for mask in masks(rng):
        offset0, offset1 = (rng.randrange(4), rng.randrange(4)) if stride else (rng.randrange(64), rng.randrange(256))
        at = [rng.randrange(256) * 4 for _ in LANES]
        text = f"ds_read2{stride}_b{32 * dwords} v[0:{2 * dwords - 1}], v0 offset0:{offset0} offset1:{offset1}"
        state = run("gfx942", text, v={0: at, **{k: [7] * 64 for k in range(1, 2 * dwords)}}, exec=mask, lds=memory)
        for e, offset in enumerate((offset0, offset1)):
            for k in range(dwords):
                for i in active(mask):
                    place = at[i] + offset * unit + 4 * k
                    want = (
                        int.from_bytes(memory[place : place + 4], "little")
                        if place - 4 * k + size <= len(memory)
                        else 0
                    )
                    assert state.v[e * dwords + k][i] == want
        values = {k: [rng.getrandbits(32) for _ in LANES] for k in range(2, 2 + 2 * dwords)}
        first, second = ("v2", "v3") if dwords == 1 else ("v[2:3]", "v[4:5]")
        state = run(
            "gfx942",
            f"ds_write2{stride}_b{32 * dwords} v0, {first}, {second} offset0:{offset0} offset1:{offset1}",
            v={0: at, **values},
            exec=mask,
            lds=memory,
        )
        after = bytearray(memory)
        for e, offset in enumerate((offset0, offset1) if offset0 != offset1 else (offset0,)):
            for i in active(mask):
                place = at[i] + offset * unit
                if place + size <= len(memory):
                    after[place : place + size] = b"".join(
                        values[2 + e * dwords + k][i].to_bytes(4, "little") for k in range(dwords)
                    )
        assert state.lds == bytes(after)


@pytest.mark.parametrize(("name", "registers"), [("b32", ("v2", "v3")), ("st64_b64", ("v[2:3]", "v[4:5]"))])
def test_write2_to_one_place_writes_the_first(name: str, registers: tuple[str, str]) -> None:
    text = f"ds_write2{'' if name[0] == 's' else '_'}{name} v0, {registers[0]}, {registers[1]} offset0:0 offset1:0"
    state = run(
        "gfx942", text, v={0: [8 * i for i in range(64)], **{r: [r] * 64 for r in (2, 3, 4, 5)}}, lds=bytes(512)
    )
    assert state.lds[:4] == b"\2\0\0\0" and 4 not in state.lds and (3 in state.lds) == (name == "st64_b64")


def test_lds_out_of_range_reads_zero_and_drops_writes() -> None:
    memory = bytes(range(1, 65))
    at = [56, 61, 64, 0xFFFFFFFC] + [0] * 60
    state = run(
        "gfx942", "ds_read_b64 v[2:3], v0\nds_read_u16_d16_hi v4, v0 offset:3", v={0: at, 4: [0x1234] * 64}, lds=memory
    )
    assert [state.v[2][i] for i in range(4)] == [0x3C3B3A39, 0, 0, 0]
    assert [state.v[4][i] for i in range(4)] == [0x3D3C0000, 0, 0, 0]
    state = run("gfx942", "ds_read_b32 v2, v0 offset:8", v={0: [0xFFFFFFFC] * 64}, lds=memory)
    assert set(state.v[2]) == {0x08070605}  # address arithmetic wraps at 32 bits
    state = run("gfx942", "ds_write_b64 v0, v[2:3]", v={0: at, 2: [0] * 64, 3: [0] * 64}, exec=0b1110, lds=memory)
    assert state.lds == memory


def test_permutes() -> None:
    rng = random.Random(3)
    for mask in masks(rng):
        data = [rng.getrandbits(32) for _ in LANES]
        address = [rng.getrandbits(32) for _ in LANES]
        state = run(
            "gfx942",
            "ds_bpermute_b32 v2, v0, v1 offset:8\nds_permute_b32 v3, v0, v1 offset:4",
            v={0: address, 1: data},
            exec=mask,
        )
        pushed = [0] * 64
        for i in active(mask):
            pushed[(address[i] + 4) // 4 % 64] = data[i]
        for i in LANES:
            source = (address[i] + 8) // 4 % 64
            assert state.v[2][i] == ((data[source] if mask >> source & 1 else 0) if mask >> i & 1 else POISON)
            assert state.v[3][i] == (pushed[i] if mask >> i & 1 else POISON)


SWIZZLES: dict[str, Callable[[int], int]] = {
    "swizzle(QUAD_PERM,3,0,2,1)": lambda i: i & ~3 | (3, 0, 2, 1)[i & 3],
    "swizzle(SWAP,16)": lambda i: i ^ 16,
    "swizzle(REVERSE,8)": lambda i: i ^ 7,
    "swizzle(BROADCAST,8,5)": lambda i: i & ~7 | 5,
    'swizzle(BITMASK_PERM,"01pip")': lambda i: i & 32 | 8 | i & 5 | (i & 2 ^ 2),
    "swizzle(ROTATE,0,3)": lambda i: i & 32 | (i + 3) % 32,
    "swizzle(ROTATE,1,3)": lambda i: i & 32 | (i - 3) % 32,
    "0xc063": lambda i: i & 35 | (i + 3) & 28,
    "swizzle(FFT,31)": lambda i: i,
    "swizzle(FFT,0)": lambda i: i & 32 | int(f"{i & 31:05b}"[::-1], 2),
    "0x401f": lambda i: i ^ 16,
}


@pytest.mark.parametrize("pattern", SWIZZLES)
def test_swizzles(pattern: str) -> None:
    rng = random.Random(pattern)
    for mask in (ALL, rng.getrandbits(64)):
        data = [rng.getrandbits(32) for _ in LANES]
        state = run("gfx942", f"ds_swizzle_b32 v1, v0 offset:{pattern} ; a comment", v={0: data}, exec=mask)
        for i in active(mask):
            source = SWIZZLES[pattern](i)
            assert state.v[1][i] == (data[source] if mask >> source & 1 else 0), i


def test_addtid() -> None:
    lds = bytes(range(256)) * 2
    state = run(
        "gfx942",
        "ds_read_addtid_b32 v1 offset:12\nds_write_addtid_b32 v2 offset:256",
        v={2: LANES},
        s={124: 100},
        lds=lds,
    )
    assert state.v[1] == [int.from_bytes(lds[112 + 4 * i : 116 + 4 * i], "little") for i in LANES]
    assert state.lds == lds[:356] + np.arange(39, dtype=np.uint32).tobytes()


@pytest.mark.parametrize("bits", [16, 8, 4, 6])
def test_transposing_reads(bits: int) -> None:
    """A group of 16 lanes names a matrix [rows][16] of elements, row by row; each lane gets a column."""
    rng = random.Random(bits)
    size = 12 if bits == 6 else 8
    rows = size * 8 // bits
    lds = rng.randbytes(8192)
    per_row = 16 // (size * 8 // bits)
    at = [rng.randrange(500) * 16 for _ in LANES]
    state = run("gfx950", f"ds_read_b{size * 8}_tr_b{bits} v[2:{1 + size // 4}], v0 offset:32", v={0: at}, lds=lds)
    pieces = [int.from_bytes(lds[a + 32 : a + 32 + size], "little") for a in at]
    for i in LANES:
        group, column = i & ~15, i & 15
        want = 0
        for row in range(rows):
            elements = rows if per_row == 1 else size * 8 // bits
            piece = pieces[group + row * per_row + column // elements]
            want |= (piece >> bits * (column % elements) & (1 << bits) - 1) << bits * row
        got = sum(state.v[2 + k][i] << 32 * k for k in range(size // 4))
        assert got == want, i


def test_transposing_reads_are_gfx950_only() -> None:
    with pytest.raises(UnsupportedInstruction, match="ds_read_b64_tr_b16"):
        run("gfx942", "ds_read_b64_tr_b16 v[2:3], v0")
