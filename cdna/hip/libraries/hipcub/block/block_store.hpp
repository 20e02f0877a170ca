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

template <typename T, int BLOCK_DIM_X, int ITEMS_PER_THREAD, BlockStoreAlgorithm ALGORITHM = BLOCK_STORE_DIRECT,
          int BLOCK_DIM_Y = 1, int BLOCK_DIM_Z = 1, int ARCH = HIPCUB_ARCH>
class BlockStore {
  static constexpr int THREADS = BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z, ITEMS = ITEMS_PER_THREAD;

 public:
  struct TempStorage {};
  __device__ BlockStore(TempStorage&) {}
  __device__ BlockStore() {}

  template <typename OutputIterator>
  __device__ void Store(OutputIterator to, T (&items)[ITEMS], int valid_items = THREADS * ITEMS) {
    int thread = cdna::thread_in_block<BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z>();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
      int at = ALGORITHM == BLOCK_STORE_STRIPED ? thread + i * THREADS : thread * ITEMS + i;
      if (at < valid_items) to[at] = items[i];
    }
  }
};

}  // namespace hipcub
