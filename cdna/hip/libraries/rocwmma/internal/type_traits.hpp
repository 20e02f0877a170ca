// Where programs of before rocWMMA 2 find its types, their conversions and limits.
#pragma once

#include <rocwmma/rocwmma.hpp>

#include <limits>

#ifndef __STDCPP_FLOAT16_T__  // else the standard library knows it
template <> struct std::numeric_limits<rocwmma::float16_t> {
  using T = rocwmma::float16_t;
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true, has_signaling_NaN = true;
  static constexpr int digits = 11, digits10 = 3, max_exponent = 16, min_exponent = -13, radix = 2;
  __host__ __device__ static constexpr T min() noexcept { return T(0x1p-14f); }
  __host__ __device__ static constexpr T max() noexcept { return T(65504.f); }
  __host__ __device__ static constexpr T lowest() noexcept { return T(-65504.f); }
  __host__ __device__ static constexpr T epsilon() noexcept { return T(0x1p-10f); }
  __host__ __device__ static constexpr T denorm_min() noexcept { return T(0x1p-24f); }
  __host__ __device__ static constexpr T infinity() noexcept { return T(__builtin_inff()); }
  __host__ __device__ static constexpr T quiet_NaN() noexcept { return __builtin_nanf16(""); }
  __host__ __device__ static constexpr T signaling_NaN() noexcept { return __builtin_nansf16(""); }
};
#endif
