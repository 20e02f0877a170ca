"""How a row's kernel is launched: grid, workgroup and kernel arguments for each family of code objects.

Every argument of AITER's kernels takes a slot of 16 bytes. Memory is mapped and never written: matrices of zeros of any
size cost nothing until a workgroup touches them, and control flow depends on none of their values. What experts get,
which does decide it, is drawn at random. A fused MoE's grid has room for the worst routing; blocks of it that no token
uses, whose workgroups end at once, are left out.

Source: ROCm/aiter, csrc/py_itfs_cu/asm_*.cu for the arguments and grids, csrc/ck_gemm_moe_2stages_codegen for what the
timed calls of the fused MoE are given.
"""

from __future__ import annotations

import ctypes
import mmap
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from cdna.cards import Card

from .rows import Row, RowError

_TILE = re.compile(r"_(\d+)x(\d+)(?=[_.])")
_PAGE_BYTES = 2 << 20
_NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux, which Python names from 3.13 on
_SEMAPHORES = 1024
THREADS = 256


@dataclass
class Memory:
    """Zeroed memory that takes no room before it is touched; starts at a large page, as the allocator's does."""

    bytes: int
    map: mmap.mmap = field(init=False)
    address: int = field(init=False)

    def __post_init__(self) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
        self.map = mmap.mmap(-1, self.bytes + 2 * _PAGE_BYTES, flags=flags)
        self.address = -(-np.frombuffer(self.map, np.uint8).ctypes.data // _PAGE_BYTES) * _PAGE_BYTES

    def view(self, dtype: np.typing.DTypeLike = np.uint8) -> np.ndarray:
        """What it holds; to be used while the memory lives."""
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.bytes).from_address(self.address)).view(dtype)

    def fill(self, values: np.ndarray) -> Memory:
        """Writes an array to its start."""
        self.view()[: values.nbytes] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        return self


Slot = Memory | int | float | None


@dataclass
class Launch:
    """One call as it was timed. kernarg: 16 bytes for each slot."""

    grid: tuple[int, int, int]
    slots: list[Slot]
    cleared_bytes: int = 0  # by a fill before the kernel that the published time contains
    block: tuple[int, int, int] = (THREADS, 1, 1)
    lds_bytes: int = 0  # dynamic

    @property
    def kernarg(self) -> bytes:
        return b"".join(_slot(slot) for slot in self.slots)


@dataclass
class PlacedLaunch(Launch):
    """Of a kernel whose arguments stand at `offsets` of `kernarg_bytes`: addresses of 8 bytes, numbers of 4."""

    offsets: list[int] = field(default_factory=list)
    kernarg_bytes: int = 0

    @property
    def kernarg(self) -> bytes:
        packed = bytearray(self.kernarg_bytes)
        for offset, slot in zip(self.offsets, self.slots):
            if isinstance(slot, Memory):
                struct.pack_into("<Q", packed, offset, slot.address)
            else:
                struct.pack_into("<I", packed, offset, slot)
        return bytes(packed)


def _slot(value: Slot) -> bytes:
    if isinstance(value, Memory):
        return struct.pack("<Q8x", value.address)
    if isinstance(value, float):
        return struct.pack("<f12x", value)
    return struct.pack("<Q8x", value or 0)


def tile(row: Row) -> tuple[int, int]:
    """(rows, columns) of a workgroup's tile, from the code object's name."""
    found = _TILE.findall(row.code)
    if not found:
        raise RowError(f"{row.code}: its name has no tile")
    return int(found[-1][0]), int(found[-1][1])


def _up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def _mnk(row: Row) -> tuple[int, int, int]:
    return row.number("m"), row.number("n"), row.number("k")


def f4gemm(row: Row, card: Card) -> Launch:
    """mxfp4 [m, k] x [n, k] with a scale for 32 elements -> bf16 [m, n]."""
    (m, n, k), (tile_m, tile_n), split = _mnk(row), tile(row), row.number("split")
    k_of_group = _up(k >> split, 256)
    a, b, out = Memory(m * k // 2), Memory(n * k // 2), Memory(2 * m * n)
    a_scale, b_scale = Memory(_up(m, 256) * k // 32), Memory(_up(n, 256) * k // 32)
    strides: list[Slot] = [n, 0, n, 0, k, 0, k, 0]  # of D, C, A, B in elements
    slots: list[Slot] = [out, None, a, b, 1.0, 0.0, *strides, m, n, k, a_scale, b_scale]
    slots += [k // 32, 0, k // 32, 0, split]
    grid = (-(-n // tile_n), -(-m // tile_m), -(-k // k_of_group))
    return Launch(grid, slots, cleared_bytes=2 * m * n if split else 0)


def i8gemm(row: Row, card: Card) -> Launch:
    """int8 [m, k] x [n, k] with a scale for each row of both -> bf16 [m, n]."""
    (m, n, k), (tile_m, tile_n), split = _mnk(row), tile(row), row.number("split") or 1
    out, a, b = Memory(2 * m * n), Memory(m * k), Memory(n * k)
    slots: list[Slot] = [out, a, b, Memory(4 * m), Memory(4 * n), Memory(4 * n), m, n, k, k, k, 2 * n, split]
    grid = (n // tile_n * split, -(-m // tile_m), 1)
    return Launch(grid, slots, cleared_bytes=2 * m * n if split > 1 else 0)


def fp8gemm_blockscale(row: Row, card: Card) -> Launch:
    """fp8 [m, k] x [n, k], scales for 1 x 128 and 128 x 128 elements -> bf16 [m, n]."""
    launch = i8gemm(row, card)
    m, n, k = _mnk(row)
    k_blocks, n_blocks = -(-k // 128), -(-n // 128)
    launch.slots[3:5] = [Memory(4 * m * k_blocks), Memory(4 * n_blocks * k_blocks)]
    launch.slots += [m, n_blocks, k_blocks]
    return launch


def bf16gemm(row: Row, card: Card) -> Launch:
    """bf16 [m, k] x [n, k] -> bf16 or fp32 [m, n]."""
    (m, n, k), (tile_m, tile_n), split = _mnk(row), tile(row), row.number("split") or 1
    wide = row.shape.get("out") == "f32"
    width = 4 if wide else 2
    strides: list[Slot] = [width * n, 0, width * n, 0, 2 * k, 0, 2 * k, 0]  # of D, C, A, B in bytes
    slots: list[Slot] = [Memory(width * m * n), None, Memory(2 * m * k), Memory(2 * n * k), 1.0, 0.0, *strides, m, n, k]
    slots += [split, int(not wide), None, 0, Memory(4 * _SEMAPHORES) if split > 1 or "_clean" in row.code else None]
    return Launch((-(-n // tile_n), -(-m // tile_m), split), slots)


@dataclass
class Routing:
    """Which experts the tokens go to, sorted by expert and padded to blocks of rows, as AITER's moe_sorting does."""

    ids: Memory  # int32 [padded]: token | place among its experts << 24; `tokens` where there is none
    weights: Memory  # f32 [padded]
    experts: Memory  # int32 [blocks]: whose rows a block has
    n_valid: Memory  # int32: rows in use
    blocks: int  # in use


def routing(tokens: int, experts: int, topk: int, block: int) -> Routing:
    """Of tokens whose experts are drawn at random, each different ones."""
    scores = np.random.default_rng(0).standard_normal((tokens, experts), np.float32)
    chosen = np.argpartition(-scores, topk - 1, axis=1)[:, :topk]
    padded = tokens * topk + experts * block - topk
    blocks = -(-padded // block)
    ids: np.ndarray = np.full(blocks * block, tokens | topk << 24, np.int32)
    weights: np.ndarray = np.zeros(blocks * block, np.float32)
    owners: np.ndarray = np.zeros(blocks, np.int32)
    at = 0
    for expert in range(experts):
        token, place = np.nonzero(chosen == expert)
        ids[at : at + len(token)] = token | place << 24
        weights[at : at + len(token)] = 1 / topk
        end = at + _up(len(token), block)
        owners[at // block : end // block] = expert
        at = end
    counts = np.array([at, tokens], np.int32)
    return Routing(
        Memory(ids.nbytes).fill(ids),
        Memory(weights.nbytes).fill(weights),
        Memory(owners.nbytes).fill(owners),
        Memory(8).fill(counts),
        at // block,
    )


def unsorted_routing(tokens: int, experts: int, topk: int) -> Routing:
    """For kernels that read the experts as the router gives them: int32 and f32 [tokens, topk]."""
    scores = np.random.default_rng(0).standard_normal((tokens, experts), np.float32)
    chosen = np.argpartition(-scores, topk - 1, axis=1)[:, :topk].astype(np.int32)
    weights: np.ndarray = np.full((tokens, topk), 1 / topk, np.float32)
    ids = Memory(chosen.nbytes).fill(chosen)
    return Routing(ids, Memory(weights.nbytes).fill(weights), ids, ids, 0)


@dataclass(frozen=True)
class _Moe:
    """Sizes of a fused MoE: bytes, and strides in bytes, of what its kernels take."""

    x_bytes: int  # of an activation
    halves: int  # elements in a byte of a weight
    up_scales: int  # bytes of an expert's scales of the gate and up weights
    down_scales: int
    x_scales: int  # bytes of the activations' scales


def _moe(row: Row) -> _Moe:
    tokens, dim, inter = (row.number(name) for name in ("tokens", "model_dim", "inter_dim"))
    name = row.code.rsplit("/", 1)[-1]
    x_bytes = 2 if "blockscaleBf16" in name or "_a16_" in name or "MXfp4" in name else 1
    if "MXfp4" in name:
        return _Moe(x_bytes, 2, 2 * inter * dim // 32, dim * inter // 32, tokens * dim // 32)
    if "blockscale" in name:
        blocks = -(-2 * inter // 128) * -(-dim // 128), -(-dim // 128) * -(-inter // 128)
        return _Moe(x_bytes, 1, 4 * blocks[0], 4 * blocks[1], 4 * tokens * -(-dim // 128))
    return _Moe(x_bytes, 1, 4 * 2 * inter, 4 * dim, 4 * tokens)


def fmoe(row: Row, card: Card) -> Launch:
    """Gate, up, activation and down projection of all experts in one kernel -> bf16 [tokens, model_dim]."""
    names = ("tokens", "model_dim", "inter_dim", "experts", "topk", "block_m")
    tokens, dim, inter, experts, topk, block = (row.number(name) for name in names)
    size, flat, columns = _moe(row), int(row.shape.get("flat", 0)), tile(row)[1]
    route = unsorted_routing(tokens, experts, topk) if flat else routing(tokens, experts, topk, block)
    parts = -(-inter // columns)
    persistent = row.number("groups_per_cu") * card.compute_units
    gu_stride, d_stride = dim // size.halves, inter // size.halves
    slots: list[Slot] = [
        Memory(2 * tokens * dim + 8 * tokens),
        Memory(size.x_bytes * tokens * dim),
        Memory(experts * 2 * inter * gu_stride),
        route.n_valid,
        Memory(experts * dim * d_stride),
        Memory(size.x_scales),
        Memory(experts * size.up_scales),
        Memory(experts * size.down_scales),
        None,
        route.ids,
        route.weights,
        route.experts,
        dim,
        inter,
        tokens,
        experts,
        size.x_bytes * dim,
        gu_stride,
        d_stride,
        2 * dim,
        2 * inter * gu_stride,
        dim * d_stride,
        size.up_scales,
        size.down_scales,
        4 * inter,
        topk,
        persistent // parts * parts,
        parts,
    ]
    if flat == 1:
        grid = (parts, topk, tokens)
    else:
        grid = (persistent, 1, 1) if persistent // parts else (parts, route.blocks, 1)
    # What the tuner times begins with torch.zeros, also where the kernel clears its output itself.
    return Launch(grid, slots, cleared_bytes=2 * tokens * dim)


def fmoe_stage1(row: Row, card: Card) -> Launch:
    """Gate, up and activation of all experts -> bf16 (blockscale: fp8) [tokens, topk, inter_dim]."""
    names = ("tokens", "model_dim", "inter_dim", "experts", "topk", "block_m")
    tokens, dim, inter, experts, topk, block = (row.number(name) for name in names)
    size, route, columns = _moe(row), routing(tokens, experts, topk, block), tile(row)[1]
    out_bytes = 1 if "blockscale" in row.code else 2
    slots: list[Slot] = [
        Memory(out_bytes * tokens * topk * inter + 4 * tokens * topk * -(-inter // 128)),
        Memory(tokens * dim),
        Memory(experts * 2 * inter * dim),
        route.n_valid,
        Memory(size.x_scales),
        Memory(experts * size.up_scales),
        None,
        route.ids,
        route.experts,
        dim,
        inter,
        tokens,
        experts,
        dim,
        dim,
        out_bytes * topk * inter,
        2 * inter * dim,
        size.up_scales,
        4 * inter,
        topk,
        0,  # split of k
        0,  # activation: SiLU
        route.weights if "doweight" in row.code else None,
    ]
    return Launch((-(-inter // columns), route.blocks, 1), slots)


def topksoftmax(row: Row, card: Card) -> Launch:
    """Softmax over each row of f32 or bf16 [tokens, experts], and its largest: int32 and f32 [tokens, topk]."""
    tokens, rows, experts, topk = (row.number(name) for name in ("tokens", "block_m", "experts", "topk"))
    ids, weights, scores = Memory(4 * tokens * topk), Memory(4 * tokens * topk), Memory(4 * tokens * experts)
    slots: list[Slot] = [ids, weights, scores, tokens, experts, topk, 0, 4 * topk]
    return Launch((-(-tokens // rows), 1, 1), slots)


def fmha_fwd(row: Row, card: Card) -> Launch:
    """Attention of bf16 [batch, seq, heads, dim] -> bf16 [batch, seq, heads, v_dim]."""
    names = ("batch", "seq", "heads", "dim", "v_dim", "rows")
    batch, seq, heads, dim, v_dim, rows = (row.number(name) for name in names)
    wide, out = 2 * heads * dim, 2 * heads * v_dim  # bytes of a token
    queries, values = [wide, 2 * dim, seq * wide], [out, 2 * v_dim, seq * out]  # strides: token, head, batch
    q, k, v, o = (
        Memory(batch * seq * wide),
        Memory(batch * seq * wide),
        Memory(batch * seq * out),
        Memory(batch * seq * out),
    )
    slots: list[Slot] = [o, q, k, v, Memory(4 * batch * heads * seq), dim**-0.5, seq]
    slots += [queries[0], rows * queries[0], *queries[1:], 1, *queries]
    split = card.name == "gfx942" and dim == 192
    uneven = "causal" in row.code and (heads % 8 or seq > 16384)
    slots += [
        0 if split else 3 if uneven else 5,  # tune_opt of csrc/cpp_itfs/mha_fwd.cu: which tile a workgroup takes
        0,
        seq,
        dim,
        v_dim,
        heads,
        *values,
        *values,
        None,
        None,
        4 * seq,
        *[None] * 5,
        *[0] * 6,
    ]
    parts = -(-seq // rows)
    if "causal" in row.code and not split:
        parts = -(-parts // 2)
    grid = (heads, parts, batch) if split else (parts, heads, batch)
    return Launch(grid, slots, block=(THREADS if dim == 192 else 2 * THREADS, 1, 1))


def mla_decode(row: Row, card: Card) -> Launch:
    """A query of bf16 or fp8 [batch, heads, 576] a sequence, keys and values likewise [seq, 576] -> f32 [batch, splits,
    heads, 512], or without splits the same in bf16 where the code is of a8w8."""
    batch, heads, seq = (row.number(name) for name in ("batch", "heads", "seq"))
    splits = int(row.shape.get("split", 1))
    fp8 = "a8w8" in row.code
    width = 1 if fp8 else 2
    queries: np.ndarray = np.arange(batch + 1, dtype=np.int32)
    starts = queries * np.int32(seq)
    pages: np.ndarray = np.arange(batch * seq, dtype=np.int32)
    last: np.ndarray = np.ones(batch, np.int32)
    scale: np.ndarray = np.ones(1, np.float32)
    out, weights = Memory(4 * batch * splits * heads * 512), Memory(4 * batch * splits * heads)
    slots: list[Slot] = [out, weights, Memory(width * batch * heads * 576)]
    slots += [Memory(width * batch * seq * 576), *(Memory(a.nbytes).fill(a) for a in (starts, pages, last))]
    slots += [576**-0.5, heads, splits, width * heads * 576, width * 576, 0]
    slots += [Memory(queries.nbytes).fill(queries), Memory(queries.nbytes).fill(queries * np.int32(splits)), None]
    slots += [*(Memory(4).fill(scale) if fp8 else None for _ in range(2)), int(splits == 1), None, None, 1, 0]
    return Launch((1, batch, splits), slots)


LAUNCHES: dict[str, Callable[[Row, Card], Launch]] = {
    "bf16gemm": bf16gemm,
    "f4gemm": f4gemm,
    "fmha_fwd": fmha_fwd,
    "fmoe": fmoe,
    "fmoe_stage1": fmoe_stage1,
    "fp8gemm_blockscale": fp8gemm_blockscale,
    "i8gemm": i8gemm,
    "mla_decode": mla_decode,
    "topksoftmax": topksoftmax,
}


def launch_of(row: Row, card: Card) -> Launch:
    """RowError names a family without a recipe."""
    if row.family not in LAUNCHES:
        raise RowError(f"no launch recipe for family {row.family!r}: there are {', '.join(LAUNCHES)}")
    return LAUNCHES[row.family](row, card)
