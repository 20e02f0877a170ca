// Another iterator's values, each with its index.
#pragma once

#include <hipcub/cdna/iterator_parts.hpp>

namespace hipcub {

template <typename InputIteratorT, typename OffsetT = ptrdiff_t, typename OutputValueT = cdna::value_of<InputIteratorT>>
struct ArgIndexInputIterator : cdna::ComputedIterator<ArgIndexInputIterator<InputIteratorT, OffsetT, OutputValueT>,
                                                      KeyValuePair<OffsetT, OutputValueT>, OffsetT> {
  using Pair = KeyValuePair<OffsetT, OutputValueT>;
  __host__ __device__ ArgIndexInputIterator(InputIteratorT from, OffsetT offset = 0) : from_(from), offset_(offset) {}
  __host__ __device__ Pair value(OffsetT i) const { return Pair(offset_ + i, from_[offset_ + i]); }
  __host__ __device__ void move(OffsetT n) { offset_ += n; }
  __host__ __device__ void normalize() {
    from_ += offset_;
    offset_ = 0;
  }

 private:
  InputIteratorT from_;
  OffsetT offset_;
};

}  // namespace hipcub
