"""The order in which workgroups of amd-ag-gemm take tiles: as the rows arrive."""

import triton
import triton.language as tl

from kernels.common.workgroup_order import xcd_contiguous


@triton.jit
def tile_in_arrival_order(
    unit,
    ROW_TILES: tl.constexpr,
    COLUMN_TILES: tl.constexpr,
    RANKS: tl.constexpr,
    BAND: tl.constexpr,
    SPLIT_K: tl.constexpr,
    N_XCD: tl.constexpr,
):
    """Place in launch order -> (distance to the source rank, row tile of its rows, column tile, slice of k).

    Own rows first. Then bands of BAND row tiles of every peer: these arrive at the same time. Within a band (and
    within the own rows) each XCD takes one contiguous range, rows fastest: all peers in turn, a few columns.
    """
    LOCAL: tl.constexpr = ROW_TILES * COLUMN_TILES * SPLIT_K
    PEERS: tl.constexpr = RANKS - 1 if RANKS > 1 else 1
    if unit < LOCAL:
        unit = xcd_contiguous(unit, LOCAL, N_XCD)
        tile = unit // SPLIT_K
        distance = 0
        row_tile = tile % ROW_TILES
        column_tile = tile // ROW_TILES
    else:
        PER_BAND: tl.constexpr = BAND * PEERS * COLUMN_TILES * SPLIT_K
        band = (unit - LOCAL) // PER_BAND
        rows = tl.minimum(BAND, ROW_TILES - band * BAND) * PEERS
        unit = xcd_contiguous((unit - LOCAL) % PER_BAND, rows * COLUMN_TILES * SPLIT_K, N_XCD)
        tile = unit // SPLIT_K
        distance = 1 + tile % rows % PEERS
        row_tile = band * BAND + tile % rows // PEERS
        column_tile = tile // rows
    return distance, row_tile, column_tile, unit % SPLIT_K
