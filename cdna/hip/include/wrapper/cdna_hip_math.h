// Bodies of the device mathematics functions, and the ones that C++ does not have (rsqrt, sincospi, __expf, ...).
//
// Which is a builtin and which a call of the device library follows what the AMDGPU backend expands itself and as
// accurately (LLVM, AMDGPULegalizerInfo.cpp: f32 exp, exp2, exp10, log, log2, log10, sqrt; rounding; min, max).
#pragma once

#define CDNA_PRIVATE __attribute__((address_space(5)))

#define CDNA_BOTH(name, symbol)                                          \
  CDNA_DEVICE double name(double x) { return __ocml_##symbol##_f64(x); } \
  CDNA_DEVICE float name##f(float x) { return __ocml_##symbol##_f32(x); }
#define CDNA_BOTH_OVERLOADED(name) \
  CDNA_BOTH(name, name)            \
  CDNA_DEVICE float name(float x) { return name##f(x); }
#define CDNA_BUILTIN(name)                                              \
  CDNA_DEVICE double name(double x) { return __builtin_##name(x); }     \
  CDNA_DEVICE float name##f(float x) { return __builtin_##name##f(x); } \
  CDNA_DEVICE float name(float x) { return name##f(x); }
#define CDNA_BUILTIN_FLOAT(name)                                        \
  CDNA_DEVICE double name(double x) { return __ocml_##name##_f64(x); }  \
  CDNA_DEVICE float name##f(float x) { return __builtin_##name##f(x); } \
  CDNA_DEVICE float name(float x) { return name##f(x); }

// clang-format off
CDNA_BOTH_OVERLOADED(acos) CDNA_BOTH_OVERLOADED(acosh) CDNA_BOTH_OVERLOADED(asin) CDNA_BOTH_OVERLOADED(asinh)
CDNA_BOTH_OVERLOADED(atan) CDNA_BOTH_OVERLOADED(atanh) CDNA_BOTH_OVERLOADED(cbrt) CDNA_BOTH_OVERLOADED(cosh)
CDNA_BOTH_OVERLOADED(erf) CDNA_BOTH_OVERLOADED(erfc) CDNA_BOTH_OVERLOADED(expm1) CDNA_BOTH_OVERLOADED(lgamma)
CDNA_BOTH_OVERLOADED(log1p) CDNA_BOTH_OVERLOADED(sinh) CDNA_BOTH_OVERLOADED(tan) CDNA_BOTH_OVERLOADED(tanh)
CDNA_BOTH_OVERLOADED(tgamma)
CDNA_BUILTIN(ceil) CDNA_BUILTIN(fabs) CDNA_BUILTIN(floor) CDNA_BUILTIN(logb) CDNA_BUILTIN(nearbyint)
CDNA_BUILTIN(rint) CDNA_BUILTIN(round) CDNA_BUILTIN(sqrt) CDNA_BUILTIN(trunc)
CDNA_BUILTIN_FLOAT(exp) CDNA_BUILTIN_FLOAT(exp2) CDNA_BUILTIN_FLOAT(exp10) CDNA_BUILTIN_FLOAT(log)
CDNA_BUILTIN_FLOAT(log2) CDNA_BUILTIN_FLOAT(log10)
CDNA_BOTH(cospi, cospi) CDNA_BOTH(cyl_bessel_i0, i0) CDNA_BOTH(cyl_bessel_i1, i1) CDNA_BOTH(erfcinv, erfcinv)
CDNA_BOTH(erfcx, erfcx) CDNA_BOTH(erfinv, erfinv) CDNA_BOTH(j0, j0) CDNA_BOTH(j1, j1) CDNA_BOTH(normcdf, ncdf)
CDNA_BOTH(normcdfinv, ncdfinv) CDNA_BOTH(rcbrt, rcbrt) CDNA_BOTH(sinpi, sinpi) CDNA_BOTH(y0, y0) CDNA_BOTH(y1, y1)
CDNA_BOTH(rsqrt, rsqrt)
    // clang-format on
    CDNA_DEVICE float rsqrt(float x) {
  return rsqrtf(x);
}
#undef CDNA_BOTH
#undef CDNA_BOTH_OVERLOADED
#undef CDNA_BUILTIN
#undef CDNA_BUILTIN_FLOAT

// -ffast-math and its parts ask for the hardware's own approximations.
#if defined(__CLANG_GPU_APPROX_TRANSCENDENTALS__)
#define CDNA_APPROXIMATE(exact, native) native
#else
#define CDNA_APPROXIMATE(exact, native) exact
#endif
CDNA_DEVICE double sin(double x) { return __ocml_sin_f64(x); }
CDNA_DEVICE double cos(double x) { return __ocml_cos_f64(x); }
CDNA_DEVICE float sinf(float x) { return CDNA_APPROXIMATE(__ocml_sin_f32(x), __ocml_native_sin_f32(x)); }
CDNA_DEVICE float cosf(float x) { return CDNA_APPROXIMATE(__ocml_cos_f32(x), __ocml_native_cos_f32(x)); }
CDNA_DEVICE float sin(float x) { return sinf(x); }
CDNA_DEVICE float cos(float x) { return cosf(x); }
#undef CDNA_APPROXIMATE

#define CDNA_BOTH(name, symbol)                                                       \
  CDNA_DEVICE double name(double x, double y) { return __ocml_##symbol##_f64(x, y); } \
  CDNA_DEVICE float name##f(float x, float y) { return __ocml_##symbol##_f32(x, y); }
#define CDNA_BOTH_OVERLOADED(name) \
  CDNA_BOTH(name, name)            \
  CDNA_DEVICE float name(float x, float y) { return name##f(x, y); }
// clang-format off
CDNA_BOTH_OVERLOADED(atan2) CDNA_BOTH_OVERLOADED(fdim) CDNA_BOTH_OVERLOADED(fmod) CDNA_BOTH_OVERLOADED(hypot)
CDNA_BOTH_OVERLOADED(nextafter) CDNA_BOTH_OVERLOADED(pow) CDNA_BOTH_OVERLOADED(remainder)
CDNA_BOTH(rhypot, rhypot)
#undef CDNA_BOTH
#undef CDNA_BOTH_OVERLOADED

#define CDNA_BUILTIN(name)                                                             \
  CDNA_DEVICE double name(double x, double y) { return __builtin_##name(x, y); }       \
  CDNA_DEVICE float name##f(float x, float y) { return __builtin_##name##f(x, y); }    \
  CDNA_DEVICE float name(float x, float y) { return name##f(x, y); }
CDNA_BUILTIN(copysign) CDNA_BUILTIN(fmax) CDNA_BUILTIN(fmin)
#undef CDNA_BUILTIN

CDNA_DEVICE int ilogb(double x) { return __ocml_ilogb_f64(x); }
CDNA_DEVICE int ilogbf(float x) { return __ocml_ilogb_f32(x); }
CDNA_DEVICE int ilogb(float x) { return ilogbf(x); }
#define CDNA_ROUNDED(type, name, through)                                       \
  CDNA_DEVICE type name(double x) { return (type)__builtin_##through(x); }      \
  CDNA_DEVICE type name##f(float x) { return (type)__builtin_##through##f(x); } \
  CDNA_DEVICE type name(float x) { return name##f(x); }
CDNA_ROUNDED(long, lrint, rint) CDNA_ROUNDED(long long, llrint, rint)
CDNA_ROUNDED(long, lround, round) CDNA_ROUNDED(long long, llround, round)
#undef CDNA_ROUNDED

#define CDNA_CLASS(name)                                            \
  CDNA_DEVICE bool name(double x) { return __builtin_##name(x); }   \
  CDNA_DEVICE bool name(float x) { return __builtin_##name(x); }
CDNA_MATH_CLASS(CDNA_CLASS)
#undef CDNA_CLASS
#define CDNA_COMPARE(name)                                                       \
  CDNA_DEVICE bool name(double x, double y) { return __builtin_##name(x, y); }   \
  CDNA_DEVICE bool name(float x, float y) { return __builtin_##name(x, y); }
CDNA_MATH_COMPARE(CDNA_COMPARE)
// clang-format on
#undef CDNA_COMPARE

            CDNA_DEVICE int abs(int x) {
  return __builtin_abs(x);
}
CDNA_DEVICE long abs(long x) { return __builtin_labs(x); }
CDNA_DEVICE long long abs(long long x) { return __builtin_llabs(x); }
CDNA_DEVICE double abs(double x) { return __builtin_fabs(x); }
CDNA_DEVICE float abs(float x) { return __builtin_fabsf(x); }
CDNA_DEVICE long labs(long x) { return __builtin_labs(x); }
CDNA_DEVICE long long llabs(long long x) { return __builtin_llabs(x); }

CDNA_DEVICE double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
CDNA_DEVICE float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
CDNA_DEVICE float fma(float x, float y, float z) { return fmaf(x, y, z); }

// Results through pointers: the device library wants a pointer to private memory.
CDNA_DEVICE double frexp(double x, int* exponent) { return __builtin_frexp(x, exponent); }
CDNA_DEVICE float frexpf(float x, int* exponent) { return __builtin_frexpf(x, exponent); }
CDNA_DEVICE float frexp(float x, int* exponent) { return frexpf(x, exponent); }
#define CDNA_THROUGH_POINTER(type, name, symbol, extra) \
  CDNA_DEVICE type name(type x, type* second) {         \
    type kept;                                          \
    type first = symbol(x, (CDNA_PRIVATE type*)&kept);  \
    *second = kept;                                     \
    return first;                                       \
  }
// clang-format off
CDNA_THROUGH_POINTER(double, modf, __ocml_modf_f64, )
CDNA_THROUGH_POINTER(float, modff, __ocml_modf_f32, )
// clang-format on
#undef CDNA_THROUGH_POINTER
CDNA_DEVICE float modf(float x, float* whole) { return modff(x, whole); }
CDNA_DEVICE double remquo(double x, double y, int* quotient) {
  int kept;
  double rest = __ocml_remquo_f64(x, y, (CDNA_PRIVATE int*)&kept);
  *quotient = kept;
  return rest;
}
CDNA_DEVICE float remquof(float x, float y, int* quotient) {
  int kept;
  float rest = __ocml_remquo_f32(x, y, (CDNA_PRIVATE int*)&kept);
  *quotient = kept;
  return rest;
}
CDNA_DEVICE float remquo(float x, float y, int* quotient) { return remquof(x, y, quotient); }
#define CDNA_SINE_AND_COSINE(type, name, symbol)            \
  CDNA_DEVICE void name(type x, type* sine, type* cosine) { \
    type kept;                                              \
    *sine = symbol(x, (CDNA_PRIVATE type*)&kept);           \
    *cosine = kept;                                         \
  }
// clang-format off
CDNA_SINE_AND_COSINE(double, sincos, __ocml_sincos_f64)
CDNA_SINE_AND_COSINE(double, sincospi, __ocml_sincospi_f64)
CDNA_SINE_AND_COSINE(float, sincospif, __ocml_sincospi_f32)
#if defined(__CLANG_GPU_APPROX_TRANSCENDENTALS__)
CDNA_DEVICE void sincosf(float x, float* sine, float* cosine) { *sine = sinf(x), *cosine = cosf(x); }
#else
CDNA_SINE_AND_COSINE(float, sincosf, __ocml_sincos_f32)
// clang-format on
#endif
#undef CDNA_SINE_AND_COSINE

CDNA_DEVICE double ldexp(double x, int exponent) { return __builtin_ldexp(x, exponent); }
CDNA_DEVICE float ldexpf(float x, int exponent) { return __builtin_ldexpf(x, exponent); }
CDNA_DEVICE float ldexp(float x, int exponent) { return ldexpf(x, exponent); }
CDNA_DEVICE double scalbn(double x, int exponent) { return __builtin_ldexp(x, exponent); }
CDNA_DEVICE float scalbnf(float x, int exponent) { return __builtin_ldexpf(x, exponent); }
CDNA_DEVICE float scalbn(float x, int exponent) { return scalbnf(x, exponent); }
// Beyond these exponents every result is 0 or infinite: so an int holds what matters of a long.
CDNA_DEVICE int __cdna_exponent(long exponent) {
  return exponent > 9999 ? 9999 : exponent < -9999 ? -9999 : (int)exponent;
}
CDNA_DEVICE double scalbln(double x, long exponent) { return scalbn(x, __cdna_exponent(exponent)); }
CDNA_DEVICE float scalblnf(float x, long exponent) { return scalbnf(x, __cdna_exponent(exponent)); }
CDNA_DEVICE float scalbln(float x, long exponent) { return scalblnf(x, exponent); }
CDNA_DEVICE double nan(const char*) { return __builtin_nan(""); }
CDNA_DEVICE float nanf(const char*) { return __builtin_nanf(""); }

CDNA_DEVICE double powi(double x, int y) { return __ocml_pown_f64(x, y); }
CDNA_DEVICE float powif(float x, int y) { return __ocml_pown_f32(x, y); }
CDNA_DEVICE double pow(double x, int y) { return powi(x, y); }
CDNA_DEVICE float pow(float x, int y) { return powif(x, y); }

CDNA_DEVICE double norm3d(double x, double y, double z) { return __ocml_len3_f64(x, y, z); }
CDNA_DEVICE float norm3df(float x, float y, float z) { return __ocml_len3_f32(x, y, z); }
CDNA_DEVICE double norm4d(double x, double y, double z, double w) { return __ocml_len4_f64(x, y, z, w); }
CDNA_DEVICE float norm4df(float x, float y, float z, float w) { return __ocml_len4_f32(x, y, z, w); }
CDNA_DEVICE double rnorm3d(double x, double y, double z) { return __ocml_rlen3_f64(x, y, z); }
CDNA_DEVICE float rnorm3df(float x, float y, float z) { return __ocml_rlen3_f32(x, y, z); }
CDNA_DEVICE double rnorm4d(double x, double y, double z, double w) { return __ocml_rlen4_f64(x, y, z, w); }
CDNA_DEVICE float rnorm4df(float x, float y, float z, float w) { return __ocml_rlen4_f32(x, y, z, w); }
CDNA_DEVICE float normf(int count, const float* values) {
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += values[i] * values[i];
  return sqrtf(sum);
}
CDNA_DEVICE double norm(int count, const double* values) {
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += values[i] * values[i];
  return sqrt(sum);
}
CDNA_DEVICE float rnormf(int count, const float* values) { return 1.0f / normf(count, values); }
CDNA_DEVICE double rnorm(int count, const double* values) { return 1.0 / norm(count, values); }
// Bessel functions of order n, by the recurrence f(n + 1) = 2 n / x f(n) - f(n - 1).
#define CDNA_BESSEL(type, name, zero, one)  \
  CDNA_DEVICE type name(int n, type x) {    \
    if (n == 0) return zero(x);             \
    type before = zero(x), now = one(x);    \
    for (int i = 1; i < n; ++i) {           \
      type next = 2 * i / x * now - before; \
      before = now, now = next;             \
    }                                       \
    return now;                             \
  }
// clang-format off
CDNA_BESSEL(double, jn, j0, j1) CDNA_BESSEL(float, jnf, j0f, j1f)
CDNA_BESSEL(double, yn, y0, y1) CDNA_BESSEL(float, ynf, y0f, y1f)
// clang-format on
#undef CDNA_BESSEL

    // Fast intrinsics: the hardware's own instructions where it has one.
    CDNA_DEVICE float __cosf(float x) {
  return __ocml_native_cos_f32(x);
}
CDNA_DEVICE float __sinf(float x) { return __ocml_native_sin_f32(x); }
CDNA_DEVICE float __tanf(float x) { return __sinf(x) * __builtin_amdgcn_rcpf(__cosf(x)); }
CDNA_DEVICE void __sincosf(float x, float* sine, float* cosine) { *sine = __sinf(x), *cosine = __cosf(x); }
CDNA_DEVICE float __expf(float x) { return __builtin_amdgcn_exp2f(0x1.715476p+0f * x); }    // log2(e)
CDNA_DEVICE float __exp10f(float x) { return __builtin_amdgcn_exp2f(0x1.a934f0p+1f * x); }  // log2(10)
CDNA_DEVICE float __log2f(float x) { return __builtin_amdgcn_logf(x); }
CDNA_DEVICE float __logf(float x) { return __builtin_logf(x); }
CDNA_DEVICE float __log10f(float x) { return __builtin_log10f(x); }
CDNA_DEVICE float __powf(float x, float y) { return __ocml_pow_f32(x, y); }
CDNA_DEVICE float __fdividef(float x, float y) { return x / y; }
CDNA_DEVICE float fdividef(float x, float y) { return x / y; }
CDNA_DEVICE float __frsqrt_rn(float x) { return __builtin_amdgcn_rsqf(x); }
CDNA_DEVICE float __saturatef(float x) { return x < 0 ? 0 : x > 1 ? 1 : x == x ? x : 0; }
CDNA_DEVICE float __frcp_rn(float x) { return 1.0f / x; }
CDNA_DEVICE double __drcp_rn(double x) { return 1.0 / x; }
CDNA_DEVICE float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
CDNA_DEVICE double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
CDNA_DEVICE float __fadd_rn(float x, float y) { return x + y; }
CDNA_DEVICE float __fsub_rn(float x, float y) { return x - y; }
CDNA_DEVICE float __fmul_rn(float x, float y) { return x * y; }
CDNA_DEVICE float __fdiv_rn(float x, float y) { return x / y; }
CDNA_DEVICE float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
CDNA_DEVICE double __dadd_rn(double x, double y) { return x + y; }
CDNA_DEVICE double __dsub_rn(double x, double y) { return x - y; }
CDNA_DEVICE double __dmul_rn(double x, double y) { return x * y; }
CDNA_DEVICE double __ddiv_rn(double x, double y) { return x / y; }
CDNA_DEVICE double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
CDNA_DEVICE int __finitef(float x) { return __builtin_isfinite(x); }
CDNA_DEVICE int __finite(double x) { return __builtin_isfinite(x); }
CDNA_DEVICE int __isinff(float x) { return __builtin_isinf(x); }
CDNA_DEVICE int __isinf(double x) { return __builtin_isinf(x); }
CDNA_DEVICE int __isnanf(float x) { return __builtin_isnan(x); }
CDNA_DEVICE int __isnan(double x) { return __builtin_isnan(x); }
CDNA_DEVICE int __signbitf(float x) { return __builtin_signbitf(x); }
CDNA_DEVICE int __signbit(double x) { return __builtin_signbit(x); }

// min and max without std::, of device and of host code.
// clang-format off
#define CDNA_MIN_MAX(type)                                         \
  CDNA_DEVICE type min(type x, type y) { return x < y ? x : y; }   \
  CDNA_DEVICE type max(type x, type y) { return x < y ? y : x; }
CDNA_MIN_MAX(int) CDNA_MIN_MAX(unsigned) CDNA_MIN_MAX(long) CDNA_MIN_MAX(unsigned long)
CDNA_MIN_MAX(long long) CDNA_MIN_MAX(unsigned long long)
#undef CDNA_MIN_MAX
CDNA_DEVICE float min(float x, float y) { return __builtin_fminf(x, y); }
CDNA_DEVICE float max(float x, float y) { return __builtin_fmaxf(x, y); }
CDNA_DEVICE double min(double x, double y) { return __builtin_fmin(x, y); }
CDNA_DEVICE double max(double x, double y) { return __builtin_fmax(x, y); }
#define CDNA_PROMOTE(name) \
  template <class T, class U> CDNA_DEVICE CDNA_MIXED(T, U) name(T x, U y) { return name((double)x, (double)y); }
CDNA_PROMOTE(max)
CDNA_PROMOTE(min)
// clang-format on
#undef CDNA_PROMOTE
__attribute__((host)) inline static int min(int x, int y) { return x < y ? x : y; }
__attribute__((host)) inline static int max(int x, int y) { return x < y ? y : x; }
#undef CDNA_PRIVATE
