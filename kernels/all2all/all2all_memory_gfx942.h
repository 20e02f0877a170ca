// Waves and memory for all2all_kernel.h, on gfx942.
//
// Data that crosses GPUs goes past the caches there and back (SC0 and SC1 on every access), so that a release is nothing but
// waiting for this wave's stores, and an acquire nothing at all: no write-back and no invalidation of an L2 that other
// waves use.
#pragma once

#include <hip/hip_runtime.h>

#include "peer_signals_gfx942.h"

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int WAVE = 64;
typedef u64 WaveMask;
typedef u32 Piece __attribute__((ext_vector_type(4)));  // 16 bytes: what a lane moves at once

__device__ inline Piece make_piece(u32 x, u32 y, u32 z, u32 w) { return Piece{x, y, z, w}; }

__device__ inline WaveMask lanes_where(bool x) { return __ballot(x); }
__device__ inline int popcount(WaveMask mask) { return __popcll(mask); }
__device__ inline int wave_uniform(int x) { return __builtin_amdgcn_readfirstlane(x); }
__device__ inline int broadcast(int x, int lane) { return __builtin_amdgcn_readlane(x, lane); }
__device__ inline int lane_value(int x, int lane) { return __shfl(x, lane); }

// A base address that all lanes share, for accesses past all caches.
using Shared = __amdgpu_buffer_rsrc_t;
constexpr int PAST_CACHES = 1 | 16;  // SC0, SC1

__device__ inline Shared shared(const void* base) {
    return __builtin_amdgcn_make_buffer_rsrc(const_cast<void*>(base), 0, 0x7fffffff, 0x00020000);
}
__device__ inline void store_16(Shared base, u32 offset, Piece v) {
    __builtin_amdgcn_raw_buffer_store_b128(v, base, offset, 0, PAST_CACHES);
}
__device__ inline Piece load_16(Shared base, u32 offset) {
    return __builtin_amdgcn_raw_buffer_load_b128(base, offset, 0, PAST_CACHES);
}
__device__ inline void store_tagged_16(Shared base, u32 offset, Piece v) { store_16(base, offset, v); }
__device__ inline Piece load_tagged_16(Shared base, u32 offset) { return load_16(base, offset); }

__device__ inline u64 load_word(const u64* p) {
    return __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
__device__ inline void store_word(u64* p, u64 value) {
    __hip_atomic_store(p, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

// After this, what the lanes of this wave stored is seen by whoever sees a flag that is stored later.
__device__ inline void wave_stores_complete() { asm volatile("s_waitcnt vmcnt(0)" ::: "memory"); }

// A flag of a lane's own. What its sender had stored before is seen by the loads of this wave that follow
// wave_has_seen(). Here they go past the caches, and the branch on the flag has waited for it: that binds the compiler.
__device__ inline int see_flag(const int* flag) { return load_flag(flag); }
__device__ inline void wave_has_seen() { asm volatile("" ::: "memory"); }
