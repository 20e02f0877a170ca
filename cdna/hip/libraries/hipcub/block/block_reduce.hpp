// A reduction over a block. Its first thread gets the result.
#pragma once

#include <hipcub/warp/warp_reduce.hpp>

namespace hipcub {

enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };

template <typename T, int BLOCK_DIM_X, BlockReduceAlgorithm ALGORITHM = BLOCK_REDUCE_WARP_REDUCTIONS,
          int BLOCK_DIM_Y = 1, int BLOCK_DIM_Z = 1, int ARCH = HIPCUB_ARCH>
class BlockReduce {
  static constexpr int THREADS = BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z;
  static constexpr int WAVES = (THREADS + cdna::WAVE - 1) / cdna::WAVE;

 public:
  struct TempStorage {
    Uninitialized<T[WAVES]> of_wave;
  };
  __device__ BlockReduce(TempStorage& storage) : storage_(storage) {}
  __device__ BlockReduce() : storage_(own()) {}

  template <typename ReductionOp> __device__ T Reduce(T input, ReductionOp op, int num_valid) {
    int thread = cdna::thread_in_block<BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z>(), wave = thread / cdna::WAVE;
    if (num_valid > THREADS) num_valid = THREADS;
    T sum = WarpReduce<T>().Reduce(input, op, num_valid - wave * cdna::WAVE);
    T* of_wave = storage_.of_wave.Alias();
    if (thread % cdna::WAVE == 0) of_wave[wave] = sum;
    __syncthreads();
    if (thread == 0)
      for (int w = 1; w * cdna::WAVE < num_valid; w++) sum = op(sum, of_wave[w]);
    return sum;
  }
  template <typename ReductionOp> __device__ T Reduce(T input, ReductionOp op) { return Reduce(input, op, THREADS); }
  template <int ITEMS, typename ReductionOp> __device__ T Reduce(T (&inputs)[ITEMS], ReductionOp op) {
    T sum = inputs[0];
#pragma unroll
    for (int i = 1; i < ITEMS; i++) sum = op(sum, inputs[i]);
    return Reduce(sum, op);
  }
  __device__ T Sum(T input) { return Reduce(input, hipcub::Sum()); }
  __device__ T Sum(T input, int num_valid) { return Reduce(input, hipcub::Sum(), num_valid); }
  template <int ITEMS> __device__ T Sum(T (&inputs)[ITEMS]) { return Reduce(inputs, hipcub::Sum()); }

 private:
  __device__ static TempStorage& own() {
    __shared__ TempStorage storage;
    return storage;
  }
  TempStorage& storage_;
};

}  // namespace hipcub
