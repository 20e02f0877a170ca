"""amd-moe-mxfp4 in HIP: three launches. moe_mxfp4_gfx950.hip says how, docs/kernels/moe_mxfp4.md why."""

import functools
from array import array

import torch

from kernels.common.hip_extension import load_extension
from kernels.common.hip_source import hip_source
from kernels.common.tensor_checks import round_up
from kernels.moe_mxfp4.hip_gfx950_tuning import DEFAULT, MANY_ROWS, TUNING
from kernels.moe_mxfp4.inputs import check_inputs

HIP_SOURCE = hip_source("moe_mxfp4_gfx950.hip")
MOST_EXPERTS = 1024  # which the sorting workgroup has room for
MOST_SHARED_COLUMNS = 8192  # of products by way of LDS, as blocks of 128 rows and more need them


@functools.cache
def extension():
    return load_extension("moe_mxfp4_hip", HIP_SOURCE, functions=["moe_mxfp4"], arch="gfx950", preload_arguments=True)


def scale_row(width):
    """Bytes of a row's scales, as the HIP source lays them out."""
    return round_up(width, 2048) // 32


def run_row(data, row):
    """Launch with the given row of the tuning table; `custom_kernel` has checked the data."""
    hidden, _, _, _, _, gate_up, down, gate_up_scale, down_scale, topk_weights, topk_ids, config = data
    width, used = config["d_hidden_pad"], config["d_hidden"]
    inner_width, inner_used = config["d_expert_pad"], config["d_expert"]
    tokens, topk = topk_ids.shape
    experts, n_pairs, block_m = gate_up.shape[0], tokens * topk, row["BLOCK_M"]
    # A block is full, or the last one of its expert.
    blocks = n_pairs // block_m + min(experts, n_pairs)
    rows = blocks * block_m + -block_m % min(block_m, 64)  # `down` reads 64 at a time

    def new(*shape, dtype=torch.uint8):
        return torch.empty(shape, dtype=dtype, device=hidden.device)

    out = new(tokens, used, dtype=torch.bfloat16)
    given = (hidden, topk_ids, topk_weights, gate_up, down, gate_up_scale, down_scale)
    made = (
        new(tokens, width // 2),
        new(tokens, scale_row(width)),
        new(rows, inner_width // 2),
        new(rows, scale_row(inner_width)),
        new(0 if row["ADDS"] else n_pairs, used, dtype=torch.bfloat16),
        out,
        new(rows, dtype=torch.int32),
        new(rows, dtype=torch.int32),
        new(blocks + 1, dtype=torch.int32),
        new(tokens, width // 256, dtype=torch.int32),
    )
    addresses = array("q", [tensor.data_ptr() for tensor in (*given, *made)])
    sizes = (tokens, topk, experts, blocks, width, used, inner_width, inner_used)
    extension().moe_mxfp4(addresses.buffer_info()[0], *sizes, block_m, row["DOWN_TILES"], row["ADDS"])
    return out


def tuning_row(data):
    """The row that custom_kernel(data) uses: the table's, or DEFAULT with blocks for as many rows as an expert has."""
    tokens, topk = data[-2].shape
    experts, config = data[5].shape[0], data[-1]
    shape = (tokens, experts, config["d_hidden"], config["d_expert"])
    if shape in TUNING:
        return TUNING[shape]
    rows = tokens * topk // experts
    if rows > 64 and max(config["d_hidden_pad"], config["d_expert_pad"]) <= MOST_SHARED_COLUMNS:
        return MANY_ROWS
    return {**DEFAULT, "BLOCK_M": 16 if rows <= 16 else 32 if rows <= 64 else 64}


def custom_kernel(data):
    """The twelve parts of `data` as reference/moe_mxfp4/reference.py describes them -> bf16 [tokens, d_hidden].

    Of the weights the shuffled ones are read. Any number of tokens, and of pairs for an expert; every one of topk_ids
    is in 0 ... experts - 1, of which there are 1024 at most. Shared experts are like the others: topk_ids names them.
    """
    check_inputs(data)
    if data[5].shape[0] > MOST_EXPERTS:
        raise ValueError(f"gate_up_weight_shuffled: at most {MOST_EXPERTS} experts, got {data[5].shape[0]}")
    return run_row(data, tuning_row(data))
