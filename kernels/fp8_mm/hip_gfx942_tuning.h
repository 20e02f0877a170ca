// One row a shape of amd-fp8-mm; none was measured: no MI300X was at hand.
// Rows with a time were chosen by the emulated card's time model, by `python -m lab.tuning_tables` (docs/tuning.md) or by
// samples as it takes them; the time is what the row takes in lab/fp8_mm_against_peers.py.
// The others are of an earlier, coarser model and have not been tried since.
#pragma once

enum TileId { T256x128, T128x128, T128x128x2, T64x64 };  // x2: two groups of waves

struct TuningRow {
    int m, n, k;
    TileId tile;     // tune: T256x128 T128x128 T128x128x2 T64x64
    int split_k;     // tune: 1 2 3 4 5 6 7 8 10 14
    int group_rows;  // tune: 2 4 8 16
};

// What a shape outside the table gets: small enough to fill the card at M = 64, and no partial sums.
constexpr TuningRow DEFAULT = {0, 0, 0, T64x64, 1, 4};

// clang-format off
constexpr TuningRow TUNING[] = {
    // m    n     k     tile    split_k group_rows
    // benchmarks
    {1024, 1536, 7168, T128x128x2, 3, 4},  // 34.05 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {1024, 3072, 1536, T128x128x2, 1, 8},  // 17.87 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {1024,  576, 7168, T128x128, 7, 2},  // 20.09 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {1024, 7168,  256, T128x128, 1, 8},  // 11.8 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {1024, 7168, 2048, T256x128, 1, 8},  // 37.82 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {1024, 4608, 7168, T128x128x2, 1, 8},  // 67.14 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {1024, 7168, 2304, T256x128, 1, 8},  // 41.47 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {1024,  512, 7168, T128x128, 8, 2},  // 18.52 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {1024, 4096,  512, T128x128, 1, 4},  // 10.81 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {6144, 1536, 7168, T256x128, 1, 8},  // 121 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {6144, 3072, 1536, T256x128, 1, 8},  // 61.66 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {6144,  576, 7168, T128x128x2, 1, 16},  // 62.21 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {6144, 7168,  256, T128x128, 1, 8},  // 43.46 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {6144, 7168, 2048, T128x128, 1, 8},  // 181.1 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {6144, 4608, 7168, T128x128, 1, 8},  // 370.8 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {6144, 7168, 2304, T128x128, 1, 8},  // 200.8 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {6144,  512, 7168, T256x128, 3, 8},  // 56.4 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {6144, 4096,  512, T128x128, 1, 8},  // 41.47 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    // tests
    {  64,   64,  128, T64x64,    1, 8},
    {  64, 1536, 7168, T64x64,   14, 8},
    {  64, 3072, 1536, T64x64,    6, 8},
    {  64,  576, 7168, T64x64,   14, 8},
    {  96, 7168,  256, T64x64,    1, 8},
    {  96, 7168, 2048, T128x128,  4, 8},
    {  96, 4608, 7168, T64x64,    8, 8},
    { 128, 7168, 2304, T128x128,  5, 8},
    { 128,  512, 7168, T64x64,   14, 8},
    { 512, 4096,  512, T64x64,    1, 8},
    { 512, 1536, 7168, T128x128,  6, 8},
};
// clang-format on

inline TuningRow tuning(int m, int n, int k) {
    for (const TuningRow& row : TUNING)
        if (row.m == m && row.n == n && row.k == k) return row;
    return DEFAULT;
}
