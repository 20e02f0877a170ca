// A function of another iterator's values.
#pragma once

#include <hipcub/cdna/iterator_parts.hpp>

namespace hipcub {

template <typename ValueType, typename ConversionOp, typename InputIteratorT, typename OffsetT = ptrdiff_t>
struct TransformInputIterator
    : cdna::ComputedIterator<TransformInputIterator<ValueType, ConversionOp, InputIteratorT, OffsetT>, ValueType,
                             OffsetT> {
  __host__ __device__ TransformInputIterator(InputIteratorT from, ConversionOp op) : from_(from), op_(op) {}
  __host__ __device__ ValueType value(OffsetT i) const { return op_(from_[i]); }
  __host__ __device__ void move(OffsetT n) { from_ += n; }

 private:
  InputIteratorT from_;
  mutable ConversionOp op_;
};

}  // namespace hipcub
