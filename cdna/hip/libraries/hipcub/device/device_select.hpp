// Those of a device's values that are flagged, in order.
#pragma once

#include <hipcub/device/device_scan.hpp>

namespace hipcub {
namespace cdna {

template <typename Flags>
__global__ __launch_bounds__(BLOCK) void count_chosen(unsigned n, Flags flags, unsigned* counts) {
  __shared__ typename BlockReduce<unsigned, BLOCK>::TempStorage storage;
  unsigned i = blockIdx.x * BLOCK + threadIdx.x;
  unsigned count = BlockReduce<unsigned, BLOCK>(storage).Sum(i < n && bool(flags[i]));
  if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

// starts: where each tile's chosen values go.
template <typename In, typename Out, typename Count, typename Flags>
__global__ __launch_bounds__(BLOCK) void move_chosen(In in, Out out, Count selected, unsigned n, Flags flags,
                                                     const unsigned* starts) {
  __shared__ typename BlockScan<unsigned, BLOCK>::TempStorage storage;
  unsigned i = blockIdx.x * BLOCK + threadIdx.x, before, total;
  bool is = i < n && bool(flags[i]);
  BlockScan<unsigned, BLOCK>(storage).ExclusiveSum(unsigned(is), before, total);
  if (is) out[starts[blockIdx.x] + before] = in[i];
  if (threadIdx.x == 0 && blockIdx.x == gridDim.x - 1) *selected = starts[blockIdx.x] + total;
}

template <typename In, typename Out, typename Count, typename Flags>
hipError_t select(void* storage, size_t& bytes, In in, Out out, Count selected, unsigned n, Flags flags,
                  hipStream_t stream, bool synchronous) {
  unsigned tiles = n ? divided_up(n, BLOCK) : 1;
  Storage parts(storage);
  unsigned* counts = parts.part<unsigned>(tiles);
  hipError_t error;
  if (parts.ends_call(bytes, error)) return error;
  count_chosen<<<tiles, BLOCK, 0, stream>>>(n, flags, counts);
  to_prefixes<<<1, BLOCK, 0, stream>>>(counts, tiles, hipcub::Sum(), true, 0u);
  move_chosen<<<tiles, BLOCK, 0, stream>>>(in, out, selected, n, flags, static_cast<const unsigned*>(counts));
  return launched(synchronous, stream);
}

}  // namespace cdna

struct DeviceSelect {
  template <typename InputIteratorT, typename FlagIterator, typename OutputIteratorT, typename NumSelectedIteratorT,
            typename NumItemsT>
  static hipError_t Flagged(void* d_temp_storage, size_t& temp_storage_bytes, InputIteratorT d_in, FlagIterator d_flags,
                            OutputIteratorT d_out, NumSelectedIteratorT d_num_selected_out, NumItemsT num_items,
                            hipStream_t stream = 0, bool debug_synchronous = false) {
    return cdna::select(d_temp_storage, temp_storage_bytes, d_in, d_out, d_num_selected_out, num_items, d_flags, stream,
                        debug_synchronous);
  }
};

}  // namespace hipcub
