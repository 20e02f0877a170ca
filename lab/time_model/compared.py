"""Whether a code object's results are right: runs a row's kernel on random data and compares with a float product.

The data lies as AITER's own callers lay it (its op_tests and aiter/ops/shuffle.py): weights shuffled in tiles of
16 x 16, mxfp4's scales in their own order, the scales of fp8 activations transposed.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import torch

import cdna
from cdna.cards import Card, cards
from cdna.engine.settings import as_card

from .launches import Launch, Memory, launch_of, tile
from .rows import Row, RowError

_FP4 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
_FP8 = {"fnuz": torch.float8_e4m3fnuz, "ocp": torch.float8_e4m3fn}


def compare(row: Row, content: bytes) -> float:
    """Relative L2 error of what the kernel leaves. RowError names a family without a reference."""
    if row.family not in REFERENCES:
        raise RowError(f"no reference for family {row.family!r}: there are {', '.join(REFERENCES)}")
    card = cards()[row.card]
    launch = launch_of(row, card)
    torch.manual_seed(0)
    expected, dtype, slot = REFERENCES[row.family](row, launch, card)
    with as_card(card.name, card.model):
        cdna.load(content).kernel().launch(launch.grid, launch.block, launch.kernarg)
    if row.family == "mla_decode" and row.shape.get("split", "1") != "1":
        out = _merged(row, launch, expected.shape)
    else:
        out = _read(_memory(launch, slot), dtype, expected.shape)
    return float((out - expected).norm() / expected.norm())


def _memory(launch: Launch, slot: int) -> Memory:
    memory = launch.slots[slot]
    assert isinstance(memory, Memory)
    return memory


def _fill(launch: Launch, slot: int, values: torch.Tensor) -> None:
    _memory(launch, slot).fill(values.contiguous().view(torch.uint8).numpy())


def _read(memory: Memory, dtype: torch.dtype, shape: torch.Size) -> torch.Tensor:
    width = torch.empty((), dtype=dtype).element_size()
    raw = torch.from_numpy(memory.view()[: width * shape.numel()].copy())
    return raw.view(dtype).view(shape).float()


def shuffled(weight: torch.Tensor) -> torch.Tensor:
    """[..., n, k] in tiles of 16 rows by 32 bytes (64 of bf16), their halves (quarters) one after the other."""
    n, k = weight.shape[-2:]
    inner = 16 // weight.element_size()
    tiles = weight.view(torch.uint8 if weight.element_size() == 1 else weight.dtype)
    tiles = tiles.reshape(-1, n // 16, 16, k // 32, 32 // inner, inner).permute(0, 1, 3, 4, 2, 5)
    return tiles.contiguous().view(weight.dtype).view(weight.shape)


def _shuffled_scales(scales: torch.Tensor) -> torch.Tensor:
    """uint8 [rows up to 256, columns up to 8] in mxfp4's order."""
    rows, columns = -(-scales.shape[0] // 256) * 256, -(-scales.shape[1] // 8) * 8
    padded = torch.zeros(rows, columns, dtype=torch.uint8)
    padded[: scales.shape[0], : scales.shape[1]] = scales
    return padded.view(rows // 32, 2, 16, columns // 8, 2, 4).permute(0, 3, 5, 2, 4, 1).contiguous()


def _fp4(rows: int, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(bytes [rows, k/2], e8m0 [rows, k/32], float [rows, k]) of random values."""
    codes, scales = torch.randint(0, 256, (rows, k // 2), dtype=torch.uint8), torch.randint(124, 131, (rows, k // 32))
    nibbles = torch.stack([codes & 15, codes >> 4], -1).view(rows, k).long()
    values = _FP4[nibbles & 7] * torch.where(nibbles > 7, -1.0, 1.0)
    return codes, scales.to(torch.uint8), values * torch.exp2(scales - 127.0).repeat_interleave(32, 1)


def _sizes(row: Row) -> tuple[int, int, int]:
    return row.number("m"), row.number("n"), row.number("k")


Reference = tuple[torch.Tensor, torch.dtype, int]  # expected, and the output's dtype and slot


def _f4gemm(row: Row, launch: Launch, card: Card) -> Reference:
    m, n, k = _sizes(row)
    (a, a_scales, a_values), (b, b_scales, b_values) = _fp4(m, k), _fp4(n, k)
    _fill(launch, 2, a)
    _fill(launch, 3, b if "noBpreShuffle" in row.code else shuffled(b))
    _fill(launch, 17, _shuffled_scales(a_scales))
    _fill(launch, 18, _shuffled_scales(b_scales))
    return a_values @ b_values.T, torch.bfloat16, 0


def _i8gemm(row: Row, launch: Launch, card: Card) -> Reference:
    m, n, k = _sizes(row)
    a, b = (torch.randint(-128, 128, (rows, k), dtype=torch.int8) for rows in (m, n))
    a_scales, b_scales = torch.rand(m), torch.rand(n)
    for slot, values in enumerate((a, shuffled(b), a_scales, b_scales), start=1):
        _fill(launch, slot, values)
    return a.float() @ b.float().T * a_scales[:, None] * b_scales, torch.bfloat16, 0


def _fp8(card: Card, *shape: int) -> torch.Tensor:
    return (torch.randn(shape) * 2).to(_FP8[card.fp8_format])


def _blocks(scales: torch.Tensor) -> torch.Tensor:
    """Each scale for 128 rows and 128 columns."""
    return scales.repeat_interleave(128, -2).repeat_interleave(128, -1)


def _fp8gemm(row: Row, launch: Launch, card: Card) -> Reference:
    m, n, k = _sizes(row)
    a, b = _fp8(card, m, k), _fp8(card, n, k)
    a_scales, b_scales = torch.rand(m, k // 128), torch.rand(n // 128, k // 128)
    for slot, values in enumerate((a, shuffled(b), a_scales.T, b_scales), start=1):
        _fill(launch, slot, values)
    return (a.float() * a_scales.repeat_interleave(128, 1)) @ (b.float() * _blocks(b_scales)).T, torch.bfloat16, 0


def _bf16gemm(row: Row, launch: Launch, card: Card) -> Reference:
    m, n, k = _sizes(row)
    a, b = torch.randn(m, k).bfloat16(), torch.randn(n, k).bfloat16()
    _fill(launch, 2, a)
    _fill(launch, 3, shuffled(b) if "shuffle" in row.code else b)
    return a.float() @ b.float().T, torch.float32 if row.shape["out"] == "f32" else torch.bfloat16, 0


def _quantised(
    x: torch.Tensor, card: Card, group: int, limit: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """(fp8, scale of each group of columns) of x. limit: of a code; None: the format's."""
    limit = limit or torch.finfo(_FP8[card.fp8_format]).max
    parts = x.view(*x.shape[:-1], -1, group)
    scales = parts.abs().amax(-1).clamp(min=1e-8) / limit
    return (parts / scales[..., None]).view(x.shape).to(_FP8[card.fp8_format]), scales


class _Experts:
    """A fused MoE's data: activations, weights and what they stand for."""

    def __init__(self, row: Row, card: Card) -> None:
        names = ("tokens", "model_dim", "inter_dim", "experts", "topk")
        self.tokens, self.dim, self.inter, self.experts, self.topk = (row.number(name) for name in names)
        self.by_block = "blockscale" in row.code
        x = torch.randn(self.tokens, self.dim)
        self.plain = "blockscaleBf16" in row.code
        self.x, self.x_scales = _quantised(x, card, 128 if self.by_block else self.dim)
        self.x_values = self.x.float() * self.x_scales.repeat_interleave(128 if self.by_block else self.dim, 1)
        if self.plain:
            self.x, self.x_values = x.bfloat16(), x.bfloat16().float()
        self.up, self.down = (
            _fp8(card, self.experts, 2 * self.inter, self.dim),
            _fp8(card, self.experts, self.dim, self.inter),
        )
        if self.by_block:
            self.up_scales = torch.rand(self.experts, 2 * self.inter // 128, self.dim // 128) / 50
            self.down_scales = torch.rand(self.experts, self.dim // 128, self.inter // 128) / 50
            self.up_values = self.up.float() * _blocks(self.up_scales)
            self.down_values = self.down.float() * _blocks(self.down_scales)
        else:
            self.up_scales, self.down_scales = (
                torch.rand(self.experts, 2 * self.inter) / 50,
                torch.rand(self.experts, self.dim),
            )
            self.up_values = self.up.float() * self.up_scales[..., None]
            self.down_values = self.down.float() * self.down_scales[..., None]

    def hidden(self, gelu: bool, weight: float = 1.0) -> torch.Tensor:
        """[experts, tokens, inter]: act(gate) * up of every token by every expert; weight: of what comes in."""
        both = weight * torch.einsum("td,end->etn", self.x_values, self.up_values)
        act = torch.nn.functional.gelu if gelu else torch.nn.functional.silu
        return act(both[..., : self.inter]) * both[..., self.inter :]


def _chosen(launch: Launch, ids: int, experts: int, block: int, tokens: int, topk: int) -> torch.Tensor:
    """int64 [tokens, topk]: the expert of each place, from the sorted ids."""
    sorted_ids = torch.from_numpy(_memory(launch, ids).view(np.int32).copy()).long()
    owners = torch.from_numpy(_memory(launch, experts).view(np.int32).copy()).long().repeat_interleave(block)
    token, place = sorted_ids & 0xFFFFFF, sorted_ids >> 24
    used = token < tokens
    chosen = torch.empty(tokens, topk, dtype=torch.long)
    chosen[token[used], place[used]] = owners[: len(used)][used]
    return chosen


def _fmoe(row: Row, launch: Launch, card: Card) -> Reference:
    e = _Experts(row, card)
    _fill(launch, 1, e.x)
    _fill(launch, 2, shuffled(e.up))
    _fill(launch, 4, shuffled(e.down))
    _fill(launch, 5, e.x_scales.T)
    _fill(launch, 6, e.up_scales)
    _fill(launch, 7, e.down_scales)
    if row.shape.get("flat"):
        chosen = torch.from_numpy(_memory(launch, 9).view(np.int32).copy()).long().view(e.tokens, e.topk)
    else:
        chosen = _chosen(launch, 9, 11, row.number("block_m"), e.tokens, e.topk)
    early = "tkw1" in row.code  # the router's weight, on the way in
    group = 128 if e.by_block else tile(row)[1]  # of columns that the kernel rounds to fp8 by one scale
    # Two objects of gfx950 scale to what the fp8 of gfx942 holds.
    limit = 240.0 if re.search(r"_g1u1_tkw1_\w+_32x64", row.code) else None
    hidden, scales = _quantised(e.hidden("gelu" in row.code, 1 / e.topk if early else 1.0), card, group, limit)
    outs = torch.einsum("eti,edi->etd", hidden.float() * scales.repeat_interleave(group, -1), e.down_values)
    return outs[chosen, torch.arange(e.tokens)[:, None]].sum(1) / (1 if early else e.topk), torch.bfloat16, 0


def _fmoe_stage1(row: Row, launch: Launch, card: Card) -> Reference:
    e = _Experts(row, card)
    _fill(launch, 1, e.x)
    _fill(launch, 2, shuffled(e.up))
    _fill(launch, 4, e.x_scales.T)
    _fill(launch, 5, e.up_scales)
    chosen = _chosen(launch, 7, 8, row.number("block_m"), e.tokens, e.topk)
    hidden = e.hidden(False, 1 / e.topk if "doweight" in row.code else 1.0)
    return hidden[chosen, torch.arange(e.tokens)[:, None]], torch.bfloat16, 0


def _topksoftmax(row: Row, launch: Launch, card: Card) -> Reference:
    scores = torch.randn(row.number("tokens"), row.number("experts"))
    scores = scores.bfloat16() if "bf16" in row.code else scores
    _fill(launch, 2, scores)
    return scores.float().softmax(1).topk(row.number("topk")).values, torch.float32, 1


def _fmha_fwd(row: Row, launch: Launch, card: Card) -> Reference:
    batch, seq, heads, dim, v_dim = (row.number(name) for name in ("batch", "seq", "heads", "dim", "v_dim"))
    q, k, v = (torch.randn(batch, seq, heads, width).bfloat16() for width in (dim, dim, v_dim))
    for slot, values in enumerate((q, k, v), start=1):
        _fill(launch, slot, values)
    causal = "causal" in row.code
    q, k, v = (x.float().transpose(1, 2) for x in (q, k, v))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return out.transpose(1, 2), torch.bfloat16, 0


def _mla_decode(row: Row, launch: Launch, card: Card) -> Reference:
    batch, heads, seq = (row.number(name) for name in ("batch", "heads", "seq"))
    q, kv = torch.randn(batch, heads, 576).bfloat16(), torch.randn(batch, seq, 576).bfloat16()
    if fp8 := "a8w8" in row.code:
        q, kv = q.to(_FP8[card.fp8_format]), kv.to(_FP8[card.fp8_format])
    _fill(launch, 2, q)
    _fill(launch, 3, kv)
    weights = (torch.einsum("bhd,bsd->bhs", q.float(), kv.float()) * 576**-0.5).softmax(-1)
    whole = fp8 and int(row.shape.get("split", 1)) == 1
    return weights @ kv.float()[..., :512], torch.bfloat16 if whole else torch.float32, 0


def _merged(row: Row, launch: Launch, shape: torch.Size) -> torch.Tensor:
    """What the reduction makes of the splits: means, added by the exponentials of their weights."""
    batch, heads, columns = shape
    splits = row.number("split")
    parts = _read(_memory(launch, 0), torch.float32, torch.Size((batch, splits, heads, columns)))
    weights = _read(_memory(launch, 1), torch.float32, torch.Size((batch, splits, heads, 1)))
    return (parts * weights.softmax(1)).sum(1)


REFERENCES: dict[str, Callable[[Row, Launch, Card], Reference]] = {
    "bf16gemm": _bf16gemm,
    "f4gemm": _f4gemm,
    "fmha_fwd": _fmha_fwd,
    "fmoe": _fmoe,
    "fmoe_stage1": _fmoe_stage1,
    "fp8gemm_blockscale": _fp8gemm,
    "i8gemm": _i8gemm,
    "mla_decode": _mla_decode,
    "topksoftmax": _topksoftmax,
}
