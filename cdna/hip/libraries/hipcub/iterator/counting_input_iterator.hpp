// base, base + 1, ...
#pragma once

#include <hipcub/cdna/iterator_parts.hpp>

namespace hipcub {

template <typename ValueType, typename OffsetT = ptrdiff_t>
struct CountingInputIterator : cdna::ComputedIterator<CountingInputIterator<ValueType, OffsetT>, ValueType, OffsetT> {
  __host__ __device__ CountingInputIterator(const ValueType& base) : base_(base) {}
  __host__ __device__ ValueType value(OffsetT i) const { return base_ + ValueType(i); }
  __host__ __device__ void move(OffsetT n) { base_ += ValueType(n); }

 private:
  ValueType base_;
};

}  // namespace hipcub
