// Waves and memory for all2all_kernel.h, on NVIDIA's GPUs: the names of all2all_memory_gfx942.h. Release and acquire are
// fences of system scope.
#pragma once

#include <hip/hip_runtime.h>

#include "../common/peer_signals.h"

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int WAVE = 32;
typedef u32 WaveMask;
typedef uint4 Piece;

__device__ inline Piece make_piece(u32 x, u32 y, u32 z, u32 w) { return make_uint4(x, y, z, w); }

__device__ inline WaveMask lanes_where(bool x) { return __ballot_sync(~0u, x); }
__device__ inline int popcount(WaveMask mask) { return __popc(mask); }
__device__ inline int wave_uniform(int x) { return x; }
__device__ inline int broadcast(int x, int lane) { return __shfl_sync(~0u, x, lane); }
__device__ inline int lane_value(int x, int lane) { return __shfl_sync(~0u, x, lane); }

using Shared = unsigned char*;

__device__ inline Shared shared(const void* base) { return static_cast<unsigned char*>(const_cast<void*>(base)); }
__device__ inline void store_16(Shared base, u32 offset, Piece v) { *reinterpret_cast<Piece*>(base + offset) = v; }
__device__ inline Piece load_16(Shared base, u32 offset) {  // in L2, past L1
    return __ldcg(reinterpret_cast<const Piece*>(base + offset));
}
// Each half is single-copy atomic: 8 bytes, one word of data and its tag.
__device__ inline void store_tagged_16(Shared base, u32 offset, Piece v) {
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(base + offset), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
}
__device__ inline Piece load_tagged_16(Shared base, u32 offset) {
    Piece v;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(base + offset)
                 : "memory");
    return v;
}

__device__ inline u64 load_word(const u64* p) {
    u64 x;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(x) : "l"(p) : "memory");
    return x;
}
__device__ inline void store_word(u64* p, u64 x) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(x) : "memory");
}

// The warp's barrier orders the lanes' stores before the fence of the lane that sets the flag.
__device__ inline void wave_stores_complete() {
    __syncwarp();
    release_system();
}
__device__ inline int see_flag(const int* flag) {
    int value;
    asm volatile("ld.acquire.sys.global.s32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}
__device__ inline void wave_has_seen() { __syncwarp(); }
