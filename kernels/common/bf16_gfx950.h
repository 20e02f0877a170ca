// bf16 for HIP kernels on gfx950, two to a dword, the first in the lower half.
#pragma once

#include "cdna_gpu.h"

typedef unsigned short u16x2 __attribute__((ext_vector_type(2)));
typedef __bf16 bf16x2 __attribute__((ext_vector_type(2)));

// To nearest, ties to even.
__device__ inline u32 pack_bf16(float low, float high) {
    return __builtin_bit_cast(u32, __builtin_convertvector(f32x2{low, high}, bf16x2));
}

__device__ inline float low_bf16(u32 pair) { return __builtin_bit_cast(float, pair << 16); }
__device__ inline float high_bf16(u32 pair) { return __builtin_bit_cast(float, pair & 0xffff0000u); }

// Magnitudes of two bf16, whose order is that of their bits.
__device__ inline u16x2 bf16_magnitudes(u32 pair) { return __builtin_bit_cast(u16x2, pair & 0x7fff7fffu); }
