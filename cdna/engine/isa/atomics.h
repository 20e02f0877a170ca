// The arithmetic of atomics, shared by global, flat, buffer and LDS instructions: new value = f(old, data).
#pragma once
#include "memory.h"

template <class T> struct AtomicOps {
  static T swap(T, T x) { return x; }
  static T add(T old, T x) { return old + x; }
  static T sub(T old, T x) { return old - x; }
  static T rsub(T old, T x) { return x - old; }
  static T umin(T old, T x) { return x < old ? x : old; }
  static T umax(T old, T x) { return x > old ? x : old; }
  static T band(T old, T x) { return old & x; }
  static T bor(T old, T x) { return old | x; }
  static T bxor(T old, T x) { return old ^ x; }
  static T inc(T old, T x) { return old >= x ? 0 : old + 1; }
  static T dec(T old, T x) { return old == 0 || old > x ? x : old - 1; }
};
typedef AtomicOps<u32> Ops32;
typedef AtomicOps<u64> Ops64;

static inline u32 smin32(u32 old, u32 x) { return (i32)x < (i32)old ? x : old; }
static inline u32 smax32(u32 old, u32 x) { return (i32)x > (i32)old ? x : old; }
static inline u64 smin64(u64 old, u64 x) { return (i64)x < (i64)old ? x : old; }
static inline u64 smax64(u64 old, u64 x) { return (i64)x > (i64)old ? x : old; }

static inline u32 add_f32(u32 old, u32 x) { return bits(as_f32(old) + as_f32(x)); }
static inline u64 add_f64(u64 old, u64 x) { return bits(as_f64(old) + as_f64(x)); }
// Minimum and maximum return the other operand where one is NaN.
static inline u32 min_f32(u32 old, u32 x) { return bits(__builtin_fminf(as_f32(old), as_f32(x))); }
static inline u32 max_f32(u32 old, u32 x) { return bits(__builtin_fmaxf(as_f32(old), as_f32(x))); }
static inline u64 min_f64(u64 old, u64 x) { return bits(__builtin_fmin(as_f64(old), as_f64(x))); }
static inline u64 max_f64(u64 old, u64 x) { return bits(__builtin_fmax(as_f64(old), as_f64(x))); }

static inline u32 pk_add_f16(u32 old, u32 x) {
  return bits((f16)(as_f16(old) + as_f16(x))) | bits((f16)(as_f16(old >> 16) + as_f16(x >> 16))) << 16;
}
static inline u32 bf16_of(float x) {  // to nearest even; the sum of two bf16 in f32 rounds once more without harm
  u32 u = bits(x);
  if (x != x) return u >> 16 | 0x40;
  return (u + 0x7fff + (u >> 16 & 1)) >> 16;
}
static inline u32 pk_add_bf16(u32 old, u32 x) {
  return bf16_of(as_f32(old << 16) + as_f32(x << 16)) | bf16_of(as_f32(old & 0xffff0000) + as_f32(x & 0xffff0000))
                                                            << 16;
}

template <class T> static inline T lane_value(const u32* v, int i);
template <> inline u32 lane_value<u32>(const u32* v, int i) { return v[i]; }
template <> inline u64 lane_value<u64>(const u32* v, int i) { return pair(v, i); }
static inline void set_lane(u32* v, int i, u32 x) { v[i] = x; }
static inline void set_lane(u32* v, int i, u64 x) { set_pair(v, i, x); }

// One lane's operation on memory that other threads and processes share; returns the value before it.
template <class T, T (*F)(T, T)> static inline T atomic_apply(u64 address, T x) {
  typedef T Cell __attribute__((__may_alias__));
  Cell* p = (Cell*)address;
  T old = __atomic_load_n(p, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(p, &old, F(old, x), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
  return old;
}
template <class T> static inline T atomic_cmpswap(u64 address, T x, T compare) {
  typedef T Cell __attribute__((__may_alias__));
  __atomic_compare_exchange_n((Cell*)address, &compare, x, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return compare;
}

// Every lane of `mask` in turn; d: where the values before go, or null.
template <class T, class Apply> static inline void each_atomic(Wave& w, u32* d, u64 mask, Apply apply) {
  if (__builtin_expect(!!w.wg->l2, 0)) l2_atomic(w, sizeof(T), mask);
  for (; mask; mask &= mask - 1) {
    int i = __builtin_ctzll(mask);
    if (w.address[i] & (sizeof(T) - 1)) {
      fault(w, "lane %d: atomic at misaligned address 0x%llx", i, (unsigned long long)w.address[i]);
      return;
    }
    T old = apply(i);
    if (d) set_lane(d, i, old);
  }
}
template <class T, T (*F)(T, T)> static inline void atomic_lanes(Wave& w, u32* d, const u32* data, u64 mask) {
  each_atomic<T>(w, d, mask, [&](int i) { return atomic_apply<T, F>(w.address[i], lane_value<T>(data, i)); });
}
// data: the new value, then the value to compare with.
template <class T> static inline void cmpswap_lanes(Wave& w, u32* d, const u32* data, u64 mask) {
  const u32* compare = data + sizeof(T) / 4 * WAVE;
  each_atomic<T>(w, d, mask, [&](int i) {
    return atomic_cmpswap<T>(w.address[i], lane_value<T>(data, i), lane_value<T>(compare, i));
  });
}
