// Order in which workgroups take output tiles: the rules of workgroup_order.py, for HIP.
#pragma once

struct TilePlace {
    int row, column;  // in tiles
};

// n / d, of numbers below 2^20 that are the same in a wave, in fewer instructions than the compiler's own division.
__device__ inline int small_quotient(int n, int d) {
#ifdef __AMDGCN__
    // The half keeps the product half a step of 1 / d away from every whole number, further than it can be wrong.
    const float q = (static_cast<float>(n) + 0.5f) * __builtin_amdgcn_rcpf(static_cast<float>(d));
    return __builtin_amdgcn_readfirstlane(static_cast<int>(q));
#else
    return n / d;
#endif
}

// Workgroup id -> tile number, so that each XCD works on one contiguous range of tiles. The dispatcher deals
// workgroups to the XCDs in turn (id mod N_XCD), and each XCD has an L2 of its own; neighbouring tiles share rows or
// columns. The first (n mod N_XCD) XCDs get one tile more, so every count is covered exactly once.
template <int N_XCD>
__device__ inline int xcd_contiguous(int id, int n_workgroups) {
    const int per_xcd = (n_workgroups + N_XCD - 1) / N_XCD;
    const int n_full = n_workgroups % N_XCD == 0 ? N_XCD : n_workgroups % N_XCD;
    const int xcd = id % N_XCD, turn = id / N_XCD;
    return xcd < n_full ? xcd * per_xcd + turn : n_full * per_xcd + (xcd - n_full) * (per_xcd - 1) + turn;
}

// Tile number -> place, walking group_rows rows down before the next column: these rows of A stay in L2 while B passes
// once, instead of all of B passing for every row.
__device__ inline TilePlace grouped_rows(int tile, int n_tiles_m, int n_tiles_n, int group_rows) {
    const int per_group = group_rows * n_tiles_n;
    const int group = small_quotient(tile, per_group), within = tile - group * per_group;
    const int first_row = group * group_rows, rows = min(n_tiles_m - first_row, group_rows);
    const int column = small_quotient(within, rows);
    return {first_row + within - column * rows, column};
}
