// What HIP kernels for every CDNA GPU share: register vectors, buffer access, waiting for LDS within a wave.
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

// Orders LDS accesses of the lanes of one wave: hardware executes them in order, the compiler must not reorder them.
__device__ inline void wave_lds_fence() { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront"); }
