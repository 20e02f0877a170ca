// HIP's functions on the lanes of a wave, which has 32 on NVIDIA. HIP lets those lanes take part that are active; here
// all lanes of the wave that have not returned must call them together, or the wave hangs: a wrong value never comes.
// CUDA declares __shfl, __ballot, __all and __any too, and no GPU of today has them; __builtin_trap is the host's alone:
// translate.py writes these instead.
#pragma once

#include <cstdint>

namespace hip_on_cuda {
constexpr unsigned EVERY_LANE = 0xffffffffu;

// A width for a wave of 64 has no meaning here.
__device__ __forceinline__ int checked_width(int width) {
  if (width > 32) __trap();
  return width;
}
template <typename T> __device__ __forceinline__ T shfl(T value, int lane, int width = 32) {
  return __shfl_sync(EVERY_LANE, value, lane, checked_width(width));
}
template <typename T> __device__ __forceinline__ T shfl_up(T value, unsigned by, int width = 32) {
  return __shfl_up_sync(EVERY_LANE, value, by, checked_width(width));
}
template <typename T> __device__ __forceinline__ T shfl_down(T value, unsigned by, int width = 32) {
  return __shfl_down_sync(EVERY_LANE, value, by, checked_width(width));
}
template <typename T> __device__ __forceinline__ T shfl_xor(T value, int mask, int width = 32) {
  return __shfl_xor_sync(EVERY_LANE, value, mask, checked_width(width));
}

// 64 bits, as HIP's; the upper half is 0.
__device__ __forceinline__ unsigned long long ballot(int predicate) { return __ballot_sync(EVERY_LANE, predicate); }
__device__ __forceinline__ int all(int predicate) { return __all_sync(EVERY_LANE, predicate); }
__device__ __forceinline__ int any(int predicate) { return __any_sync(EVERY_LANE, predicate); }

__host__ __device__ __forceinline__ void trap() {
#ifdef __CUDA_ARCH__
  __trap();
#else
  __builtin_trap();
#endif
}
}  // namespace hip_on_cuda

__device__ __forceinline__ unsigned __lane_id() {
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

// The GPU's timer in nanoseconds: hipDeviceAttributeWallClockRate says so too. Volatile: two calls are two readings.
__device__ __forceinline__ long long wall_clock64() {
  long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}
