"""Scalar loads, stores and atomics, and exchanges of LDS and global wave sync that no compiler emits: each alone.

Definitions are of AMD's CDNA3 ISA document.
"""

import ctypes
import random
from typing import Any

import pytest

from cdna.errors import KernelFault, UnsupportedInstruction
from cdna.launch.program import Program
from cdna.testing.snippet import run
from tests.support.assembled import program
from tests.support.atomic_operations import integer_operations

M32, M64 = (1 << 32) - 1, (1 << 64) - 1


class Memory:
    """64 dwords at a multiple of 64 bytes, with the scalar registers that point there."""

    words: Any  # ctypes.c_uint32[64]

    def __init__(self, seed: str) -> None:
        rng = random.Random(seed)
        self._raw = ctypes.create_string_buffer(64 * 4 + 64)
        self.address = ctypes.addressof(self._raw) + -ctypes.addressof(self._raw) % 64
        self.words = (ctypes.c_uint32 * 64).from_address(self.address)
        self.words[:] = [rng.getrandbits(32) for _ in range(64)]

    def pointer(self, register: int) -> dict[int, int]:
        return {register: self.address & M32, register + 1: self.address >> 32}

    def buffer(self, register: int, size_bytes: int) -> dict[int, int]:
        return self.pointer(register) | {register + 2: size_bytes, register + 3: 0x27000}

    def u64(self, word: int) -> int:
        return self.words[word] | self.words[word + 1] << 32


def span(first: int, count: int) -> str:
    return f"s{first}" if count == 1 else f"s[{first}:{first + count - 1}]"


def name(stem: str, dwords: int) -> str:
    return f"{stem}_dword" + (f"x{dwords}" if dwords > 1 else "")


# What an offset of 20 bytes in s3 and 8 as a constant amounts to; a register counts 64 bytes in scratch.
OFFSETS = {"0x14": 20, "s3": 20, "s3 offset:0x8": 28, "0x17": 20}
SCRATCH_OFFSETS = {"0x14": 20, "s5": 64, "s5 offset:0x8": 72}


@pytest.mark.parametrize("dwords", [1, 2, 4])
@pytest.mark.parametrize("space", ["", "buffer_", "scratch_"])
def test_stores_and_loads(space: str, dwords: int) -> None:
    for offset, at in (SCRATCH_OFFSETS if space == "scratch_" else OFFSETS).items():
        memory = Memory(offset)
        before = list(memory.words)
        base = memory.buffer(8, 256) if space == "buffer_" else memory.pointer(8)
        where = f"{span(8, 4 if space == 'buffer_' else 2)}, {offset}"
        data = {16 + k: 0x1000 + k for k in range(dwords)}
        store, load = name(f"s_{space}store", dwords), name(f"s_{space}load", dwords)
        state = run(
            "gfx942",
            f"{store} {span(16, dwords)}, {where}\n{load} {span(24, dwords)}, {where}",
            s=base | data | {3: 20, 5: 1},
        )
        want = before[: at // 4] + list(data.values()) + before[at // 4 + dwords :]
        assert list(memory.words) == want, offset
        assert state.s[24 : 24 + dwords] == list(data.values())


def test_buffer_stores_end_with_the_buffer() -> None:
    memory = Memory("ends")
    before = list(memory.words)
    run(
        "gfx942",
        "s_buffer_store_dwordx4 s[16:19], s[8:11], 0x10\ns_buffer_store_dword s16, s[8:11], 0x40",
        s=memory.buffer(8, 24) | {16 + k: k for k in range(4)},
    )
    assert list(memory.words) == [*before[:4], 0, 1, *before[6:]]


@pytest.mark.parametrize("buffer", [False, True])
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("op", list(integer_operations(32)))
def test_atomics(op: str, bits: int, buffer: bool) -> None:
    define = integer_operations(bits)[op]
    rng = random.Random(f"{op} {bits}")
    n, mask = bits // 32, (1 << bits) - 1
    mnemonic = f"s_{'buffer_' if buffer else ''}atomic_{op}" + ("_x2" if bits == 64 else "")
    for old, x in [(rng.getrandbits(bits), rng.getrandbits(bits)) for _ in range(6)] + [(5, 5), (0, 7), (mask, 1)]:
        memory = Memory("atomics")
        memory.words[2], memory.words[3] = old & M32, old >> 32 if n == 2 else 99
        after = list(memory.words)
        new = define(old, x) & mask
        after[2 : 2 + n] = [new & M32, new >> 32][:n]
        base = memory.buffer(8, 16) if buffer else memory.pointer(8)
        where = f"{span(16, n)}, {span(8, 4 if buffer else 2)}, 0x8"
        for glc, data in ((" glc", old), ("", x)):
            memory.words[2 : 2 + n] = [old & M32, old >> 32][:n]
            state = run("gfx942", f"{mnemonic} {where}{glc}", s=base | {16: x & M32, 17: x >> 32 if n == 2 else 3})
            assert list(memory.words) == after, (hex(old), hex(x))
            assert state.s[16 : 16 + n] == [data & M32, data >> 32][:n]
        if buffer:  # outside of it
            state = run("gfx942", f"{mnemonic} {span(16, n)}, s[8:11], 0x10 glc", s=base | {16: 7, 17: 7})
            assert list(memory.words) == after and state.s[16 : 16 + n] == [0] * n


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("space", ["", "buffer_"])
def test_compare_and_swap(space: str, bits: int) -> None:
    n = bits // 32
    for equal in (False, True):
        memory = Memory("swap")
        old = memory.u64(2) if n == 2 else memory.words[2]
        compare = old if equal else old ^ 1 << (bits - 1)
        data = [0x11, 0x22][:n] + [compare & M32, compare >> 32][:n]
        base = memory.buffer(8, 256) if space else memory.pointer(8)
        after = list(memory.words)
        if equal:
            after[2 : 2 + n] = data[:n]
        mnemonic = f"s_{space}atomic_cmpswap" + ("_x2" if n == 2 else "")
        where = f"{span(16, 2 * n)}, {span(8, 4 if space else 2)}, 0x8"
        state = run("gfx942", f"{mnemonic} {where} glc", s=base | {16 + k: word for k, word in enumerate(data)})
        assert list(memory.words) == after
        assert state.s[16 : 16 + 2 * n] == [old & M32, old >> 32][:n] + data[n:]


def test_misaligned_atomic() -> None:
    with pytest.raises(KernelFault, match="scalar atomic at misaligned address 0x[0-9a-f]+4"):
        run("gfx942", "s_atomic_add_x2 s[16:17], s[8:9], 0x4", s=Memory("").pointer(8))


def test_probes_change_nothing() -> None:
    memory = Memory("probe")
    before = list(memory.words)
    state = run(
        "gfx942", "s_atc_probe 7, s[8:9], 0x10\ns_atc_probe_buffer 7, s[8:11], s3", s=memory.buffer(8, 256) | {3: 4}
    )
    assert list(memory.words) == before and state.s[3] == 4


@pytest.mark.parametrize(
    "end",
    ["s_endpgm_saved", *(f"s_cbranch_{c}" for c in ("cdbgsys", "cdbguser", "cdbgsys_or_user", "cdbgsys_and_user"))],
)
def test_flow_without_a_debugger(end: str) -> None:
    """The wave ends; a branch on what a debugger sets is not taken."""
    label = " other" if "branch" in end else ""
    state = run("gfx942", f"s_mov_b32 s0, 1\n{end}{label}\ns_mov_b32 s0, 2\nother:\ns_nop 0")
    assert state.s[0] == (2 if label else 1)


def test_conditional_exchange() -> None:
    """A dword of LDS is written where the data's top bit is set, without that bit; the address counts pairs."""
    rng = random.Random(4)
    before = [rng.getrandbits(32) for _ in range(128)]
    data = {1 + k: [rng.getrandbits(32) for _ in range(64)] for k in range(2)}
    addresses = {0: [8 * i + rng.randrange(8) for i in range(64)]}
    state = run(
        "gfx942",
        "ds_condxchg32_rtn_b64 v[3:4], v0, v[1:2] offset:8",
        exec=M64 >> 2,
        v=addresses | data,
        lds=b"".join(w.to_bytes(4, "little") for w in before),
    )
    lds = [int.from_bytes(state.lds[4 * i : 4 * i + 4], "little") for i in range(128)]
    for lane in range(62):
        for half in range(2):
            x, old = data[1 + half][lane], before[2 * lane + 2 + half]
            assert state.v[3 + half][lane] == old
            assert lds[2 * lane + 2 + half] == (x & 0x7FFFFFFF if x >> 31 else old)
    assert lds[:2] == before[:2] and lds[126:] == before[126:]


def test_scales_loaded_by_themselves() -> None:
    """v_mfma_ld_scale_b32 and the product behind it are what v_mfma_scale_* is in one word."""
    rng = random.Random(5)
    v = {k: [rng.getrandbits(32) & 0x3F3F3F3F for _ in range(64)] for k in range(20)}
    v |= {20 + k: [rng.randrange(0x7800, 0x8200) * 0x10001 for _ in range(64)] for k in range(2)}
    product, selects = "f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:17], v[0:3]", "op_sel:[0,1] op_sel_hi:[1,0]"
    formats = "cbsz:1 blgp:3"
    apart = run("gfx950", f"v_mfma_ld_scale_b32 v20, v21 {selects}\nv_mfma_{product} {formats}", v=v)
    whole = run("gfx950", f"v_mfma_scale_{product}, v20, v21 {selects} {formats}", v=v)
    without = run("gfx950", f"v_mfma_{product} {formats}", v=v)
    assert apart.v == whole.v and apart.v[:4] != without.v[:4]
    with pytest.raises(UnsupportedInstruction, match="v_mfma_ld_scale_b32 before s_nop"):
        run("gfx950", "v_mfma_ld_scale_b32 v20, v21\ns_nop 0")


def test_global_wave_sync() -> None:
    """One wave passes a barrier of one; a semaphore lets as many pass as it was given."""
    waits = [[k] * 64 for k in range(3)]
    state = run(
        "gfx942",
        """
        s_mov_b32 m0, 0x10000
        ds_gws_init v0 offset:3 gds
        ds_gws_barrier v0 offset:3 gds
        ds_gws_barrier v0 offset:3 gds
        ds_gws_init v1 offset:5 gds
        ds_gws_sema_p offset:5 gds
        ds_gws_sema_v offset:5 gds
        ds_gws_sema_p offset:5 gds
        ds_gws_sema_br v2 offset:5 gds
        ds_gws_sema_p offset:5 gds
        ds_gws_sema_p offset:5 gds
        ds_gws_sema_release_all offset:5 gds
        s_mov_b32 s0, 1""",
        v=dict(enumerate(waits)),
    )
    assert state.s[0] == 1 and state.v[:3] == waits


def test_kernel_arguments_begin_at_a_cache_line() -> None:
    """As HIP's do: how many lines scalar loads of them ask for, and the modelled time, is the same in each launch."""
    code = "s_load_dwordx2 s[4:5], s[0:1], 0x0\nv_mov_b32 v1, 0\nv_mov_b32 v2, s0\ns_waitcnt lgkmcnt(0)\n"
    kernel = program(code + "global_store_dword v1, v2, s[4:5]\ns_waitcnt vmcnt(0)\n").kernels["k"]
    held, found = [], set()
    for size in range(16, 400, 24):
        out = ctypes.create_string_buffer(256)
        held.append(out)  # so that the next block of the heap lies elsewhere
        kernel.launch((1, 1, 1), (64, 1, 1), ctypes.addressof(out).to_bytes(8, "little").ljust(size, b"\0"))
        found.add(int.from_bytes(out.raw[:4], "little") % 128)
    assert found == {0}


OLDER_FIRMWARE = {
    "loads": "s_load_dword s2, s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\ns_branch after\n.p2align 8\nafter:",
    "a trap": "s_trap 2\n" + "s_nop 0\n" * 63,
    "none": "",  # as of hand-written kernels
}


@pytest.mark.parametrize("before", OLDER_FIRMWARE)
def test_what_loads_arguments_on_older_firmware_is_passed_over(before: str) -> None:
    """LLVM, AMDGPUPreloadKernArgProlog.cpp: firmware that preloads begins 256 bytes behind a kernel's start."""
    kernel = Program(f"""
        .amdgcn_target "amdgcn-amd-amdhsa--gfx942"
        .text
        k:
            {OLDER_FIRMWARE[before]}
            s_cmp_lg_u32 s2, 7
            s_cbranch_scc1 other
            s_endpgm
        other:
            s_trap 2
            s_endpgm
        .amdhsa_kernel k
            .amdhsa_user_sgpr_count 4
            .amdhsa_user_sgpr_kernarg_segment_ptr 1
            .amdhsa_user_sgpr_kernarg_preload_length 2
            .amdhsa_user_sgpr_kernarg_preload_offset 0
        .end_amdhsa_kernel""").kernels["k"]
    record = kernel.launch((1, 1, 1), (64, 1, 1), (7).to_bytes(8, "little"))
    assert record.wave_instructions == 3
