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

namespace cdna {
// Every STEP-th from the first one on.
template <int STEP, typename T, int ITEMS, typename InputIterator>
__device__ inline void load_items(int first, InputIterator from, T (&items)[ITEMS]) {
#pragma unroll
  for (int i = 0; i < ITEMS; i++) items[i] = from[first + i * STEP];
}
template <int STEP, typename T, int ITEMS, typename InputIterator>
__device__ inline void load_items(int first, InputIterator from, T (&items)[ITEMS], int valid_items) {
#pragma unroll
  for (int i = 0; i < ITEMS; i++)
    if (first + i * STEP < valid_items) items[i] = from[first + i * STEP];
}
template <int STEP, typename T, int ITEMS, typename Default, typename InputIterator>
__device__ inline void load_items(int first, InputIterator from, T (&items)[ITEMS], int valid_items,
                                  Default otherwise) {
#pragma unroll
  for (int i = 0; i < ITEMS; i++) items[i] = T(otherwise);
  load_items<STEP>(first, from, items, valid_items);
}
}  // namespace cdna

// rest: how many are there, and what stands for those that are not.
template <typename T, int ITEMS, typename InputIterator, typename... Rest>
__device__ inline void LoadDirectBlocked(int thread, InputIterator from, T (&items)[ITEMS], Rest... rest) {
  cdna::load_items<1>(thread * ITEMS, from, items, rest...);
}
template <int THREADS, typename T, int ITEMS, typename InputIterator, typename... Rest>
__device__ inline void LoadDirectStriped(int thread, InputIterator from, T (&items)[ITEMS], Rest... rest) {
  cdna::load_items<THREADS>(thread, from, items, rest...);
}

template <typename T, int BLOCK_DIM_X, int ITEMS_PER_THREAD, BlockLoadAlgorithm ALGORITHM = BLOCK_LOAD_DIRECT,
          int BLOCK_DIM_Y = 1, int BLOCK_DIM_Z = 1, int ARCH = HIPCUB_ARCH>
class BlockLoad {
 public:
  struct TempStorage {};
  __device__ BlockLoad(TempStorage&) {}
  __device__ BlockLoad() {}

  template <typename InputIterator, typename... Rest>
  __device__ void Load(InputIterator from, T (&items)[ITEMS_PER_THREAD], Rest... rest) {
    int thread = cdna::thread_in_block<BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z>();
    if constexpr (ALGORITHM == BLOCK_LOAD_STRIPED)
      LoadDirectStriped<BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z>(thread, from, items, rest...);
    else LoadDirectBlocked(thread, from, items, rest...);
  }
};

}  // namespace hipcub
