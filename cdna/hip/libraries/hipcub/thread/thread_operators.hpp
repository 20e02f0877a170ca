// Operators for reductions and scans.
#pragma once

#include <hipcub/util_type.hpp>

namespace hipcub {

struct Sum {
  template <typename T> __host__ __device__ constexpr T operator()(const T& a, const T& b) const { return T(a + b); }
};
struct Max {
  template <typename T> __host__ __device__ constexpr T operator()(const T& a, const T& b) const {
    return a < b ? b : a;
  }
};
struct Min {
  template <typename T> __host__ __device__ constexpr T operator()(const T& a, const T& b) const {
    return b < a ? b : a;
  }
};
// Of pairs of an index and a value the one with the largest value; of equal ones that of the smallest index.
struct ArgMax {
  template <typename K, typename V>
  __host__ __device__ constexpr KeyValuePair<K, V> operator()(const KeyValuePair<K, V>& a,
                                                              const KeyValuePair<K, V>& b) const {
    return a.value < b.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};
struct ArgMin {
  template <typename K, typename V>
  __host__ __device__ constexpr KeyValuePair<K, V> operator()(const KeyValuePair<K, V>& a,
                                                              const KeyValuePair<K, V>& b) const {
    return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};

}  // namespace hipcub
