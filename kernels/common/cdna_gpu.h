// What HIP kernels for every CDNA GPU share: register vectors, buffer access, ordering within a wave and between
// workgroups.
#pragma once

typedef unsigned int u32;
typedef u32 u32x2 __attribute__((ext_vector_type(2)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef float f32x16 __attribute__((ext_vector_type(16)));

constexpr int WAVE = 64;

// Cache policy of buffer instructions ("aux" of the builtins; CDNA3 ISA, SC bits and non-temporal).
constexpr int CACHE_NORMAL = 0;
constexpr int CACHE_NON_TEMPORAL = 2;
constexpr int CACHE_AGENT = 16;  // SC1: past this XCD's L2, so that workgroups of other XCDs see and are seen

// Raw buffer of `bytes` bytes: loads beyond it give 0 and stores beyond it are dropped. Offsets are unsigned.
using Buffer = __amdgpu_buffer_rsrc_t;

__device__ inline Buffer make_buffer(const void* base, u32 bytes) {
    return __builtin_amdgcn_make_buffer_rsrc(const_cast<void*>(base), 0, static_cast<int>(bytes), 0x00020000);
}

__device__ inline int uniform(int x) { return __builtin_amdgcn_readfirstlane(x); }

__device__ inline long long uniform_address(long long x) {
    const unsigned long long low = static_cast<u32>(uniform(static_cast<int>(x)));
    return static_cast<long long>(uniform(static_cast<int>(x >> 32))) << 32 | static_cast<long long>(low);
}

// Orders LDS accesses of the lanes of one wave: hardware executes them in order, the compiler must not reorder them.
__device__ inline void wave_lds_fence() { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront"); }

// Stores of partial sums (CACHE_AGENT) are where other workgroups of this launch see them, on whatever XCD: they go
// past the L2, which is the XCD's own, so this wait is all the release that they need. A release at agent scope would
// write the XCD's whole L2 back.
__device__ inline void shared_stores_complete() {
    asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
    __syncthreads();
}

// Counts this workgroup in; how many were there before. One thread's work.
__device__ inline u32 arrive(u32* counter) {
    return __hip_atomic_fetch_add(counter, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

__device__ inline void reset_arrivals(u32* counter) {
    __hip_atomic_store(counter, 0u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
