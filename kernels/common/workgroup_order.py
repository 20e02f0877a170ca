"""Order in which workgroups take output tiles."""

import triton
import triton.language as tl


@triton.jit
def xcd_contiguous(pid, n_workgroups, N_XCD: tl.constexpr):
    """Workgroup id -> tile number, so that each XCD works on one contiguous range of tiles.

    The dispatcher deals workgroups to the XCDs in turn (id mod N_XCD), and each XCD has an L2 of its own. Handing
    XCD x the x-th contiguous range lets neighbouring tiles, which share rows or columns, share that L2. The first
    (n mod N_XCD) XCDs get one tile more, so every count is covered exactly once.
    """
    per_xcd = (n_workgroups + N_XCD - 1) // N_XCD
    n_full = n_workgroups % N_XCD
    if n_full == 0:
        n_full = N_XCD
    xcd = pid % N_XCD
    turn = pid // N_XCD
    if xcd < n_full:
        tile = xcd * per_xcd + turn
    else:
        tile = n_full * per_xcd + (xcd - n_full) * (per_xcd - 1) + turn
    return tile


@triton.jit
def grouped_rows(tile, n_tiles_m, n_tiles_n, GROUP_M: tl.constexpr):
    """Tile number -> (tile row, tile column), walking GROUP_M rows down before the next column.

    GROUP_M rows of A stay in L2 while B passes once, instead of all of B passing for every row.
    """
    per_group = GROUP_M * n_tiles_n
    group = tile // per_group
    first_row = group * GROUP_M
    rows = min(n_tiles_m - first_row, GROUP_M)
    row = first_row + (tile % per_group) % rows
    column = (tile % per_group) // rows
    return row, column
