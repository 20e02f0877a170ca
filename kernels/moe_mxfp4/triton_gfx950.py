"""amd-moe-mxfp4 in Triton: a mixture of experts with MXFP4 weights and activations, in four launches.

1. Pairs of a token and one of its experts are sorted by expert, each expert's padded to whole blocks of BLOCK_M rows;
   in the same launch the hidden states are quantised.
2. A block times its expert's gate and up weights, silu(gate) * up, quantised in the epilogue.
3. That times the expert's down weights and the routing weight: a row for each pair.
4. The rows of a token are added up.

Nothing is added atomically, so two runs give the same bits. The host never waits for the device: how many blocks there
are is known on the device alone, and launches 2 and 3 have workgroups for the most that there can be.
"""

import math

import torch
import triton
import triton.language as tl

from kernels.common.mxfp4 import load_mxfp4_weight, mxfp4_quantize, pack_bf16_pairs
from kernels.common.workgroup_order import xcd_contiguous
from kernels.moe_mxfp4.inputs import check_inputs
from kernels.moe_mxfp4.triton_gfx950_tuning import DEFAULT, TUNING

N_XCD = 8  # MI355X
QUANTISED_AT_ONCE = 2048  # columns of a token's hidden states for each workgroup
IDS_AT_ONCE = 4096


@triton.jit
def place_expert(
    expert,
    topk_ids_ptr,
    pairs_ptr,
    blocks_ptr,
    n_pairs,
    EXPERTS: tl.constexpr,
    BINS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    IDS: tl.constexpr,
):
    """Write where one expert's pairs go; called for all experts, which need nothing of each other."""
    counts = tl.zeros((BINS,), dtype=tl.int32)
    for start in range(0, n_pairs, IDS):
        pair = start + tl.arange(0, IDS)
        ids = tl.load(topk_ids_ptr + pair, mask=pair < n_pairs, other=0)
        counts += tl.histogram(ids, BINS, mask=pair < n_pairs)
    other = tl.arange(0, BINS)
    n_blocks = (counts + BLOCK_M - 1) // BLOCK_M
    first_block = tl.sum(tl.where(other < expert, n_blocks, 0))
    n_blocks = tl.sum(tl.where(other == expert, n_blocks, 0))
    count = tl.sum(tl.where(other == expert, counts, 0))

    for block in range(n_blocks):
        tl.store(blocks_ptr + 1 + first_block + block, expert)
    if expert == EXPERTS - 1:
        tl.store(blocks_ptr, first_block + n_blocks)

    place_ptr = pairs_ptr + first_block * BLOCK_M
    placed = 0
    for start in range(0, n_pairs, IDS):
        pair = start + tl.arange(0, IDS)
        mine = (tl.load(topk_ids_ptr + pair, mask=pair < n_pairs, other=-1) == expert).to(tl.int32)
        tl.store(place_ptr + placed + tl.cumsum(mine, axis=0) - 1, pair, mask=mine != 0)
        placed += tl.sum(mine)
    padding = count + tl.arange(0, BLOCK_M)
    tl.store(place_ptr + padding, -1, mask=padding < n_blocks * BLOCK_M)


@triton.jit
def sort_and_quantize_kernel(
    hidden_ptr,  # int32 [tokens][WIDTH/2], two bf16 each
    topk_ids_ptr,  # int32 [pairs]: a token's experts
    codes_ptr,  # uint8 [tokens][PADDED/2]
    scales_ptr,  # uint8 [tokens][PADDED/32]
    pairs_ptr,  # int32 [blocks][BLOCK_M]: pairs by expert, -1 where a block has no more
    blocks_ptr,  # int32 [1 + blocks]: how many blocks there are, then the expert of each
    n_pairs,
    WIDTH,
    PADDED,
    EXPERTS: tl.constexpr,
    BINS: tl.constexpr,  # a power of two, EXPERTS or more
    BLOCK_M: tl.constexpr,
    IDS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """The first EXPERTS workgroups sort, the others quantise COLUMNS columns of a token each."""
    if tl.program_id(0) < EXPERTS:
        place_expert(tl.program_id(0), topk_ids_ptr, pairs_ptr, blocks_ptr, n_pairs, EXPERTS, BINS, BLOCK_M, IDS)
    else:
        piece = tl.program_id(0) - EXPERTS
        pieces = tl.cdiv(PADDED, COLUMNS)
        token = (piece // pieces).to(tl.int64)
        column = piece % pieces * COLUMNS
        word = column // 2 + tl.arange(0, COLUMNS // 2)
        words = tl.load(hidden_ptr + token * (WIDTH // 2) + word, mask=word < WIDTH // 2, other=0)
        codes, scales = mxfp4_quantize(words[None, :], 1, COLUMNS, TIES_AWAY=True)
        tl.store(codes_ptr + token * (PADDED // 2) + word[None, :], codes, mask=(word < PADDED // 2)[None, :])
        block = column // 32 + tl.arange(0, COLUMNS // 32)
        tl.store(scales_ptr + token * (PADDED // 32) + block[None, :], scales, mask=(block < PADDED // 32)[None, :])


@triton.jit
def block_and_columns(blocks_ptr, n_tiles_n, XCDS: tl.constexpr):
    """This workgroup's (block, its expert, tile of columns); a block of -1 where nothing is left to do."""
    n_blocks = tl.load(blocks_ptr)
    n_tiles = n_blocks * n_tiles_n
    block = -1
    expert = 0
    tile_n = 0
    if tl.program_id(0) < n_tiles:
        order = xcd_contiguous(tl.program_id(0), n_tiles, XCDS)
        block = order % n_blocks  # blocks of one expert follow each other: they read the same weights on one XCD
        tile_n = order // n_blocks
        expert = tl.load(blocks_ptr + 1 + block)
    return block, tl.cast(expert, tl.int64), tile_n


@triton.jit
def gate_up_kernel(
    codes_ptr,  # uint8 [tokens][K/2], the hidden states
    scales_ptr,  # uint8 [tokens][K/32]
    weight_ptr,  # uint8 [experts], of each the rows of gate, then those of up: [2*WIDTH/16][K/64][2][16][16]
    weight_scale_ptr,  # uint8, see load_mxfp4_weight
    inner_ptr,  # uint8 [blocks][BLOCK_M][WIDTH/2]
    inner_scale_ptr,  # uint8 [blocks][BLOCK_M][WIDTH/32]
    pairs_ptr,  # int32 [blocks][BLOCK_M]
    blocks_ptr,  # int32 [1 + blocks]
    K,
    WIDTH,
    USED,  # of the WIDTH columns of gate and of up; the others' weights are padding
    TOPK: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    XCDS: tl.constexpr,
):
    """MXFP4(silu(x @ gate.T) * (x @ up.T)) of one block and BLOCK_N columns; BLOCK_N divides WIDTH, BLOCK_K K."""
    block, expert, tile_n = block_and_columns(blocks_ptr, WIDTH // BLOCK_N, XCDS)
    if block >= 0:
        row = block * BLOCK_M + tl.arange(0, BLOCK_M)
        pair = tl.load(pairs_ptr + row)
        inside = (pair >= 0)[:, None]
        token = (pair // TOPK)[:, None]
        weight_ptr += expert * (WIDTH * K)
        weight_scale_ptr += expert * (2 * WIDTH * (K // 32))

        gate = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        up = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            byte = k // 2 + tl.arange(0, BLOCK_K // 2)[None, :]
            a = tl.load(codes_ptr + token * (K // 2) + byte, mask=inside, other=0)
            byte = k // 32 + tl.arange(0, BLOCK_K // 32)[None, :]
            a_scale = tl.load(scales_ptr + token * (K // 32) + byte, mask=inside, other=0)
            n = tile_n * BLOCK_N
            b, b_scale = load_mxfp4_weight(weight_ptr, weight_scale_ptr, n, k, 2 * WIDTH, K, BLOCK_N, BLOCK_K, True)
            gate = tl.dot_scaled(a, a_scale, "e2m1", b.T, b_scale, "e2m1", gate)
            n += WIDTH
            b, b_scale = load_mxfp4_weight(weight_ptr, weight_scale_ptr, n, k, 2 * WIDTH, K, BLOCK_N, BLOCK_K, True)
            up = tl.dot_scaled(a, a_scale, "e2m1", b.T, b_scale, "e2m1", up)

        column = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
        inner = gate / (1.0 + tl.exp(-gate)) * up
        inner = tl.where((column < USED)[None, :], inner, 0.0).to(tl.bfloat16)
        codes, scales = mxfp4_quantize(pack_bf16_pairs(inner, BLOCK_M, BLOCK_N), BLOCK_M, BLOCK_N, TIES_AWAY=True)
        row = row[:, None].to(tl.int64)
        byte = tile_n * (BLOCK_N // 2) + tl.arange(0, BLOCK_N // 2)[None, :]
        tl.store(inner_ptr + row * (WIDTH // 2) + byte, codes)
        byte = tile_n * (BLOCK_N // 32) + tl.arange(0, BLOCK_N // 32)[None, :]
        tl.store(inner_scale_ptr + row * (WIDTH // 32) + byte, scales)


@triton.jit
def down_kernel(
    inner_ptr,  # uint8 [blocks][BLOCK_M][K/2]
    inner_scale_ptr,  # uint8 [blocks][BLOCK_M][K/32]
    weight_ptr,  # uint8 [experts][N/16][K/64][2][16][16]
    weight_scale_ptr,  # uint8, see load_mxfp4_weight
    topk_weights_ptr,  # fp32 [pairs]
    terms_ptr,  # bf16 [pairs][USED]
    pairs_ptr,  # int32 [blocks][BLOCK_M]
    blocks_ptr,  # int32 [1 + blocks]
    N,
    K,
    USED,  # of the N columns; the others' weights are padding
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    XCDS: tl.constexpr,
):
    """inner @ down.T, times the routing weight, of one block and BLOCK_N columns; BLOCK_N divides N, BLOCK_K K."""
    block, expert, tile_n = block_and_columns(blocks_ptr, N // BLOCK_N, XCDS)
    if block >= 0:
        row = block * BLOCK_M + tl.arange(0, BLOCK_M)
        pair = tl.load(pairs_ptr + row)
        row = row[:, None].to(tl.int64)
        weight_ptr += expert * (N * (K // 2))
        weight_scale_ptr += expert * (N * (K // 32))
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            a = tl.load(inner_ptr + row * (K // 2) + k // 2 + tl.arange(0, BLOCK_K // 2)[None, :])
            a_scale = tl.load(inner_scale_ptr + row * (K // 32) + k // 32 + tl.arange(0, BLOCK_K // 32)[None, :])
            n = tile_n * BLOCK_N
            b, b_scale = load_mxfp4_weight(weight_ptr, weight_scale_ptr, n, k, N, K, BLOCK_N, BLOCK_K, True)
            acc = tl.dot_scaled(a, a_scale, "e2m1", b.T, b_scale, "e2m1", acc)

        column = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
        inside = (pair >= 0)[:, None] & (column < USED)[None, :]
        acc *= tl.load(topk_weights_ptr + pair, mask=pair >= 0, other=0.0)[:, None]
        place = pair[:, None].to(tl.int64) * USED + column[None, :]
        tl.store(terms_ptr + place, acc.to(tl.bfloat16), mask=inside)


@triton.jit
def add_terms_kernel(
    terms_ptr,  # bf16 [tokens][TOPK][WIDTH]
    out_ptr,  # bf16 [tokens][WIDTH]
    WIDTH,
    TOPK: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    pieces = tl.cdiv(WIDTH, COLUMNS)
    token = (tl.program_id(0) // pieces).to(tl.int64)
    column = tl.program_id(0) % pieces * COLUMNS + tl.arange(0, COLUMNS)
    acc = tl.zeros((COLUMNS,), dtype=tl.float32)
    for slot in range(TOPK):
        acc += tl.load(terms_ptr + (token * TOPK + slot) * WIDTH + column, mask=column < WIDTH, other=0.0)
    tl.store(out_ptr + token * WIDTH + column, acc.to(tl.bfloat16), mask=column < WIDTH)


def moe(data, row):
    """Launch with the given row of the tuning table; `custom_kernel` has checked the data."""
    hidden, _, _, _, _, gate_up, down, gate_up_scale, down_scale, topk_weights, topk_ids, config = data
    width, used = config["d_hidden_pad"], config["d_hidden"]
    inner_width, inner_used = config["d_expert_pad"], config["d_expert"]
    tokens, topk = topk_ids.shape
    experts, n_pairs, block_m = gate_up.shape[0], tokens * topk, row["BLOCK_M"]
    # A block is full, or the last one of its expert.
    most_blocks = n_pairs // block_m + min(experts, n_pairs)
    tiles = {"num_warps": row["num_warps"], "num_stages": row["num_stages"]}

    def new(*shape, dtype=torch.uint8):
        return torch.empty(shape, dtype=dtype, device=hidden.device)

    codes, scales = new(tokens, width // 2), new(tokens, width // 32)
    inner, inner_scale = new(most_blocks, block_m, inner_width // 2), new(most_blocks, block_m, inner_width // 32)
    pairs, blocks = new(most_blocks, block_m, dtype=torch.int32), new(1 + most_blocks, dtype=torch.int32)
    terms, out = new(n_pairs, used, dtype=torch.bfloat16), new(tokens, used, dtype=torch.bfloat16)

    quantisers = tokens * triton.cdiv(width, QUANTISED_AT_ONCE)
    sort_and_quantize_kernel[(experts + quantisers,)](
        hidden.view(torch.int32),
        topk_ids,
        codes,
        scales,
        pairs,
        blocks,
        n_pairs,
        used,
        width,
        EXPERTS=experts,
        BINS=triton.next_power_of_2(experts),
        BLOCK_M=block_m,
        IDS=min(IDS_AT_ONCE, triton.next_power_of_2(n_pairs)),
        COLUMNS=QUANTISED_AT_ONCE,
    )
    gate_up_n = math.gcd(row["GATE_UP_N"], inner_width)
    gate_up_kernel[(most_blocks * (inner_width // gate_up_n),)](
        codes,
        scales,
        gate_up.view(torch.uint8),
        gate_up_scale.view(torch.uint8),
        inner,
        inner_scale,
        pairs,
        blocks,
        width,
        inner_width,
        inner_used,
        TOPK=topk,
        BLOCK_M=block_m,
        BLOCK_N=gate_up_n,
        BLOCK_K=math.gcd(row["BLOCK_K"], width),
        XCDS=N_XCD,
        **tiles,
    )
    down_n = math.gcd(row["DOWN_N"], width)
    down_kernel[(most_blocks * (width // down_n),)](
        inner,
        inner_scale,
        down.view(torch.uint8),
        down_scale.view(torch.uint8),
        topk_weights,
        terms,
        pairs,
        blocks,
        width,
        inner_width,
        used,
        BLOCK_M=block_m,
        BLOCK_N=down_n,
        BLOCK_K=math.gcd(row["BLOCK_K"], inner_width),
        XCDS=N_XCD,
        **tiles,
    )
    columns = 1024
    add_terms_kernel[(tokens * triton.cdiv(used, columns),)](terms, out, used, TOPK=topk, COLUMNS=columns)
    return out


def tuning_row(data):
    """The row that custom_kernel(data) uses: the table's, or DEFAULT with blocks for as many rows as an expert has."""
    tokens, topk = data[-2].shape
    experts, config = data[5].shape[0], data[-1]
    shape = (tokens, experts, config["d_hidden"], config["d_expert"])
    if shape in TUNING:
        return TUNING[shape]
    rows = tokens * topk // experts
    return {**DEFAULT, "BLOCK_M": 16 if rows <= 16 else 32 if rows <= 64 else 64}


def custom_kernel(data):
    """The twelve parts of `data` as reference/moe_mxfp4/reference.py describes them -> bf16 [tokens, d_hidden].

    Of the weights the shuffled ones are read. Any number of tokens, and of pairs for an expert; every one of topk_ids
    is in 0 ... experts - 1. Shared experts are like the others: topk_ids names them.
    """
    check_inputs(data)
    return moe(data, tuning_row(data))
