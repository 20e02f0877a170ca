// Host side of amd-fp8-mm without torch: which tile a shape gets, what memory that needs, and the launch.
#pragma once

#include "fp8_mm_kernel_gfx942.h"
#include "hip_gfx942_tuning.h"

template <class F>
auto with_tile(TileId id, F&& f) {
    switch (id) {
        case T128x128: return f(Tile<128, 128, 2, 2>{});
        default: return f(Tile<64, 64, 2, 4>{});
    }
}

struct Fp8MmPlan {
    TuningRow row;
    int n_tiles;
    size_t partial_bytes;  // of Fp8MmArgs::partial; 0 where it is not used
};

inline Fp8MmPlan fp8_mm_plan(int m, int n, int k) {
    const TuningRow row = tuning(m, n, k);
    return with_tile(row.tile, [&](auto tile) {
        using T = decltype(tile);
        const int n_tiles = (m + T::BM - 1) / T::BM * ((n + T::BN - 1) / T::BN);
        const size_t bytes = row.split_k > 1 ? sizeof(float) * T::BM * T::BN * n_tiles * row.split_k : 0;
        return Fp8MmPlan{row, n_tiles, bytes};
    });
}

// args.split_k and args.group_rows are the plan's; returns a hipError_t.
inline int fp8_mm_launch(const Fp8MmPlan& plan, Fp8MmArgs args) {
    args.split_k = plan.row.split_k;
    args.group_rows = plan.row.group_rows;
    with_tile(plan.row.tile, [&](auto tile) {
        using T = decltype(tile);
        fp8_mm_kernel<T><<<dim3(plan.n_tiles * args.split_k), dim3(T::THREADS)>>>(args);
    });
    return hipGetLastError();
}
