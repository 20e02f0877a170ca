// A tile of global memory to registers: each thread's values one after another (blocked), or BLOCK_LOAD_STRIPED.
#pragma once

#include <hipcub/util_type.hpp>

namespace hipcub {

enum BlockLoadAlgorithm {
  BLOCK_LOAD_DIRECT,
  BLOCK_LOAD_STRIPED,
  BLOCK_LOAD_VECTORIZE,
  BLOCK_LOAD_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};

template <typename T, int ITEMS, typename InputIterator>
__device__ inline void LoadDirectBlocked(int thread, InputIterator from, T (&items)[ITEMS]) {
#pragma unroll
  for (int i = 0; i < ITEMS; i++) items[i] = from[thread * ITEMS + i];
}
template <typename T, int ITEMS, typename InputIterator>
__device__ inline void LoadDirectBlocked(int thread, InputIterator from, T (&items)[ITEMS], int valid_items) {
#pragma unroll
  for (int i = 0; i < ITEMS; i++)
    if (thread * ITEMS + i < valid_items) items[i] = from[thread * ITEMS + i];
}
template <typename T, int ITEMS, typename Default, typename InputIterator>
__device__ inline void LoadDirectBlocked(int thread, InputIterator from, T (&items)[ITEMS], int valid_items,
                                         Default otherwise) {
#pragma unroll
  for (int i = 0; i < ITEMS; i++) items[i] = T(otherwise);
  LoadDirectBlocked(thread, from, items, valid_items);
}
template <int THREADS, typename T, int ITEMS, typename InputIterator>
__device__ inline void LoadDirectStriped(int thread, InputIterator from, T (&items)[ITEMS]) {
#pragma unroll
  for (int i = 0; i < ITEMS; i++) items[i] = from[thread + i * THREADS];
}
template <int THREADS, typename T, int ITEMS, typename InputIterator>
__device__ inline void LoadDirectStriped(int thread, InputIterator from, T (&items)[ITEMS], int valid_items) {
#pragma unroll
  for (int i = 0; i < ITEMS; i++)
    if (thread + i * THREADS < valid_items) items[i] = from[thread + i * THREADS];
}
template <int THREADS, typename T, int ITEMS, typename Default, typename InputIterator>
__device__ inline void LoadDirectStriped(int thread, InputIterator from, T (&items)[ITEMS], int valid_items,
                                         Default otherwise) {
#pragma unroll
  for (int i = 0; i < ITEMS; i++) items[i] = T(otherwise);
  LoadDirectStriped<THREADS>(thread, from, items, valid_items);
}

template <typename T, int BLOCK_DIM_X, int ITEMS_PER_THREAD, BlockLoadAlgorithm ALGORITHM = BLOCK_LOAD_DIRECT,
          int BLOCK_DIM_Y = 1, int BLOCK_DIM_Z = 1, int ARCH = HIPCUB_ARCH>
class BlockLoad {
 public:
  struct TempStorage {};
  __device__ BlockLoad(TempStorage&) {}
  __device__ BlockLoad() {}

  // rest: how many are there, and what stands for those that are not.
  template <typename InputIterator, typename... Rest>
  __device__ void Load(InputIterator from, T (&items)[ITEMS_PER_THREAD], Rest... rest) {
    int thread = cdna::thread_in_block<BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z>();
    if constexpr (ALGORITHM == BLOCK_LOAD_STRIPED)
      LoadDirectStriped<BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z>(thread, from, items, rest...);
    else LoadDirectBlocked(thread, from, items, rest...);
  }
};

}  // namespace hipcub
