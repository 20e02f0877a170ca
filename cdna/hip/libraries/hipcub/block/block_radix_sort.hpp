// A block's keys sorted, with values that go with them or without: stable, blocked in and blocked or striped out.
#pragma once

#include <hipcub/block/block_scan.hpp>
#include <hipcub/cdna/digit_rank.hpp>

namespace hipcub {

template <typename KeyT, int BLOCK_DIM_X, int ITEMS_PER_THREAD, typename ValueT = NullType, int RADIX_BITS = 4,
          bool MEMOIZE_OUTER_SCAN = true, BlockScanAlgorithm INNER_SCAN_ALGORITHM = BLOCK_SCAN_WARP_SCANS,
          hipSharedMemConfig SMEM_CONFIG = hipSharedMemBankSizeFourByte, int BLOCK_DIM_Y = 1, int BLOCK_DIM_Z = 1,
          int ARCH = HIPCUB_ARCH>
class BlockRadixSort {
  static constexpr int THREADS = BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z, ITEMS = ITEMS_PER_THREAD, BITS = 4;
  static constexpr int N = THREADS * ITEMS;
  static constexpr bool HAS_VALUES = !std::is_same_v<ValueT, NullType>;
  using Rank = cdna::DigitRank<THREADS, ITEMS, BITS>;

 public:
  struct TempStorage {
    typename Rank::Storage rank;
    Uninitialized<KeyT[N]> keys;
    Uninitialized<ValueT[HAS_VALUES ? N : 1]> values;
  };
  __device__ BlockRadixSort(TempStorage& storage) : storage_(storage), thread_(thread()) {}
  __device__ BlockRadixSort() : storage_(own()), thread_(thread()) {}

#define CDNA_HIPCUB_BLOCK_SORT(NAME, DESCENDING, STRIPED)                                       \
  __device__ void NAME(KeyT(&keys)[ITEMS], int begin_bit = 0, int end_bit = 8 * sizeof(KeyT)) { \
    sort<DESCENDING, STRIPED>(keys, nullptr, begin_bit, end_bit);                               \
  }                                                                                             \
  __device__ void NAME(KeyT(&keys)[ITEMS], ValueT(&values)[ITEMS], int begin_bit = 0,           \
                       int end_bit = 8 * sizeof(KeyT)) {                                        \
    sort<DESCENDING, STRIPED>(keys, values, begin_bit, end_bit);                                \
  }
  CDNA_HIPCUB_BLOCK_SORT(Sort, false, false)
  CDNA_HIPCUB_BLOCK_SORT(SortDescending, true, false)
  CDNA_HIPCUB_BLOCK_SORT(SortBlockedToStriped, false, true)
  CDNA_HIPCUB_BLOCK_SORT(SortDescendingBlockedToStriped, true, true)
#undef CDNA_HIPCUB_BLOCK_SORT

 private:
  __device__ static int thread() { return cdna::thread_in_block<BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z>(); }
  __device__ static TempStorage& own() {
    __shared__ TempStorage storage;
    return storage;
  }

  template <bool DESCENDING, bool STRIPED>
  __device__ void sort(KeyT (&keys)[ITEMS], ValueT* values, int begin_bit, int end_bit) {
    KeyT* all_keys = storage_.keys.Alias();
    ValueT* all_values = storage_.values.Alias();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
      all_keys[thread_ * ITEMS + i] = keys[i];
      if constexpr (HAS_VALUES)
        if (values) all_values[thread_ * ITEMS + i] = values[i];
    }
    for (int first = begin_bit; first < end_bit; first += BITS) {
      __syncthreads();
      unsigned digit[ITEMS], rank[ITEMS];
#pragma unroll
      for (int i = 0; i < ITEMS; i++) {
        int at = Rank::place(thread_, i);
        keys[i] = all_keys[at];
        if constexpr (HAS_VALUES)
          if (values) values[i] = all_values[at];
        digit[i] = cdna::digit_of(keys[i], first, min(BITS, end_bit - first), DESCENDING);
      }
      Rank::rank(storage_.rank, thread_, digit, rank);
#pragma unroll
      for (int i = 0; i < ITEMS; i++) {
        all_keys[rank[i]] = keys[i];
        if constexpr (HAS_VALUES)
          if (values) all_values[rank[i]] = values[i];
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
      int at = STRIPED ? thread_ + i * THREADS : thread_ * ITEMS + i;
      keys[i] = all_keys[at];
      if constexpr (HAS_VALUES)
        if (values) values[i] = all_values[at];
    }
  }

  TempStorage& storage_;
  int thread_;
};

}  // namespace hipcub
