// The same value everywhere.
#pragma once

#include <hipcub/cdna/iterator_parts.hpp>

namespace hipcub {

template <typename ValueType, typename OffsetT = ptrdiff_t>
struct ConstantInputIterator : cdna::ComputedIterator<ConstantInputIterator<ValueType, OffsetT>, ValueType, OffsetT> {
  __host__ __device__ ConstantInputIterator(const ValueType& value, OffsetT = 0) : value_(value) {}
  __host__ __device__ ValueType value(OffsetT) const { return value_; }
  __host__ __device__ void move(OffsetT) {}

 private:
  ValueType value_;
};

}  // namespace hipcub
