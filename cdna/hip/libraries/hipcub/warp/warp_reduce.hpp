// A reduction over the lanes of a wave, or over each group of LOGICAL_WARP_THREADS of them. The group's first lane
// gets the result.
#pragma once

#include <hipcub/thread/thread_operators.hpp>

namespace hipcub {

template <typename T, int LOGICAL_WARP_THREADS = HIPCUB_DEVICE_WARP_THREADS, int ARCH = HIPCUB_ARCH>
class WarpReduce {
  static_assert(LOGICAL_WARP_THREADS >= 1 && LOGICAL_WARP_THREADS <= cdna::WAVE, "a wave has 64 lanes");

 public:
  struct TempStorage {};
  __device__ WarpReduce(TempStorage&) {}
  __device__ WarpReduce() {}

  template <typename ReductionOp> __device__ T Reduce(T input, ReductionOp op, int valid_items) {
    int lane = __lane_id(), in_group = lane % LOGICAL_WARP_THREADS;
#pragma unroll
    for (int offset = 1; offset < LOGICAL_WARP_THREADS; offset *= 2) {
      T other = cdna::of_lane(input, lane + offset);
      if (in_group + offset < valid_items) input = op(input, other);
    }
    return input;
  }
  template <typename ReductionOp> __device__ T Reduce(T input, ReductionOp op) {
    return Reduce(input, op, LOGICAL_WARP_THREADS);
  }
  __device__ T Sum(T input) { return Reduce(input, hipcub::Sum()); }
  __device__ T Sum(T input, int valid_items) { return Reduce(input, hipcub::Sum(), valid_items); }
};

}  // namespace hipcub
