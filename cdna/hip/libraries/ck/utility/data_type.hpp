// Element types and vectors of them.
#pragma once

#include <ck/ck.hpp>
#include <ck/utility/integral_constant.hpp>
#include <ck/utility/sequence.hpp>

namespace ck {

using bhalf_t = unsigned short;  // the bits of a bfloat16
using half_t = _Float16;

// A vector's element type and how many it has; a number is a vector of one.
template <typename TV> struct scalar_type {
  using type = TV;
  static constexpr index_t vector_size = 1;
};
template <typename T, index_t N> struct scalar_type<T __attribute__((ext_vector_type(N)))> {
  using type = T;
  static constexpr index_t vector_size = N;
};

// N values of X, addressed by numbers that are types.
template <typename X, index_t N>
struct StaticallyIndexedArray {
  X data[N];
  __host__ __device__ static constexpr index_t Size() { return N; }
  template <index_t I> __host__ __device__ constexpr const X& At(Number<I>) const {
    static_assert(I >= 0 && I < N, "beyond the array");
    return data[I];
  }
  template <index_t I> __host__ __device__ constexpr X& At(Number<I>) {
    static_assert(I >= 0 && I < N, "beyond the array");
    return data[I];
  }
  template <index_t I> __host__ __device__ constexpr const X& operator[](Number<I> i) const { return At(i); }
  template <index_t I> __host__ __device__ constexpr X& operator()(Number<I> i) { return At(i); }
} __attribute__((may_alias));

// `type`: T itself for one, else the compiler's vector. AsType<X>(): the same bytes as an array of X.
template <typename T, index_t N>
struct vector_type {
  using type = T __attribute__((ext_vector_type(N)));
  type data_;

  __host__ __device__ constexpr vector_type() : data_{} {}
  __host__ __device__ constexpr vector_type(type value) : data_(value) {}
  template <typename X> using Array = StaticallyIndexedArray<X, index_t(sizeof(T) * N / sizeof(X))>;
  template <typename X> __host__ __device__ auto& AsType() { return reinterpret_cast<Array<X>&>(data_); }
  template <typename X> __host__ __device__ const auto& AsType() const {
    return reinterpret_cast<const Array<X>&>(data_);
  }
};
template <typename T>
struct vector_type<T, 1> {
  using type = T;
  type data_;

  __host__ __device__ constexpr vector_type() : data_{} {}
  __host__ __device__ constexpr vector_type(type value) : data_(value) {}
  template <typename X> __host__ __device__ auto& AsType() {
    return reinterpret_cast<StaticallyIndexedArray<X, 1>&>(data_);
  }
  template <typename X> __host__ __device__ const auto& AsType() const {
    return reinterpret_cast<const StaticallyIndexedArray<X, 1>&>(data_);
  }
};

// A vector of N of T, which may be a vector itself.
template <typename T, index_t N>
struct vector_type_maker {
  using type = vector_type<typename scalar_type<T>::type, N * scalar_type<T>::vector_size>;
};
template <typename T, index_t N> using vector_type_maker_t = typename vector_type_maker<T, N>::type;
template <typename T, index_t N>
__host__ __device__ constexpr auto make_vector_type(Number<N>) {
  return vector_type_maker_t<T, N>{};
}

#define CDNA_CK_VECTORS(T, name)                        \
  using name##2_t = typename vector_type<T, 2>::type;   \
  using name##4_t = typename vector_type<T, 4>::type;   \
  using name##8_t = typename vector_type<T, 8>::type;   \
  using name##16_t = typename vector_type<T, 16>::type; \
  using name##32_t = typename vector_type<T, 32>::type; \
  using name##64_t = typename vector_type<T, 64>::type;
CDNA_CK_VECTORS(float, float)
CDNA_CK_VECTORS(double, double)
CDNA_CK_VECTORS(half_t, half)
CDNA_CK_VECTORS(bhalf_t, bhalf)
CDNA_CK_VECTORS(int32_t, int32x)
CDNA_CK_VECTORS(int8_t, int8x)
CDNA_CK_VECTORS(uint8_t, uint8x)
#undef CDNA_CK_VECTORS

}  // namespace ck
