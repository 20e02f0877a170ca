// Sums and order among the lanes of a wave, for HIP kernels on every CDNA GPU.
#pragma once

#include "cdna_gpu.h"

// The sum of x over this lane and those before it; every lane is on.
__device__ inline u32 sum_up_to_lane(u32 x) {
    x += __builtin_amdgcn_update_dpp(0, x, 0x111, 0xf, 0xf, false);  // row_shr:1, of rows of 16 lanes
    x += __builtin_amdgcn_update_dpp(0, x, 0x112, 0xf, 0xf, false);
    x += __builtin_amdgcn_update_dpp(0, x, 0x114, 0xf, 0xf, false);
    x += __builtin_amdgcn_update_dpp(0, x, 0x118, 0xf, 0xf, false);
    x += __builtin_amdgcn_update_dpp(0, x, 0x142, 0xa, 0xf, false);  // row_bcast:15, to the second row and the fourth
    x += __builtin_amdgcn_update_dpp(0, x, 0x143, 0xc, 0xf, false);  // row_bcast:31, to the last two
    return x;
}

// How many of these lanes are before this one.
__device__ inline u32 lanes_before(unsigned long long lanes) {
    return __builtin_amdgcn_mbcnt_hi(static_cast<u32>(lanes >> 32),
                                     __builtin_amdgcn_mbcnt_lo(static_cast<u32>(lanes), 0));
}

// Those of these lanes that have this one's value; values are below `end`, which has BITS bits at most.
template <int BITS>
__device__ inline unsigned long long lanes_alike(unsigned long long lanes, u32 value, u32 end) {
    u32 low = static_cast<u32>(lanes), high = static_cast<u32>(lanes >> 32);
#pragma unroll
    for (int bit = 0; bit < BITS; ++bit) {
        if (end - 1 >> bit == 0) break;
        const unsigned long long set = __ballot(value >> bit & 1);
        const u32 own = static_cast<int>(value << (31 - bit)) >> 31;  // all ones if it is set
        low &= ~(static_cast<u32>(set) ^ own);
        high &= ~(static_cast<u32>(set >> 32) ^ own);
    }
    return static_cast<unsigned long long>(high) << 32 | low;
}
