// Scans of a device's values; the output may be where the input is.
#pragma once

#include <hipcub/device/device_reduce.hpp>

namespace hipcub {
namespace cdna {

constexpr int SCAN_ITEMS = 4, SCAN_TILE = BLOCK * SCAN_ITEMS;

// A thread's values of the block's tile. Instead of those beyond the end, after which nothing comes, the last one.
template <typename T, typename In>
__device__ inline void load_scanned(In in, unsigned n, T (&items)[SCAN_ITEMS]) {
#pragma unroll
  for (int i = 0; i < SCAN_ITEMS; i++) items[i] = in[min(blockIdx.x * SCAN_TILE + threadIdx.x * SCAN_ITEMS + i, n - 1)];
}

template <typename T, typename In, typename Op>
__global__ __launch_bounds__(BLOCK) void sum_tiles(In in, unsigned n, Op op, T* sums) {
  __shared__ typename BlockReduce<T, BLOCK>::TempStorage storage;
  T items[SCAN_ITEMS];
  load_scanned(in, n, items);
  T sum = BlockReduce<T, BLOCK>(storage).Reduce(items, op);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// prefixes: of the tiles; the first tile has one only with a first value.
template <bool INCLUSIVE, typename T, typename In, typename Out, typename Op>
__global__ __launch_bounds__(BLOCK) void scan_tiles(In in, Out out, unsigned n, Op op, const T* prefixes,
                                                    bool has_first) {
  __shared__ typename BlockScan<T, BLOCK>::TempStorage storage;
  T items[SCAN_ITEMS], sum, before;
  load_scanned(in, n, items);
  sum = items[0];
#pragma unroll
  for (int i = 1; i < SCAN_ITEMS; i++) sum = op(sum, items[i]);
  BlockScan<T, BLOCK>(storage).ExclusiveScan(sum, before, op);
  bool has_prefix = has_first || blockIdx.x, follows = has_prefix || threadIdx.x;
  if (has_prefix) before = threadIdx.x ? op(prefixes[blockIdx.x], before) : prefixes[blockIdx.x];
#pragma unroll
  for (int i = 0; i < SCAN_ITEMS; i++) {
    unsigned at = blockIdx.x * SCAN_TILE + threadIdx.x * SCAN_ITEMS + i;
    T inclusive = follows ? op(before, items[i]) : items[i];
    if (at < n) out[at] = INCLUSIVE ? inclusive : before;
    before = inclusive;
    follows = true;
  }
}

template <bool INCLUSIVE, typename T, typename In, typename Out, typename Op>
hipError_t scan(void* storage, size_t& bytes, In in, Out out, unsigned n, Op op, bool has_first, T first,
                hipStream_t stream, bool synchronous) {
  unsigned tiles = divided_up(n, SCAN_TILE);
  Storage parts(storage);
  T* sums = parts.part<T>(tiles);
  hipError_t error;
  if (parts.ends_call(bytes, error) || !n) return error;
  sum_tiles<<<tiles, BLOCK, 0, stream>>>(in, n, op, sums);
  to_prefixes<<<1, BLOCK, 0, stream>>>(sums, tiles, op, has_first, first);
  scan_tiles<INCLUSIVE><<<tiles, BLOCK, 0, stream>>>(in, out, n, op, static_cast<const T*>(sums), has_first);
  return launched(synchronous, stream);
}

}  // namespace cdna

struct DeviceScan {
  template <typename InputIteratorT, typename OutputIteratorT, typename NumItemsT>
  static hipError_t InclusiveSum(void* d_temp_storage, size_t& temp_storage_bytes, InputIteratorT d_in,
                                 OutputIteratorT d_out, NumItemsT num_items, hipStream_t stream = 0,
                                 bool debug_synchronous = false) {
    using T = typename cdna::SumType<InputIteratorT, OutputIteratorT>::type;
    return cdna::scan<true, T>(d_temp_storage, temp_storage_bytes, d_in, d_out, num_items, hipcub::Sum(), false, T(0),
                               stream, debug_synchronous);
  }
  template <typename InputIteratorT, typename OutputIteratorT, typename NumItemsT>
  static hipError_t ExclusiveSum(void* d_temp_storage, size_t& temp_storage_bytes, InputIteratorT d_in,
                                 OutputIteratorT d_out, NumItemsT num_items, hipStream_t stream = 0,
                                 bool debug_synchronous = false) {
    using T = typename cdna::SumType<InputIteratorT, OutputIteratorT>::type;
    return cdna::scan<false, T>(d_temp_storage, temp_storage_bytes, d_in, d_out, num_items, hipcub::Sum(), true, T(0),
                                stream, debug_synchronous);
  }
  template <typename InputIteratorT, typename OutputIteratorT, typename ScanOpT, typename NumItemsT>
  static hipError_t InclusiveScan(void* d_temp_storage, size_t& temp_storage_bytes, InputIteratorT d_in,
                                  OutputIteratorT d_out, ScanOpT op, NumItemsT num_items, hipStream_t stream = 0,
                                  bool debug_synchronous = false) {
    using T = cdna::value_of<InputIteratorT>;
    return cdna::scan<true, T>(d_temp_storage, temp_storage_bytes, d_in, d_out, num_items, op, false, T(), stream,
                               debug_synchronous);
  }
  template <typename InputIteratorT, typename OutputIteratorT, typename ScanOpT, typename InitValueT,
            typename NumItemsT>
  static hipError_t ExclusiveScan(void* d_temp_storage, size_t& temp_storage_bytes, InputIteratorT d_in,
                                  OutputIteratorT d_out, ScanOpT op, InitValueT init_value, NumItemsT num_items,
                                  hipStream_t stream = 0, bool debug_synchronous = false) {
    return cdna::scan<false, InitValueT>(d_temp_storage, temp_storage_bytes, d_in, d_out, num_items, op, true,
                                         init_value, stream, debug_synchronous);
  }
};

}  // namespace hipcub
