// Reciprocals, roots, exponentials, logarithms, sine and cosine. f32 results come from double polynomials, so
// they are the correctly rounded ones but for rare ties; hardware is within 1 ulp of them. The f32 forms
// treat denormal inputs as zero and flush denormal results, whatever MODE says (LLVM, AMDGPULegalizerInfo:
// "does not handle denormals").
#include "cores.h"

// 2^x, |x| <= 1000.
static inline double exp2_of(double x) {
  double n = __builtin_roundeven(x), t = (x - n) * 0.693147180559945309417, p = 1.6059043836821613e-10;
  const double k[] = {2.08767569878681e-09,
                      2.505210838544172e-08,
                      2.755731922398589e-07,
                      2.7557319223985893e-06,
                      2.48015873015873e-05,
                      1.984126984126984e-04,
                      1.388888888888889e-03,
                      8.333333333333333e-03,
                      4.1666666666666664e-02,
                      1.6666666666666666e-01,
                      0.5,
                      1.0,
                      1.0};
  for (double c : k) p = __builtin_fma(p, t, c);
  return p * two_to((i32)n);
}
// log2(x) of a positive normal double.
static inline double log2_of(double x) {
  u64 ix = bits(x) - 0x3fe6a09e667f3bcdull;  // the mantissa comes out in [sqrt(1/2), sqrt(2))
  i32 e = (i32)((i64)ix >> 52);
  double m = as_f64((ix & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull);
  double s = (m - 1) / (m + 1), s2 = s * s, p = 1.0 / 23;
  const double k[] = {1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                      1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
  for (double c : k) p = p * s2 + c;
  return e + p * s * 2.88539008177792681472;  // 2 / ln 2
}
// sin(2 pi r), |r| <= 1/4.
static inline double sin_turns(double r) {
  double t = r * 6.28318530717958647693, t2 = t * t, p = 1.9572941063391263e-20;
  const double k[] = {-8.22063524662433e-18,   2.8114572543455206e-15,
                      -7.647163731819816e-13,  1.6059043836821613e-10,
                      -2.505210838544172e-08,  2.7557319223985893e-06,
                      -1.984126984126984e-04,  8.333333333333333e-03,
                      -1.6666666666666666e-01, 1.0};
  for (double c : k) p = p * t2 + c;
  return p * t;
}
// Sine and cosine of x turns; beyond 256 turns the hardware gives 0 and 1.
static inline double sine(double x) {
  double r = x - __builtin_roundeven(x);
  r = r > 0.25 ? 0.5 - r : r < -0.25 ? -0.5 - r : r;
  double s = sin_turns(r);
  return __builtin_fabs(x) <= 256 ? s : x - x == 0 ? 0.0 : __builtin_nan("");
}
static inline double cosine(double x) {
  double c = sin_turns(0.25 - __builtin_fabs(x - __builtin_roundeven(x)));
  return __builtin_fabs(x) <= 256 ? c : x - x == 0 ? 1.0 : __builtin_nan("");
}
static inline double exp2_any(double x) {
  double r = exp2_of(x < -300 ? -300 : x > 300 ? 300 : x);
  return x == x ? r : x;
}
static inline double log2_any(double x) {
  double r = log2_of(x > 0 && x - x == 0 ? x : 1.0);
  return x == 0 ? -__builtin_inf() : x < 0 ? __builtin_nan("") : x - x == 0 ? r : x;
}

static inline float flushed(float x) { return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x; }
// EXPR over the double `x`, the flushed f32 source. A polynomial's steps wait for each other: several vectors side by side
// fill the time.
#define CORE_FLUSH(NAME, EXPR)                                                                          \
  static void NAME(u32* d, const u32* pa, const u32*, const u32*) {                                     \
    _Pragma("clang loop vectorize(assume_safety) interleave_count(4)") for (int i = 0; i < WAVE; i++) { \
      float f = flushed(as_f32(pa[i]));                                                                 \
      double x = f;                                                                                     \
      (void)x;                                                                                          \
      d[i] = bits(flushed((float)(EXPR)));                                                              \
    }                                                                                                   \
  }
// clang-format off
CORE_FLUSH(exp_f32, exp2_any(x)) CORE_FLUSH(log_f32, log2_any(x)) CORE_FLUSH(sin_f32, sine(x))
CORE_FLUSH(cos_f32, cosine(x))
CORE_FLUSH(rcp_f32, 1.0f / f) CORE_FLUSH(sqrt_f32, __builtin_sqrtf(f))
CORE_FLUSH(rsq_f32, 1.0 / __builtin_sqrt(x))

#define CORE_HALF(NAME, EXPR) \
  CORE_LOOP(NAME, double x = (double)(float)as_f16(pa[i]);, d[i] = bits(f16_of(EXPR)))
CORE_HALF(exp_f16, exp2_any(x)) CORE_HALF(log_f16, log2_any(x)) CORE_HALF(sin_f16, sine(x))
CORE_HALF(cos_f16, cosine(x))
CORE_HALF(rcp_f16, 1.0 / x) CORE_HALF(sqrt_f16, __builtin_sqrt(x)) CORE_HALF(rsq_f16, 1.0 / __builtin_sqrt(x))

CORE_F64(rcp_f64, 1.0 / a) CORE_F64(sqrt_f64, __builtin_sqrt(a)) CORE_F64(rsq_f64, 1.0 / __builtin_sqrt(a))
    // clang-format on

    // Bits of 2/pi after the point, the first in the top bit; v_trig_preop_f64 cuts 53-bit pieces from them.
    static const u64 TWO_OVER_PI[] = {0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
                                      0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
                                      0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
                                      0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
                                      0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};
static void trig_preop(u32* d, const u32* pa, const u32* pb, const u32*) {
  for (int i = 0; i < WAVE; i++) {
    i32 exponent = pair(pa, i) >> 52 & 0x7ff, shift = (i32)(pb[i] & 31) * 53;
    if (exponent > 1077) shift += exponent - 1077;
    u64 piece = 0;
    for (int k = 0; k < 53; k++) {
      int bit = shift + k;  // 1201 bits are kept; those after read as zero
      piece = piece << 1 | (bit < 1201 ? TWO_OVER_PI[bit / 64] >> (63 - bit % 64) & 1 : 0);
    }
    int scale = -53 - shift + (exponent >= 1968 ? 128 : 0);
    set_pair(d, i, bits(__builtin_ldexp((double)piece, scale)));
  }
}

// clang-format off
static const OpInfo OPS[] = {
  LANE("v_exp_f32", exp_f32), LANE("v_exp_legacy_f32", exp_f32), LANE("v_log_f32", log_f32),
  LANE("v_log_legacy_f32", log_f32), LANE("v_sin_f32", sin_f32), LANE("v_cos_f32", cos_f32), LANE("v_rcp_f32", rcp_f32),
  LANE("v_rcp_iflag_f32", rcp_f32), LANE("v_rsq_f32", rsq_f32), LANE("v_sqrt_f32", sqrt_f32),
  WIDE_LANE("v_exp_f16", exp_f16), WIDE_LANE("v_log_f16", log_f16), WIDE_LANE("v_sin_f16", sin_f16),
  WIDE_LANE("v_cos_f16", cos_f16), WIDE_LANE("v_rcp_f16", rcp_f16), WIDE_LANE("v_rsq_f16", rsq_f16),
  WIDE_LANE("v_sqrt_f16", sqrt_f16), WIDE_LANE("v_rcp_f64", rcp_f64), WIDE_LANE("v_rsq_f64", rsq_f64),
  WIDE_LANE("v_sqrt_f64", sqrt_f64), WIDE_LANE("v_trig_preop_f64", trig_preop),
};
// clang-format on
TABLE(TRANSCENDENTAL_OPS);
