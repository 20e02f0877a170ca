"""trimul in Triton: the HIP variant's four launches, on any GPU that multiplies fp16.

Intermediates are fp16 [batch][HIDDEN][n][n]: a channel's pairs lie one after the other, and both operands of the
triangle have contiguous k. Rows of x are read three times, for mean, variance and product, the last two from the L2.
"""

import functools

import torch
import triton
import triton.language as tl

from kernels.common.launch_options import launch_options
from kernels.trimul.trimul_inputs import HIDDEN, PROJECTIONS, table_key, trimul_inputs
from kernels.trimul.triton_gfx942_tuning import DEFAULT, TUNING

EPSILON = tl.constexpr(1e-5)  # of both layer norms


@triton.jit
def trimul_weight_kernel(
    left_proj, left_gate, right_proj, right_gate, out_gate,  # fp32 [HIDDEN][dim]
    norm_weight, norm_bias,  # fp32 [dim]
    to_out,  # fp32 [dim][HIDDEN]
    weight,  # fp16 [5][HIDDEN][dim], x's norm in it
    bias,  # fp32 [5][HIDDEN], of the norm's
    weight_out,  # fp16 [dim][HIDDEN]
    dim, HIDDEN: tl.constexpr, WIDTH: tl.constexpr,  # dim <= WIDTH
):  # fmt: skip
    """Grid: a row of the projections' weights, and then of to_out's, each."""
    row = tl.program_id(0)
    if row >= 5 * HIDDEN:
        at = (row - 5 * HIDDEN) * HIDDEN + tl.arange(0, HIDDEN)
        tl.store(weight_out + at, tl.load(to_out + at).to(tl.float16))
    else:
        which = row // HIDDEN
        source = left_proj
        source = tl.where(which == 1, left_gate, source)
        source = tl.where(which == 2, right_proj, source)
        source = tl.where(which == 3, right_gate, source)
        source = tl.where(which == 4, out_gate, source)
        column = tl.arange(0, WIDTH)
        inside = column < dim
        w = tl.load(source + row % HIDDEN * dim + column, mask=inside, other=0.0)
        scale = tl.load(norm_weight + column, mask=inside, other=0.0)
        tl.store(weight + row * dim + column, (w * scale).to(tl.float16), mask=inside)
        tl.store(bias + row, tl.sum(w * tl.load(norm_bias + column, mask=inside, other=0.0), 0))


@triton.jit
def trimul_project_kernel(
    x,  # fp32 [batch][pairs][dim]
    mask,  # fp32 or int64 [batch][pairs]
    weight, bias,  # trimul_weight_kernel's
    left, right, gate,  # fp16 [batch][HIDDEN][pairs]
    pairs, dim, HIDDEN: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Grid: (blocks of pairs, batch). Layer norm, five projections, gates and mask."""
    batch = tl.program_id(1).to(tl.int64)
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    is_pair = m < pairs
    rows = x + (batch * pairs + m[:, None]) * dim
    c = tl.arange(0, BLOCK_C)[None, :]
    sums = tl.zeros((BLOCK_M, BLOCK_C), dtype=tl.float32)
    for first in range(0, dim, BLOCK_C):
        sums += tl.load(rows + first + c, mask=is_pair[:, None] & (first + c < dim), other=0.0)
    mean = tl.sum(sums, 1)[:, None] / dim
    squares = tl.zeros((BLOCK_M, BLOCK_C), dtype=tl.float32)
    for first in range(0, dim, BLOCK_C):
        inside = is_pair[:, None] & (first + c < dim)
        difference = tl.where(inside, tl.load(rows + first + c, mask=inside, other=0.0) - mean, 0.0)
        squares += difference * difference
    scale = tl.rsqrt(tl.sum(squares, 1)[:, None] / dim + EPSILON)

    h = tl.arange(0, HIDDEN)
    k = tl.arange(0, BLOCK_C)[:, None]
    left_sum = tl.zeros((BLOCK_M, HIDDEN), dtype=tl.float32) + tl.load(bias + h)[None, :]
    left_gate = tl.zeros((BLOCK_M, HIDDEN), dtype=tl.float32) + tl.load(bias + HIDDEN + h)[None, :]
    right_sum = tl.zeros((BLOCK_M, HIDDEN), dtype=tl.float32) + tl.load(bias + 2 * HIDDEN + h)[None, :]
    right_gate = tl.zeros((BLOCK_M, HIDDEN), dtype=tl.float32) + tl.load(bias + 3 * HIDDEN + h)[None, :]
    out_gate = tl.zeros((BLOCK_M, HIDDEN), dtype=tl.float32) + tl.load(bias + 4 * HIDDEN + h)[None, :]
    for first in range(0, dim, BLOCK_C):
        inside = is_pair[:, None] & (first + c < dim)
        value = tl.load(rows + first + c, mask=inside, other=0.0)
        normed = tl.where(inside, (value - mean) * scale, 0.0).to(tl.float16)
        w = weight + h[None, :] * dim + first + k  # [BLOCK_C, HIDDEN] of the first projection
        each = HIDDEN * dim
        is_column = first + k < dim
        left_sum = tl.dot(normed, tl.load(w, mask=is_column, other=0.0), left_sum)
        left_gate = tl.dot(normed, tl.load(w + each, mask=is_column, other=0.0), left_gate)
        right_sum = tl.dot(normed, tl.load(w + 2 * each, mask=is_column, other=0.0), right_sum)
        right_gate = tl.dot(normed, tl.load(w + 3 * each, mask=is_column, other=0.0), right_gate)
        out_gate = tl.dot(normed, tl.load(w + 4 * each, mask=is_column, other=0.0), out_gate)

    masked = tl.load(mask + batch * pairs + m, mask=is_pair, other=0).to(tl.float32)[:, None]
    at = (batch * HIDDEN + h[:, None]) * pairs + m[None, :]
    tl.store(left + at, tl.trans((left_sum * masked * tl.sigmoid(left_gate)).to(tl.float16)), mask=is_pair[None, :])
    tl.store(right + at, tl.trans((right_sum * masked * tl.sigmoid(right_gate)).to(tl.float16)), mask=is_pair[None, :])
    tl.store(gate + at, tl.trans(tl.sigmoid(out_gate).to(tl.float16)), mask=is_pair[None, :])


@triton.jit
def trimul_triangle_kernel(left, right, product, n, TILE: tl.constexpr, BLOCK_K: tl.constexpr):
    """Grid: (tiles of i and j, batch * HIDDEN). product = left * right / n over k, all fp16 [batch * HIDDEN][n][n]."""
    channel = tl.program_id(1).to(tl.int64) * n * n
    tiles = tl.cdiv(n, TILE)
    i = tl.program_id(0) // tiles * TILE + tl.arange(0, TILE)
    j = tl.program_id(0) % tiles * TILE + tl.arange(0, TILE)
    k = tl.arange(0, BLOCK_K)
    left_at = left + channel + tl.minimum(i, n - 1)[:, None] * n
    right_at = right + channel + tl.minimum(j, n - 1)[None, :] * n
    sums = tl.zeros((TILE, TILE), dtype=tl.float32)
    for first in range(0, n, BLOCK_K):
        inside = first + k < n
        a = tl.load(left_at + first + k[None, :], mask=inside[None, :], other=0.0)
        b = tl.load(right_at + first + k[:, None], mask=inside[:, None], other=0.0)
        sums = tl.dot(a, b, sums)
    to = product + channel + i[:, None] * n + j[None, :]
    tl.store(to, (sums * (1.0 / n)).to(tl.float16), mask=(i < n)[:, None] & (j < n)[None, :])


@triton.jit
def trimul_output_kernel(
    product, gate,  # fp16 [batch][HIDDEN][pairs]
    norm_weight, norm_bias,  # fp32 [HIDDEN]
    weight_out,  # fp16 [dim][HIDDEN]
    out,  # fp32 [batch][pairs][dim]
    n, dim, HIDDEN: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Grid: (blocks of pairs, batch). Layer norm over channels, gate, projection back to dim."""
    batch = tl.program_id(1).to(tl.int64)
    pairs = n * n
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    h = tl.arange(0, HIDDEN)
    at = (batch * HIDDEN + h[:, None]) * pairs + m[None, :]
    value = tl.load(product + at, mask=(m < pairs)[None, :], other=0.0).to(tl.float32)  # [HIDDEN, BLOCK_M]
    difference = value - tl.sum(value, 0)[None, :] / HIDDEN
    epsilon = EPSILON / n / n  # the product is divided by n
    scale = tl.rsqrt(tl.sum(difference * difference, 0)[None, :] / HIDDEN + epsilon)
    normed = difference * scale * tl.load(norm_weight + h)[:, None] + tl.load(norm_bias + h)[:, None]
    gated = normed * tl.load(gate + at, mask=(m < pairs)[None, :], other=0.0).to(tl.float32)
    y = tl.trans(gated.to(tl.float16))  # [BLOCK_M, HIDDEN]
    for first in range(0, dim, BLOCK_C):
        c = first + tl.arange(0, BLOCK_C)
        w = tl.load(weight_out + c[None, :] * HIDDEN + h[:, None], mask=(c < dim)[None, :], other=0.0)
        to = out + (batch * pairs + m[:, None]) * dim + c[None, :]
        tl.store(to, tl.dot(y, w), mask=(m < pairs)[:, None] & (c < dim)[None, :])


def tuning_row(data):
    """The row that custom_kernel(data) uses."""
    return TUNING.get(table_key(data[0].shape[1]), DEFAULT)


@functools.lru_cache(maxsize=1)
def plan_of(device, batch, n, dim):
    """Buffers that a call writes before it reads them: left, right, gate, product, weight, weight_out, bias."""

    def halves(*shape):
        return torch.empty(shape, dtype=torch.float16, device=device)

    intermediates = [halves(batch, HIDDEN, n, n) for _ in range(4)]
    weights = halves(len(PROJECTIONS), HIDDEN, dim), halves(dim, HIDDEN)
    return *intermediates, *weights, torch.empty((len(PROJECTIONS), HIDDEN), device=device)


def custom_kernel(data):
    """x fp32 [batch, n, n, dim], mask, weights by name and config as the problem hands them over -> fp32 like x."""
    x, mask, w, (batch, n, dim) = trimul_inputs(data)
    row = tuning_row(data)

    left, right, gate, product, weight, weight_out, bias = plan_of(x.device, batch, n, dim)
    out = torch.empty_like(x)
    trimul_weight_kernel[(len(PROJECTIONS) * HIDDEN + dim,)](
        *(w[name] for name in PROJECTIONS), w["norm_weight"], w["norm_bias"], w["to_out"], weight, bias, weight_out,
        dim, HIDDEN=HIDDEN, WIDTH=1024, **launch_options(waves=1, stages=1),
    )  # fmt: skip
    trimul_project_kernel[(triton.cdiv(n * n, row["PROJECT_M"]), batch)](
        x, mask, weight, bias, left, right, gate, n * n, dim, HIDDEN=HIDDEN, BLOCK_M=row["PROJECT_M"],
        BLOCK_C=row["PROJECT_C"], **launch_options(row["PROJECT_WAVES"], row["PROJECT_STAGES"]),
    )  # fmt: skip
    trimul_triangle_kernel[(triton.cdiv(n, row["TILE"]) ** 2, batch * HIDDEN)](
        left, right, product, n, TILE=row["TILE"], BLOCK_K=row["TILE_K"],
        **launch_options(row["TILE_WAVES"], row["TILE_STAGES"]),
    )  # fmt: skip
    trimul_output_kernel[(triton.cdiv(n * n, row["OUT_M"]), batch)](
        product, gate, w["to_out_norm_weight"], w["to_out_norm_bias"], weight_out, out, n, dim, HIDDEN=HIDDEN,
        BLOCK_M=row["OUT_M"], BLOCK_C=row["OUT_C"], **launch_options(row["OUT_WAVES"], stages=1),
    )  # fmt: skip
    return out
