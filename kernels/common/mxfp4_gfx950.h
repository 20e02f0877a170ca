// MXFP4 for HIP kernels on gfx950: quantising bf16, the shuffled layouts of weights and scales, the scaled matrix
// instruction. Codes are e2m1, two a byte, the even column in the low nibble; 32 columns share a scale, e8m0.
#pragma once

#include "bf16_gfx950.h"
#include "cdna_gpu.h"

typedef int i32x8 __attribute__((ext_vector_type(8)));

constexpr int MX_BLOCK = 32;            // columns under one scale
constexpr int STEP_K = 128;             // columns of one matrix instruction: four blocks
constexpr int STRIP = 16;               // rows of a weight that lie together, and of one matrix instruction
constexpr int STRIP_STEP_BYTES = 1024;  // codes of a strip's STEP_K columns: 16 bytes for each lane
constexpr int SCALE_GROUP_K = 256;      // columns whose scales lie together, for 32 rows: a dword for each lane
constexpr int SCALE_GROUP_BYTES = 256;
constexpr u32 BF16_INFINITY = 0x7f80;

// The e8m0 scale of a block whose largest magnitude has these bf16 bits ("even" mode): 2^(E-2), E being its exponent,
// one more from 1.75 * 2^E on. Infinity gets 2^126.
__device__ inline u32 mxfp4_scale(u32 largest) {
    return max(static_cast<int>((largest << 16) + 0x200000) >> 23, 2) - 2;
}

// Of a block with this largest magnitude: in the reference a NaN makes the scale that of an infinity and has the code 0;
// the instruction gives it the largest.
template <int N>
__device__ inline void zero_nans(u32x4 (&pairs)[N], u32& largest) {
    if (largest <= BF16_INFINITY) return;
    largest = BF16_INFINITY;
#pragma unroll
    for (int i = 0; i < 4 * N; ++i) {
        const u16x2 magnitudes = bf16_magnitudes(pairs[i / 4][i % 4]);
        if (magnitudes[0] > BF16_INFINITY) pairs[i / 4][i % 4] &= 0xffff0000u;
        if (magnitudes[1] > BF16_INFINITY) pairs[i / 4][i % 4] &= 0x0000ffffu;
    }
}

// Codes of four pairs of bf16. The instruction looks at its scale's exponent field only; ties go to the even code, or
// away from zero: a one below bf16's last bit makes a tie a little more than that.
template <bool TIES_AWAY>
__device__ inline u32 mxfp4_codes(const u32x4 pairs, u32 scale) {
    const float divisor = __builtin_bit_cast(float, scale << 23);
    u32 codes = 0;
    if constexpr (TIES_AWAY) {
        auto even = [](u32 pair) { return __builtin_bit_cast(float, pair << 16 | 1); };
        auto odd = [](u32 pair) { return __builtin_bit_cast(float, (pair & 0xffff0000u) | 1); };
        codes = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(codes, even(pairs[0]), odd(pairs[0]), divisor, 0);
        codes = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(codes, even(pairs[1]), odd(pairs[1]), divisor, 1);
        codes = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(codes, even(pairs[2]), odd(pairs[2]), divisor, 2);
        codes = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(codes, even(pairs[3]), odd(pairs[3]), divisor, 3);
    } else {
        auto bf16 = [](u32 pair) { return __builtin_bit_cast(bf16x2, pair); };
        codes = __builtin_amdgcn_cvt_scalef32_pk_fp4_bf16(codes, bf16(pairs[0]), divisor, 0);
        codes = __builtin_amdgcn_cvt_scalef32_pk_fp4_bf16(codes, bf16(pairs[1]), divisor, 1);
        codes = __builtin_amdgcn_cvt_scalef32_pk_fp4_bf16(codes, bf16(pairs[2]), divisor, 2);
        codes = __builtin_amdgcn_cvt_scalef32_pk_fp4_bf16(codes, bf16(pairs[3]), divisor, 3);
    }
    return codes;
}

// One block, 32 bf16, to 16 bytes of codes and its scale.
template <bool TIES_AWAY>
__device__ inline u32x4 mxfp4_quantize_block(u32x4 (&x)[4], u32& scale) {
    u16x2 largest_two = bf16_magnitudes(x[0][0]);
#pragma unroll
    for (int i = 1; i < 16; ++i) largest_two = __builtin_elementwise_max(largest_two, bf16_magnitudes(x[i / 4][i % 4]));
    u32 largest = max(largest_two[0], largest_two[1]);
    zero_nans(x, largest);
    scale = mxfp4_scale(largest);
    u32x4 codes;
#pragma unroll
    for (int i = 0; i < 4; ++i) codes[i] = mxfp4_codes<TIES_AWAY>(x[i], scale);
    return codes;
}

// Where `lane` finds the four scale bytes that it needs of the 32 rows from 32 * row32 on and the SCALE_GROUP_K columns
// from SCALE_GROUP_K * group on: byte (row half) + 2 * (column half), of row lane % 16, block lane / 16 of the half.
__device__ inline u32 scale_group_offset(u32 row32, u32 groups, u32 group, u32 lane) {
    return (row32 * groups + group) * SCALE_GROUP_BYTES + lane * 4;
}

// Bytes of such a dword that belong to columns up to 32 * blocks, the dword's own columns starting at first_block.
// What pads the scales may be anything, and a NaN times a code of zero would be one.
__device__ inline u32 scale_mask(u32 first_block, u32 blocks, u32 lane) {
    const u32 block = first_block + lane / STRIP;
    return (block < blocks ? 0x0000ffffu : 0u) | (block + 4 < blocks ? 0xffff0000u : 0u);
}

// sum[i] of a lane: row 4 * (lane / 16) + i, column lane % 16, plus the product of 16 rows and 16 columns over STEP_K.
// A lane gives row (column) lane % 16, block lane / 16: 16 bytes of codes, and the scale in byte ROW_SCALE
// (COLUMN_SCALE) of a dword.
template <int ROW_SCALE, int COLUMN_SCALE>
__device__ inline f32x4 mfma_mxfp4(u32x4 rows, u32x4 columns, f32x4 sum, u32 row_scales, u32 column_scales) {
    constexpr int E2M1 = 4;
    auto wide = [](u32x4 x) { return i32x8{int(x[0]), int(x[1]), int(x[2]), int(x[3]), 0, 0, 0, 0}; };
    return __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(wide(rows), wide(columns), sum, E2M1, E2M1, ROW_SCALE,
                                                            row_scales, COLUMN_SCALE, column_scales);
}
