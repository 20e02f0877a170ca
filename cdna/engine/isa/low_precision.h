// Floating-point formats of 16 bits and fewer: exact decoding to f32, rounding from f32.
//
// gfx942's fp8 is FNUZ (bias one larger, no -0, no infinity, the code of -0 is the only NaN); gfx950's is OCP
// (OCP 8-bit Floating Point Specification 1.0; fp6, fp4 and E8M0: OCP Microscaling Formats 1.0).
#pragma once
#include "core.h"

enum class Specials {
  IEEE,      // the largest exponent holds infinity and NaN
  ALL_ONES,  // one NaN per sign, all ones; no infinity (e4m3fn)
  FNUZ,      // one NaN, the code of -0; no infinity
  FINITE,    // every code is a number
};

template <int EXPONENT, int MANTISSA, int BIAS_, Specials SPECIALS_> struct Format {
  static constexpr int E = EXPONENT, M = MANTISSA, BIAS = BIAS_, BITS = 1 + E + M;
  static constexpr Specials SPECIALS = SPECIALS_;
  static constexpr u32 SIGN = 1u << (E + M), MAGNITUDE = SIGN - 1, INFINITE = MAGNITUDE >> M << M;
  // Code of the largest finite magnitude.
  static constexpr u32 LARGEST = SPECIALS == Specials::IEEE       ? INFINITE - 1
                                 : SPECIALS == Specials::ALL_ONES ? MAGNITUDE - 1
                                                                  : MAGNITUDE;
};
using F16 = Format<5, 10, 15, Specials::IEEE>;
using BF16 = Format<8, 7, 127, Specials::IEEE>;
using FP8_FNUZ = Format<4, 3, 8, Specials::FNUZ>;
using BF8_FNUZ = Format<5, 2, 16, Specials::FNUZ>;
using FP8_OCP = Format<4, 3, 7, Specials::ALL_ONES>;
using BF8_OCP = Format<5, 2, 15, Specials::IEEE>;
using FP6 = Format<2, 3, 1, Specials::FINITE>;
using BF6 = Format<3, 2, 3, Specials::FINITE>;
using FP4 = Format<2, 1, 1, Specials::FINITE>;
struct F32 {
  static constexpr int BITS = 32;
};

constexpr u32 QUIET_NAN = 0x7fc00000;

// 2^e as f32, -126 <= e <= 127.
static inline float exp2i(int e) { return as_f32((u32)(e + 127) << 23); }

// The value of a code; bits above the format's are ignored. Branch-free, and free of f32 denormals except
// where the value is one (bf16), so the host's denormal mode does not matter.
template <class F> static inline float decode(u32 code) {
  if constexpr (F::E == 8) return as_f32(code << 16);
  else if constexpr (F::M == 10) return (float)as_f16(code);
  else {
    u32 magnitude = code & F::MAGNITUDE, sign = (code & F::SIGN) << (32 - F::BITS);
    float normal = as_f32((magnitude << (23 - F::M)) + ((127 - F::BIAS) << 23));
    float subnormal = (float)(i32)magnitude * exp2i(1 - F::BIAS - F::M);
    u32 x = bits(magnitude >> F::M ? normal : subnormal) | sign;
    if constexpr (F::SPECIALS == Specials::FNUZ) x = (code & (F::SIGN | F::MAGNITUDE)) == F::SIGN ? QUIET_NAN : x;
    if constexpr (F::SPECIALS == Specials::ALL_ONES) x = magnitude == F::MAGNITUDE ? QUIET_NAN | sign : x;
    if constexpr (F::SPECIALS == Specials::IEEE)
      x = magnitude >= F::INFINITE ? 0x7f800000 | sign | (magnitude > F::INFINITE ? 0x400000 : 0) : x;
    return as_f32(x);
  }
}

template <> inline float decode<F32>(u32 code) { return as_f32(code); }

// Element `index` of codes packed without gaps into registers (v: [register][64]).
template <class F> static inline u32 packed_code(const u32* v, int index, int lane) {
  int bit = index * F::BITS, shift = bit & 31;
  const u32* p = v + (bit >> 5) * WAVE + lane;
  u32 x = p[0] >> shift;
  if (32 % F::BITS && shift + F::BITS > 32) x |= p[WAVE] << (32 - shift);
  return x;
}

// The code of the f32 `x` times 2^adjust. Nearest even, or stochastic: the top of `random` is added just below
// the result's last place, and the sum cut off. Above the largest finite code: that code where the format has
// nothing above or `saturate` (MODE.FP16_OVFL) says so, else infinity or NaN. Saturation takes infinities along
// in fp8 and bf8, leaves them in f16, and bf16 does not know it (CDNA4 ISA, "FP8 conversions" and MODE).
template <class F, bool STOCHASTIC> static inline u32 encode(u32 x, int adjust, u32 random, bool saturate) {
  u32 sign = x >> 31 << (F::BITS - 1), magnitude = x & 0x7fffffff;
  u32 field = magnitude >> 23, m = magnitude & 0x7fffff;
  int lead = field || !m ? 0 : __builtin_clz(m | 1) - 8;  // of an f32 denormal
  int exponent = (field ? (int)field - 127 : -126 - lead) + adjust;
  m = field ? m | 0x800000 : m << lead;
  int below = 1 - F::BIAS - exponent;  // places lost to the format's denormals
  below = below > 0 ? below : 0;
  int shift = 23 - F::M + below;
  shift = shift < 31 ? shift : 31;
  u32 half = (1u << (shift - 1)) - 1 + (m >> shift & 1);
  u32 increment = STOCHASTIC ? (u32)((u64)random >> (32 - shift)) : half;
  int biased = exponent + F::BIAS > 1 ? exponent + F::BIAS : 1;
  // The implicit one, or a carry, raises the exponent by one.
  u32 code = m ? ((m + increment) >> shift) + ((u32)(biased - 1) << F::M) : 0;
  constexpr u32 NAN_CODE = F::SPECIALS == Specials::FNUZ     ? F::SIGN
                           : F::SPECIALS == Specials::FINITE ? F::LARGEST
                                                             : F::MAGNITUDE;
  constexpr u32 OVERFLOWED = F::SPECIALS == Specials::IEEE ? F::INFINITE : NAN_CODE;
  u32 overflowed = saturate && F::E != 8 ? F::LARGEST : OVERFLOWED;
  code = code > F::LARGEST ? overflowed : code;
  code = magnitude == 0x7f800000 ? (F::BITS <= 8 ? overflowed : OVERFLOWED) : code;
  code = magnitude > 0x7f800000 ? NAN_CODE : code;
  return F::SPECIALS == Specials::FNUZ && (code == 0 || code == F::SIGN) ? code : sign | code;
}

// bf16 nearest even without a scale: what encode<BF16> gives, in fewer steps.
static inline u32 encode_bf16(u32 x) {
  u32 rounded = (x + 0x7fff + (x >> 16 & 1)) >> 16;
  return (x & 0x7fffffff) > 0x7f800000 ? x >> 16 | 0x7fff : rounded;
}
