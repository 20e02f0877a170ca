// One row a shape of amd-fp8-mm; none was measured: no MI300X was at hand.
// Rows with a time were chosen by it: the emulated card's time model, by `python -m forge.tune.tables` (docs/tuning.md).
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
    {1024, 1536, 7168, T128x128, 6, 8},  // 27.02 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {1024, 3072, 1536, T128x128, 1, 8},  // 17.91 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {1024,  576, 7168, T128x128, 4, 2},  // 24.81 us, before 30.55, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {1024, 7168,  256, T128x128, 1, 8},  // 15.37 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {1024, 7168, 2048, T128x128, 1, 8},  // 33.61 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {1024, 4608, 7168, T128x128, 2, 8},  // 66.37 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {1024, 7168, 2304, T128x128, 1, 8},  // 36.89 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {1024,  512, 7168, T128x128, 8, 8},  // 15.04 us, before 22.69, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {1024, 4096,  512, T128x128, 1, 4},  // 10.58 us, before 10.99, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {6144, 1536, 7168, T128x128, 1, 8},  // 120.5 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {6144, 3072, 1536, T128x128, 1, 8},  // 58.04 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {6144,  576, 7168, T128x128, 1, 16},  // 59.88 us, before 68.62, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {6144, 7168,  256, T128x128, 1, 8},  // 49.91 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {6144, 7168, 2048, T128x128, 1, 8},  // 170.2 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {6144, 4608, 7168, T128x128, 1, 8},  // 353 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {6144, 7168, 2304, T128x128, 1, 8},  // 189.1 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {6144,  512, 7168, T128x128, 3, 8},  // 45.83 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
    {6144, 4096,  512, T128x128, 1, 8},  // 39.58 us, modelled, not measured: emulated gfx942 (AMD Instinct MI300X), ziglang 0.17.0, clang 22.1.8
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
