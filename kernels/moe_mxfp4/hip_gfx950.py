"""amd-moe-mxfp4 in HIP: three launches. moe_mxfp4_gfx950.hip says how, docs/kernels/moe_mxfp4.md why."""

import functools
from array import array

import torch

from kernels.common.hip_extension import load_extension
from kernels.common.hip_source import hip_source
from kernels.moe_mxfp4.hip_gfx950_tuning import DEFAULT, MANY_ROWS, TUNING
from kernels.moe_mxfp4.inputs import check_inputs

HIP_SOURCE = hip_source("moe_mxfp4_gfx950.hip")
MOST_TOKENS_BY_COLUMNS = 512  # that were tried; there is room for twice as many
BY_COLUMNS = (256, 512)  # columns of `inner` that `down` by columns takes


@functools.cache
def extension():
    # The others say what the source has room for, and how large what it lays out is: neither stands here a second time.
    sizes = ["most_columns", "most_experts", "scale_row", "inner_scale_row"]
    functions = ["moe_mxfp4", *(f"moe_mxfp4_{size}" for size in sizes)]
    return load_extension("moe_mxfp4_hip", HIP_SOURCE, functions, arch="gfx950", preload_arguments=True)


def run_row(data, row):
    """Launch with the given row of the tuning table; `custom_kernel` has checked the data."""
    hidden, _, _, _, _, gate_up, down, gate_up_scale, down_scale, topk_weights, topk_ids, config = data
    width, used = config["d_hidden_pad"], config["d_hidden"]
    inner_width, inner_used = config["d_expert_pad"], config["d_expert"]
    tokens, topk = topk_ids.shape
    experts, n_pairs, block_m = gate_up.shape[0], tokens * topk, row["BLOCK_M"]
    # A block is full, or the last one of its expert.
    blocks = n_pairs // block_m + min(experts, n_pairs)
    rows = blocks * block_m + -block_m % min(block_m, 64)  # `down` by tiles reads 64 at a time
    of_turn, by_tiles = row["TURN_ROWS"], row["TURN_ROWS"] == 0
    turns = 0 if by_tiles else n_pairs // of_turn + min(experts, n_pairs)  # likewise

    hip = extension()

    def new(*shape, dtype=torch.uint8):
        return torch.empty(shape, dtype=dtype, device=hidden.device)

    out = new(tokens, used, dtype=torch.bfloat16)
    given = (hidden, topk_ids, topk_weights, gate_up, down, gate_up_scale, down_scale)
    made = (
        new(tokens, width // 2),
        new(tokens, hip.moe_mxfp4_scale_row(width)),
        new(rows, inner_width // 2),
        new(rows, hip.moe_mxfp4_inner_scale_row(inner_width)),
        new(by_tiles * n_pairs, used, dtype=torch.bfloat16),
        out,
        new(by_tiles * rows, dtype=torch.int32),
        new(rows, 2, dtype=torch.int32),
        new(blocks + 1, dtype=torch.int32),
        new(turns + 1, 2, dtype=torch.int32),
        new(by_tiles * tokens, width // 256, dtype=torch.int32),
    )
    addresses = array("q", [tensor.data_ptr() for tensor in (*given, *made)])
    sizes = (tokens, topk, experts, blocks, width, used, inner_width, inner_used)
    hip.moe_mxfp4(addresses.buffer_info()[0], *sizes, block_m, row["DOWN_TILES"], of_turn, turns)
    return out


def tuning_row(data):
    """The row that custom_kernel(data) uses: the table's, or one with blocks for as many rows as an expert has."""
    tokens, topk = data[-2].shape
    experts, config = data[5].shape[0], data[-1]
    shape = (tokens, experts, config["d_hidden"], config["d_expert"])
    if shape in TUNING:
        return TUNING[shape]
    rows, widths = tokens * topk // experts, (config["d_hidden_pad"], config["d_expert_pad"])
    high = rows > 64 and max(widths) <= extension().moe_mxfp4_most_columns()
    block_m = 16 if rows <= 16 else 32 if rows <= 64 else 128 if high else 64
    if tokens <= MOST_TOKENS_BY_COLUMNS and widths[1] in BY_COLUMNS:
        of_turn = next((most for most in (16, 32, 48) if 1.2 * rows <= most), 144)  # so that few experts have two
        return {"BLOCK_M": block_m, "TURN_ROWS": of_turn, "DOWN_TILES": 0}
    return MANY_ROWS if high else {**DEFAULT, "BLOCK_M": block_m}


def custom_kernel(data):
    """The twelve parts of `data` as reference/moe_mxfp4/reference.py describes them -> bf16 [tokens, d_hidden].

    Of the weights the shuffled ones are read. Any number of tokens, and of pairs for an expert; every one of topk_ids
    is in 0 ... experts - 1, of which there are 1024 at most. Shared experts are like the others: topk_ids names them.
    """
    check_inputs(data)
    most = extension().moe_mxfp4_most_experts()
    if data[5].shape[0] > most:
        raise ValueError(f"gate_up_weight_shuffled: at most {most} experts, got {data[5].shape[0]}")
    return run_row(data, tuning_row(data))
