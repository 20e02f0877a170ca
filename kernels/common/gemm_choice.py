"""Which tile of bf16_gemm.h a shape gets that no tuning table has: by a model of the rounds in which workgroups run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GemmCard:
    """What the model knows of a GPU."""

    compute_units: int
    unit_flop_per_us: float  # bf16, of one compute unit
    l2_bytes_per_us: float  # what the L2 gives all units together
    # The tiles that with_gemm_tile() offers: (BLOCK_M, BLOCK_N) -> workgroups that share a unit, part of the peak that
    # their loop reaches, us from a workgroup's start to its loop and from there to its end.
    tiles: dict[tuple[int, int], tuple[int, float, float]]


def modelled_gemm_us(card, tile, split_k, n_tiles, k):
    """Time of n_tiles products of that tile over k, each cut into split_k slices."""
    sharing, efficiency, overhead_us = card.tiles[tile]
    slice_us = 2 * tile[0] * tile[1] * (-(-k // split_k)) / card.unit_flop_per_us
    left = -(-n_tiles * split_k // card.compute_units)  # workgroups of the fullest unit
    time_us = 0.0
    while left > 0:
        # One alone cannot hide its waits behind another.
        resident = min(left, sharing)
        time_us += overhead_us + resident * slice_us / (efficiency * (0.5 + 0.5 * resident / sharing))
        left -= resident
    time_us = max(time_us, 2 * (tile[0] + tile[1]) * k * n_tiles / card.l2_bytes_per_us)
    partial_us = 2.0 + 1.6e-6 * n_tiles * split_k * tile[0] * tile[1] if split_k > 1 else 0.0
    return time_us + partial_us


def choose_gemm_tile(card, groups, rows, n, k):
    """(BLOCK_M, BLOCK_N, split_k) for `groups` matrices of `rows` rows each, times n columns, over k.

    k is split only where there are fewer tiles than compute units, into slices of 64 and more.
    """
    options = []
    for tile in card.tiles:
        n_tiles = groups * -(-rows // tile[0]) * -(-n // tile[1])
        most = min(16, -(-k // 64)) if n_tiles < card.compute_units else 1
        for split_k in range(1, most + 1):
            options.append((modelled_gemm_us(card, tile, split_k, n_tiles, k), *tile, split_k))
    return min(options)[1:]
