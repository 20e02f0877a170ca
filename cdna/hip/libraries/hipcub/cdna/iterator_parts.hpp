// What input iterators over computed values share: Self has value(index), the value that many places from where it is.
#pragma once

#include <hipcub/util_type.hpp>

namespace hipcub::cdna {

template <typename Self, typename ValueT, typename OffsetT>
struct ComputedIterator {
  using difference_type = OffsetT;
  using value_type = ValueT;
  using pointer = ValueT*;
  using reference = ValueT;
  using iterator_category = std::random_access_iterator_tag;

  __host__ __device__ ValueT operator*() const { return self().value(0); }
  template <typename D> __host__ __device__ ValueT operator[](D i) const { return self().value(OffsetT(i)); }
  template <typename D> __host__ __device__ Self& operator+=(D n) { return self().move(OffsetT(n)), self(); }
  template <typename D> __host__ __device__ Self& operator-=(D n) { return *this += -OffsetT(n); }
  template <typename D> __host__ __device__ Self operator+(D n) const {
    Self copy = self();
    return copy += n;
  }
  template <typename D> __host__ __device__ Self operator-(D n) const { return *this + -OffsetT(n); }
  __host__ __device__ Self& operator++() { return *this += 1; }
  __host__ __device__ Self operator++(int) {
    Self copy = self();
    *this += 1;
    return copy;
  }

 private:
  __host__ __device__ Self& self() { return static_cast<Self&>(*this); }
  __host__ __device__ const Self& self() const { return static_cast<const Self&>(*this); }
};

}  // namespace hipcub::cdna
