"""Memory instructions of the emulated device, one at a time against a plain model of each lane's bytes."""

import random
from collections.abc import Callable, Iterable

import numpy as np
import pytest

from cdna.errors import KernelFault, UnsupportedInstruction
from cdna.launch.program import Program
from cdna.testing.snippet import POISON, State, run, split64
from tests.support.valu_cases import signed
from tests.support.valu_inputs import active, masks

LANES = range(64)


class Host:
    """A block of host memory that snippets may address; `base` is its host address, 256-byte aligned."""

    def __init__(self, data: bytes) -> None:
        self._array: np.ndarray = np.zeros(len(data) + 256, np.uint8)
        skip = -self._array.ctypes.data % 256
        self.view = self._array[skip : skip + len(data)]
        self.view[:] = np.frombuffer(data, np.uint8)
        self.base = self._array.ctypes.data + skip

    def bytes(self) -> bytes:
        return self.view.tobytes()


def descriptor(base: int, num_records: int, stride: int = 0, flags: int = 0x27000) -> dict[int, int]:
    """A buffer resource in s[4:7]."""
    return {4: base & 0xFFFFFFFF, 5: base >> 32 & 0xFFFF | stride << 16, 6: num_records, 7: flags}


# --- loads and stores --------------------------------------------------------------------------------
# name -> (bytes, the register's new value from the bytes read): a load of one half zeroes the other
PART_LOADS: dict[str, tuple[int, Callable[[int], int]]] = {
    "ubyte": (1, lambda x: x),
    "sbyte": (1, lambda x: signed(x, 8) & 0xFFFFFFFF),
    "ushort": (2, lambda x: x),
    "sshort": (2, lambda x: signed(x, 16) & 0xFFFFFFFF),
    "ubyte_d16": (1, lambda x: x),
    "sbyte_d16": (1, lambda x: signed(x, 8) & 0xFFFF),
    "short_d16": (2, lambda x: x),
    "ubyte_d16_hi": (1, lambda x: x << 16),
    "sbyte_d16_hi": (1, lambda x: (signed(x, 8) & 0xFFFF) << 16),
    "short_d16_hi": (2, lambda x: x << 16),
}
DS_PART_LOADS = {
    "u8": "ubyte",
    "i8": "sbyte",
    "u16": "ushort",
    "i16": "sshort",
    "u8_d16": "ubyte_d16",
    "i8_d16": "sbyte_d16",
    "u16_d16": "short_d16",
    "u8_d16_hi": "ubyte_d16_hi",
    "i8_d16_hi": "sbyte_d16_hi",
    "u16_d16_hi": "short_d16_hi",
}
WHOLE = {"dword": 1, "dwordx2": 2, "dwordx3": 3, "dwordx4": 4}
DS_WHOLE = {"b32": 1, "b64": 2, "b96": 3, "b128": 4}
PART_STORES = {"byte": (1, 0), "short": (2, 0), "byte_d16_hi": (1, 16), "short_d16_hi": (2, 16)}  # bytes, shift
DS_PART_STORES = {"b8": "byte", "b16": "short", "b8_d16_hi": "byte_d16_hi", "b16_d16_hi": "short_d16_hi"}
SPACES = ["global", "global_saddr", "flat", "buffer", "ds", "scratch"]


def places(rng: random.Random, pattern: str, size: int, limit: int) -> list[int]:
    """A byte offset for each lane; `anywhere` means misaligned ones too."""
    if pattern == "contiguous":
        return [16 + i * size for i in LANES]
    if pattern == "shuffled":
        return [size * i for i in rng.sample(LANES, 64)]
    if pattern == "strided":
        return [20 * i for i in LANES]
    if pattern == "equal":
        return [rng.randrange(limit - size)] * 64
    return [rng.randrange(limit - size) for _ in LANES]


PATTERNS = ["contiguous", "shuffled", "strided", "equal", "anywhere"]


def access(
    space: str,
    verb: str,
    what: str,
    data: str,
    memory: bytes,
    offsets: list[int],
    immediate: int,
    mask: int,
    v: dict[int, Iterable[int]],
) -> tuple[State, bytes]:
    """One load or store of `what` in a space, each lane at its offset; returns registers and memory after it.

    Data registers are v[8:..]; addresses are in v[0:1].
    """
    host = Host(memory)
    imm = f" offset:{immediate}" if immediate else ""
    if space == "ds":
        text = f"ds_{verb}_{what} " + (f"{data}, v0" if verb == "read" else f"v0, {data}") + imm
        state = run("gfx942", text, v={0: [x - immediate for x in offsets], **v}, exec=mask, lds=memory)
        return state, state.lds
    if space == "buffer":
        text = f"buffer_{verb}_{what} {data}, v0, s[4:7], s8 offen{imm}"
        registers = {**descriptor(host.base - 64, len(memory) + 64, flags=0x27000), 8: 64}
        state = run("gfx942", text, v={0: [x - immediate for x in offsets], **v}, s=registers, exec=mask)
        return state, host.bytes()
    if space == "global_saddr":
        address, tail = "v0", ", s[4:5]"
        base = host.base - 1000 - immediate
        registers = {4: base & 0xFFFFFFFF, 5: base >> 32}
        v = {0: [x + 1000 for x in offsets], **v}
    else:
        address, tail = "v[0:1]", "" if space == "flat" else ", off"
        low, high = split64(host.base + x - immediate for x in offsets)
        registers = {}
        v = {0: low, 1: high, **v}
    operands = f"{data}, {address}{tail}" if verb == "load" else f"{address}, {data}{tail}"
    state = run("gfx942", f"{space.removesuffix('_saddr')}_{verb}_{what} {operands}{imm}", v=v, s=registers, exec=mask)
    return state, host.bytes()


def immediate_for(rng: random.Random, space: str, offsets: list[int]) -> int:
    if space.startswith("global"):
        return rng.choice([0, 4095, -4096, rng.randrange(-4096, 4096)])
    if space in ("flat", "buffer"):  # a buffer's sum is of 32 bits: what lies below zero comes back
        return rng.choice([0, 4095, rng.randrange(4096)])
    return rng.choice([0, min(offsets)])  # these do not wrap below the start


@pytest.mark.parametrize("space", [s for s in SPACES if s != "scratch"])
def test_loads(space: str) -> None:
    rng = random.Random(space)
    memory = rng.randbytes(2048)
    for name, dwords in (DS_WHOLE if space == "ds" else WHOLE).items():
        for pattern in PATTERNS:
            for mask in masks(rng):
                offsets = places(rng, pattern, dwords * 4, len(memory))
                data = f"v[8:{7 + dwords}]" if dwords > 1 else "v8"
                immediate = immediate_for(rng, space, offsets)
                state, _ = access(
                    space, "read" if space == "ds" else "load", name, data, memory, offsets, immediate, mask, {}
                )
                for k in range(dwords):
                    want = [
                        int.from_bytes(memory[o + 4 * k : o + 4 * k + 4], "little") if mask >> i & 1 else POISON
                        for i, o in enumerate(offsets)
                    ]
                    assert state.v[8 + k] == want, (space, name, pattern, hex(mask), immediate, k)


@pytest.mark.parametrize("space", [s for s in SPACES if s != "scratch"])
def test_part_loads(space: str) -> None:
    rng = random.Random(space)
    memory = rng.randbytes(2048)
    names = DS_PART_LOADS if space == "ds" else {name: name for name in PART_LOADS}
    for name, meaning in names.items():
        size, value = PART_LOADS[meaning]
        for pattern in PATTERNS:
            mask = rng.choice(masks(rng))
            offsets = places(rng, pattern, size, len(memory))
            old = [rng.getrandbits(32) for _ in LANES]
            immediate = immediate_for(rng, space, offsets)
            state, _ = access(
                space, "read" if space == "ds" else "load", name, "v8", memory, offsets, immediate, mask, {8: old}
            )
            want = [
                value(int.from_bytes(memory[o : o + size], "little")) if mask >> i & 1 else old[i]
                for i, o in enumerate(offsets)
            ]
            assert state.v[8] == want, (space, name, pattern, hex(mask), immediate)


@pytest.mark.parametrize("space", [s for s in SPACES if s != "scratch"])
def test_stores(space: str) -> None:
    rng = random.Random(space)
    before = rng.randbytes(2048)
    cases = {name: (4 * n, 0) for name, n in WHOLE.items()} | PART_STORES
    if space == "ds":
        cases = {name: (4 * n, 0) for name, n in DS_WHOLE.items()} | {
            n: PART_STORES[m] for n, m in DS_PART_STORES.items()
        }
    for name, (size, shift) in cases.items():
        dwords = max(size // 4, 1)
        for pattern in PATTERNS:
            for mask in masks(rng)[: 4 if size > 2 else 2]:
                offsets = places(rng, pattern, size, len(before))
                values = {8 + k: [rng.getrandbits(32) for _ in LANES] for k in range(dwords)}
                data = f"v[8:{7 + dwords}]" if dwords > 1 else "v8"
                immediate = immediate_for(rng, space, offsets)
                verb = "write" if space == "ds" else "store"
                _, after = access(space, verb, name, data, before, offsets, immediate, mask, dict(values))
                want = bytearray(before)
                for i in active(mask):  # in the order of lanes
                    raw = b"".join(values[8 + k][i].to_bytes(4, "little") for k in range(dwords))
                    want[offsets[i] : offsets[i] + size] = raw[shift // 8 : shift // 8 + size]
                assert after == bytes(want), (space, name, pattern, hex(mask), immediate)


def test_loads_may_overwrite_their_addresses_and_reach_accumulation_registers() -> None:
    memory = Host(random.Random(1).randbytes(1024))
    words = memory.view.view(np.uint32).tolist()
    low, high = split64(memory.base + 16 * i for i in LANES)
    state = run("gfx942", "global_load_dwordx4 v[0:3], v[0:1], off", v={0: low, 1: high})
    assert [state.v[k][i] for i in LANES for k in range(4)] == words
    state = run("gfx942", "global_load_dwordx2 a[2:3], v[0:1], off", v={0: low, 1: high})
    assert [state.v[2 + 2 + k][i] for i in LANES for k in range(2)] == [
        words[4 * i + k] for i in LANES for k in range(2)
    ]


# --- buffers -----------------------------------------------------------------------------------------
def test_buffer_range_is_checked_by_dword() -> None:
    host = Host(bytes(range(1, 129)))
    offsets = [0, 52, 56, 60, 61, 62, 64, 100, 0x80000000, 0xFFFFFFF0, 0xFFFFFFFF] + [4] * 53
    state = run(
        "gfx942",
        "buffer_load_dwordx4 v[8:11], v0, s[4:7], 0 offen offset:4\nbuffer_load_ushort v12, v0, s[4:7], 0 offen",
        v={0: offsets},
        s=descriptor(host.base, 64),
    )
    for i, offset in enumerate(offsets):
        for k in range(4):
            place = (offset + 4) % 2**32 + 4 * k  # offset and immediate are added in 32 bits
            want = int.from_bytes(host.bytes()[place : place + 4], "little") if place + 4 <= 64 else 0
            assert state.v[8 + k][i] == want, (offset, k)
        assert state.v[12][i] == (
            int.from_bytes(host.bytes()[offset : offset + 2], "little") if offset + 2 <= 64 else 0
        )
    before = host.bytes()
    run(
        "gfx942",
        "buffer_store_dwordx3 v[8:10], v0, s[4:7], 0 offen",
        s=descriptor(host.base, 64),
        v={0: [56, 64, 0x80000000] + [72] * 61, 8: [0xA0A0A0A0] * 64, 9: [0xB0B0B0B0] * 64, 10: [0xC0C0C0C0] * 64},
    )
    assert host.bytes() == before[:56] + b"\xa0" * 4 + b"\xb0" * 4 + before[64:]


def test_buffer_offsets() -> None:
    """Scalar offset, no vector address, index and stride, and index with offset."""
    host = Host(bytes(range(256)) * 4)
    word = lambda at: int.from_bytes(host.bytes()[at : at + 4], "little")  # noqa: E731
    state = run(
        "gfx942",
        "buffer_load_dword v2, off, s[4:7], s8 offset:12\nbuffer_load_dword v3, off, s[4:7], 16",
        s={**descriptor(host.base, 1024), 8: 100},
    )
    assert set(state.v[2]) == {word(112)} and set(state.v[3]) == {word(16)}
    state = run("gfx942", "buffer_load_dword v2, off, s[4:7], s8 offset:12", s={**descriptor(host.base, 112), 8: 100})
    assert set(state.v[2]) == {0}  # the scalar offset counts in the check
    state = run(
        "gfx942",
        "buffer_load_dword v2, v0, s[4:7], 0 idxen offset:4\nbuffer_load_dword v3, v[0:1], s[4:7], 0 idxen offen",
        v={0: LANES, 1: [4 * (i % 3) for i in LANES]},
        s=descriptor(host.base, 40, stride=12),
    )
    assert state.v[2] == [word(12 * i + 4) if i < 40 else 0 for i in LANES]
    assert state.v[3] == [word(12 * i + 4 * (i % 3)) if i < 40 else 0 for i in LANES]
    state = run(
        "gfx942", "buffer_load_dword v2, off, s[4:7], 0", s=descriptor(host.base, 64, stride=4, flags=0x27000 | 1 << 23)
    )  # adds the lane id
    assert state.v[2] == [word(4 * i) if i < 16 else 0 for i in LANES]


def test_buffer_with_swizzle_but_no_index_is_linear() -> None:
    """As public gfx950 kernels rely on: stride and both swizzle bits set, byte offsets, num_records in bytes."""
    host = Host(bytes(range(256)))
    resource = descriptor(host.base, 128, stride=64 | 0x4000 | 0x8000)
    text = "buffer_load_dword v2, v0, s[4:7], 0 offen\nbuffer_load_dword v3, off, s[4:7], 16 offset:4"
    state = run("gfx950", text, v={0: [4 * i for i in LANES]}, s=resource)
    words: np.ndarray = host.view.view(np.uint32)
    assert state.v[2] == [words[i] if i < 32 else 0 for i in LANES]
    assert set(state.v[3]) == {words[5]}
    with pytest.raises(KernelFault, match="swizzled records"):
        run("gfx950", "buffer_load_dword v2, v0, s[4:7], 0 idxen", v={0: LANES}, s=resource)


# --- loads to LDS ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "form,width",
    [("dword", 4), ("dwordx3", 12), ("dwordx4", 16), ("ubyte", 1), ("sbyte", 1), ("ushort", 2), ("sshort", 2)],
)
def test_loads_to_lds(form: str, width: int) -> None:
    rng = random.Random(form)
    host, lds = Host(rng.randbytes(4096)), rng.randbytes(1600)
    cell, stride = max(width, 4), {12: 16}.get(width, max(width, 4))  # three dwords take the room of four
    for mask in masks(rng):
        offsets = [rng.randrange(4096 - 16) for _ in LANES]
        low, high = split64(host.base + x for x in offsets)
        m0, immediate = rng.choice([0, 128, 700]), rng.choice([0, 16])
        want = bytearray(lds)
        for i in active(mask):
            raw = host.bytes()[offsets[i] + immediate : offsets[i] + immediate + width]
            if width < 4:
                raw = (int.from_bytes(raw, "little", signed=form[0] == "s") & 0xFFFFFFFF).to_bytes(4, "little")
            place = m0 + immediate + i * stride
            if place + cell <= len(lds):
                want[place : place + cell] = raw
        text = f"global_load_lds_{form} v[0:1], off offset:{immediate}"
        state = run("gfx950", text, v={0: low, 1: high}, s={124: m0}, exec=mask, lds=lds)
        assert state.lds == bytes(want)
        text = f"buffer_load_{form} v0, s[4:7], 0 offen offset:{immediate} sc0 lds"
        state = run("gfx950", text, v={0: offsets}, s={124: m0, **descriptor(host.base, 4096)}, exec=mask, lds=lds)
        assert state.lds == bytes(want)


def test_load_to_lds_out_of_range_writes_zero() -> None:
    host = Host(bytes(range(1, 129)))
    state = run(
        "gfx950",
        "buffer_load_dwordx4 v0, s[4:7], 0 offen lds",
        v={0: [0, 56, 0x80000000] + [0] * 61},
        s={124: 0, **descriptor(host.base, 64)},
        exec=7,
        lds=b"\xee" * 64,
    )
    assert state.lds == host.bytes()[:16] + host.bytes()[56:64] + bytes(8) + bytes(16) + b"\xee" * 16


@pytest.mark.parametrize("form", ["ubyte", "sbyte", "ushort", "sshort", "dword"])
def test_scratch_to_lds(form: str) -> None:
    rng = random.Random(form)
    values, offsets = [rng.getrandbits(32) for _ in LANES], [4 * rng.randrange(2) for _ in LANES]
    bits = {"ubyte": 8, "sbyte": 8, "ushort": 16, "sshort": 16, "dword": 32}[form]
    text = f"""scratch_store_dword v0, v1, off offset:8
        scratch_load_lds_{form} v0, off offset:8"""
    mask = rng.getrandbits(64)
    state = run("gfx942", text, v={0: offsets, 1: values}, s={124: 16}, exec=mask, lds=bytes(280), scratch_bytes=16)
    for i in LANES:
        value = values[i] & (1 << bits) - 1
        want = signed(value, bits) & 0xFFFFFFFF if form[0] == "s" else value
        at = 16 + 8 + 4 * i
        assert int.from_bytes(state.lds[at : at + 4], "little") == (want if mask >> i & 1 else 0)


# --- scratch and flat apertures --------------------------------------------------------------------------
def test_scratch_forms() -> None:
    """Immediate, scalar, vector, and vector with scalar offsets, each lane in memory of its own."""
    values, vector = [70000 * i + 5 for i in LANES], [i % 4 * 2 for i in LANES]
    text = """scratch_store_dword off, v8, off offset:4
        scratch_store_dwordx2 off, v[8:9], s33 offset:8
        scratch_store_short v0, v8, off offset:32
        scratch_store_byte v0, v8, s33 offset:24
        scratch_load_dword v10, off, off offset:4
        scratch_load_dwordx2 v[12:13], off, s33 offset:8
        scratch_load_ushort v14, v0, s33 offset:16
        scratch_load_ubyte v15, off, off offset:46"""
    state = run("gfx942", text, v={0: vector, 8: values, 9: LANES, 15: [0] * 64}, s={33: 16}, scratch_bytes=48)
    assert state.v[10] == values
    assert state.v[12] == values and state.v[13] == list(LANES)
    assert state.v[14] == [x & 0xFFFF for x in values]
    assert [state.v[15][i] for i in LANES if vector[i] == 6] == [
        x & 0xFF for i, x in enumerate(values) if vector[i] == 6
    ]


def test_scratch_in_random_order() -> None:
    """Stores and loads of every width at any offset, uniform or a lane's own, against each lane's bytes."""
    rng = random.Random(11)
    stores = {name: (4 * n, 0) for name, n in WHOLE.items()} | PART_STORES
    cells: np.ndarray = np.zeros((64, 64), np.uint8)
    lines, v, checks = [], {}, []
    for k in range(4):  # defined contents first
        v[4 + k] = [rng.getrandbits(32) for _ in LANES]
        lines.append(f"scratch_store_dwordx4 off, v[4:7], off offset:{16 * k}")
    for k in range(16):
        cells[:, 4 * k : 4 * k + 4] = np.array(v[4 + k % 4], np.uint32).view(np.uint8).reshape(64, 4)
    v[0] = [rng.randrange(30) for _ in LANES]
    for step in range(40):
        own = rng.random() < 0.5
        name, (size, shift) = rng.choice(list(stores.items()))
        immediate = rng.randrange(64 - size - (30 if own else 0))
        address = "v0" if own else "off"
        at = [immediate + (x if own else 0) for x in v[0]]
        data = f"v[4:{3 + size // 4}]" if size > 4 else "v4"
        lines.append(f"scratch_store_{name} {address}, {data}, off offset:{immediate}")
        for i in LANES:
            raw = b"".join(v[4 + k][i].to_bytes(4, "little") for k in range(4))[shift // 8 :][:size]
            cells[i, at[i] : at[i] + size] = np.frombuffer(raw, np.uint8)
        name, (size, value) = rng.choice(list(PART_LOADS.items()))
        immediate = rng.randrange(64 - size - (30 if own else 0))
        at = [immediate + (x if own else 0) for x in v[0]]
        lines.append(f"scratch_load_{name} v{8 + step}, {address}, off offset:{immediate}")
        checks.append([value(int.from_bytes(cells[i, at[i] : at[i] + size].tobytes(), "little")) for i in LANES])
    lines += [f"scratch_load_dwordx4 v[{48 + 4 * k}:{51 + 4 * k}], off, off offset:{16 * k}" for k in range(4)]
    state = run("gfx942", "\n".join(lines), v=v, scratch_bytes=64)
    assert state.v[8:48] == checks
    assert np.array(state.v[48:64], np.uint32).T.copy().view(np.uint8).tolist() == cells.tolist()


def test_scratch_out_of_range_faults() -> None:
    with pytest.raises(
        KernelFault, match=r"lane 0: scratch access of 8 bytes at offset 12; the kernel reserves 16 bytes"
    ):
        run("gfx942", "scratch_load_dwordx2 v[2:3], off, off offset:12", scratch_bytes=16)


def test_flat_reaches_lds_and_scratch() -> None:
    host, lds = Host(bytes(range(64)) * 4), bytes(range(100, 164)) * 4
    text = """s_mov_b64 s[4:5], src_shared_base
        s_mov_b64 s[6:7], src_private_base
        scratch_store_dword off, v8, off offset:8
        flat_load_dword v2, v[0:1] offset:8
        flat_store_dword v[0:1], v9 offset:4
        flat_atomic_add v3, v[0:1], v9 offset:4 sc0
        scratch_load_dword v4, off, off offset:4"""
    kinds = [i % 3 for i in LANES]
    low, high = split64(
        [host.base, 0x0001 << 48, 0x0002 << 48][k] + (8 * (i // 3) if k < 2 else 0) for i, k in enumerate(kinds)
    )
    state = run("gfx942", text, v={0: low, 1: high, 8: range(500, 564), 9: range(900, 964)}, lds=lds, scratch_bytes=16)
    assert state.s64(4) == 0x0001 << 48 and state.s64(6) == 0x0002 << 48
    for i, kind in enumerate(kinds):
        place = 8 * (i // 3)
        loaded = (
            int.from_bytes((bytes(range(64)) * 4)[place + 8 : place + 12], "little")
            if kind == 0
            else int.from_bytes(lds[place + 8 : place + 12], "little")
            if kind == 1
            else 500 + i
        )
        assert state.v[2][i] == loaded and state.v[3][i] == 900 + i
        stored = (
            host.bytes()[place + 4 : place + 8]
            if kind == 0
            else state.lds[place + 4 : place + 8]
            if kind == 1
            else None
        )
        assert (state.v[4][i] if stored is None else int.from_bytes(stored, "little")) == 2 * (900 + i)


# --- faults and refusals -------------------------------------------------------------------------------
@pytest.mark.parametrize("address", [0x10, 0x123456789ABCDEF0])
def test_access_fault_names_address_and_lane(address: int) -> None:
    host = Host(bytes(256))
    low, high = split64([host.base] * 7 + [address] + [host.base] * 56)
    with pytest.raises(KernelFault, match=f"memory access fault at address {address:#x}, lane 7"):
        run("gfx942", "global_load_dword v2, v[0:1], off", v={0: low, 1: high})


def test_access_fault_of_a_launch_names_where() -> None:
    program = Program(
        """.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
        .text
        reach:
            s_load_dwordx2 s[4:5], s[0:1], 0x0
            v_lshlrev_b32_e32 v0, 20, v0
            global_store_dword v0, v0, s[4:5]
            s_endpgm
        .amdhsa_kernel reach
            .amdhsa_user_sgpr_count 2
            .amdhsa_user_sgpr_kernarg_segment_ptr 1
        .end_amdhsa_kernel"""
    )
    with pytest.raises(KernelFault) as caught:
        program.kernels["reach"].launch((3, 1, 1), (64, 1, 1), (4096 + 8).to_bytes(8, "little"))
    message = str(caught.value)
    assert "reach on gfx942: memory access fault at address 0x1008, lane 0" in message
    assert "global_store_dword v0, v0, s[4:5]" in message and "workgroup" in message


def test_lanes_that_are_off_do_not_fault() -> None:
    host = Host(bytes(range(256)))
    low, high = split64([0x10] * 63 + [host.base])
    state = run(
        "gfx942",
        "global_load_dword v2, v[0:1], off\nglobal_store_dword v[0:1], v2, off\nglobal_atomic_add v[0:1], v2, off",
        v={0: low, 1: high},
        exec=1 << 63,
    )
    assert state.v[2][63] == 0x03020100


def test_atomics_need_alignment() -> None:
    host = Host(bytes(256))
    low, high = split64([host.base + 2] * 64)
    with pytest.raises(KernelFault, match="lane 0: atomic at misaligned address"):
        run("gfx942", "global_atomic_add v[0:1], v2, off", v={0: low, 1: high})


@pytest.mark.parametrize(
    "text",
    [
        "buffer_load_dword v0, off, s[4:7], 0 tfe",
        "ds_add_u32 v0, v1 gds",
        "global_load_dword v0, v[2:3], off clamp",
        "buffer_store_dword v0, off, s[4:7], 0 lds",
        "ds_read_b32 v0, v1 offset0:1",
        "ds_swizzle_b32 v0, v1 offset:swizzle(SPIN,2)",
        "global_load_dwordx4 v[0:1], v[2:3], off",
    ],
)
def test_what_is_not_supported_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        run("gfx942", text)


# --- typed buffers -----------------------------------------------------------------------------------
DATA_FORMATS = {
    1: ("8", [8]), 2: ("16", [16]), 3: ("8_8", [8, 8]), 4: ("32", [32]), 5: ("16_16", [16, 16]),
    6: ("10_11_11", [11, 11, 10]), 7: ("11_11_10", [10, 11, 11]), 8: ("10_10_10_2", [2, 10, 10, 10]),
    9: ("2_10_10_10", [10, 10, 10, 2]), 10: ("8_8_8_8", [8] * 4), 11: ("32_32", [32] * 2),
    12: ("16_16_16_16", [16] * 4), 13: ("32_32_32", [32] * 3), 14: ("32_32_32_32", [32] * 4),
}  # fmt: skip
NUMBER_FORMATS = ("UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT", "SNORM_OGL", "FLOAT")
PARTS = ("x", "xy", "xyz", "xyzw")


def float_bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def half_bits(value: float) -> int:
    with np.errstate(over="ignore"):
        return int(np.float32(value).astype(np.float16).view(np.uint16))


def small_float(x: int, bits: int) -> float:
    """An unsigned float of five exponent bits: 10 or 11 bits in all."""
    exponent, fraction, width = x >> (bits - 5), x & (1 << (bits - 5)) - 1, bits - 5
    if exponent == 31:
        return float("nan") if fraction else float("inf")
    return (fraction / 2**width if exponent == 0 else 1 + fraction / 2**width) * 2.0 ** (max(exponent, 1) - 15)


def component(x: int, bits: int, number: int) -> int:
    """What a register gets of a component of memory."""
    top = (1 << bits) - 1
    if number == 0:
        return float_bits(x / top)
    if number == 1:
        return float_bits(max(signed(x, bits) / (top >> 1), -1.0))
    if number in (2, 3):
        return float_bits(float(x if number == 2 else signed(x, bits)))
    if number in (4, 5):
        return x if number == 4 else signed(x, bits) & 0xFFFFFFFF
    if bits == 32:
        return x
    return float_bits(float(np.uint16(x).view(np.float16)) if bits == 16 else small_float(x, bits))


def is_format(data: int, number: int) -> bool:
    bits = DATA_FORMATS[data][1]
    return number != 6 and (number != 7 or bits[0] >= 16 or data in (6, 7))


def same_lane(got: int, want: int) -> bool:
    nan = 0x7F800000
    return got == want or (got & nan == want & nan == nan and got & 0x7FFFFF != 0 and want & 0x7FFFFF != 0)


@pytest.mark.parametrize("data", DATA_FORMATS)
def test_typed_buffer_loads(data: int) -> None:
    rng = random.Random(data)
    name, bits = DATA_FORMATS[data]
    size = sum(bits) // 8
    host = Host(rng.randbytes(64 * size))
    number = rng.choice([n for n in range(8) if is_format(data, n)])
    for number in (n for n in range(8) if is_format(data, n)):
        integer = number in (4, 5)
        for count, part in enumerate(PARTS, 1):
            order = [4 + rng.randrange(4) for _ in range(4)]
            order[rng.randrange(4)] = rng.choice([0, 1])
            word3 = sum(s << 3 * k for k, s in enumerate(order)) | number << 12 | data << 15
            text = (
                (
                    f"tbuffer_load_format_{part} v[8:{7 + count}], v0, s[4:7], 0 "
                    f"format:[BUF_DATA_FORMAT_{name},BUF_NUM_FORMAT_{NUMBER_FORMATS[number]}] offen\n"
                    f"buffer_load_format_{part} v[12:{11 + count}], v0, s[4:7], 0 offen\n"
                    f"tbuffer_load_format_d16_{part} v[16:{16 + (count - 1) // 2}], v0, s[4:7], dfmt:{data}, "
                    f"nfmt:{number}, 0 offen\n"
                    f"buffer_load_format_d16_{part} v[20:{20 + (count - 1) // 2}], v0, s[4:7], 0 offen\n"
                    "buffer_load_format_d16_hi_x v24, v0, s[4:7], 0 offen"
                )
                .replace("[8:8]", "8")
                .replace("[12:12]", "12")
                .replace("[16:16]", "16")
                .replace("[20:20]", "20")
            )
            resource = descriptor(host.base, 60 * size, flags=word3)  # four lanes are out of range
            state = run("gfx942", text, v={0: [i * size for i in LANES], 24: [7] * 64}, s=resource)
            for lane in LANES:
                raw, at = int.from_bytes(host.bytes()[lane * size : (lane + 1) * size], "little"), 0
                texel = [0, 0, 0, 1 if integer else float_bits(1.0)]
                one = texel[3]
                for k, width in enumerate(bits):
                    texel[k] = component(raw >> at & (1 << width) - 1, width, number)
                    at += width
                chosen = [texel[s - 4] if s >= 4 else one if s == 1 else 0 for s in order]
                if lane >= 60:
                    texel = chosen = [0] * 4
                for first, values, d16 in ((8, texel, 16), (12, chosen, 20)):
                    halves = []
                    for k in range(count):
                        assert same_lane(state.v[first + k][lane], values[k]), (text, lane, k)
                        value = float(np.uint32(values[k]).view(np.float32))
                        halves.append(values[k] & 0xFFFF if integer else half_bits(value))
                    for k, want in enumerate(halves):
                        got = state.v[d16 + k // 2][lane] >> 16 * (k % 2) & 0xFFFF
                        nan = got & 0x7C00 == want & 0x7C00 == 0x7C00 and got & 0x3FF and want & 0x3FF
                        assert got == want or nan, (text, lane, k)
                assert state.v[24][lane] == (state.v[20][lane] & 0xFFFF) << 16
                assert count % 2 == 0 or state.v[20 + count // 2][lane] >> 16 == 0  # the half that is not loaded


@pytest.mark.parametrize("data", DATA_FORMATS)
def test_typed_buffer_stores_give_back_what_was_loaded(data: int) -> None:
    rng = random.Random(data)
    name, bits = DATA_FORMATS[data]
    size, count = sum(bits) // 8, len(bits)
    part = PARTS[count - 1]
    for number in (n for n in range(8) if is_format(data, n)):
        if (number == 7 and bits[0] < 16) or (bits[0] == 32 and number < 4):
            continue  # packed floats are not stored; 32 bits do not fit a float
        host = Host(rng.randbytes(64 * size))
        there = Host(bytes(64 * size))
        kept = host.bytes()
        if number == 7:  # without NaNs, which need not keep their bits
            kept = bytes(b & 0x3F if bits[0] == 16 and i % 2 else b for i, b in enumerate(kept))
        if number == 1:  # the least value has two patterns
            kept = bytes(0x11 for _ in kept)
        host.view[:] = np.frombuffer(kept, np.uint8)
        narrow = all(width <= 10 or number == 7 or (width <= 16 and number > 3) for width in bits) and bits[0] < 32
        for d16 in ("", "d16_") if narrow else ("",):
            there.view[:] = 0
            word3 = 4 | 5 << 3 | 6 << 6 | 7 << 9 | number << 12 | data << 15
            registers = (count + 1) // 2 if d16 else count
            v = f"v[8:{7 + registers}]" if registers > 1 else "v8"
            form = f"format:[BUF_DATA_FORMAT_{name},BUF_NUM_FORMAT_{NUMBER_FORMATS[number]}]"
            s = {
                **descriptor(host.base, 64 * size, flags=word3),
                **{k + 4: x for k, x in descriptor(there.base, 60 * size, flags=word3).items()},
            }
            at = [i * size for i in LANES]
            for store in (
                f"buffer_store_format_{d16}{part} {v}, v0, s[8:11], 0 offen",
                f"tbuffer_store_format_{d16}{part} {v}, v0, s[8:11], 0 {form} offen",
            ):
                run("gfx942", f"buffer_load_format_{d16}{part} {v}, v0, s[4:7], 0 offen\n{store}", v={0: at}, s=s)
                assert there.bytes()[: 60 * size] == kept[: 60 * size], store
                assert there.bytes()[60 * size :] == bytes(4 * size)
                there.view[:] = 0
            if count == 1 and d16:
                text = (
                    f"buffer_load_format_d16_hi_x {v}, v0, s[4:7], 0 offen\n"
                    f"buffer_store_format_d16_hi_x {v}, v0, s[8:11], 0 offen"
                )
                run("gfx942", text, v={0: at}, s=s)
                assert there.bytes()[: 60 * size] == kept[: 60 * size]


def test_typed_buffers_that_have_no_meaning() -> None:
    host = Host(bytes(64))
    for word3, text, what in (
        (6 << 12 | 4 << 15, "buffer_load_format_x v1, off, s[4:7], 0", "no such format"),
        (15 << 15, "buffer_load_format_x v1, off, s[4:7], 0", "no such format"),
        (7 << 12 | 10 << 15, "buffer_load_format_x v1, off, s[4:7], 0", "no such format"),
        (4 << 12 | 10 << 15, "buffer_store_format_x v1, off, s[4:7], 0", "stores 1 components to a buffer of 4"),
    ):
        with pytest.raises(KernelFault, match=what):
            run("gfx942", text, v={1: [0] * 64}, s=descriptor(host.base, 64, flags=word3))
