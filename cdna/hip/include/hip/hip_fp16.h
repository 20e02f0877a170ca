// __half and __half2: 16-bit IEEE numbers, and the intrinsics on them (ROCm documentation, "HIP math API",
// half-precision and half2). Arithmetic is the compiler's on _Float16, so a pair takes one packed instruction.
// As in ROCm, __HIP_NO_HALF_OPERATORS__ and __HIP_NO_HALF_CONVERSIONS__ leave out operators and conversions.
#pragma once

#include <hip/hip_runtime.h>
#include <type_traits>
#include "amd_detail/cdna_narrow_float.h"

typedef _Float16 _Float16_2 __attribute__((ext_vector_type(2)));

struct __half_raw {
  union {
    _Float16 data;
    unsigned short x;
  };
};

struct __half2_raw {
  union {
    _Float16_2 data;
    struct {
      unsigned short x, y;
    };
  };
};

struct __half {
  union {
    _Float16 data;
    unsigned short __x;
  };

  __half() = default;
  CDNA_HD __half(_Float16 value) : data(value) {}
  CDNA_HD __half(const __half_raw& raw) : data(raw.data) {}
  CDNA_HD operator __half_raw() const { return __half_raw{{data}}; }
#if !defined(__HIP_NO_HALF_CONVERSIONS__)
  template <class T, typename std::enable_if<__is_arithmetic(T) && !__is_same(T, _Float16)>::type* = nullptr>
  CDNA_HD __half(T value) : data(static_cast<_Float16>(value)) {}
  template <class T, typename std::enable_if<__is_arithmetic(T) || __is_same(T, _Float16)>::type* = nullptr>
  CDNA_HD operator T() const {
    return static_cast<T>(data);
  }
#endif
#if !defined(__HIP_NO_HALF_OPERATORS__)
  CDNA_HD __half& operator+=(const __half& other) { return *this = __half(_Float16(data + other.data)); }
  CDNA_HD __half& operator-=(const __half& other) { return *this = __half(_Float16(data - other.data)); }
  CDNA_HD __half& operator*=(const __half& other) { return *this = __half(_Float16(data * other.data)); }
  CDNA_HD __half& operator/=(const __half& other) { return *this = __half(_Float16(data / other.data)); }
  CDNA_HD __half& operator++() { return *this = __half(_Float16(data + _Float16(1))); }
  CDNA_HD __half& operator--() { return *this = __half(_Float16(data - _Float16(1))); }
  CDNA_HD __half operator++(int) {
    __half before = *this;
    ++*this;
    return before;
  }
  CDNA_HD __half operator--(int) {
    __half before = *this;
    --*this;
    return before;
  }
  CDNA_HD __half operator+() const { return *this; }
  CDNA_HD __half operator-() const { return __half(_Float16(-data)); }
  friend CDNA_HD __half operator+(const __half& a, const __half& b) { return __half(_Float16(a.data + b.data)); }
  friend CDNA_HD __half operator-(const __half& a, const __half& b) { return __half(_Float16(a.data - b.data)); }
  friend CDNA_HD __half operator*(const __half& a, const __half& b) { return __half(_Float16(a.data * b.data)); }
  friend CDNA_HD __half operator/(const __half& a, const __half& b) { return __half(_Float16(a.data / b.data)); }
  friend CDNA_HD bool operator==(const __half& a, const __half& b) { return a.data == b.data; }
  friend CDNA_HD bool operator!=(const __half& a, const __half& b) { return a.data != b.data; }
  friend CDNA_HD bool operator<(const __half& a, const __half& b) { return a.data < b.data; }
  friend CDNA_HD bool operator>(const __half& a, const __half& b) { return a.data > b.data; }
  friend CDNA_HD bool operator<=(const __half& a, const __half& b) { return a.data <= b.data; }
  friend CDNA_HD bool operator>=(const __half& a, const __half& b) { return a.data >= b.data; }
#endif
};

struct __half2 {
  union {
    _Float16_2 data;
    struct {
      __half x, y;
    };
  };

  __half2() = default;
  CDNA_HD __half2(_Float16_2 value) : data(value) {}
  CDNA_HD constexpr __half2(const __half& low, const __half& high) : data{low.data, high.data} {}
  CDNA_HD __half2(const __half2_raw& raw) : data(raw.data) {}
  CDNA_HD operator _Float16_2() const { return data; }
  CDNA_HD operator __half2_raw() const { return __half2_raw{{data}}; }
#if !defined(__HIP_NO_HALF_OPERATORS__)
  CDNA_HD __half2& operator+=(const __half2& other) {
    data += other.data;
    return *this;
  }
  CDNA_HD __half2& operator-=(const __half2& other) {
    data -= other.data;
    return *this;
  }
  CDNA_HD __half2& operator*=(const __half2& other) {
    data *= other.data;
    return *this;
  }
  CDNA_HD __half2& operator/=(const __half2& other) {
    data /= other.data;
    return *this;
  }
  CDNA_HD __half2 operator+() const { return *this; }
  CDNA_HD __half2 operator-() const { return __half2(-data); }
  friend CDNA_HD __half2 operator+(const __half2& a, const __half2& b) { return __half2(a.data + b.data); }
  friend CDNA_HD __half2 operator-(const __half2& a, const __half2& b) { return __half2(a.data - b.data); }
  friend CDNA_HD __half2 operator*(const __half2& a, const __half2& b) { return __half2(a.data * b.data); }
  friend CDNA_HD __half2 operator/(const __half2& a, const __half2& b) { return __half2(a.data / b.data); }
  friend CDNA_HD bool operator==(const __half2& a, const __half2& b) {
    return a.x.data == b.x.data && a.y.data == b.y.data;
  }
  friend CDNA_HD bool operator!=(const __half2& a, const __half2& b) { return !(a == b); }
#endif
};

#if !defined(HIP_NO_HALF)
using half = __half;
using half2 = __half2;
#endif

// ---- bits, pairs
CDNA_HD short __half_as_short(__half a) { return (short)a.__x; }
CDNA_HD unsigned short __half_as_ushort(__half a) { return a.__x; }
CDNA_HD __half __ushort_as_half(unsigned short bits) {
  __half a;
  a.__x = bits;
  return a;
}
CDNA_HD __half __short_as_half(short bits) { return __ushort_as_half((unsigned short)bits); }
CDNA_HD __half2 __halves2half2(__half low, __half high) { return __half2(low, high); }
CDNA_HD __half2 make_half2(__half low, __half high) { return __half2(low, high); }
CDNA_HD __half2 __half2half2(__half a) { return __half2(a, a); }
CDNA_HD __half __low2half(__half2 a) { return a.x; }
CDNA_HD __half __high2half(__half2 a) { return a.y; }
CDNA_HD __half2 __low2half2(__half2 a) { return __half2(a.x, a.x); }
CDNA_HD __half2 __high2half2(__half2 a) { return __half2(a.y, a.y); }
CDNA_HD __half2 __lows2half2(__half2 a, __half2 b) { return __half2(a.x, b.x); }
CDNA_HD __half2 __highs2half2(__half2 a, __half2 b) { return __half2(a.y, b.y); }
CDNA_HD __half2 __lowhigh2highlow(__half2 a) { return __half2(a.y, a.x); }

// ---- conversions: rn to nearest even, rd down, ru up, rz towards zero
// `wanted` is exact; the neighbours of the nearest __half are one step of its bits away.
CDNA_HD __half __cdna_half_directed(double wanted, int direction) {
  __half nearest((_Float16)wanted);
  double got = (double)nearest.data;
  bool negative = nearest.__x & 0x8000;
  if (direction < 0 && got > wanted) {
    nearest.__x = nearest.__x == 0 ? 0x8001 : negative ? nearest.__x + 1 : nearest.__x - 1;
  } else if (direction > 0 && got < wanted) {
    nearest.__x = nearest.__x == 0x8000 ? 0x0001 : negative ? nearest.__x - 1 : nearest.__x + 1;
  }
  return nearest;
}
CDNA_HD __half __float2half(float a) { return __half((_Float16)a); }
CDNA_HD __half __float2half_rn(float a) { return __half((_Float16)a); }
CDNA_YIELDS CDNA_HD __half __double2half(double a) { return __half((_Float16)a); }
CDNA_HD __half __float2half_rd(float a) { return __cdna_half_directed(a, -1); }
CDNA_HD __half __float2half_ru(float a) { return __cdna_half_directed(a, 1); }
CDNA_HD __half __float2half_rz(float a) {
#if __HIP_DEVICE_COMPILE__
  return __half(__ocml_cvtrtz_f16_f32(a));
#else
  return __cdna_half_directed(a, a < 0 ? 1 : -1);
#endif
}
CDNA_HD float __half2float(__half a) { return (float)a.data; }
CDNA_HD float __low2float(__half2 a) { return (float)a.x.data; }
CDNA_HD float __high2float(__half2 a) { return (float)a.y.data; }
CDNA_HD __half2 __float2half2_rn(float a) { return __half2half2(__float2half(a)); }
CDNA_HD __half2 __floats2half2_rn(float low, float high) { return __half2(__float2half(low), __float2half(high)); }
CDNA_HD __half2 __float22half2_rn(float2 a) { return __floats2half2_rn(a.x, a.y); }
CDNA_HD float2 __half22float2(__half2 a) { return make_float2(__low2float(a), __high2float(a)); }

#define CDNA_FROM_AND_TO(type, name)                                                                            \
  CDNA_HD __half __##name##2half_rn(type a) { return __half((_Float16)a); }                                     \
  CDNA_HD __half __##name##2half_rd(type a) { return __cdna_half_directed((double)a, -1); }                     \
  CDNA_HD __half __##name##2half_ru(type a) { return __cdna_half_directed((double)a, 1); }                      \
  CDNA_HD __half __##name##2half_rz(type a) { return __cdna_half_directed((double)a, (double)a < 0 ? 1 : -1); } \
  CDNA_HD type __half2##name##_rn(__half a) { return (type)__builtin_rintf((float)a.data); }                    \
  CDNA_HD type __half2##name##_rd(__half a) { return (type)__builtin_floorf((float)a.data); }                   \
  CDNA_HD type __half2##name##_ru(__half a) { return (type)__builtin_ceilf((float)a.data); }                    \
  CDNA_HD type __half2##name##_rz(__half a) { return (type)(float)a.data; }
CDNA_FROM_AND_TO(int, int)
CDNA_FROM_AND_TO(unsigned int, uint)
CDNA_FROM_AND_TO(short, short)
CDNA_FROM_AND_TO(unsigned short, ushort)
CDNA_FROM_AND_TO(long long, ll)
CDNA_FROM_AND_TO(unsigned long long, ull)
#undef CDNA_FROM_AND_TO

// ---- arithmetic of pairs, packed; the rest is common to half and bfloat16
CDNA_HD __half2 __hadd2(__half2 a, __half2 b) { return __half2(a.data + b.data); }
CDNA_HD __half2 __hsub2(__half2 a, __half2 b) { return __half2(a.data - b.data); }
CDNA_HD __half2 __hmul2(__half2 a, __half2 b) { return __half2(a.data * b.data); }
CDNA_HD __half2 __h2div(__half2 a, __half2 b) { return __half2(a.data / b.data); }
CDNA_HD __half2 __hneg2(__half2 a) { return __half2(-a.data); }
#if __HIP_DEVICE_COMPILE__
CDNA_HD __half __hfma(__half a, __half b, __half c) {
  return __half(__builtin_elementwise_fma(a.data, b.data, c.data));
}
CDNA_HD __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return __half2(__builtin_elementwise_fma(a.data, b.data, c.data));
}
#else
// The product of two halves is exact in double.
CDNA_HD __half __hfma(__half a, __half b, __half c) {
  return __half((_Float16)((double)a.data * (double)b.data + (double)c.data));
}
CDNA_HD __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return __half2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
#endif

#define CDNA_T __half
#define CDNA_T2 __half2
#define CDNA_OF(value) __half((_Float16)(value))
#define CDNA_IN(a) (a).data
#define CDNA_BITS(a) (a).__x
#define CDNA_FROM_BITS(bits) __ushort_as_half(bits)
#define CDNA_INFINITY 0x7c00
#define CDNA_OCML(name, a) __ocml_##name##_f16((a).data)
#include "amd_detail/cdna_narrow_functions.inc"
// In kernels under the names that other numbers have: a __half converts to all of those.
CDNA_YIELDS CDNA_D __half max(__half a, __half b) { return __hmax(a, b); }
CDNA_YIELDS CDNA_D __half min(__half a, __half b) { return __hmin(a, b); }

CDNA_HD __half __cdna_clamp01(__half a) {
  return a.data > (_Float16)1 ? __half((_Float16)1) : a.data > (_Float16)0 ? a : __half((_Float16)0);
}
CDNA_HD __half __hadd_sat(__half a, __half b) { return __cdna_clamp01(__hadd(a, b)); }
CDNA_HD __half __hsub_sat(__half a, __half b) { return __cdna_clamp01(__hsub(a, b)); }
CDNA_HD __half __hmul_sat(__half a, __half b) { return __cdna_clamp01(__hmul(a, b)); }
CDNA_HD __half __hfma_sat(__half a, __half b, __half c) { return __cdna_clamp01(__hfma(a, b, c)); }
CDNA_HD __half2 __hadd2_sat(__half2 a, __half2 b) { return __half2(__hadd_sat(a.x, b.x), __hadd_sat(a.y, b.y)); }
CDNA_HD __half2 __hsub2_sat(__half2 a, __half2 b) { return __half2(__hsub_sat(a.x, b.x), __hsub_sat(a.y, b.y)); }
CDNA_HD __half2 __hmul2_sat(__half2 a, __half2 b) { return __half2(__hmul_sat(a.x, b.x), __hmul_sat(a.y, b.y)); }
CDNA_HD __half2 __hfma2_sat(__half2 a, __half2 b, __half2 c) {
  return __half2(__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y));
}
CDNA_D float amd_mixed_dot(__half2 a, __half2 b, float c, bool saturate) {
  return saturate ? __builtin_amdgcn_fdot2(a.data, b.data, c, true) : __builtin_amdgcn_fdot2(a.data, b.data, c, false);
}
CDNA_D __half2 unsafeAtomicAdd(__half2* address, __half2 value) {
  return __half2(__builtin_amdgcn_flat_atomic_fadd_v2f16((_Float16_2*)address, value.data));
}
