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

template <typename T, int BLOCK_DIM_X, int ITEMS_PER_THREAD, BlockLoadAlgorithm ALGORITHM = BLOCK_LOAD_DIRECT,
          int BLOCK_DIM_Y = 1, int BLOCK_DIM_Z = 1, int ARCH = HIPCUB_ARCH>
class BlockLoad {
  static constexpr int THREADS = BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z, ITEMS = ITEMS_PER_THREAD;

 public:
  struct TempStorage {};
  __device__ BlockLoad(TempStorage&) {}
  __device__ BlockLoad() {}

  template <typename InputIterator>
  __device__ void Load(InputIterator from, T (&items)[ITEMS], int valid_items = THREADS * ITEMS) {
    int thread = cdna::thread_in_block<BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z>();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
      int at = ALGORITHM == BLOCK_LOAD_STRIPED ? thread + i * THREADS : thread * ITEMS + i;
      if (at < valid_items) items[i] = from[at];
    }
  }
  template <typename InputIterator, typename Default>
  __device__ void Load(InputIterator from, T (&items)[ITEMS], int valid_items, Default otherwise) {
#pragma unroll
    for (int i = 0; i < ITEMS; i++) items[i] = T(otherwise);
    Load(from, items, valid_items);
  }
};

}  // namespace hipcub
