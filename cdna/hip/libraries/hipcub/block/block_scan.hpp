// A scan over a block: of one value a thread, or of several, each thread's behind those of the thread before.
#pragma once

#include <hipcub/warp/warp_scan.hpp>

namespace hipcub {

enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

template <typename T, int BLOCK_DIM_X, BlockScanAlgorithm ALGORITHM = BLOCK_SCAN_RAKING, int BLOCK_DIM_Y = 1,
          int BLOCK_DIM_Z = 1, int ARCH = HIPCUB_ARCH>
class BlockScan {
  static constexpr int THREADS = BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z;
  static constexpr int WAVES = (THREADS + cdna::WAVE - 1) / cdna::WAVE;

 public:
  struct TempStorage {
    Uninitialized<T[WAVES]> of_wave;
  };
  __device__ BlockScan(TempStorage& storage) : storage_(storage), thread_(thread()) {}
  __device__ BlockScan() : storage_(own()), thread_(thread()) {}

  // --- one value a thread
  template <typename ScanOp> __device__ void InclusiveScan(T input, T& output, ScanOp op, T& block_aggregate) {
    T before;
    scan(input, output, before, block_aggregate, op);
  }
  template <typename ScanOp> __device__ void InclusiveScan(T input, T& output, ScanOp op) {
    T total;
    InclusiveScan(input, output, op, total);
  }
  // Without a first value the first thread gets nothing in particular.
  template <typename ScanOp> __device__ void ExclusiveScan(T input, T& output, ScanOp op, T& block_aggregate) {
    T inclusive;
    scan(input, inclusive, output, block_aggregate, op);
  }
  template <typename ScanOp> __device__ void ExclusiveScan(T input, T& output, ScanOp op) {
    T total;
    ExclusiveScan(input, output, op, total);
  }
  template <typename ScanOp>
  __device__ void ExclusiveScan(T input, T& output, T initial_value, ScanOp op, T& block_aggregate) {
    ExclusiveScan(input, output, op, block_aggregate);
    output = thread_ ? op(initial_value, output) : initial_value;
  }
  template <typename ScanOp> __device__ void ExclusiveScan(T input, T& output, T initial_value, ScanOp op) {
    T total;
    ExclusiveScan(input, output, initial_value, op, total);
  }

  // --- several values a thread; rest: where the sum of all goes
  template <int ITEMS, typename ScanOp, typename... Rest>
  __device__ void InclusiveScan(T (&inputs)[ITEMS], T (&outputs)[ITEMS], ScanOp op, Rest&... rest) {
    T before;
    ExclusiveScan(sum_of(inputs, op), before, op, rest...);
    inclusive_from(thread_, before, inputs, outputs, op);
  }
  template <int ITEMS, typename ScanOp, typename... Rest>
  __device__ void ExclusiveScan(T (&inputs)[ITEMS], T (&outputs)[ITEMS], T initial_value, ScanOp op, Rest&... rest) {
    T before;
    ExclusiveScan(sum_of(inputs, op), before, initial_value, op, rest...);
    exclusive_from(before, inputs, outputs, op);
  }

  // --- sums
  template <typename... Rest> __device__ void InclusiveSum(T input, T& output, Rest&... rest) {
    InclusiveScan(input, output, hipcub::Sum(), rest...);
  }
  template <int ITEMS, typename... Rest>
  __device__ void InclusiveSum(T (&inputs)[ITEMS], T (&outputs)[ITEMS], Rest&... rest) {
    InclusiveScan(inputs, outputs, hipcub::Sum(), rest...);
  }
  template <typename... Rest> __device__ void ExclusiveSum(T input, T& output, Rest&... rest) {
    ExclusiveScan(input, output, T(0), hipcub::Sum(), rest...);
  }
  template <int ITEMS, typename... Rest>
  __device__ void ExclusiveSum(T (&inputs)[ITEMS], T (&outputs)[ITEMS], Rest&... rest) {
    ExclusiveScan(inputs, outputs, T(0), hipcub::Sum(), rest...);
  }

 private:
  __device__ static int thread() { return cdna::thread_in_block<BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z>(); }
  __device__ static TempStorage& own() {
    __shared__ TempStorage storage;
    return storage;
  }

  // before: the sum of all threads before this one; nothing in particular in the first.
  template <typename ScanOp> __device__ void scan(T input, T& inclusive, T& before, T& total, ScanOp op) {
    int wave = thread_ / cdna::WAVE, lane = thread_ % cdna::WAVE;
    T* of_wave = storage_.of_wave.Alias();
    WarpScan<T>().Scan(input, inclusive, before, op);
    if (lane == cdna::WAVE - 1 || thread_ == THREADS - 1) of_wave[wave] = inclusive;
    __syncthreads();
    total = of_wave[0];
    T prefix = total;
    for (int w = 1; w < WAVES; w++) {
      if (w == wave) prefix = total;
      total = op(total, of_wave[w]);
    }
    if (wave) {
      inclusive = op(prefix, inclusive);
      before = lane ? op(prefix, before) : prefix;
    }
  }
  template <int ITEMS, typename ScanOp> __device__ T sum_of(T (&inputs)[ITEMS], ScanOp op) {
    T sum = inputs[0];
#pragma unroll
    for (int i = 1; i < ITEMS; i++) sum = op(sum, inputs[i]);
    return sum;
  }
  template <int ITEMS, typename ScanOp>
  __device__ void inclusive_from(bool follows, T before, T (&inputs)[ITEMS], T (&outputs)[ITEMS], ScanOp op) {
    T sum = follows ? op(before, inputs[0]) : inputs[0];
    outputs[0] = sum;
#pragma unroll
    for (int i = 1; i < ITEMS; i++) outputs[i] = sum = op(sum, inputs[i]);
  }
  template <int ITEMS, typename ScanOp>
  __device__ void exclusive_from(T before, T (&inputs)[ITEMS], T (&outputs)[ITEMS], ScanOp op) {
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
      T input = inputs[i];  // may be where the output goes
      outputs[i] = before;
      before = op(before, input);
    }
  }

  TempStorage& storage_;
  int thread_;
};

}  // namespace hipcub
