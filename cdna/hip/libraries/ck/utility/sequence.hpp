// Lists of numbers as types.
#pragma once

#include <ck/utility/integral_constant.hpp>

namespace ck {

template <index_t... Is>
struct Sequence {
  using Type = Sequence;
  using data_type = index_t;
  static constexpr index_t mSize = sizeof...(Is);

  __host__ __device__ static constexpr Number<mSize> Size() { return {}; }
  __host__ __device__ static constexpr index_t At(index_t i) {
    constexpr index_t values[] = {Is..., 0};
    return values[i];
  }
  template <index_t I> __host__ __device__ static constexpr auto At(Number<I>) {
    static_assert(I >= 0 && I < mSize, "beyond the sequence");
    return Number<At(I)>{};
  }
  template <typename I> __host__ __device__ constexpr auto operator[](I i) const { return At(i); }
  template <index_t... More> __host__ __device__ static constexpr auto PushBack(Sequence<More...>) {
    return Sequence<Is..., More...>{};
  }
  template <index_t... More> __host__ __device__ static constexpr auto PushFront(Sequence<More...>) {
    return Sequence<More..., Is...>{};
  }
};

}  // namespace ck
