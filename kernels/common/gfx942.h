// What HIP kernels for gfx942 share beyond cdna_gpu.h: byte transposition, rounding to bf16.
#pragma once

#include "cdna_gpu.h"

// In: word j holds four consecutive bytes of row j. Out: word i holds byte i of rows 0..3. Eight v_perm_b32, whose
// selector names bytes of (second, first) operand as 0..3 and 4..7.
__device__ inline void transpose_4x4_bytes(const u32 (&in)[4], u32 (&out)[4]) {
    const u32 low01 = __builtin_amdgcn_perm(in[1], in[0], 0x05010400);
    const u32 high01 = __builtin_amdgcn_perm(in[1], in[0], 0x07030602);
    const u32 low23 = __builtin_amdgcn_perm(in[3], in[2], 0x05010400);
    const u32 high23 = __builtin_amdgcn_perm(in[3], in[2], 0x07030602);
    out[0] = __builtin_amdgcn_perm(low23, low01, 0x05040100);
    out[1] = __builtin_amdgcn_perm(low23, low01, 0x07060302);
    out[2] = __builtin_amdgcn_perm(high23, high01, 0x05040100);
    out[3] = __builtin_amdgcn_perm(high23, high01, 0x07060302);
}

// Bits of x after rounding to bf16, to nearest even, in the upper half; the lower half is rubbish. gfx942 has no such
// conversion. NaN stays NaN: adding to its bits could carry into the sign, so it is replaced.
__device__ inline u32 bf16_in_upper_half(float x) {
    const u32 bits = __builtin_bit_cast(u32, x);
    const u32 rounded = bits + 0x7fff + ((bits >> 16) & 1);
    return x != x ? 0x7fc00000u : rounded;
}

__device__ inline u32 pack_bf16(float low, float high) {
    return __builtin_amdgcn_perm(bf16_in_upper_half(high), bf16_in_upper_half(low), 0x07060302);
}
