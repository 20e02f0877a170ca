// Host side of amd-fp8-mm without torch: which tile a shape gets, what memory that needs, and the launch.
#pragma once

#include "fp8_mm_kernel_gfx942.h"
#include "hip_gfx942_tuning.h"

template <class F>
auto with_tile(TileId id, F&& f) {
    switch (id) {
        case T128x128: return f(Tile<128, 128, 2, 2, 1>{});
        case T128x128x2: return f(Tile<128, 128, 2, 1, 2>{});
        case T256x128: return f(Tile<256, 128, 4, 1, 1>{});
        default: return f(Tile<64, 64, 2, 4, 1>{});
    }
}

struct Fp8MmArgs {  // as fp8_mm_kernel's of the same names
    const unsigned char *a, *b;
    const float *a_scale, *b_scale;
    unsigned short* c;
    float* partial;
    int m, n, k;
};

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

// Returns a hipError_t.
inline int fp8_mm_launch(const Fp8MmPlan& plan, const Fp8MmArgs& args) {
    with_tile(plan.row.tile, [&](auto tile) {
        using T = decltype(tile);
        fp8_mm_kernel<T><<<dim3(plan.n_tiles * plan.row.split_k), dim3(T::THREADS)>>>(
            args.a, args.b, args.m, args.n, args.k, plan.row.split_k, plan.row.group_rows, args.a_scale, args.b_scale,
            args.c, args.partial);
        if (plan.row.split_k > 1)
            fp8_mm_sum_kernel<T><<<dim3(plan.n_tiles * T::FM * T::GROUP_WAVES), dim3(SUM_WAVES * WAVE)>>>(
                args.partial, args.m, args.n, plan.row.split_k, plan.row.group_rows, args.c);
    });
    return hipGetLastError();
}
