// One row a shape of amd-fp8-mm. Chosen by the model in docs/kernels/fp8_mm.md, not measured: no MI300X was at hand.
#pragma once

enum TileId { T256x128, T128x128, T64x128, T64x64 };

struct TuningRow {
    int m, n, k;
    TileId tile;
    int split_k, group_rows;
};

// What a shape outside the table gets: small enough to fill the card at M = 64, and no partial sums.
constexpr TuningRow DEFAULT = {0, 0, 0, T64x128, 1, 4};

constexpr TuningRow TUNING[] = {
    //  m     n     k     tile  split_k group_rows       benchmarks
    {1024, 1536, 7168, T128x128, 6, 4},
};

inline TuningRow tuning(int m, int n, int k) {
    for (const TuningRow& row : TUNING)
        if (row.m == m && row.n == n && row.k == k) return row;
    return DEFAULT;
}
