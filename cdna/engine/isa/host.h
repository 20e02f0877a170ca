// What differs from host to host: addresses, a pause, and the floating-point mode (rounding; whether denormals are zero).
//   x86-64: MXCSR (Intel SDM vol. 1, 10.2.3): RC is bits 13 and 14, DAZ bit 6, FTZ bit 15; 0x1f80 masks all exceptions.
//   AArch64: FPCR (Arm ARM, C5.2.8): RMode is bits 22 and 23, FZ bit 24. FZ takes denormals for zero and makes none; of
//   either alone there is nothing, so where MODE wants one, neither is done.
#pragma once
#include "core.h"

#ifdef __x86_64__
#include <xmmintrin.h>

constexpr u32 ADDRESS_BITS = 47;  // of what a process may map
static inline void pause_core() { _mm_pause(); }

constexpr u32 USUAL_FLOAT_MODE = 0x1f80;
static inline u32 float_mode() { return _mm_getcsr(); }
static inline void set_float_mode(u32 mode) { _mm_setcsr(mode); }
static inline u32 float_mode_of(u32 rounding, bool flush_inputs, bool flush_outputs) {
  constexpr u32 of[4] = {0, 2, 1, 3};  // nearest, +inf, -inf, zero
  return USUAL_FLOAT_MODE | of[rounding] << 13 | flush_inputs << 6 | flush_outputs << 15;
}
#elif defined(__aarch64__)
constexpr u32 ADDRESS_BITS = 48;
static inline void pause_core() { asm volatile("yield"); }

constexpr u32 USUAL_FLOAT_MODE = 0;
static inline u32 float_mode() {
  u64 mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return (u32)mode;
}
static inline void set_float_mode(u32 mode) { asm volatile("msr fpcr, %0" : : "r"((u64)mode) : "memory"); }
static inline u32 float_mode_of(u32 rounding, bool flush_inputs, bool flush_outputs) {
  return rounding << 22 | (flush_inputs && flush_outputs) << 24;
}
#else
#error "the emulated device runs on x86-64 and AArch64"
#endif
