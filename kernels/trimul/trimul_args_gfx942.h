// trimul on gfx942: the arguments of its kernels, and what these share.
#pragma once

#include "bf16_gemm_gfx942.h"

constexpr int HIDDEN = 128;      // hidden channels
constexpr int PROJECTIONS = 5;   // of x: left, left's gate, right, right's gate, the output's gate
constexpr float EPSILON = 1e-5;  // of both layer norms

// Intermediates are fp16 [batch][n][HIDDEN][pitch]: a row i has its channels, and those k, or j, contiguous. So a
// projection's wave stores 64 bytes of each of 16 channels, the triangle's operands have contiguous k, and what the first
// and the last kernel have of one i is one block.
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
    _Float16* weight;                 // [PROJECTIONS][HIDDEN][width]
    _Float16* weight_out;             // [width][HIDDEN]
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
};

typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));
typedef _Float16 f16x4 __attribute__((ext_vector_type(4)));
typedef _Float16 f16x8 __attribute__((ext_vector_type(8)));

// sum += a * b, 16 x 16 of 32 k. A lane has 8 k of row, or column, lane % 16. Results: column lane % 16, rows
// lane / 16 * 4 + 0..3.
__device__ inline f32x4 multiply_16x16(f16x8 a, f16x8 b, f32x4 sum) {
    sum = __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_shufflevector(a, a, 0, 1, 2, 3),
                                                __builtin_shufflevector(b, b, 0, 1, 2, 3), sum, 0, 0, 0);
    return __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_shufflevector(a, a, 4, 5, 6, 7),
                                                 __builtin_shufflevector(b, b, 4, 5, 6, 7), sum, 0, 0, 0);
}

template <int DPP>
__device__ float add_dpp(float x) {
    return x +
           __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, x), DPP, 0xf, 0xf, true));
}

// x plus that of the lane whose number differs by 16.
__device__ inline float add_16_apart(float x) {
    constexpr int XOR_16 = 0x401f;
    return x + __builtin_bit_cast(float, __builtin_amdgcn_ds_swizzle(__builtin_bit_cast(int, x), XOR_16));
}

// Over the 32 lanes of a half wave.
__device__ inline float sum_of_32(float x) {
    constexpr int XOR_1 = 0xb1, XOR_2 = 0x4e, HALF_MIRROR = 0x141, MIRROR = 0x140;  // quad_perm, quad_perm, rows of 16
    return add_16_apart(add_dpp<MIRROR>(add_dpp<HALF_MIRROR>(add_dpp<XOR_2>(add_dpp<XOR_1>(x)))));
}
