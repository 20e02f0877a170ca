"""Atomics of the emulated device: each against a plain model, in every space, and under concurrency."""

import ctypes
import math
import random
import struct
from collections.abc import Iterator

import numpy as np
import pytest

from cdna.launch.program import Program
from cdna.testing.snippet import POISON, run, split64
from tests.support.atomic_operations import Operation, integer_operations

LANES = range(64)


def f32(x: int) -> float:
    return struct.unpack("<f", struct.pack("<I", x))[0]


def f32_bits(x: float) -> int:
    return int(np.float32(x).view(np.uint32))


def f64(x: int) -> float:
    return struct.unpack("<d", struct.pack("<Q", x))[0]


def f64_bits(x: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def halves(add: Operation) -> Operation:
    return lambda old, x: add(old & 0xFFFF, x & 0xFFFF) | add(old >> 16, x >> 16) << 16


def add_f16(a: int, b: int) -> int:
    total = np.array([a, b], np.uint16).view(np.float16).sum(dtype=np.float32)
    return int(np.float16(total).view(np.uint16))


def add_bf16(a: int, b: int) -> int:
    bits = f32_bits(f32(a << 16) + f32(b << 16))
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


FLOATS: dict[str, tuple[int, Operation]] = {
    "add_f32": (4, lambda old, x: f32_bits(f32(old) + f32(x))),
    "pk_add_f16": (4, halves(add_f16)),
    "pk_add_bf16": (4, halves(add_bf16)),
    "add_f64": (8, lambda old, x: f64_bits(f64(old) + f64(x))),
    "min_f64": (8, lambda old, x: f64_bits(min(f64(old), f64(x)))),
    "max_f64": (8, lambda old, x: f64_bits(max(f64(old), f64(x)))),
}


def global_operations() -> Iterator[tuple[str, int, Operation]]:
    for name, operation in integer_operations(32).items():
        yield name, 4, operation
    for name, operation in integer_operations(64).items():
        yield f"{name}_x2", 8, operation
    for name, (size, operation) in FLOATS.items():
        yield name, size, operation


def ds_operations() -> Iterator[tuple[str, int, Operation]]:
    """(name with {} where `_rtn` goes, bytes, operation)"""
    types = {
        "smin": ("min", "i"),
        "smax": ("max", "i"),
        "umin": ("min", "u"),
        "umax": ("max", "u"),
        "and": ("and", "b"),
        "or": ("or", "b"),
        "xor": ("xor", "b"),
    }
    for bits in (32, 64):
        for name, operation in integer_operations(bits).items():
            if name != "swap":
                stem, kind = types.get(name, (name, "u"))
                yield f"ds_{stem}{{}}_{kind}{bits}", bits // 8, operation
        yield f"ds_rsub{{}}_u{bits}", bits // 8, lambda old, x: x - old
    for name, (size, operation) in FLOATS.items():
        stem, _, kind = name.rpartition("_")
        yield f"ds_{stem}{{}}_{kind}", size, operation
    yield "ds_min{}_f32", 4, lambda old, x: f32_bits(min(f32(old), f32(x)))
    yield "ds_max{}_f32", 4, lambda old, x: f32_bits(max(f32(old), f32(x)))


def value(rng: random.Random, name: str, size: int) -> int:
    """An operand: any integer with some repeats, or a finite float."""
    if "f64" in name:
        return f64_bits(rng.uniform(-10, 10))
    if "bf16" in name:
        return f32_bits(rng.uniform(-10, 10)) >> 16 | f32_bits(rng.uniform(-10, 10)) & 0xFFFF0000
    if "f16" in name:
        return int(np.array([rng.uniform(-9, 9), rng.uniform(-9, 9)], np.float16).view(np.uint32)[0])
    if "f32" in name:
        return f32_bits(rng.uniform(-10, 10))
    return rng.choice([rng.getrandbits(8 * size), rng.randrange(4), (1 << 8 * size) - 1 - rng.randrange(4)])


def registers(values: list[int], first: int, size: int) -> dict[int, list[int]]:
    return {first + k: [x >> 32 * k & 0xFFFFFFFF for x in values] for k in range(size // 4)}


def name_of(first: int, size: int) -> str:
    return f"v{first}" if size == 4 else f"v[{first}:{first + size // 4 - 1}]"


class Case:
    """64 lanes over 24 cells of memory, so that lanes meet; what memory and the returned values must be."""

    def __init__(self, name: str, size: int, operation: Operation) -> None:
        rng = random.Random(name)
        self.size, self.exec = size, rng.choice([(1 << 64) - 1, rng.getrandbits(64)])
        self.before = [value(rng, name, size) for _ in range(24)]
        self.cell = [rng.randrange(24) for _ in LANES]
        self.data = [value(rng, name, size) for _ in LANES]
        self.after, self.returned = list(self.before), [POISON | POISON << 32 if size == 8 else POISON] * 64
        for i in LANES:
            if self.exec >> i & 1:
                self.returned[i] = self.after[self.cell[i]]
                self.after[self.cell[i]] = operation(self.after[self.cell[i]], self.data[i]) & (1 << 8 * size) - 1

    def memory(self) -> np.ndarray:
        return np.array(self.before, np.uint32 if self.size == 4 else np.uint64)

    def offsets(self) -> list[int]:
        return [c * self.size for c in self.cell]

    def check(self, memory: list[int], v: list[list[int]], first: int | None) -> None:
        assert memory == self.after
        if first is not None:
            got = [sum(v[first + k][i] << 32 * k for k in range(self.size // 4)) for i in LANES]
            assert [g for i, g in enumerate(got) if self.exec >> i & 1] == [
                r for i, r in enumerate(self.returned) if self.exec >> i & 1
            ]


@pytest.mark.parametrize(
    "name,size,operation", list(global_operations()), ids=lambda x: x if isinstance(x, str) else ""
)
def test_global_flat_and_buffer_atomics(name: str, size: int, operation: Operation) -> None:
    data, result = name_of(8, size), name_of(12, size)
    forms = [
        (f"global_atomic_{name} {result}, v[0:1], {data}, off sc0", 12),
        (f"global_atomic_{name} v[0:1], {data}, off", None),
        (f"global_atomic_{name} v2, {data}, s[0:1]", None),
        (f"flat_atomic_{name} {result}, v[0:1], {data} sc0", 12),
        (f"buffer_atomic_{name} {data}, v2, s[4:7], 0 offen sc0", 8),
        (f"buffer_atomic_{name} {data}, v2, s[4:7], 0 offen", None),
    ]
    for text, first in forms:
        case = Case(name, size, operation)
        memory = case.memory()
        base = memory.ctypes.data
        low, high = split64(base + o for o in case.offsets())
        s = {0: base & 0xFFFFFFFF, 1: base >> 32, 4: base & 0xFFFFFFFF, 5: base >> 32, 6: 24 * size, 7: 0x27000}
        state = run(
            "gfx950", text, v={0: low, 1: high, 2: case.offsets(), **registers(case.data, 8, size)}, s=s, exec=case.exec
        )
        case.check(memory.tolist(), state.v, first)


@pytest.mark.parametrize("name,size,operation", list(ds_operations()), ids=lambda x: x if isinstance(x, str) else "")
def test_lds_atomics(name: str, size: int, operation: Operation) -> None:
    data, result = name_of(8, size), name_of(12, size)
    for text, first in (
        (f"{name.format('_rtn')} {result}, v2, {data} offset:16", 12),
        (f"{name.format('')} v2, {data} offset:16", None),
    ):
        case = Case(name, size, operation)
        state = run(
            "gfx942",
            text,
            v={2: case.offsets(), **registers(case.data, 8, size)},
            exec=case.exec,
            lds=bytes(16) + case.memory().tobytes(),
        )
        case.check(np.frombuffer(state.lds[16:], case.memory().dtype).tolist(), state.v, first)


@pytest.mark.parametrize("size", [4, 8])
def test_compare_and_swap(size: int) -> None:
    """Global forms take the new value, then the value to compare with; LDS forms the other way round."""
    rng = random.Random(size)
    dtype, suffix = (np.uint32, "") if size == 4 else (np.uint64, "_x2")
    new, compare = [rng.getrandbits(8 * size) for _ in LANES], [rng.randrange(3) for _ in LANES]
    before, cell = [rng.randrange(3) for _ in range(20)], [rng.randrange(20) for _ in LANES]
    after, returned = list(before), []
    for i in LANES:
        returned.append(after[cell[i]])
        after[cell[i]] = new[i] if after[cell[i]] == compare[i] else after[cell[i]]
    pair = f"v[8:{7 + size // 2}]"
    v = {**registers(new, 8, size), **registers(compare, 8 + size // 4, size)}
    result = name_of(14, size)
    for text, first in (
        (f"global_atomic_cmpswap{suffix} {result}, v[0:1], {pair}, off sc0", 14),
        (f"flat_atomic_cmpswap{suffix} {result}, v[0:1], {pair} sc0", 14),
        (f"buffer_atomic_cmpswap{suffix} {pair}, v2, s[4:7], 0 offen sc0", 8),
    ):
        memory = np.array(before, dtype)
        base = memory.ctypes.data
        low, high = split64(base + c * size for c in cell)
        s = {4: base & 0xFFFFFFFF, 5: base >> 32, 6: 20 * size, 7: 0x27000}
        state = run("gfx942", text, v={0: low, 1: high, 2: [c * size for c in cell], **v}, s=s)
        assert memory.tolist() == after
        assert [sum(state.v[first + k][i] << 32 * k for k in range(size // 4)) for i in LANES] == returned
    text = f"ds_cmpst_rtn_b{8 * size} {result}, v2, {name_of(8 + size // 4, size)}, {name_of(8, size)}"
    state = run("gfx942", text, v={2: [c * size for c in cell], **v}, lds=np.array(before, dtype).tobytes())
    assert np.frombuffer(state.lds, dtype).tolist() == after
    assert [sum(state.v[14 + k][i] << 32 * k for k in range(size // 4)) for i in LANES] == returned


def test_lds_wrap() -> None:
    """Exchanges and masked or: test_singles.py."""
    lds: np.ndarray = np.arange(100, 164, dtype=np.uint32)
    v = {0: [4 * i for i in LANES], 1: [130] * 64, 2: [7] * 64}
    state = run("gfx942", "ds_wrap_rtn_b32 v4, v0, v1, v2", v=v, lds=lds.tobytes())
    assert state.v[4] == lds.tolist()
    assert np.frombuffer(state.lds, np.uint32).tolist() == [x - 130 if x >= 130 else x + 7 for x in lds.tolist()]


def test_append_and_consume() -> None:
    lds = struct.pack("<4I", 1, 2, 50, 60)
    state = run("gfx942", "ds_append v0 offset:4\nds_consume v1 offset:8", s={124: 4}, exec=0x1F, lds=lds)
    assert state.v[0][:6] == [50] * 5 + [POISON] and state.v[1][:5] == [60] * 5
    assert struct.unpack("<4I", state.lds) == (1, 2, 55, 55)


def test_float_atomics_keep_nan_and_infinity() -> None:
    memory = np.array([math.inf, 1.0], np.float32)
    low, high = split64([memory.ctypes.data, memory.ctypes.data + 4] + [0] * 62)
    run(
        "gfx942",
        "global_atomic_add_f32 v[0:1], v2, off",
        exec=3,
        v={0: low, 1: high, 2: [f32_bits(-math.inf), f32_bits(math.inf)] + [0] * 62},
    )
    assert math.isnan(memory[0]) and memory[1] == math.inf
    state = run(
        "gfx942", "ds_max_f32 v0, v1", v={0: [0] * 64, 1: [f32_bits(2.0)] * 64}, exec=1, lds=struct.pack("<f", math.nan)
    )
    assert struct.unpack("<f", state.lds) == (2.0,)


def test_buffer_atomic_out_of_range_returns_zero() -> None:
    memory = np.array([5, 6, 7], np.uint32)
    base = memory.ctypes.data
    state = run(
        "gfx942",
        "buffer_atomic_add v1, v0, s[4:7], 0 offen sc0",
        exec=7,
        v={0: [4, 8, 0x80000000] + [0] * 61, 1: [10] * 64},
        s={4: base & 0xFFFFFFFF, 5: base >> 32, 6: 8, 7: 0x27000},
    )
    assert memory.tolist() == [5, 16, 7] and state.v[1][:3] == [6, 0, 0]


CONCURRENT = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
contend:
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_mov_b32_e32 v2, 1
    v_mov_b32_e32 v3, 1.0
    v_mov_b32_e32 v5, 0
    v_mov_b32_e32 v6, 1
    v_mov_b32_e32 v7, 0
    s_movk_i32 s6, 20
loop:
    global_atomic_add v5, v2, s[4:5]
    global_atomic_add_x2 v5, v[6:7], s[4:5] offset:8
    global_atomic_add_f32 v5, v3, s[4:5] offset:16
    s_sub_u32 s6, s6, 1
    s_cmp_lg_u32 s6, 0
    s_cbranch_scc1 loop
    s_endpgm
.amdhsa_kernel contend
    .amdhsa_user_sgpr_count 2
    .amdhsa_user_sgpr_kernarg_segment_ptr 1
.end_amdhsa_kernel
"""


def test_concurrent_workgroups_lose_no_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDNA_THREADS", "2")
    memory: np.ndarray = np.zeros(4, np.uint64)
    groups, items, rounds = 12, 256, 20
    program = Program(CONCURRENT)
    program.kernels["contend"].launch((groups, 1, 1), (items, 1, 1), struct.pack("<Q", memory.ctypes.data))
    total = groups * items * rounds
    assert memory[0] == total and memory[1] == total
    assert ctypes.c_float.from_address(memory.ctypes.data + 16).value == total  # exact below 2**24
