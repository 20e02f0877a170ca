// A scan over the lanes of a wave, or over each group of LOGICAL_WARP_THREADS of them.
#pragma once

#include <hipcub/thread/thread_operators.hpp>

namespace hipcub {

template <typename T, int LOGICAL_WARP_THREADS = HIPCUB_DEVICE_WARP_THREADS, int ARCH = HIPCUB_ARCH>
class WarpScan {
  static constexpr int N = LOGICAL_WARP_THREADS;
  static_assert(N >= 1 && N <= cdna::WAVE, "a wave has 64 lanes");

 public:
  struct TempStorage {};
  __device__ WarpScan(TempStorage&) {}
  __device__ WarpScan() {}

  template <typename ScanOp> __device__ void InclusiveScan(T input, T& output, ScanOp op) {
    int lane = __lane_id(), in_group = lane % N;
#pragma unroll
    for (int offset = 1; offset < N; offset *= 2) {
      T other = cdna::of_lane(input, lane - offset);
      if (in_group >= offset) input = op(other, input);
    }
    output = input;
  }
  template <typename ScanOp> __device__ void InclusiveScan(T input, T& output, ScanOp op, T& warp_aggregate) {
    InclusiveScan(input, output, op);
    warp_aggregate = last(output);
  }
  // Without a first value the group's first lane gets nothing in particular.
  template <typename ScanOp> __device__ void ExclusiveScan(T input, T& output, ScanOp op) {
    InclusiveScan(input, input, op);
    output = cdna::of_lane(input, __lane_id() - 1);
  }
  template <typename ScanOp>
  __device__ void ExclusiveScan(T input, T& output, ScanOp op, T& warp_aggregate) {
    T inclusive;
    InclusiveScan(input, inclusive, op, warp_aggregate);
    output = cdna::of_lane(inclusive, __lane_id() - 1);
  }
  template <typename ScanOp, typename... Rest>
  __device__ void ExclusiveScan(T input, T& output, T initial_value, ScanOp op, Rest&... rest) {
    ExclusiveScan(input, output, op, rest...);
    output = __lane_id() % N ? op(initial_value, output) : initial_value;
  }
  template <typename ScanOp> __device__ void Scan(T input, T& inclusive, T& exclusive, ScanOp op) {
    InclusiveScan(input, inclusive, op);
    exclusive = cdna::of_lane(inclusive, __lane_id() - 1);
  }
  template <typename... Rest> __device__ void InclusiveSum(T input, T& output, Rest&... rest) {
    InclusiveScan(input, output, hipcub::Sum(), rest...);
  }
  template <typename... Rest> __device__ void ExclusiveSum(T input, T& output, Rest&... rest) {
    ExclusiveScan(input, output, T(0), hipcub::Sum(), rest...);
  }

 private:
  __device__ T last(T value) { return cdna::of_lane(value, __lane_id() / N * N + N - 1); }
};

}  // namespace hipcub
