// amd-mixture-of-experts on gfx942: the experts' products on tiles of bf16_gemm_gfx942.h, in fp16, and the sum of a
// token's choices.
//
// Weights lie as [k][n]: turned_weights_gfx942.h. lab/tried/moe_hip.md has the cost.
#pragma once

#include "moe_router_gfx942.h"
#include "turned_weights_gfx942.h"
#include "workgroup_order.h"

constexpr int TILE_COLUMNS = 256;
constexpr int COMBINE_THREADS = 256;

// Up to ROWS rows of 256 columns.
template <int ROWS>
struct MoeTile : GemmTile<ROWS, TILE_COLUMNS, 2, 4, 1> {
    using Wave = WaveTile<ROWS / 2, TILE_COLUMNS / 4, Fp16>;
};
constexpr int GEMM_THREADS = MoeTile<TILE_ROWS>::THREADS;
constexpr int CHOICES_AT =
    GEMM_THREADS / WAVE * MoeTile<TILE_ROWS>::Wave::TURN_BYTES;  // in LDS, behind what turns rows

// A workgroup's tile. An XCD works on one group after the other, so that its L2 holds that group's weights: group_rows
// tiles down, then the next column.
struct MoeWork {
    int group, first_row, n_rows, column;

    __device__ MoeWork(const MoeArgs& args, int n_columns) : n_rows(0) {
        const int n = args.tiles[0].x * n_columns;
        if (static_cast<int>(blockIdx.x) >= n) return;  // the grid is an upper bound
        const int order = xcd_contiguous<XCDS>(blockIdx.x, n);
        const int4 tile = args.tiles[1 + order / n_columns];
        const int n_tiles = (tile.w - tile.z + args.tile_rows - 1) / args.tile_rows;
        const TilePlace place = grouped_rows(order - tile.y * n_columns, n_tiles, n_columns, args.group_rows);
        group = uniform(tile.x);
        first_row = uniform(tile.z + place.row * args.tile_rows);
        n_rows = uniform(min(tile.w - first_row, args.tile_rows));
        column = uniform(place.column);
    }
};

// f(tile) with the smallest that holds the rows.
template <class F>
__device__ void with_moe_tile(int n_rows, F&& f) {
    if (n_rows > 128) f(MoeTile<256>{});
    else f(MoeTile<128>{});
}

__device__ inline float silu(float x) { return x * __builtin_amdgcn_rcpf(1.0f + __expf(-x)); }

// h[row] = silu(x[token] * gate) * (x[token] * up). A tile has 128 columns of each: a wave's 64 are 32 of gate and the
// same 32 of up, so that a lane holds both sums of an element.
__global__ __launch_bounds__(GEMM_THREADS, 2) void gate_up_kernel(const MoeArgs args) {
    constexpr int COLUMNS = TILE_COLUMNS / 2;
    const MoeWork work(args, (args.d_expert + COLUMNS - 1) / COLUMNS);
    if (work.n_rows == 0) return;
    with_moe_tile(work.n_rows, [&](auto tile) {
        using T = decltype(tile);
        using Wave = typename T::Wave;
        constexpr int SUB = Wave::SUB;
        unsigned char* const lds = workgroup_lds<MoeTile<TILE_ROWS>::LDS_BYTES>();
        const Place place;
        const int first_column = work.column * COLUMNS, n_groups = args.n_groups();
        const int choices = args.choices();
        const PairLoader<T::BM, T::THREADS> load_x(
            args.x, 2u * args.n_tokens * args.d_hidden, place.thread, [&](int row) {
                if (row >= work.n_rows) return RowReader::OUTSIDE;
                return 2u * (args.row_choice[work.first_row + row] / choices) * args.d_hidden;
            });
        const int is_up = place.wave % 2, width = args.matrices[3 * n_groups + work.group];
        const int column = 2 * place.lane, row = column / SUB * 2 * SUB + is_up * SUB + column % SUB;
        const TurningLoader load_w(args.matrices[is_up * n_groups + work.group] + 2 * first_column, args.d_hidden,
                                   width, args.d_expert - first_column, row, place);
        typename Wave::Sum sum;
        Wave::zero(sum);
        gemm_tile<T>(sum, load_x, load_w, 0, args.d_hidden, lds, place, [] {});
        __syncthreads();  // the last, unused, fragments are read: LDS is free

        // Two subtiles of rows become the two halves of 64 columns that rows() turns.
        using Halves = WaveTile<T::WM / 2, 2 * SUB, Fp16>;
        typename Halves::Sum h;
#pragma unroll
        for (int fm = 0; fm < Wave::FM; ++fm)
#pragma unroll
            for (int i = 0; i < 16; ++i) h.v[fm / 2][fm % 2][i] = silu(sum.v[fm][0][i]) * sum.v[fm][1][i];
        const int wave_row = place.wave / T::WAVES_N * T::WM, wave_column = place.wave % T::WAVES_N * SUB;
        unsigned short* const to = args.h + static_cast<size_t>(work.first_row) * args.d_expert;
        Halves::rows(h, lds + place.wave * Wave::TURN_BYTES, place.lane, [&](int r, int c, u32x4 eight) {
            const int row = wave_row + (r / SUB * 2 + c / SUB) * SUB + r % SUB;
            const int column = first_column + wave_column + c % SUB;
            if (row < work.n_rows && column < args.d_expert)
                *reinterpret_cast<u32x4*>(to + row * args.d_expert + column) = eight;
        });
    });
}

// out[choice of row] = h[row] * down.
__global__ __launch_bounds__(GEMM_THREADS, 2) void down_kernel(const MoeArgs args) {
    const MoeWork work(args, (args.d_hidden + TILE_COLUMNS - 1) / TILE_COLUMNS);
    if (work.n_rows == 0) return;
    with_moe_tile(work.n_rows, [&](auto tile) {
        using T = decltype(tile);
        using Wave = typename T::Wave;
        unsigned char* const lds = workgroup_lds<MoeTile<TILE_ROWS>::LDS_BYTES>();
        const Place place;
        const int first_column = work.column * TILE_COLUMNS;
        const PairLoader<T::BM, T::THREADS> load_h(args.h + static_cast<size_t>(work.first_row) * args.d_expert,
                                                   work.n_rows, args.d_expert, place.thread);
        const int part_column = first_column + place.wave % 2 * 128;
        const TurningLoader load_w(args.matrices[2 * args.n_groups() + work.group] + 2 * part_column, args.d_expert,
                                   args.d_hidden, args.d_hidden - part_column, place.wave % 2 * 128 + 2 * place.lane,
                                   place);
        const int choice = place.thread < work.n_rows ? args.row_choice[work.first_row + place.thread] : 0;
        typename Wave::Sum sum;
        Wave::zero(sum);
        gemm_tile<T>(sum, load_h, load_w, 0, args.d_expert, lds, place, [] {});
        __syncthreads();  // the last, unused, fragments are read: LDS is free
        int* const choice_of = reinterpret_cast<int*>(lds + CHOICES_AT);
        if (place.thread < work.n_rows) choice_of[place.thread] = choice;
        __syncthreads();

        const int wave_row = place.wave / T::WAVES_N * T::WM, wave_column = place.wave % T::WAVES_N * T::WN;
        Wave::rows(sum, lds + place.wave * Wave::TURN_BYTES, place.lane, [&](int r, int c, u32x4 eight) {
            const int row = wave_row + r, column = first_column + wave_column + c;
            if (row < work.n_rows && column < args.d_hidden)
                *reinterpret_cast<u32x4*>(args.out + static_cast<size_t>(choice_of[row]) * args.d_hidden + column) =
                    eight;
        });
    });
}

// y[token] = sum of score * out over the token's choices, in fp32 and in their order. A thread has 8 columns.
__global__ __launch_bounds__(COMBINE_THREADS) void combine_kernel(const MoeArgs args) {
    const size_t token = blockIdx.x;
    const int column = (blockIdx.y * COMBINE_THREADS + threadIdx.x) * 8, choices = args.choices();
    if (column >= args.d_hidden) return;
    const unsigned short* out = args.out + token * choices * args.d_hidden + column;
    float y[8] = {};
#pragma unroll 5
    for (int choice = 0; choice < choices; ++choice) {
        const u32x4 eight = *reinterpret_cast<const u32x4*>(out + static_cast<size_t>(choice) * args.d_hidden);
        const float score = args.score[token * choices + choice];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const u32 word = eight[i / 2];  // of an element as such the compiler takes the first one's bits
            const auto two = __builtin_bit_cast(Fp16::f16x2, word);
            y[i] = __builtin_fmaf(score, static_cast<float>(two[i % 2]), y[i]);
        }
    }
    *reinterpret_cast<u32x4*>(args.y + token * args.d_hidden + column) =
        u32x4{Fp16::pack(y[0], y[1]), Fp16::pack(y[2], y[3]), Fp16::pack(y[4], y[5]), Fp16::pack(y[6], y[7])};
}
