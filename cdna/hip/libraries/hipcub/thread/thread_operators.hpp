// Operators for reductions and scans.
#pragma once

#include <hipcub/util_type.hpp>

namespace hipcub {

struct Sum {
  template <typename T> __host__ __device__ constexpr T operator()(const T& a, const T& b) const { return T(a + b); }
};
struct Difference {
  template <typename T> __host__ __device__ constexpr T operator()(const T& a, const T& b) const { return T(a - b); }
};
struct Division {
  template <typename T> __host__ __device__ constexpr T operator()(const T& a, const T& b) const { return T(a / b); }
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
struct Equality {
  template <typename T> __host__ __device__ constexpr bool operator()(const T& a, const T& b) const { return a == b; }
};
struct Inequality {
  template <typename T> __host__ __device__ constexpr bool operator()(const T& a, const T& b) const {
    return !(a == b);
  }
};
template <typename EqualityOp>
struct InequalityWrapper {
  EqualityOp op;
  __host__ __device__ InequalityWrapper(EqualityOp o) : op(o) {}
  template <typename T> __host__ __device__ bool operator()(const T& a, const T& b) { return !op(a, b); }
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
template <typename T>
struct CastOp {
  template <typename U> __host__ __device__ T operator()(U&& x) const { return T(x); }
};

}  // namespace hipcub
