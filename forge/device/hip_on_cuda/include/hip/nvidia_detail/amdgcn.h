// Those of clang's __builtin_amdgcn_* that mean the same on a wave of 32 lanes of NVIDIA's. All others stay undeclared,
// so that nvcc names them: matrix instructions, buffers, DPP, LDS-direct loads, s_waitcnt, hardware registers.
#pragma once

#include <hip/nvidia_detail/waves.h>

// --- the wave ----------------------------------------------------------------------------------------------------

__device__ constexpr unsigned __builtin_amdgcn_wavefrontsize() { return 32; }

// Lanes below this one in the mask; the upper half of a wave of 64 does not exist.
__device__ __forceinline__ unsigned __builtin_amdgcn_mbcnt_lo(unsigned mask, unsigned base) {
  return base + __popc(mask & ((1u << __lane_id()) - 1));
}
__device__ __forceinline__ unsigned __builtin_amdgcn_mbcnt_hi(unsigned, unsigned base) { return base; }

__device__ __forceinline__ int __builtin_amdgcn_readlane(int value, int lane) {
  return __shfl_sync(hip_on_cuda::EVERY_LANE, value, lane);
}
__device__ __forceinline__ int __builtin_amdgcn_readfirstlane(int value) {
  const unsigned there = __ballot_sync(hip_on_cuda::EVERY_LANE, 1);
  return __shfl_sync(hip_on_cuda::EVERY_LANE, value, __ffs(there) - 1);
}

__device__ __forceinline__ void __builtin_amdgcn_wave_barrier() { __syncwarp(); }
__device__ __forceinline__ void __builtin_amdgcn_s_barrier() { __syncthreads(); }

__device__ __forceinline__ unsigned __builtin_amdgcn_workgroup_id_x() { return blockIdx.x; }
__device__ __forceinline__ unsigned __builtin_amdgcn_workgroup_id_y() { return blockIdx.y; }
__device__ __forceinline__ unsigned __builtin_amdgcn_workgroup_id_z() { return blockIdx.z; }
__device__ __forceinline__ unsigned __builtin_amdgcn_workitem_id_x() { return threadIdx.x; }
__device__ __forceinline__ unsigned __builtin_amdgcn_workitem_id_y() { return threadIdx.y; }
__device__ __forceinline__ unsigned __builtin_amdgcn_workitem_id_z() { return threadIdx.z; }

// --- memory ------------------------------------------------------------------------------------------------------

// nvcc wants the order as a literal; NVIDIA's fences for acquire, release and both are one.
#define HIP_ON_CUDA_FENCE(scope)                          \
  if constexpr (ORDER == __ATOMIC_SEQ_CST) {              \
    __nv_atomic_thread_fence(__NV_ATOMIC_SEQ_CST, scope); \
  } else {                                                \
    __nv_atomic_thread_fence(__NV_ATOMIC_ACQ_REL, scope); \
  }

namespace hip_on_cuda {
template <int ORDER, int CHARS> __device__ __forceinline__ void fence(const char (&scope)[CHARS]) {
  // "", agent, workgroup, wavefront: told apart by length and letters
  static_assert(CHARS == 1 || CHARS == 6 || CHARS == 10, "this scope of __builtin_amdgcn_fence has no counterpart");
  if constexpr (CHARS == 1) {
    HIP_ON_CUDA_FENCE(__NV_THREAD_SCOPE_SYSTEM)
  } else if constexpr (CHARS == 6) {
    HIP_ON_CUDA_FENCE(__NV_THREAD_SCOPE_DEVICE)
  } else if (scope[1] == 'o') {
    HIP_ON_CUDA_FENCE(__NV_THREAD_SCOPE_BLOCK)
  } else {
    __syncwarp();  // lanes of a wave run in step on AMD; here they have to be brought together
  }
}
}  // namespace hip_on_cuda
#define __builtin_amdgcn_fence(order, scope) (hip_on_cuda::fence<(order)>(scope))

// Hints about caches.
template <typename T> __device__ __forceinline__ T __builtin_nontemporal_load(const T* p) { return __ldcs(p); }
template <typename T> __device__ __forceinline__ void __builtin_nontemporal_store(T value, T* p) { __stcs(p, value); }

// --- time --------------------------------------------------------------------------------------------------------

// 64 cycles of 2.1 GHz a unit.
__device__ __forceinline__ void __builtin_amdgcn_s_sleep(int units) { __nanosleep(30 * units); }
__device__ __forceinline__ unsigned long long __builtin_amdgcn_s_memtime() { return clock64(); }
// In nanoseconds, not in AMD's units of 10 ns: ask hipDeviceAttributeWallClockRate.
__device__ __forceinline__ unsigned long long __builtin_amdgcn_s_memrealtime() { return wall_clock64(); }

// --- hints to AMD's scheduler, nothing to NVIDIA's ---------------------------------------------------------------

#define __builtin_amdgcn_sched_barrier(mask) ((void)(mask))
#define __builtin_amdgcn_sched_group_barrier(mask, size, group) ((void)(mask))
#define __builtin_amdgcn_iglp_opt(strategy) ((void)(strategy))
#define __builtin_amdgcn_s_setprio(priority) ((void)(priority))

// --- arithmetic --------------------------------------------------------------------------------------------------

// Bytes 0-3 of the selector's numbers are second's, 4-7 first's; 8-11 a sign bit eight times; 12 is 0, above 12 255.
__device__ __forceinline__ unsigned __builtin_amdgcn_perm(unsigned first, unsigned second, unsigned selector) {
  unsigned result = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const unsigned byte = selector >> 8 * i & 0xff;
    const unsigned from = byte < 4 || byte == 8 || byte == 9 ? second : first;
    unsigned value = 255;
    if (byte < 8) value = from >> 8 * (byte & 3) & 0xff;
    else if (byte < 12) value = from >> (byte & 1 ? 31 : 15) & 1 ? 255 : 0;
    else if (byte == 12) value = 0;
    result |= value << 8 * i;
  }
  return result;
}
__device__ __forceinline__ unsigned __builtin_amdgcn_alignbit(unsigned high, unsigned low, unsigned by) {
  return __funnelshift_r(low, high, by);
}
__device__ __forceinline__ unsigned __builtin_amdgcn_alignbyte(unsigned high, unsigned low, unsigned by) {
  return __funnelshift_r(low, high, 8 * (by & 3));
}
__device__ __forceinline__ float __builtin_amdgcn_rcpf(float x) { return __frcp_rn(x); }
__device__ __forceinline__ float __builtin_amdgcn_rsqf(float x) { return rsqrtf(x); }
__device__ __forceinline__ float __builtin_amdgcn_sqrtf(float x) { return __fsqrt_rn(x); }
__device__ __forceinline__ float __builtin_amdgcn_exp2f(float x) { return exp2f(x); }
__device__ __forceinline__ float __builtin_amdgcn_logf(float x) { return log2f(x); }
__device__ __forceinline__ float __builtin_amdgcn_fmed3f(float x, float y, float z) {
  return fmaxf(fminf(x, y), fminf(fmaxf(x, y), z));
}
