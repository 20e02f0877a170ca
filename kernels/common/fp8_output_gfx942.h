// The end of a memory-bound kernel with an fp8 output on gfx942: quantise, and clear a buffer on the way.
#pragma once

#include "gfx942.h"

typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));

constexpr float FP8_LARGEST = 240.0f;  // of e4m3fnuz

__device__ inline f16x2 as_f16x2(u32 bits) { return __builtin_bit_cast(f16x2, bits); }

// Both halves of a times the number b that all lanes share, each rounded to fp32 and then to fp16: one instruction does
// conversion, product and both roundings. -0 becomes 0, which e4m3fnuz has no other of.
__device__ inline f16x2 product_as_f16(f16x2 a, float b) {
    f16x2 out;
    asm("v_fma_mixlo_f16 %0, %1, %2, 0 op_sel_hi:[1,0,0]" : "=v"(out) : "v"(a), "s"(b));
    asm("v_fma_mixhi_f16 %0, %1, %2, 0 op_sel:[1,0,0] op_sel_hi:[1,0,0]" : "+v"(out) : "v"(a), "s"(b));
    return out;
}

// Likewise in fp32: a's lower half, or its upper one.
template <bool UPPER>
__device__ inline float product_as_f32(f16x2 a, float b) {
    float out;
    if constexpr (UPPER)
        asm("v_fma_mix_f32 %0, %1, %2, 0 op_sel:[1,0,0] op_sel_hi:[1,0,0]" : "=v"(out) : "v"(a), "s"(b));
    else asm("v_fma_mix_f32 %0, %1, %2, 0 op_sel_hi:[1,0,0]" : "=v"(out) : "v"(a), "s"(b));
    return out;
}

// The number that all lanes have, in a scalar register.
__device__ inline float shared_by_lanes(float x) {
    return __builtin_bit_cast(float, __builtin_amdgcn_readfirstlane(__builtin_bit_cast(int, x)));
}

__device__ inline bool is_finite(float x) { return __builtin_fabsf(x) < __builtin_inff(); }

// To the range of the type: the conversion gives NaN beyond it. v_med3_f32 alone would give a number for NaN, so where
// there may be one (KEEP_NAN) it is put back.
template <bool KEEP_NAN>
__device__ inline float clamped_to_fp8(float x) {
    const float clamped = __builtin_amdgcn_fmed3f(x, -FP8_LARGEST, FP8_LARGEST);
    return KEEP_NAN && x != x ? x : clamped;
}

// Four numbers as e4m3fnuz, to nearest with ties to even.
template <bool KEEP_NAN>
__device__ inline u32 to_fp8(float a, float b, float c, float d) {
    const int low = __builtin_amdgcn_cvt_pk_fp8_f32(clamped_to_fp8<KEEP_NAN>(a), clamped_to_fp8<KEEP_NAN>(b), 0, false);
    return __builtin_amdgcn_cvt_pk_fp8_f32(clamped_to_fp8<KEEP_NAN>(c), clamped_to_fp8<KEEP_NAN>(d), low, true);
}

// Zeroes n_bytes from `to` on, a multiple of 16 where there are 16 or more: `workgroups` of `threads` threads in turn.
__device__ inline void clear_in_turn(void* to, long long n_bytes, int workgroups, int threads) {
    const long long thread = static_cast<long long>(blockIdx.x) * threads + threadIdx.x, n_whole = n_bytes / 16;
    for (long long i = thread; i < n_whole; i += static_cast<long long>(workgroups) * threads)
        static_cast<u32x4*>(to)[i] = 0;
    if (thread < n_bytes % 16) static_cast<unsigned char*>(to)[n_whole * 16 + thread] = 0;
}
