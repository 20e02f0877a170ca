// Element types and vectors of them.
#pragma once

#include <ck/ck.hpp>

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

// `type`: T itself for one, else the compiler's vector.
template <typename T, index_t N> struct vector_type {
  using type = T __attribute__((ext_vector_type(N)));
};
template <typename T> struct vector_type<T, 1> {
  using type = T;
};

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
