// 8-bit floating-point numbers: e4m3 and e5m2, each in the OCP form (gfx950's own) and in the fnuz form (gfx942's own).
// Names: ROCm documentation, "HIP math API", FP8. Formats: "OCP 8-bit Floating Point Specification" 1.0, and
// "8-bit Numerical Formats for Deep Neural Networks" (Noune et al., 2022) for fnuz.
//
//              bias  largest        infinity  NaN          minus zero
//   e4m3         7   448    0x7e    none      0x7f 0xff    yes
//   e4m3_fnuz    8   240    0x7f    none      0x80         none
//   e5m2        15   57344  0x7b    0x7c      0x7d..0x7f   yes
//   e5m2_fnuz   16   57344  0x7f    none      0x80         none
//
// The form that the arch knows converts by its instructions in device code; the other one, and all on the host, in
// software. (ROCm refuses the arch's other form in device code.) In device code an infinity becomes NaN in the
// arch's own form even with __HIP_SATFINITE, as with ROCm's headers, and the largest number in software.
#pragma once

#include <hip/hip_bf16.h>
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
#include "amd_detail/cdna_fp8_software.h"

#if defined(__gfx942__)
#define HIP_FP8_TYPE_FNUZ 1
#define HIP_FP8_TYPE_OCP 0
#define HIP_FP8_CVT_FAST_PATH 1
#elif defined(__gfx950__)
#define HIP_FP8_TYPE_FNUZ 0
#define HIP_FP8_TYPE_OCP 1
#define HIP_FP8_CVT_FAST_PATH 1
#else
#define HIP_FP8_TYPE_FNUZ 1
#define HIP_FP8_TYPE_OCP 1
#define HIP_FP8_CVT_FAST_PATH 0
#endif

// ---- by the arch's instructions
CDNA_HD constexpr bool __cdna_fp8_native(__hip_fp8_interpretation_t kind) {
#if defined(__gfx942__)
  return kind == __HIP_E4M3_FNUZ || kind == __HIP_E5M2_FNUZ;
#elif defined(__gfx950__)
  return kind == __HIP_E4M3 || kind == __HIP_E5M2;
#else
  return false;
#endif
}
#if HIP_FP8_CVT_FAST_PATH
// The instructions overflow to NaN or infinity; what is not finite is left to them.
CDNA_D float __cdna_fp8_clamp(float value, __hip_saturation_t saturate, __hip_fp8_interpretation_t kind) {
  const float largest = kind == __HIP_E4M3 ? 448.0f : kind == __HIP_E4M3_FNUZ ? 240.0f : 57344.0f;
  const bool finite = (__cdna_bits(value) & 0x7f800000) != 0x7f800000;
  return saturate == __HIP_SATFINITE && finite ? __builtin_amdgcn_fmed3f(value, largest, -largest) : value;
}
CDNA_D __hip_fp8x2_storage_t __cdna_fp8_pack(float low, float high, __hip_saturation_t saturate,
                                             __hip_fp8_interpretation_t kind) {
  low = __cdna_fp8_clamp(low, saturate, kind), high = __cdna_fp8_clamp(high, saturate, kind);
  const bool e4m3 = kind == __HIP_E4M3 || kind == __HIP_E4M3_FNUZ;
  return (__hip_fp8x2_storage_t)(e4m3 ? __builtin_amdgcn_cvt_pk_fp8_f32(low, high, 0, false)
                                      : __builtin_amdgcn_cvt_pk_bf8_f32(low, high, 0, false));
}
#endif

// ---- conversions
CDNA_HD __hip_fp8_storage_t __hip_cvt_float_to_fp8(float a, __hip_saturation_t saturate,
                                                   __hip_fp8_interpretation_t kind) {
#if HIP_FP8_CVT_FAST_PATH
  if (__cdna_fp8_native(kind)) return (__hip_fp8_storage_t)__cdna_fp8_pack(a, a, saturate, kind);
#endif
  return __cdna_fp8_encode(a, saturate, kind);
}
CDNA_HD __hip_fp8x2_storage_t __hip_cvt_float2_to_fp8x2(float2 a, __hip_saturation_t saturate,
                                                        __hip_fp8_interpretation_t kind) {
#if HIP_FP8_CVT_FAST_PATH
  if (__cdna_fp8_native(kind)) return __cdna_fp8_pack(a.x, a.y, saturate, kind);
#endif
  return (__hip_fp8x2_storage_t)(__cdna_fp8_encode(a.x, saturate, kind) | __cdna_fp8_encode(a.y, saturate, kind) << 8);
}
CDNA_HD float __cdna_fp8_to_float(__hip_fp8_storage_t a, __hip_fp8_interpretation_t kind) {
#if HIP_FP8_CVT_FAST_PATH
  if (__cdna_fp8_native(kind))
    return kind == __HIP_E4M3 || kind == __HIP_E4M3_FNUZ ? __builtin_amdgcn_cvt_f32_fp8(a, 0)
                                                         : __builtin_amdgcn_cvt_f32_bf8(a, 0);
#endif
  return __cdna_fp8_decode(a, kind);
}
CDNA_HD float2 __cdna_fp8x2_to_float2(__hip_fp8x2_storage_t a, __hip_fp8_interpretation_t kind) {
#if HIP_FP8_CVT_FAST_PATH
  if (__cdna_fp8_native(kind)) {
    auto both = kind == __HIP_E4M3 || kind == __HIP_E4M3_FNUZ ? __builtin_amdgcn_cvt_pk_f32_fp8(a, false)
                                                              : __builtin_amdgcn_cvt_pk_f32_bf8(a, false);
    return make_float2(both[0], both[1]);
  }
#endif
  return make_float2(__cdna_fp8_decode((unsigned char)a, kind), __cdna_fp8_decode((unsigned char)(a >> 8), kind));
}
// A double by way of a float that keeps, in its last bit, that it was rounded: so that it is rounded once.
CDNA_HD float __cdna_fp8_near(double a) {
  float near = (float)a;
  unsigned int bits = __cdna_bits(near);
  if ((double)near == a || (bits & 0x7f800000) == 0x7f800000) return near;
  return __cdna_float((__builtin_fabs((double)near) > __builtin_fabs(a) ? bits - 1 : bits) | 1);
}
CDNA_HD __hip_fp8_storage_t __hip_cvt_double_to_fp8(double a, __hip_saturation_t saturate,
                                                    __hip_fp8_interpretation_t kind) {
  return __hip_cvt_float_to_fp8(__cdna_fp8_near(a), saturate, kind);
}
CDNA_HD __hip_fp8x2_storage_t __hip_cvt_double2_to_fp8x2(double2 a, __hip_saturation_t saturate,
                                                         __hip_fp8_interpretation_t kind) {
  return __hip_cvt_float2_to_fp8x2(make_float2(__cdna_fp8_near(a.x), __cdna_fp8_near(a.y)), saturate, kind);
}
CDNA_HD __hip_fp8_storage_t __hip_cvt_halfraw_to_fp8(__half_raw a, __hip_saturation_t saturate,
                                                     __hip_fp8_interpretation_t kind) {
  return __hip_cvt_float_to_fp8((float)a.data, saturate, kind);
}
CDNA_HD __hip_fp8x2_storage_t __hip_cvt_halfraw2_to_fp8x2(__half2_raw a, __hip_saturation_t saturate,
                                                          __hip_fp8_interpretation_t kind) {
  return __hip_cvt_float2_to_fp8x2(make_float2((float)a.data.x, (float)a.data.y), saturate, kind);
}
CDNA_HD __hip_fp8_storage_t __hip_cvt_bfloat16raw_to_fp8(__hip_bfloat16_raw a, __hip_saturation_t saturate,
                                                         __hip_fp8_interpretation_t kind) {
  return __hip_cvt_float_to_fp8(__cdna_bf16_value(a.x), saturate, kind);
}
CDNA_HD __hip_fp8x2_storage_t __hip_cvt_bfloat16raw2_to_fp8x2(__hip_bfloat162_raw a, __hip_saturation_t saturate,
                                                              __hip_fp8_interpretation_t kind) {
  return __hip_cvt_float2_to_fp8x2(make_float2(__cdna_bf16_value(a.x), __cdna_bf16_value(a.y)), saturate, kind);
}
CDNA_HD __half_raw __hip_cvt_fp8_to_halfraw(__hip_fp8_storage_t a, __hip_fp8_interpretation_t kind) {
  return __half_raw{{(_Float16)__cdna_fp8_to_float(a, kind)}};
}
CDNA_HD __half2_raw __hip_cvt_fp8x2_to_halfraw2(__hip_fp8x2_storage_t a, __hip_fp8_interpretation_t kind) {
  float2 both = __cdna_fp8x2_to_float2(a, kind);
  return __half2_raw{{_Float16_2{(_Float16)both.x, (_Float16)both.y}}};
}

// ---- types: one number, two, four
#define CDNA_FP8(suffix, kind)                                                                                    \
  struct __hip_fp8_##suffix {                                                                                     \
    __hip_fp8_storage_t __x;                                                                                      \
    static constexpr __hip_saturation_t __default_saturation = __HIP_SATFINITE;                                   \
    static constexpr __hip_fp8_interpretation_t __default_interpret = kind;                                       \
    __hip_fp8_##suffix() = default;                                                                               \
    CDNA_HD __hip_fp8_##suffix(float a) : __x(__hip_cvt_float_to_fp8(a, __HIP_SATFINITE, kind)) {}                \
    CDNA_HD __hip_fp8_##suffix(double a) : __x(__hip_cvt_double_to_fp8(a, __HIP_SATFINITE, kind)) {}              \
    CDNA_HD __hip_fp8_##suffix(__half a) : __x(__hip_cvt_halfraw_to_fp8(a, __HIP_SATFINITE, kind)) {}             \
    CDNA_HD __hip_fp8_##suffix(__hip_bfloat16 a) : __x(__hip_cvt_bfloat16raw_to_fp8(a, __HIP_SATFINITE, kind)) {} \
    template <class T, typename std::enable_if<__is_integral(T)>::type* = nullptr>                                \
    CDNA_HD __hip_fp8_##suffix(T a) : __x(__hip_cvt_double_to_fp8((double)a, __HIP_SATFINITE, kind)) {}           \
    CDNA_HD operator float() const { return __cdna_fp8_to_float(__x, kind); }                                     \
    CDNA_HD operator __half() const { return __half(__hip_cvt_fp8_to_halfraw(__x, kind)); }                       \
    CDNA_HD operator __hip_bfloat16() const { return __float2bfloat16((float)*this); }                            \
    template <class T, typename std::enable_if<__is_arithmetic(T)>::type* = nullptr>                              \
    CDNA_HD explicit operator T() const {                                                                         \
      return (T)__cdna_fp8_to_float(__x, kind);                                                                   \
    }                                                                                                             \
  };                                                                                                              \
  struct __hip_fp8x2_##suffix {                                                                                   \
    __hip_fp8x2_storage_t __x;                                                                                    \
    static constexpr __hip_saturation_t __default_saturation = __HIP_SATFINITE;                                   \
    static constexpr __hip_fp8_interpretation_t __default_interpret = kind;                                       \
    __hip_fp8x2_##suffix() = default;                                                                             \
    CDNA_HD __hip_fp8x2_##suffix(float2 a) : __x(__hip_cvt_float2_to_fp8x2(a, __HIP_SATFINITE, kind)) {}          \
    CDNA_HD __hip_fp8x2_##suffix(double2 a) : __x(__hip_cvt_double2_to_fp8x2(a, __HIP_SATFINITE, kind)) {}        \
    CDNA_HD __hip_fp8x2_##suffix(__half2 a) : __x(__hip_cvt_halfraw2_to_fp8x2(a, __HIP_SATFINITE, kind)) {}       \
    CDNA_HD __hip_fp8x2_##suffix(__hip_bfloat162 a)                                                               \
        : __x(__hip_cvt_bfloat16raw2_to_fp8x2(a, __HIP_SATFINITE, kind)) {}                                       \
    CDNA_HD operator float2() const { return __cdna_fp8x2_to_float2(__x, kind); }                                 \
    CDNA_HD operator __half2() const { return __half2(__hip_cvt_fp8x2_to_halfraw2(__x, kind)); }                  \
  };                                                                                                              \
  struct __hip_fp8x4_##suffix {                                                                                   \
    __hip_fp8x4_storage_t __x;                                                                                    \
    static constexpr __hip_saturation_t __default_saturation = __HIP_SATFINITE;                                   \
    static constexpr __hip_fp8_interpretation_t __default_interpret = kind;                                       \
    __hip_fp8x4_##suffix() = default;                                                                             \
    CDNA_HD __hip_fp8x4_##suffix(__hip_fp8x2_##suffix low, __hip_fp8x2_##suffix high)                             \
        : __x(low.__x | (__hip_fp8x4_storage_t)high.__x << 16) {}                                                 \
    CDNA_HD __hip_fp8x4_##suffix(float4 a)                                                                        \
        : __hip_fp8x4_##suffix(__hip_fp8x2_##suffix(make_float2(a.x, a.y)),                                       \
                               __hip_fp8x2_##suffix(make_float2(a.z, a.w))) {}                                    \
    CDNA_HD __hip_fp8x4_##suffix(double4 a)                                                                       \
        : __hip_fp8x4_##suffix(__hip_fp8x2_##suffix(make_double2(a.x, a.y)),                                      \
                               __hip_fp8x2_##suffix(make_double2(a.z, a.w))) {}                                   \
    CDNA_HD __hip_fp8x4_##suffix(__half2 low, __half2 high)                                                       \
        : __hip_fp8x4_##suffix(__hip_fp8x2_##suffix(low), __hip_fp8x2_##suffix(high)) {}                          \
    CDNA_HD __hip_fp8x4_##suffix(__hip_bfloat162 low, __hip_bfloat162 high)                                       \
        : __hip_fp8x4_##suffix(__hip_fp8x2_##suffix(low), __hip_fp8x2_##suffix(high)) {}                          \
    CDNA_HD operator float4() const {                                                                             \
      float2 low = __cdna_fp8x2_to_float2((__hip_fp8x2_storage_t)__x, kind);                                      \
      float2 high = __cdna_fp8x2_to_float2((__hip_fp8x2_storage_t)(__x >> 16), kind);                             \
      return make_float4(low.x, low.y, high.x, high.y);                                                           \
    }                                                                                                             \
  };
CDNA_FP8(e4m3, __HIP_E4M3)
CDNA_FP8(e5m2, __HIP_E5M2)
CDNA_FP8(e4m3_fnuz, __HIP_E4M3_FNUZ)
CDNA_FP8(e5m2_fnuz, __HIP_E5M2_FNUZ)
#undef CDNA_FP8
