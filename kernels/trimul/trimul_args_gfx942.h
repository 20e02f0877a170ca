// trimul on gfx942: the arguments of its kernels, and what these share.
#pragma once

#include "bf16_gemm_gfx942.h"

constexpr int HIDDEN = 128;                                                    // hidden channels
enum { LEFT_PROJ, LEFT_GATE, OUT_GATE, RIGHT_PROJ, RIGHT_GATE, PROJECTIONS };  // of x, in the order of their weights
constexpr float EPSILON = 1e-5;                                                // of both layer norms

// Intermediates are fp16 [batch][n][HIDDEN][pitch]: a row i has its channels, and those k, or j, contiguous. So a
// projection's wave stores 64 bytes of each of 16 channels, the triangle's operands have contiguous k, and what the first
// and the last kernel have of one i is one block. A row is a line longer than its channels: lines of neighbouring i, which
// the triangle asks for at once, then differ in the L1's set.
struct TrimulArgs {
    const float* x;            // [batch][n][n][dim]
    const void* mask;          // [batch][n][n], float or long long
    const float* norm_weight;  // [dim]
    const float* norm_bias;    // [dim]
    const float* left_proj;    // [HIDDEN][dim], as the next four
    const float* left_gate;
    const float* right_proj;
    const float* right_gate;
    const float* out_gate;
    const float* to_out_norm_weight;  // [HIDDEN]
    const float* to_out_norm_bias;    // [HIDDEN]
    const float* to_out;              // [dim][HIDDEN]
    float* out;                       // [batch][n][n][dim]
    float* bias;                      // [PROJECTIONS][HIDDEN]
    _Float16* weight;                 // [PROJECTIONS][HIDDEN][width], where fragment_offset says
    _Float16* weight_out;             // [width][HIDDEN], likewise
    _Float16* left;
    _Float16* right;
    _Float16* gate;
    _Float16* product;  // the triangle's, divided by n
    int batch;
    int n;
    int dim;
    int width;  // dim, rounded up to what a kernel is compiled for; weights are zero there
    int pitch;
    int mask_is_int64;
    int project_tiles;  // a workgroup, of the projections' tiles in a row
    int output_tiles;   // likewise of the output's

    __host__ __device__ int rows() const { return batch * n; }
    __host__ __device__ int tiles(int size) const { return rows() * ((n + size - 1) / size); }
    // Where a row (b, i) of an intermediate begins.
    __host__ __device__ int row_halves() const { return HIDDEN * pitch + 64; }
    __device__ size_t row_of(int row) const { return static_cast<size_t>(row) * row_halves(); }
};

// A tile of a row (b, i): its first k, or j. Rows follow one another.
struct TilePosition {
    int row, k;

    // The number-th of tiles of `size`.
    static __device__ TilePosition of(int number, int n, int size) {
        const int per_row = (n + size - 1) / size;
        return {uniform(number / per_row), uniform(number % per_row * size)};
    }
    __device__ TilePosition next(int n, int size) const {
        const bool ends = k + size >= n;
        return {row + ends, ends ? 0 : k + size};
    }
};

typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));
typedef _Float16 f16x4 __attribute__((ext_vector_type(4)));
typedef _Float16 f16x8 __attribute__((ext_vector_type(8)));

// sum += a * b, 16 x 16 of a HALF of 32 k. A lane has 8 k of row, or column, lane % 16. Results: column lane % 16, rows
// lane / 16 * 4 + 0..3. Two halves of one sum depend on one another: other sums' belong between them.
template <int HALF>
__device__ f32x4 multiply_16x16(f16x8 a, f16x8 b, f32x4 sum) {
    const f16x4 half_a = HALF == 0 ? a.lo : a.hi, half_b = HALF == 0 ? b.lo : b.hi;
    return __builtin_amdgcn_mfma_f32_16x16x16f16(half_a, half_b, sum, 0, 0, 0);
}

// Where element [row][k] of a weight of that width lies: what the lanes of a wave load at once, 8 k of a row each, is one
// piece of 1,024 bytes.
__host__ __device__ constexpr int fragment_offset(int row, int k, int width) {
    return row / 16 * 16 * width + k / 32 * 512 + (k % 32 / 8 * 16 + row % 16) * 8 + k % 8;
}

template <int DPP>
__device__ float add_dpp(float x) {
    return x +
           __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, x), DPP, 0xf, 0xf, true));
}

// Over a row of 16 lanes, and over the 32 of a half wave.
__device__ inline float sum_of_16(float x) {
    constexpr int XOR_1 = 0xb1, XOR_2 = 0x4e, HALF_MIRROR = 0x141, MIRROR = 0x140;  // quad_perm twice, then of the row
    return add_dpp<MIRROR>(add_dpp<HALF_MIRROR>(add_dpp<XOR_2>(add_dpp<XOR_1>(x))));
}

// x plus that of the lane whose number differs by 16.
__device__ inline float add_16_apart(float x) {
    constexpr int XOR_16 = 0x401f;
    return x + __builtin_bit_cast(float, __builtin_amdgcn_ds_swizzle(__builtin_bit_cast(int, x), XOR_16));
}
