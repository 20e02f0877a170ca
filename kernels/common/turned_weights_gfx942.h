// Weights [k][n], n contiguous, for gemm_tile() of bf16_gemm_gfx942.h, which wants 8 k of a column side by side: a lane loads
// 2 columns of 8 rows of k and turns them in registers on the way into LDS, a v_perm_b32 a word.
#pragma once

#include "bf16_gemm_gfx942.h"

// Moves 128 columns of [k][n] to LDS, 32 k a stage: wave pairs take 8 k each, a lane two columns.
struct TurningLoader {
    static constexpr int CHUNK = 8, LOADS = 2 * CHUNK, WRITES = 2;
    using Stage = u32[CHUNK];

    Buffer buffer;
    u32 pitch;  // bytes from k to k + 1
    u32 at;
    int chunk_k;
    int lds_at[2];

    // matrix: [n_k][width], from the tile's first column on; n_columns of them are left. row: of the stage, which column
    // 2 * lane becomes.
    __device__ TurningLoader(long long matrix, int n_k, int width, int n_columns, int row, const Place& place)
        : buffer(make_buffer(reinterpret_cast<const void*>(uniform_address(matrix)), uniform(2u * n_k * width))),
          pitch(uniform(2u * width)),
          chunk_k(place.wave / 2 * CHUNK) {
        at = 2 * place.lane < n_columns ? chunk_k * pitch + 4u * place.lane : RowReader::OUTSIDE;
#pragma unroll
        for (int i = 0; i < 2; ++i) lds_at[i] = stage_offset(row + i, place.wave / 2);
    }

    // Two rows of k share no cache line, so each half of a pair is loaded when its registers are free: one and a half stages
    // before it is stored, time enough to come from memory.
    static constexpr bool HALVES_APART = true;
    __device__ void load_half(Stage& words, int half, int k, int last_k) const {
        const int row = k + half * STAGE_K;
        const u32 first = row < last_k - chunk_k ? at : RowReader::OUTSIDE;
        const u32 k_bytes = row < last_k ? row * pitch : 0;
#pragma unroll
        for (int j = 0; j < CHUNK; ++j)
            words[j] = __builtin_amdgcn_raw_buffer_load_b32(buffer, first, k_bytes + j * pitch, CACHE_NORMAL);
    }
    __device__ void load(Stage (&words)[2], int k, int last_k) const {
        load_half(words[0], 0, k, last_k);
        load_half(words[1], 1, k, last_k);
    }

    __device__ void store(const Stage (&pair)[2], int half, unsigned char* stage) const {
        const Stage& words = pair[half];
        u32x4 low, high;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            low[i] = __builtin_amdgcn_perm(words[2 * i + 1], words[2 * i], 0x05040100);
            high[i] = __builtin_amdgcn_perm(words[2 * i + 1], words[2 * i], 0x07060302);
        }
        *reinterpret_cast<u32x4*>(stage + lds_at[0]) = low;
        *reinterpret_cast<u32x4*>(stage + lds_at[1]) = high;
    }
};
