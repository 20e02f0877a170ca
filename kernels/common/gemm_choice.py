"""Which tile of bf16_gemm.h a shape gets that no tuning table has: by a model of the rounds in which workgroups run."""

import torch

COMPUTE_UNITS = {"gfx942": 304, "sm_90": 132}

# arch -> bf16 operations of a compute unit in a us, bytes that the L2 gives all of them in a us
RATES = {"gfx942": (4.3e6, 12e6), "sm_90": (7.5e6, 12e6)}

# arch -> (BLOCK_M, BLOCK_N): workgroups that share a unit, part of the peak that their loop reaches, us from a
# workgroup's start to its loop and from there to its end. The tiles that with_gemm_tile() offers. gfx942: 85 % of what
# the emulated device's time model says (docs/kernels/bf16_gemm.md), less where the L2 bounds; sm_90: guessed.
GEMM_TILES = {
    "gfx942": {
        (256, 256): (1, 0.85, 6.4),
        (128, 256): (1, 0.75, 4.0),
        (128, 128): (2, 0.75, 3.9),
        (64, 128): (2, 0.6, 2.5),
        (64, 64): (4, 0.5, 2.6),
    },
    "sm_90": {
        (128, 256): (1, 0.84, 4.6),
        (256, 128): (1, 0.76, 3.2),
        (128, 128): (2, 0.63, 2.2),
        (64, 256): (1, 0.7, 3.0),
        (64, 128): (2, 0.62, 3.0),
        (64, 64): (3, 0.6, 3.0),
    },
}

# arch -> tiles that gemm-rs' workgroups take one after the other (bf16_in_turn_sm90.h); of others each takes one.
IN_TURN = {"gfx942": set(), "sm_90": {(128, 256), (256, 128)}}


def gpu_arch():
    """The tuning tables' name of the GPU at hand."""
    return "gfx942" if torch.version.hip else "sm_90"


def modelled_gemm_us(arch, tile, split_k, n_tiles, k):
    """Time of n_tiles products of that tile over k, each cut into split_k slices."""
    rate, l2_bytes = RATES[arch]
    sharing, efficiency, overhead_us = GEMM_TILES[arch][tile]
    slice_us = 2 * tile[0] * tile[1] * (-(-k // split_k)) / rate
    left = -(-n_tiles * split_k // COMPUTE_UNITS[arch])  # workgroups of the fullest unit
    time_us = 0.0
    while left > 0:
        # One alone cannot hide its waits behind another.
        resident = min(left, sharing)
        time_us += overhead_us + resident * slice_us / (efficiency * (0.5 + 0.5 * resident / sharing))
        left -= resident
    time_us = max(time_us, 2 * (tile[0] + tile[1]) * k * n_tiles / l2_bytes)
    partial_us = 2.0 + 1.6e-6 * n_tiles * split_k * tile[0] * tile[1] if split_k > 1 else 0.0
    return time_us + partial_us


def choose_gemm_tile(arch, groups, rows, n, k):
    """(BLOCK_M, BLOCK_N, split_k) for `groups` matrices of `rows` rows each, times n columns, over k.

    k is split only where there are fewer tiles than compute units, into slices of 64 and more.
    """
    options = []
    for tile in GEMM_TILES[arch]:
        n_tiles = groups * -(-rows // tile[0]) * -(-n // tile[1])
        most = min(16, -(-k // 64)) if n_tiles < COMPUTE_UNITS[arch] else 1
        for split_k in range(1, most + 1):
            options.append((modelled_gemm_us(arch, tile, split_k, n_tiles, k), *tile, split_k))
    return min(options)[1:]
