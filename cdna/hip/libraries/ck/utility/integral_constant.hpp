// Numbers as types.
#pragma once

#include <ck/ck.hpp>

namespace ck {

template <typename T, T v>
struct integral_constant {
  static constexpr T value = v;
  using value_type = T;
  using type = integral_constant;
  __host__ __device__ constexpr operator T() const noexcept { return v; }
  __host__ __device__ constexpr T operator()() const noexcept { return v; }
};
template <index_t N> using Number = integral_constant<index_t, N>;
template <index_t N> using LongNumber = integral_constant<long_index_t, N>;

}  // namespace ck
