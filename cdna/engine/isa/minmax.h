// Minimum and maximum of floats on their bit patterns, as CDNA3 ISA defines them with MODE.IEEE set (which
// the compute ABI does): a signalling NaN gives its quiet form, else a NaN gives the other operand; -0 < +0.
#pragma once
#include "core.h"

template <class U> struct FloatBits;
template <> struct FloatBits<u16> {
  typedef i16 Signed;
  static constexpr u16 INF = 0x7c00, QUIET = 0x0200;
};
template <> struct FloatBits<u32> {
  typedef i32 Signed;
  static constexpr u32 INF = 0x7f800000, QUIET = 0x00400000;
};
template <> struct FloatBits<u64> {
  typedef i64 Signed;
  static constexpr u64 INF = 0x7ff0000000000000ull, QUIET = 0x0008000000000000ull;
};

template <class U> static inline bool is_nan(U x) { return (U)(x & (U)((U) ~(U)0 >> 1)) > FloatBits<U>::INF; }
template <class U> static inline bool is_snan(U x) { return is_nan(x) && !(x & FloatBits<U>::QUIET); }
template <class U> static inline U quiet(U x) { return (U)(x | FloatBits<U>::QUIET); }
// Integers in the order of the floats.
template <class U> static inline typename FloatBits<U>::Signed order(U x) {
  typedef typename FloatBits<U>::Signed S;
  return (S)(x ^ ((U)((S)x >> (8 * sizeof(U) - 1)) >> 1));
}

template <bool MAX, class U> static inline U min_max(U a, U b) {
  U r = (MAX ? order(a) >= order(b) : order(a) < order(b)) ? a : b;
  r = is_nan(b) ? a : r;
  r = is_nan(a) ? b : r;
  r = is_snan(b) ? quiet(b) : r;
  return is_snan(a) ? quiet(a) : r;
}
template <bool MAX, class U> static inline U min_max3(U a, U b, U c) { return min_max<MAX>(min_max<MAX>(a, b), c); }
template <class U> static inline U med3(U a, U b, U c) {
  U low = min_max<false>(a, b), high = min_max<true>(a, b);
  U r = min_max<true>(low, min_max<false>(high, c));
  return is_nan(a) || is_nan(b) || is_nan(c) ? min_max3<false>(a, b, c) : r;
}
// IEEE 754-2019 minimum and maximum: a NaN wins.
template <bool MAX, class U> static inline U minimum_maximum(U a, U b) {
  U r = (MAX ? order(a) >= order(b) : order(a) < order(b)) ? a : b;
  r = is_nan(b) ? quiet(b) : r;
  return is_nan(a) ? quiet(a) : r;
}
template <bool MAX, class U> static inline U minimum_maximum3(U a, U b, U c) {
  return minimum_maximum<MAX>(minimum_maximum<MAX>(a, b), c);
}
