// amd-moe-mxfp4 on gfx950: weights on their way from memory to the matrix instruction, in both products.
#pragma once

#include "mxfp4_gfx950.h"

constexpr u32 OUT_OF_RANGE = 1u << 31;  // of every buffer

// What a wave multiplies in STEPS steps of FN strips of weights.
template <int FN, int STEPS>
struct Strips {
    u32x4 codes[FN][STEPS];
    u32 scales[FN / 2][STEPS / 2];
};

template <int FN, int STEPS>
struct Weights {
    Buffer codes, scales;
    u32 lane, at[FN], scale_at[FN / 2];  // at: of all lanes alike

    // strip(fn): even ones are followed by the next.
    template <class Strip>
    __device__ Weights(const unsigned char* codes_, const unsigned char* scales_, u32 rows, u32 k, u32 lane_,
                       Strip strip)
        : codes(make_buffer(codes_, rows * (k / 2))), scales(make_buffer(scales_, rows * (k / MX_BLOCK))), lane(lane_) {
        static_assert((STEPS == 2 || STEPS == 4) && FN % 2 == 0);
#pragma unroll
        for (int fn = 0; fn < FN; ++fn) at[fn] = strip(fn) * (k * 8);
#pragma unroll
        for (int pair = 0; pair < FN / 2; ++pair)
            scale_at[pair] = scale_group_offset(strip(2 * pair) / 2, k / SCALE_GROUP_K, 0, 0);
    }

    // On to the columns that follow those of all waves.
    __device__ void next_tile(u32 strips, u32 k) {
#pragma unroll
        for (int fn = 0; fn < FN; ++fn) at[fn] += strips * (k * 8);
#pragma unroll
        for (int pair = 0; pair < FN / 2; ++pair)
            scale_at[pair] += strips / 2 * (k / SCALE_GROUP_K) * SCALE_GROUP_BYTES;
    }

    __device__ void load(Strips<FN, STEPS>& x, u32 stage) const {
#pragma unroll
        for (int fn = 0; fn < FN; ++fn) load_strip(x, stage, fn);
    }
    __device__ void load_strip(Strips<FN, STEPS>& x, u32 stage, int fn) const {
#pragma unroll
        for (int step = 0; step < STEPS; ++step)
            x.codes[fn][step] = __builtin_amdgcn_raw_buffer_load_b128(
                codes, lane * 16 + step * STRIP_STEP_BYTES, at[fn] + stage * STEPS * STRIP_STEP_BYTES, CACHE_NORMAL);
        if (fn % 2) return;
#pragma unroll
        for (int i = 0; i < STEPS / 2; ++i)
            x.scales[fn / 2][i] = __builtin_amdgcn_raw_buffer_load_b32(
                scales, lane * 4 + i * SCALE_GROUP_BYTES, scale_at[fn / 2] + stage * (STEPS / 2) * SCALE_GROUP_BYTES,
                CACHE_NORMAL);
    }
};

// STEP of a stage, for 16 rows of activations. Weights are the instruction's rows: a lane has four consecutive columns of
// one row of activations.
template <int STEP, int FN, int STEPS>
__device__ inline void multiply_step(const Strips<FN, STEPS>& x, u32x4 a, u32 a_scale, f32x4 (&sum)[FN]) {
#pragma unroll
    for (int fn = 0; fn < FN; fn += 2) {
        const u32 scale = x.scales[fn / 2][STEP / 2];
        sum[fn] = mfma_mxfp4<STEP % 2 * 2, STEP % 4>(x.codes[fn][STEP], a, sum[fn], scale, a_scale);
        sum[fn + 1] = mfma_mxfp4<STEP % 2 * 2 + 1, STEP % 4>(x.codes[fn + 1][STEP], a, sum[fn + 1], scale, a_scale);
    }
}

// Whose dword has four steps: those of this stage come first.
template <int STEPS>
__device__ inline u32 stage_scales(u32 scales, u32 stage) {
    return STEPS == 2 ? scales >> stage % 2 * 16 : scales;
}
