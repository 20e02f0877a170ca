// __hip_bfloat16 and __hip_bfloat162: the upper half of an IEEE float, and the intrinsics on them (ROCm
// documentation, "HIP math API", bfloat16). Arithmetic is that of floats, each result rounded to nearest even.
#pragma once

#include <hip/hip_runtime.h>
#include <type_traits>
#include "amd_detail/cdna_narrow_float.h"

// On a device the compiler's own conversion: one instruction on gfx950, the same steps as below on gfx942.
CDNA_HD unsigned short __cdna_bf16_bits(float value) {
#if __HIP_DEVICE_COMPILE__
  return __builtin_bit_cast(unsigned short, (__bf16)value);
#else
  unsigned int bits = __cdna_bits(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return (unsigned short)(bits >> 16 | 0x40);  // a quiet NaN stays one
  return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
#endif
}
CDNA_HD float __cdna_bf16_value(unsigned short bits) { return __cdna_float((unsigned int)bits << 16); }

struct __attribute__((aligned(2))) __hip_bfloat16_raw {
  unsigned short x;
};
struct __attribute__((aligned(4))) __hip_bfloat162_raw {
  unsigned short x, y;
};

struct __attribute__((aligned(2))) __hip_bfloat16 {
  unsigned short __x;

  __hip_bfloat16() = default;
  CDNA_HD __hip_bfloat16(const __hip_bfloat16_raw& raw) : __x(raw.x) {}
  CDNA_HD operator __hip_bfloat16_raw() const { return __hip_bfloat16_raw{__x}; }
  template <class T, typename std::enable_if<__is_arithmetic(T)>::type* = nullptr>
  CDNA_HD __hip_bfloat16(T value) : __x(__cdna_bf16_bits((float)value)) {}
  // By way of float, but rounded once: a float keeps one bit of whether the double was above or below it.
  CDNA_HD __hip_bfloat16(double value) {
    float near = (float)value;
    unsigned int bits = __cdna_bits(near);
    if ((double)near != value && (bits & 0x7f800000) != 0x7f800000) {
      bool grew = __builtin_fabs((double)near) > __builtin_fabs(value);
      bits = (grew ? bits - 1 : bits) | 1;
    }
    __x = __cdna_bf16_bits(__cdna_float(bits));
  }
#define CDNA_TO(type) \
  CDNA_HD operator type() const { return (type)__cdna_bf16_value(__x); }
  // clang-format off
  CDNA_TO(float) CDNA_TO(char) CDNA_TO(signed char) CDNA_TO(unsigned char) CDNA_TO(short) CDNA_TO(unsigned short)
  CDNA_TO(int) CDNA_TO(unsigned int) CDNA_TO(long) CDNA_TO(unsigned long) CDNA_TO(long long) CDNA_TO(unsigned long long)
// clang-format on
#undef CDNA_TO
          CDNA_HD operator bool() const {
    return (__x & 0x7fff) != 0;
  }
};

struct __attribute__((aligned(4))) __hip_bfloat162 {
  __hip_bfloat16 x, y;

  __hip_bfloat162() = default;
  CDNA_HD __hip_bfloat162(const __hip_bfloat16& low, const __hip_bfloat16& high) : x(low), y(high) {}
  CDNA_HD __hip_bfloat162(const __hip_bfloat162_raw& raw)
      : x(__hip_bfloat16_raw{raw.x}), y(__hip_bfloat16_raw{raw.y}) {}
  CDNA_HD operator __hip_bfloat162_raw() const { return __hip_bfloat162_raw{x.__x, y.__x}; }
  CDNA_HD operator float2() const { return make_float2(__cdna_bf16_value(x.__x), __cdna_bf16_value(y.__x)); }
};

// ---- bits, pairs, conversions
CDNA_HD float __bfloat162float(__hip_bfloat16 a) { return __cdna_bf16_value(a.__x); }
CDNA_HD __hip_bfloat16 __float2bfloat16(float a) { return __hip_bfloat16_raw{__cdna_bf16_bits(a)}; }
CDNA_YIELDS CDNA_HD __hip_bfloat16 __float2bfloat16_rn(float a) { return __float2bfloat16(a); }
CDNA_HD __hip_bfloat16 __double2bfloat16(double a) { return __hip_bfloat16(a); }
CDNA_HD short __bfloat16_as_short(__hip_bfloat16 a) { return (short)a.__x; }
CDNA_HD unsigned short __bfloat16_as_ushort(__hip_bfloat16 a) { return a.__x; }
CDNA_HD __hip_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __hip_bfloat16_raw{bits}; }
CDNA_HD __hip_bfloat16 __short_as_bfloat16(short bits) { return __hip_bfloat16_raw{(unsigned short)bits}; }
CDNA_HD __hip_bfloat162 __halves2bfloat162(__hip_bfloat16 low, __hip_bfloat16 high) {
  return __hip_bfloat162(low, high);
}
CDNA_YIELDS CDNA_HD __hip_bfloat162 make_bfloat162(__hip_bfloat16 low, __hip_bfloat16 high) {
  return __hip_bfloat162(low, high);
}
CDNA_HD __hip_bfloat162 __bfloat162bfloat162(__hip_bfloat16 a) { return __hip_bfloat162(a, a); }
CDNA_YIELDS CDNA_HD __hip_bfloat162 __float2bfloat162_rn(float a) { return __bfloat162bfloat162(__float2bfloat16(a)); }
CDNA_YIELDS CDNA_HD __hip_bfloat162 __floats2bfloat162_rn(float low, float high) {
  return __hip_bfloat162(__float2bfloat16(low), __float2bfloat16(high));
}
CDNA_HD __hip_bfloat162 __float22bfloat162_rn(float2 a) { return __floats2bfloat162_rn(a.x, a.y); }
CDNA_HD float2 __bfloat1622float2(__hip_bfloat162 a) { return (float2)a; }
CDNA_HD __hip_bfloat16 __low2bfloat16(__hip_bfloat162 a) { return a.x; }
CDNA_HD __hip_bfloat16 __high2bfloat16(__hip_bfloat162 a) { return a.y; }
CDNA_HD __hip_bfloat162 __low2bfloat162(__hip_bfloat162 a) { return __hip_bfloat162(a.x, a.x); }
CDNA_HD __hip_bfloat162 __high2bfloat162(__hip_bfloat162 a) { return __hip_bfloat162(a.y, a.y); }
CDNA_HD __hip_bfloat162 __lows2bfloat162(__hip_bfloat162 a, __hip_bfloat162 b) { return __hip_bfloat162(a.x, b.x); }
CDNA_HD __hip_bfloat162 __highs2bfloat162(__hip_bfloat162 a, __hip_bfloat162 b) { return __hip_bfloat162(a.y, b.y); }
CDNA_HD __hip_bfloat162 __lowhigh2highlow(__hip_bfloat162 a) { return __hip_bfloat162(a.y, a.x); }
CDNA_HD float __low2float(__hip_bfloat162 a) { return __bfloat162float(a.x); }
CDNA_HD float __high2float(__hip_bfloat162 a) { return __bfloat162float(a.y); }

// ---- what the header common with half expects; its one-argument functions are those of floats
CDNA_HD __hip_bfloat16 __hfma(__hip_bfloat16 a, __hip_bfloat16 b, __hip_bfloat16 c) {
  return __float2bfloat16(__builtin_fmaf(__bfloat162float(a), __bfloat162float(b), __bfloat162float(c)));
}
#define CDNA_T __hip_bfloat16
#define CDNA_T2 __hip_bfloat162
#define CDNA_OF(value) __float2bfloat16((float)(value))
#define CDNA_IN(a) __bfloat162float(a)
#define CDNA_BITS(a) (a).__x
#define CDNA_FROM_BITS(bits) __ushort_as_bfloat16(bits)
#define CDNA_INFINITY 0x7f80
#define CDNA_OCML(name, a) __ocml_##name##_f32(__bfloat162float(a))
#include "amd_detail/cdna_narrow_functions.inc"

CDNA_HD __hip_bfloat162 __hadd2(__hip_bfloat162 a, __hip_bfloat162 b) { return {__hadd(a.x, b.x), __hadd(a.y, b.y)}; }
CDNA_HD __hip_bfloat162 __hsub2(__hip_bfloat162 a, __hip_bfloat162 b) { return {__hsub(a.x, b.x), __hsub(a.y, b.y)}; }
CDNA_HD __hip_bfloat162 __hmul2(__hip_bfloat162 a, __hip_bfloat162 b) { return {__hmul(a.x, b.x), __hmul(a.y, b.y)}; }
CDNA_HD __hip_bfloat162 __h2div(__hip_bfloat162 a, __hip_bfloat162 b) { return {__hdiv(a.x, b.x), __hdiv(a.y, b.y)}; }
CDNA_HD __hip_bfloat162 __hneg2(__hip_bfloat162 a) { return {__hneg(a.x), __hneg(a.y)}; }
CDNA_HD __hip_bfloat162 __hfma2(__hip_bfloat162 a, __hip_bfloat162 b, __hip_bfloat162 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
typedef short __cdna_bf16x2 __attribute__((ext_vector_type(2)));
CDNA_D __hip_bfloat162 unsafeAtomicAdd(__hip_bfloat162* address, __hip_bfloat162 value) {
  return __builtin_bit_cast(__hip_bfloat162, __builtin_amdgcn_flat_atomic_fadd_v2bf16(
                                                 (__cdna_bf16x2*)address, __builtin_bit_cast(__cdna_bf16x2, value)));
}

// ---- operators
#define CDNA_OPERATORS(T, add, sub, mul, div, neg)                  \
  CDNA_HD T operator+(const T& a, const T& b) { return add(a, b); } \
  CDNA_HD T operator-(const T& a, const T& b) { return sub(a, b); } \
  CDNA_HD T operator*(const T& a, const T& b) { return mul(a, b); } \
  CDNA_HD T operator/(const T& a, const T& b) { return div(a, b); } \
  CDNA_HD T& operator+=(T& a, const T& b) { return a = add(a, b); } \
  CDNA_HD T& operator-=(T& a, const T& b) { return a = sub(a, b); } \
  CDNA_HD T& operator*=(T& a, const T& b) { return a = mul(a, b); } \
  CDNA_HD T& operator/=(T& a, const T& b) { return a = div(a, b); } \
  CDNA_HD T operator+(const T& a) { return a; }                     \
  CDNA_HD T operator-(const T& a) { return neg(a); }
// clang-format off
CDNA_OPERATORS(__hip_bfloat16, __hadd, __hsub, __hmul, __hdiv, __hneg)
CDNA_OPERATORS(__hip_bfloat162, __hadd2, __hsub2, __hmul2, __h2div, __hneg2)
#undef CDNA_OPERATORS
CDNA_HD __hip_bfloat16& operator++(__hip_bfloat16& a) { return a = __hadd(a, __float2bfloat16(1)); }
CDNA_HD __hip_bfloat16& operator--(__hip_bfloat16& a) { return a = __hsub(a, __float2bfloat16(1)); }
#define CDNA_COMPARE(op)                                                                  \
  CDNA_HD bool operator op(const __hip_bfloat16& a, const __hip_bfloat16& b) {            \
    return __bfloat162float(a) op __bfloat162float(b);                                    \
  }
CDNA_COMPARE(==) CDNA_COMPARE(!=) CDNA_COMPARE(<) CDNA_COMPARE(<=) CDNA_COMPARE(>) CDNA_COMPARE(>=)
// clang-format on
#undef CDNA_COMPARE
    CDNA_HD bool operator==(const __hip_bfloat162& a, const __hip_bfloat162& b) {
  return a.x == b.x && a.y == b.y;
}
CDNA_HD bool operator!=(const __hip_bfloat162& a, const __hip_bfloat162& b) { return !(a == b); }
