"""Which tile of bf16_gemm.h a shape gets that no tuning table has: by a model of the rounds in which workgroups run."""

import torch

# arch -> compute units, fp32 operations of one in a us, us from a workgroup's start to its first result and out again
UNITS = {"gfx942": (304, 4.3e6, 4.0), "sm_90": (132, 4.0e6, 3.0)}

# arch -> (BLOCK_M, BLOCK_N): workgroups that share a unit, part of the peak that their loop reaches (modelled, see
# docs/kernels/gemm_rs.md). The tiles that with_gemm_tile() offers.
GEMM_TILES = {
    "gfx942": {
        (256, 256): (1, 0.87),
        (128, 256): (1, 0.75),
        (128, 128): (2, 0.75),
        (64, 128): (2, 0.45),
        (64, 64): (4, 0.35),
    },
    "sm_90": {
        (128, 128): (1, 0.45),
        (64, 128): (2, 0.4),
        (64, 64): (4, 0.3),
    },
}


def gpu_arch():
    """The tuning tables' name of the GPU at hand."""
    return "gfx942" if torch.version.hip else "sm_90"


def modelled_gemm_us(arch, tile, split_k, n_tiles, k):
    """Time of n_tiles products of that tile over k, each cut into split_k slices."""
    units, rate, overhead_us = UNITS[arch]
    sharing, efficiency = GEMM_TILES[arch][tile]
    slice_us = 2 * tile[0] * tile[1] * (-(-k // split_k)) / rate
    left = -(-n_tiles * split_k // units)  # workgroups of the fullest unit
    time_us = 0.0
    while left > 0:
        # One alone cannot hide its waits behind another.
        resident = min(left, sharing)
        time_us += overhead_us + resident * slice_us / (efficiency * (0.5 + 0.5 * resident / sharing))
        left -= resident
    partial_us = 2.0 + 8e-7 * n_tiles * split_k * tile[0] * tile[1] if split_k > 1 else 0.0
    return time_us + partial_us


def choose_gemm_tile(arch, groups, rows, n, k):
    """(BLOCK_M, BLOCK_N, split_k) for `groups` matrices of `rows` rows each, times n columns, over k."""
    options = []
    for tile in GEMM_TILES[arch]:
        n_tiles = groups * -(-rows // tile[0]) * -(-n // tile[1])
        for split_k in range(1, min(16, -(-k // 64)) + 1):
            options.append((modelled_gemm_us(arch, tile, split_k, n_tiles, k), *tile, split_k))
    return min(options)[1:]
