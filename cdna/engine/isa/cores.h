// Macros that define the lane-wise functions ("cores") of the generic handlers: one expression per
// instruction over the values a, b, c of a lane's sources.
#pragma once
#include "core.h"

#define CORE_LOOP(NAME, LOADS, STORE)                                     \
  static void NAME(u32* d, const u32* pa, const u32* pb, const u32* pc) { \
    (void)pa;                                                             \
    (void)pb;                                                             \
    (void)pc;                                                             \
    LANES { LOADS STORE; }                                                \
  }

static inline u32 read_u32(const u32* p, int i) { return p[i]; }
static inline i32 read_i32(const u32* p, int i) { return (i32)p[i]; }
static inline u32 read_u16(const u32* p, int i) { return (u16)p[i]; }
static inline i32 read_i16(const u32* p, int i) { return (i16)p[i]; }
static inline u64 read_u64(const u32* p, int i) { return pair(p, i); }
static inline i64 read_i64(const u32* p, int i) { return (i64)pair(p, i); }
static inline float read_f32(const u32* p, int i) { return as_f32(p[i]); }
static inline float read_f16(const u32* p, int i) { return as_f16(p[i]); }
static inline double read_f64(const u32* p, int i) { return as_f64(pair(p, i)); }
#define AB(T, READ)  \
  T a = READ(pa, i); \
  T b = READ(pb, i); \
  (void)a;           \
  (void)b;
#define ABC(T, READ)             \
  AB(T, READ) T c = READ(pc, i); \
  (void)c;

// 32-bit values: unsigned, signed, float. _OLD: EXPR may also read `old`, the destination's value.
#define CORE(NAME, EXPR) CORE_LOOP(NAME, ABC(u32, read_u32), d[i] = (u32)(EXPR))
#define CORE_I32(NAME, EXPR) CORE_LOOP(NAME, ABC(i32, read_i32), d[i] = (u32)(EXPR))
#define CORE_F32(NAME, EXPR) CORE_LOOP(NAME, ABC(float, read_f32), d[i] = bits((float)(EXPR)))
#define CORE_F32_OLD(NAME, EXPR) \
  CORE_LOOP(NAME, AB(float, read_f32) float old = as_f32(d[i]);, d[i] = bits((float)(EXPR)))

// 16-bit values; the result's upper half is zero (gfx9 writes zeros there), except for the _KEEP forms.
#define KEEP(OLD, EXPR) ((OLD) & 0xffff0000u) | (u16)(EXPR)
#define CORE_U16(NAME, EXPR) CORE_LOOP(NAME, ABC(u32, read_u16), d[i] = (u16)(EXPR))
#define CORE_I16(NAME, EXPR) CORE_LOOP(NAME, ABC(i32, read_i16), d[i] = (u16)(EXPR))
#define CORE_U16_KEEP(NAME, EXPR) CORE_LOOP(NAME, ABC(u32, read_u16), d[i] = KEEP(d[i], EXPR))
#define CORE_I16_KEEP(NAME, EXPR) CORE_LOOP(NAME, ABC(i32, read_i16), d[i] = KEEP(d[i], EXPR))
// f16 arithmetic goes through f32: for + - * / sqrt the second rounding cannot change the result, as
// 24 >= 2*11 + 2 bits.
#define CORE_F16(NAME, EXPR) CORE_LOOP(NAME, ABC(float, read_f16), d[i] = bits((f16)(float)(EXPR)))

// 64-bit values; _AMOUNT takes a 32-bit first source (the shifts).
#define CORE_U64(NAME, EXPR) CORE_LOOP(NAME, ABC(u64, read_u64), set_pair(d, i, (u64)(EXPR)))
#define CORE_F64(NAME, EXPR) CORE_LOOP(NAME, ABC(double, read_f64), set_pair(d, i, bits((double)(EXPR))))
#define CORE_AMOUNT_U64(NAME, EXPR) CORE_LOOP(NAME, u32 a = pa[i]; u64 b = pair(pb, i);, set_pair(d, i, (u64)(EXPR)))

// Packed pairs: EXPR is evaluated for the low and for the high half.
#define PACKED_HALVES(NAME, T, LOW, HIGH, OUT, EXPR)           \
  static inline u32 NAME##_half(T a, T b, T c) {               \
    (void)a;                                                   \
    (void)b;                                                   \
    (void)c;                                                   \
    return OUT(EXPR);                                          \
  }                                                            \
  CORE_LOOP(NAME, u32 x = pa[i]; u32 y = pb[i]; u32 z = pc[i]; \
            , d[i] = NAME##_half(LOW(x), LOW(y), LOW(z)) | NAME##_half(HIGH(x), HIGH(y), HIGH(z)) << 16)
static inline u32 lo_u16(u32 x) { return (u16)x; }
static inline u32 hi_u16(u32 x) { return x >> 16; }
static inline i32 lo_i16(u32 x) { return (i16)x; }
static inline i32 hi_i16(u32 x) { return (i32)x >> 16; }
static inline float lo_f16(u32 x) { return as_f16(x); }
static inline float hi_f16(u32 x) { return as_f16(x >> 16); }
static inline u32 out_16(u32 x) { return (u16)x; }
static inline u32 out_f16(float x) { return bits((f16)x); }
#define CORE_PK_U16(NAME, EXPR) PACKED_HALVES(NAME, u32, lo_u16, hi_u16, out_16, EXPR)
#define CORE_PK_I16(NAME, EXPR) PACKED_HALVES(NAME, i32, lo_i16, hi_i16, out_16, EXPR)
#define CORE_PK_F16(NAME, EXPR) PACKED_HALVES(NAME, float, lo_f16, hi_f16, out_f16, EXPR)
// Packed f32 works on the two registers of each operand.
#define CORE_PK_F32(NAME, EXPR)                                                                              \
  static inline u32 NAME##_half(u32 x, u32 y, u32 z) {                                                       \
    float a = as_f32(x), b = as_f32(y), c = as_f32(z);                                                       \
    (void)c;                                                                                                 \
    return bits((float)(EXPR));                                                                              \
  }                                                                                                          \
  CORE_LOOP(NAME, u32 a = pa[i]; u32 a1 = pa[WAVE + i]; u32 b = pb[i]; u32 b1 = pb[WAVE + i]; u32 c = pc[i]; \
            u32 c1 = pc[WAVE + i];, d[i] = NAME##_half(a, b, c); d[WAVE + i] = NAME##_half(a1, b1, c1))

static inline u32 clamp_u32(u64 x) { return x > 0xffffffffull ? 0xffffffffu : (u32)x; }
static inline u32 clamp_i32(i64 x) {
  return (u32)(x > 0x7fffffffll ? 0x7fffffffll : x < -0x80000000ll ? -0x80000000ll : x);
}
static inline u32 clamp_u16(u32 x) { return x > 0xffff ? 0xffff : x; }
template <class T> static inline i32 clamp_i16(T x) { return x > 0x7fff ? 0x7fff : x < -0x8000 ? -0x8000 : (i32)x; }
template <class T> static inline T least(T a, T b) { return a < b ? a : b; }
template <class T> static inline T most(T a, T b) { return a > b ? a : b; }
template <class T> static inline T middle(T a, T b, T c) { return most(least(a, b), least(most(a, b), c)); }
static inline double two_to(i32 n) { return as_f64((u64)(n + 1023) << 52); }  // -1022 <= n <= 1023

// f16 of a double, rounded once: the step through f32 rounds to odd, which leaves the final rounding all it
// needs.
static inline f16 f16_of(double x) {
  float f = (float)x;
  u32 r = bits(f);
  double back = (double)f;
  if (__builtin_fabs(back) > __builtin_fabs(x)) r -= 1;
  if (back != x && x == x) r |= 1;
  return (f16)as_f32(r);
}
// a * b + c in f16, rounded once. The product is exact in a double; the sum is rounded to odd.
static inline f16 fma_f16(float a, float b, float c) {
  double p = (double)a * (double)b, z = c, s = p + z;
  double t = s - p, error = (p - (s - t)) + (z - t);
  u64 r = bits(s);
  bool toward_zero = (error < 0) == (s > 0);  // the true sum is smaller in magnitude than s
  if (error != 0 && s - s == 0) r = toward_zero ? (r - 1) | 1 : r | 1;
  return f16_of(as_f64(r));
}

// The wave's f64/f16 mode in place of its f32 mode while a handler runs; the two differ in kernels that flush
// f32 denormals only.
template <Handler H> static void wide(Wave& w, const Inst& in) {
  u32 mode = (w.mode & ~0x33u) | (w.mode >> 2 & 0x33);
  if (__builtin_expect(mode == w.mode, 1)) {
    H(w, in);
    return;
  }
  apply_mode(mode);
  H(w, in);
  apply_mode(w.mode);
}

#define TABLE(NAME) extern const OpTable NAME = {OPS, sizeof OPS / sizeof *OPS}
// An instruction whose core sees plain lanes; of cores that are compiled for wide vectors.
#define LANE(NAME, ...) {NAME, lane_op, __VA_ARGS__}
#define WIDE_LANE(NAME, ...) {NAME, wide<lane_op>, __VA_ARGS__}
