// Takes what is written, and forgets it.
#pragma once

#include <hipcub/util_type.hpp>

namespace hipcub {

template <typename OffsetT = ptrdiff_t>
class DiscardOutputIterator {
 public:
  struct Nowhere {
    template <typename T>
    __host__ __device__ const Nowhere& operator=(const T&) const {
      return *this;
    }
  };
  using difference_type = OffsetT;
  using value_type = void;
  using pointer = void;
  using reference = Nowhere;
  using iterator_category = std::random_access_iterator_tag;

  __host__ __device__ DiscardOutputIterator(OffsetT offset = 0) : offset_(offset) {}
  __host__ __device__ Nowhere operator*() const { return {}; }
  template <typename D> __host__ __device__ Nowhere operator[](D) const { return {}; }
  template <typename D> __host__ __device__ DiscardOutputIterator& operator+=(D n) {
    offset_ += OffsetT(n);
    return *this;
  }
  template <typename D> __host__ __device__ DiscardOutputIterator operator+(D n) const { return offset_ + OffsetT(n); }
  template <typename D> __host__ __device__ DiscardOutputIterator operator-(D n) const { return offset_ - OffsetT(n); }
  __host__ __device__ OffsetT operator-(const DiscardOutputIterator& other) const { return offset_ - other.offset_; }
  __host__ __device__ DiscardOutputIterator& operator++() { return *this += 1; }
  __host__ __device__ DiscardOutputIterator operator++(int) {
    DiscardOutputIterator copy = *this;
    *this += 1;
    return copy;
  }

 private:
  OffsetT offset_;
};

}  // namespace hipcub
