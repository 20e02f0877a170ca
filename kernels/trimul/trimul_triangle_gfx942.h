// trimul on gfx942: the product over k, for each channel [n][n] = left [n][k] times right [n][k], on tiles of
// bf16_gemm_gfx942.h, in fp16.
#pragma once

#include "trimul_args_gfx942.h"
#include "workgroup_order.h"

template <int BM, int BN, int WAVES_M, int WAVES_N, int PER_CU>
struct TriangleTile : GemmTile<BM, BN, WAVES_M, WAVES_N, PER_CU> {
    using Wave = WaveTile<BM / WAVES_M, BN / WAVES_N, Fp16>;
};

// product = left * right / n: the sum of n terms fits fp16 as they do, and the norm that follows sees no scale. As many
// workgroups as the card takes at once take tiles in turn: a tile's stores are under way while the next one's loads are.
template <class T>
__global__ __launch_bounds__(T::THREADS, T::RESIDENCY) void triangle_kernel(const TrimulArgs args) {
    using Wave = typename T::Wave;
    using Halves = const unsigned short;
    unsigned char* const lds = workgroup_lds<T::LDS_BYTES>();
    const Place place;
    const int row_tiles = (args.n + T::BM - 1) / T::BM, column_tiles = (args.n + T::BN - 1) / T::BN;
    const int n_tiles = args.batch * HIDDEN * row_tiles * column_tiles;
    const float scale = 1.0f / args.n;
    const u32 row_bytes = 2u * args.row_halves();
    for (int number = blockIdx.x; number < n_tiles; number += gridDim.x) {
        // An XCD takes one channel after the other: its operands are read from HBM once.
        const int tile = xcd_contiguous<XCDS>(number, n_tiles), of_channel = tile / (row_tiles * column_tiles);
        const int b = uniform(of_channel / HIDDEN), h = uniform(of_channel % HIDDEN);
        const int i = uniform(tile / column_tiles % row_tiles * T::BM), j = uniform(tile % column_tiles * T::BN);
        const auto channel_of = [&](const _Float16* of, int row) {
            return of + args.row_of(b * args.n + row) + h * args.pitch;
        };
        const auto row_at = [&](int first, int row) {
            return first + row < args.n ? row * row_bytes : RowReader::OUTSIDE;
        };
        const PairLoader<T::BM, T::THREADS> load_left(reinterpret_cast<Halves*>(channel_of(args.left, i)),
                                                      T::BM * row_bytes, place.thread,
                                                      [&](int row) { return row_at(i, row); });
        const PairLoader<T::BN, T::THREADS> load_right(reinterpret_cast<Halves*>(channel_of(args.right, j)),
                                                       T::BN * row_bytes, place.thread,
                                                       [&](int row) { return row_at(j, row); });
        typename Wave::Sum sum;
        Wave::zero(sum);
        gemm_tile<T>(sum, load_left, load_right, 0, args.n, lds, place, [] {});
        lds_barrier();  // the last, unused, fragments are read: LDS is free

#pragma unroll
        for (int fm = 0; fm < Wave::FM; ++fm)
#pragma unroll
            for (int fn = 0; fn < Wave::FN; ++fn) sum.v[fm][fn] *= scale;
        const int wave_row = i + place.wave / T::WAVES_N * T::WM, wave_column = j + place.wave % T::WAVES_N * T::WN;
        Wave::rows(sum, lds + place.wave * Wave::TURN_BYTES, place.lane, [&](int r, int c, u32x4 eight) {
            const int row = wave_row + r, column = wave_column + c;
            if (row < args.n && column < args.n)  // up to seven beyond n, which are zeros
                *reinterpret_cast<u32x4*>(const_cast<_Float16*>(channel_of(args.product, row)) + column) = eight;
        });
        lds_barrier();
    }
}
