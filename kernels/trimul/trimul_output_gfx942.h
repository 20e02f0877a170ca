// trimul on gfx942: layer norm of the product over its channels, the output's gate, and the projection back to dim.
//
// A workgroup has some tiles of TILE_J pairs (i, j). They lie as [h][j]: a thread loads 8 neighbouring j of four
// channels, sums meet by lanes and in LDS, and what is normed and gated goes to LDS as [j][h] for the product. The weights
// stay in registers, and are its row operand, so that a lane has four neighbours of an output row.
#pragma once

#include "trimul_args_gfx942.h"

constexpr int OUTPUT_THREADS = 256, OUTPUT_WAVES = OUTPUT_THREADS / WAVE;
constexpr int TILE_J = 64;

// Four channels of 8 neighbouring j: a thread's share of a tile.
struct TileOfProduct {
    f16x8 product[4], gate[4];

    // A lane has eight j, lane % 8 of eight such, and the channels 2 * group, 2 * group + 1, and those 64 further.
    static __device__ int channel(int thread, int c) { return c / 2 * 64 + thread / 8 * 2 + c % 2; }

    __device__ void load(const TrimulArgs& args, TilePosition tile, int thread) {
        const int row = min(tile.row, args.rows() - 1);  // nothing is made of what lies past the last,
        const int column = min(tile.k + thread % 8 * 8, (args.n - 1) / 8 * 8);  // or past n
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            const size_t at = args.row_of(row) + channel(thread, c) * args.pitch + column;
            product[c] = *reinterpret_cast<const f16x8*>(args.product + at);
            gate[c] = *reinterpret_cast<const f16x8*>(args.gate + at);
        }
    }
};

// y of a tile in LDS, [j][chunk of 8 h]. The XOR keeps a wave's writes, of 64 j and few chunks, and its reads, of one
// chunk of 16 j, apart.
__device__ constexpr int gated_offset(int j, int chunk) { return j * HIDDEN + (chunk ^ j % 8 ^ j / 8 % 8) * 8; }

// Sums of a value and its square over all channels, of each j of a tile: by lanes, then over the waves through LDS.
struct TileSums {
    float of[2][OUTPUT_WAVES][TILE_J];

    __device__ void add(const TileOfProduct& tile, const Place& place) {
        constexpr int ROTATE_8 = 0x128;
        float own[2] = {};
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            float sums[2] = {};
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                const float value = tile.product[c][e];
                sums[0] += value, sums[1] += value * value;
            }
#pragma unroll
            for (int s = 0; s < 2; ++s) {
                sums[s] = add_16_apart(add_dpp<ROTATE_8>(sums[s]));
                sums[s] += __shfl_xor(sums[s], 32);
                if (place.lane / 8 == e) own[s] = sums[s];
            }
        }
#pragma unroll
        for (int s = 0; s < 2; ++s) of[s][place.wave][place.lane % 8 * 8 + place.lane / 8] = own[s];
    }

    // Mean and 1 / deviation of eight j. epsilon: as the product is divided by n, by its square.
    __device__ void finish(int eight, float epsilon, float (&mean)[8], float (&scale)[8]) const {
#pragma unroll
        for (int e = 0; e < 8; e += 4) {
            f32x4 sums[2] = {};
#pragma unroll
            for (int s = 0; s < 2; ++s)
#pragma unroll
                for (int wave = 0; wave < OUTPUT_WAVES; ++wave)
                    sums[s] += *reinterpret_cast<const f32x4*>(&of[s][wave][eight * 8 + e]);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                mean[e + i] = sums[0][i] * (1.0f / HIDDEN);
                const float variance = sums[1][i] * (1.0f / HIDDEN) - mean[e + i] * mean[e + i];
                scale[e + i] = __builtin_amdgcn_rsqf(fmaxf(variance, 0.0f) + epsilon);
            }
        }
    }
};

constexpr int output_residency(int parts) { return parts <= 2 ? 2 : 1; }  // workgroups a CU

// 128 PARTS columns of the output a workgroup, blockIdx.y says which; a wave has PARTS * 32.
template <int PARTS>
__global__ __launch_bounds__(OUTPUT_THREADS, output_residency(PARTS)) void output_kernel(const TrimulArgs args) {
    constexpr int SUBTILES = 2 * PARTS, STEPS = HIDDEN / 32, TILES = TILE_J / 32;  // TILES: of 16 j, in half a tile
    __shared__ _Float16 gated[TILE_J * HIDDEN];
    __shared__ __attribute__((aligned(16))) TileSums sums;
    const Place place;
    const int wave_column = (blockIdx.y * OUTPUT_WAVES + place.wave) * PARTS * 32, group = place.thread / 8;
    f16x8 weight[SUBTILES][STEPS];
#pragma unroll
    for (int p = 0; p < SUBTILES; ++p)
#pragma unroll
        for (int k = 0; k < STEPS; ++k)
            weight[p][k] = *reinterpret_cast<const f16x8*>(
                args.weight_out +
                fragment_offset(wave_column + p * 16 + place.lane % 16, k * 32 + place.lane / 16 * 8, HIDDEN));
    float norm_weight[4], norm_bias[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) {
        norm_weight[c] = args.to_out_norm_weight[TileOfProduct::channel(place.thread, c)];
        norm_bias[c] = args.to_out_norm_bias[TileOfProduct::channel(place.thread, c)];
    }
    const float epsilon = EPSILON / args.n / args.n;
    const int first = blockIdx.x * args.output_tiles, n_tiles = min(args.tiles(TILE_J) - first, args.output_tiles);
    TilePosition now = TilePosition::of(first, args.n, TILE_J);
    TileOfProduct tile;
    tile.load(args, now, place.thread);
    sums.add(tile, place);
    __syncthreads();
    for (int turn = 0; turn < n_tiles; ++turn) {
        const Buffer out =
            make_buffer(args.out + static_cast<size_t>(now.row) * args.n * args.dim, args.n * args.dim * 4u);
        const TilePosition after = now.next(args.n, TILE_J);
        TileOfProduct next;
        next.load(args, after, place.thread);
        float mean[8], scale[8];
        sums.finish(place.thread % 8, epsilon, mean, scale);
#pragma unroll
        for (int e = 0; e < 8; ++e)
#pragma unroll
            for (int pair = 0; pair < 2; ++pair) {
                f32x2 y;
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int c = pair * 2 + i;
                    const float normed = (tile.product[c][e] - mean[e]) * scale[e];
                    y[i] = (normed * norm_weight[c] + norm_bias[c]) * tile.gate[c][e];
                }
                const int chunk = pair * 8 + group / 4;
                *reinterpret_cast<f16x2*>(gated + gated_offset(place.thread % 8 * 8 + e, chunk) + group % 4 * 2) =
                    __builtin_convertvector(y, f16x2);
            }
        __syncthreads();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            f32x4 sum[SUBTILES][TILES] = {};
#pragma unroll
            for (int k = 0; k < STEPS; ++k) {
                f16x8 y[TILES];
#pragma unroll
                for (int t = 0; t < TILES; ++t) {
                    const int of_j = (half * TILES + t) * 16 + place.lane % 16;
                    y[t] = *reinterpret_cast<const f16x8*>(gated + gated_offset(of_j, k * 4 + place.lane / 16));
                }
#pragma unroll
                for (int p = 0; p < SUBTILES; ++p)
#pragma unroll
                    for (int t = 0; t < TILES; ++t) sum[p][t] = multiply_16x16<0>(weight[p][k], y[t], sum[p][t]);
#pragma unroll
                for (int p = 0; p < SUBTILES; ++p)
#pragma unroll
                    for (int t = 0; t < TILES; ++t) sum[p][t] = multiply_16x16<1>(weight[p][k], y[t], sum[p][t]);
            }
            // Before the stores: loads that are waited for behind them are waited for with them.
            if (half == 0) {
                tile = next;
                sums.add(tile, place);
            }
            __builtin_amdgcn_sched_barrier(0);
#pragma unroll
            for (int t = 0; t < TILES; ++t)
#pragma unroll
                for (int p = 0; p < SUBTILES; ++p) {
                    const int column = wave_column + p * 16 + place.lane / 16 * 4;
                    const u32 to = ((now.k + (half * TILES + t) * 16 + place.lane % 16) * args.dim + column) * 4;
                    __builtin_amdgcn_raw_buffer_store_b128(__builtin_bit_cast(u32x4, sum[p][t]), out,
                                                           column < args.dim ? to : RowWriter::OUTSIDE, 0,
                                                           CACHE_NON_TEMPORAL);
                }
        }
        now = after;
        __syncthreads();
    }
}
