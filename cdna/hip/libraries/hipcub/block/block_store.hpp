// Registers to a tile of global memory: each thread's values one after another (blocked), or BLOCK_STORE_STRIPED.
#pragma once

#include <hipcub/util_type.hpp>

namespace hipcub {

enum BlockStoreAlgorithm {
  BLOCK_STORE_DIRECT,
  BLOCK_STORE_STRIPED,
  BLOCK_STORE_VECTORIZE,
  BLOCK_STORE_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};

namespace cdna {
// To every STEP-th place from the first one on.
template <int STEP, typename T, int ITEMS, typename OutputIterator>
__device__ inline void store_items(int first, OutputIterator to, T (&items)[ITEMS]) {
#pragma unroll
  for (int i = 0; i < ITEMS; i++) to[first + i * STEP] = items[i];
}
template <int STEP, typename T, int ITEMS, typename OutputIterator>
__device__ inline void store_items(int first, OutputIterator to, T (&items)[ITEMS], int valid_items) {
#pragma unroll
  for (int i = 0; i < ITEMS; i++)
    if (first + i * STEP < valid_items) to[first + i * STEP] = items[i];
}
}  // namespace cdna

// rest: how many are stored.
template <typename T, int ITEMS, typename OutputIterator, typename... Rest>
__device__ inline void StoreDirectBlocked(int thread, OutputIterator to, T (&items)[ITEMS], Rest... rest) {
  cdna::store_items<1>(thread * ITEMS, to, items, rest...);
}
template <int THREADS, typename T, int ITEMS, typename OutputIterator, typename... Rest>
__device__ inline void StoreDirectStriped(int thread, OutputIterator to, T (&items)[ITEMS], Rest... rest) {
  cdna::store_items<THREADS>(thread, to, items, rest...);
}

template <typename T, int BLOCK_DIM_X, int ITEMS_PER_THREAD, BlockStoreAlgorithm ALGORITHM = BLOCK_STORE_DIRECT,
          int BLOCK_DIM_Y = 1, int BLOCK_DIM_Z = 1, int ARCH = HIPCUB_ARCH>
class BlockStore {
 public:
  struct TempStorage {};
  __device__ BlockStore(TempStorage&) {}
  __device__ BlockStore() {}

  template <typename OutputIterator, typename... Rest>
  __device__ void Store(OutputIterator to, T (&items)[ITEMS_PER_THREAD], Rest... rest) {
    int thread = cdna::thread_in_block<BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z>();
    if constexpr (ALGORITHM == BLOCK_STORE_STRIPED)
      StoreDirectStriped<BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z>(thread, to, items, rest...);
    else StoreDirectBlocked(thread, to, items, rest...);
  }
};

}  // namespace hipcub
