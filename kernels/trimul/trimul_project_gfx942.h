// trimul on gfx942: layer norm of x, its five projections, their gates and the mask, in one pass over x.
//
// A workgroup has rows (b, i) and half of the hidden channels (at width 768 a quarter of the work: see PARTS); its weights
// stay in registers, a wave's 16 channels of each projection. x̂ of TILE_ROWS pairs (i, k) at a time goes through LDS, two
// buffers in turn: while one is multiplied, the next tile's x is loaded, then normalised into the other. The norm's affine
// part is in the weights and their bias, the gates' weights are times -log2 e.
#pragma once

#include "trimul_args_gfx942.h"

constexpr int PROJECT_THREADS = 256, PROJECT_WAVES = PROJECT_THREADS / WAVE;
constexpr int TILE_ROWS = 32;  // pairs (i, k)

constexpr int buffers_of_x(int kt) { return kt <= 12 ? 2 : 1; }  // 48 KiB of LDS at widths 384 and 768

// What a workgroup multiplies with: of KT * 32 columns of x, FIRST and further ones of the five projections.
template <int KT, int FIRST_, int COUNT_>
struct Projections {
    static constexpr int FIRST = FIRST_, COUNT = COUNT_;
    static constexpr bool LEFT = FIRST == 0, RIGHT = FIRST + COUNT > 2, OUT = FIRST + COUNT == PROJECTIONS;

    f16x8 weight[COUNT][KT];
    float bias[COUNT];

    // Of channel h: a lane's 8 k of each 32, as multiply_16x16 wants them.
    __device__ Projections(const TrimulArgs& args, int h, int lane) {
#pragma unroll
        for (int p = 0; p < COUNT; ++p) {
            const int row = (FIRST + p) * HIDDEN + h;
            bias[p] = args.bias[row];
#pragma unroll
            for (int k = 0; k < KT; ++k)
                weight[p][k] = *reinterpret_cast<const f16x8*>(args.weight + row * KT * 32 + k * 32 + lane / 16 * 8);
        }
    }
};

// The pair of a tile that is row r of MFMA tile t: so a lane's results are of 8 neighbours, four lanes' of 32.
__device__ constexpr int pair_of_row(int t, int r) { return r / 4 * 8 + t * 4 + r % 4; }

// x̂ of a tile in LDS, [pair][chunk of 8 columns]. Chunks are permuted by an XOR so that neither a wave's writes, of two
// pairs' chunks, nor its reads, of one chunk of 16 pairs, meet in a bank.
__device__ constexpr int normed_offset(int width, int pair, int chunk) {
    return pair * width + (chunk ^ (pair % 4 + pair / 8 % 2 * 4)) * 8;
}

__device__ inline float sigmoid_of_scaled(float x) {  // x is times -log2 e
    return __builtin_amdgcn_rcpf(1.0f + __builtin_amdgcn_exp2f(x));
}

// A wave's share of a tile: 8 pairs, half a wave each.
template <int KT>
struct TileOfX {
    static constexpr int WIDTH = KT * 32, FOURS = WIDTH / 128, PAIRS = TILE_ROWS / PROJECT_WAVES / 2;

    f32x4 x[PAIRS][FOURS];
    u32 mask;
    int column[FOURS];    // past dim the last four: their x̂ is finite, and meets weights of zero
    float inside[FOURS];  // 0 there
    float per_column;

    __device__ TileOfX(int dim, int lane) : per_column(1.0f / dim) {
#pragma unroll
        for (int j = 0; j < FOURS; ++j) {
            const int first = j * 128 + lane % 32 * 4;
            column[j] = min(first, dim - 4);
            inside[j] = first < dim ? 1.0f : 0.0f;
        }
    }

    // Pairs (row, k ..); x and mask past n are 0.
    __device__ void load(const TrimulArgs& args, int row, int k, const Place& place) {
        const Buffer of_x = make_buffer(args.x + static_cast<size_t>(row) * args.n * args.dim, args.n * args.dim * 4u);
#pragma unroll
        for (int p = 0; p < PAIRS; ++p) {
            const int pair = k + place.wave * 2 * PAIRS + p * 2 + place.lane / 32;
#pragma unroll
            for (int j = 0; j < FOURS; ++j)
                x[p][j] = __builtin_bit_cast(f32x4, __builtin_amdgcn_raw_buffer_load_b128(
                                                        of_x, (pair * args.dim + column[j]) * 4, 0, CACHE_NORMAL));
        }
        const u32 bytes = args.mask_is_int64 ? 8 : 4;
        const char* const of_row = static_cast<const char*>(args.mask) + static_cast<size_t>(row) * args.n * bytes;
        mask = __builtin_amdgcn_raw_buffer_load_b32(make_buffer(of_row, args.n * bytes),
                                                    (k + place.thread % TILE_ROWS) * bytes, 0, CACHE_NORMAL);
    }

    __device__ void normalise(const TrimulArgs& args, _Float16* normed, float* masks, const Place& place) {
#pragma unroll
        for (int p = 0; p < PAIRS; ++p) {
            const int pair = place.wave * 2 * PAIRS + p * 2 + place.lane / 32;
            float sum = 0, squares = 0;
#pragma unroll
            for (int j = 0; j < FOURS; ++j)
                sum = __builtin_fmaf(inside[j], (x[p][j][0] + x[p][j][1]) + (x[p][j][2] + x[p][j][3]), sum);
            const float mean = sum_of_32(sum) * per_column;
#pragma unroll
            for (int j = 0; j < FOURS; ++j) {
                x[p][j] -= mean;
                const f32x4 square = x[p][j] * x[p][j];
                squares = __builtin_fmaf(inside[j], (square[0] + square[1]) + (square[2] + square[3]), squares);
            }
            const float scale = __builtin_amdgcn_rsqf(sum_of_32(squares) * per_column + EPSILON);
#pragma unroll
            for (int j = 0; j < FOURS; ++j) {
                const int chunk = j * 16 + place.lane % 32 / 2;
                *reinterpret_cast<f16x4*>(normed + normed_offset(WIDTH, pair, chunk) + place.lane % 2 * 4) =
                    __builtin_convertvector(x[p][j] * scale, f16x4);
            }
        }
        if (place.thread < TILE_ROWS)
            masks[place.thread] =
                args.mask_is_int64 ? static_cast<float>(static_cast<int>(mask)) : __builtin_bit_cast(float, mask);
    }
};

template <int KT, class W>
__device__ void project(const TrimulArgs& args, int first_row, int rows, int channel,
                        _Float16 (*normed)[TILE_ROWS * KT * 32], float (*masks)[TILE_ROWS], const Place& place) {
    constexpr int WIDTH = KT * 32, TILES = TILE_ROWS / 16, BUFFERS = buffers_of_x(KT);
    const int h = channel + place.lane % 16;
    const W weights(args, h, place.lane);
    TileOfX<KT> tile(args.dim, place.lane);
    tile.load(args, first_row, 0, place);
    tile.normalise(args, normed[0], masks[0], place);
    __syncthreads();
    int row = first_row, k = 0, buffer = 0, turn = 0;
    while (true) {
        const bool ends = k + TILE_ROWS >= args.n;
        const int next_row = ends ? row + 1 : row, next_k = ends ? 0 : k + TILE_ROWS;
        const bool more = next_row < first_row + rows;
        if (more) tile.load(args, next_row, next_k, place);

        f32x4 sum[W::COUNT][TILES];
#pragma unroll
        for (int p = 0; p < W::COUNT; ++p)
#pragma unroll
            for (int t = 0; t < TILES; ++t) sum[p][t] = weights.bias[p];
#pragma unroll
        for (int step = 0; step < KT; ++step) {
            f16x8 x[TILES];
#pragma unroll
            for (int t = 0; t < TILES; ++t)
                x[t] = *reinterpret_cast<const f16x8*>(
                    normed[buffer] + normed_offset(WIDTH, pair_of_row(t, place.lane % 16), step * 4 + place.lane / 16));
#pragma unroll
            for (int p = 0; p < W::COUNT; ++p)
#pragma unroll
                for (int t = 0; t < TILES; ++t) sum[p][t] = multiply_16x16(x[t], weights.weight[p][step], sum[p][t]);
        }
        if constexpr (BUFFERS == 1) __syncthreads();
        if (more) tile.normalise(args, normed[buffer ^ (BUFFERS - 1)], masks[turn ^ 1], place);

        f16x8 left, right, gate;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float mask = masks[turn][place.lane / 16 * 8 + i];
            const auto at = [&](int p) { return sum[p - W::FIRST][i / 4][i % 4]; };
            if constexpr (W::LEFT) left[i] = static_cast<_Float16>(at(0) * mask * sigmoid_of_scaled(at(1)));
            if constexpr (W::RIGHT) right[i] = static_cast<_Float16>(at(2) * mask * sigmoid_of_scaled(at(3)));
            if constexpr (W::OUT) gate[i] = static_cast<_Float16>(sigmoid_of_scaled(at(4)));
        }
        const size_t to = (static_cast<size_t>(row) * HIDDEN + h) * args.pitch + k + place.lane / 16 * 8;
        if constexpr (W::LEFT) *reinterpret_cast<f16x8*>(args.left + to) = left;
        if constexpr (W::RIGHT) *reinterpret_cast<f16x8*>(args.right + to) = right;
        if constexpr (W::OUT) *reinterpret_cast<f16x8*>(args.gate + to) = gate;
        if (!more) break;
        __syncthreads();
        row = next_row, k = next_k, buffer ^= BUFFERS - 1, turn ^= 1;
    }
}

// Workgroups of one row are 8 apart: on the same XCD, whose L2 gives the later ones x.
template <int KT>
__global__ __launch_bounds__(PROJECT_THREADS, KT <= 8 ? 2 : 1) void project_kernel(const TrimulArgs args) {
    constexpr int PARTS = KT <= 12 ? 2 : 4;
    __shared__ _Float16 normed[buffers_of_x(KT)][TILE_ROWS * KT * 32];
    __shared__ __attribute__((aligned(16))) float masks[2][TILE_ROWS];
    const Place place;
    const int part = blockIdx.x / XCDS % PARTS, row = blockIdx.x / (XCDS * PARTS) * XCDS + blockIdx.x % XCDS;
    if (row >= args.batch * args.n) return;
    const int channel = part % 2 * (HIDDEN / 2) + place.wave * 16;
    if constexpr (PARTS == 2) {
        project<KT, Projections<KT, 0, 5>>(args, row, 1, channel, normed, masks, place);
    } else if (part < 2) {
        project<KT, Projections<KT, 0, 2>>(args, row, 1, channel, normed, masks, place);
    } else {
        project<KT, Projections<KT, 2, 3>>(args, row, 1, channel, normed, masks, place);
    }
}
