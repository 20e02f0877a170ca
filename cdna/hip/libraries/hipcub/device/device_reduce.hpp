// Reductions of a device's values to one.
#pragma once

#include <hipcub/block/block_reduce.hpp>
#include <hipcub/cdna/device_parts.hpp>

namespace hipcub {
namespace cdna {

constexpr unsigned MOST_SUMS = 256, FEWEST_ITEMS = 8 * BLOCK;

// sums[block]: of its share of the input, `share` values.
template <typename T, typename In, typename Op>
__global__ __launch_bounds__(BLOCK) void reduce_shares(In in, unsigned n, unsigned share, Op op, T* sums) {
  __shared__ typename BlockReduce<T, BLOCK>::TempStorage storage;
  unsigned begin = blockIdx.x * share, count = min(share, n - begin);
  T sum = in[begin + min(threadIdx.x, count - 1)];
  for (unsigned i = threadIdx.x + BLOCK; i < count; i += BLOCK) sum = op(sum, T(in[begin + i]));
  sum = BlockReduce<T, BLOCK>(storage).Reduce(sum, op, min(count, unsigned(BLOCK)));
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

template <typename T, typename Out, typename Op>
__global__ __launch_bounds__(BLOCK) void reduce_sums(const T* sums, unsigned n, Op op, T first, Out out) {
  __shared__ typename BlockReduce<T, BLOCK>::TempStorage storage;
  T sum = first;
  if (n) {
    sum = BlockReduce<T, BLOCK>(storage).Reduce(sums[min(threadIdx.x, n - 1)], op, int(n));
    sum = op(first, sum);
  }
  if (threadIdx.x == 0) *out = sum;
}

template <typename T, typename In, typename Out, typename Op>
hipError_t reduce(void* storage, size_t& bytes, In in, Out out, unsigned n, Op op, T first, hipStream_t stream,
                  bool synchronous) {
  Storage parts(storage);
  T* sums = parts.part<T>(MOST_SUMS);
  hipError_t error;
  if (parts.ends_call(bytes, error)) return error;
  unsigned share = divided_up(n, MOST_SUMS) > FEWEST_ITEMS ? divided_up(n, MOST_SUMS) : FEWEST_ITEMS;
  unsigned blocks = divided_up(n, share);
  if (blocks) reduce_shares<<<blocks, BLOCK, 0, stream>>>(in, n, share, op, sums);
  reduce_sums<<<1, BLOCK, 0, stream>>>(sums, blocks, op, first, out);
  return launched(synchronous, stream);
}

// In what sums are taken: the input's type, or a wider one of the output's.
template <typename In, typename Out, bool = std::is_arithmetic_v<value_of<In>>>
struct SumType {
  using type = value_of<In>;
};
template <typename In, typename Out> struct SumType<In, Out, true> {
  using type = std::common_type_t<value_of<In>, written_to<Out, value_of<In>>>;
};

}  // namespace cdna

struct DeviceReduce {
  template <typename InputIteratorT, typename OutputIteratorT, typename NumItemsT, typename ReductionOpT, typename T>
  static hipError_t Reduce(void* d_temp_storage, size_t& temp_storage_bytes, InputIteratorT d_in, OutputIteratorT d_out,
                           NumItemsT num_items, ReductionOpT op, T init, hipStream_t stream = 0,
                           bool debug_synchronous = false) {
    return cdna::reduce<T>(d_temp_storage, temp_storage_bytes, d_in, d_out, num_items, op, init, stream,
                           debug_synchronous);
  }
  template <typename InputIteratorT, typename OutputIteratorT, typename NumItemsT>
  static hipError_t Sum(void* d_temp_storage, size_t& temp_storage_bytes, InputIteratorT d_in, OutputIteratorT d_out,
                        NumItemsT num_items, hipStream_t stream = 0, bool debug_synchronous = false) {
    using T = typename cdna::SumType<InputIteratorT, OutputIteratorT>::type;
    return Reduce(d_temp_storage, temp_storage_bytes, d_in, d_out, num_items, hipcub::Sum(), T(0), stream,
                  debug_synchronous);
  }
  template <typename InputIteratorT, typename OutputIteratorT, typename NumItemsT>
  static hipError_t Min(void* d_temp_storage, size_t& temp_storage_bytes, InputIteratorT d_in, OutputIteratorT d_out,
                        NumItemsT num_items, hipStream_t stream = 0, bool debug_synchronous = false) {
    return Reduce(d_temp_storage, temp_storage_bytes, d_in, d_out, num_items, hipcub::Min(),
                  cdna::largest<cdna::value_of<InputIteratorT>>(), stream, debug_synchronous);
  }
  template <typename InputIteratorT, typename OutputIteratorT, typename NumItemsT>
  static hipError_t Max(void* d_temp_storage, size_t& temp_storage_bytes, InputIteratorT d_in, OutputIteratorT d_out,
                        NumItemsT num_items, hipStream_t stream = 0, bool debug_synchronous = false) {
    return Reduce(d_temp_storage, temp_storage_bytes, d_in, d_out, num_items, hipcub::Max(),
                  cdna::lowest<cdna::value_of<InputIteratorT>>(), stream, debug_synchronous);
  }
};

}  // namespace hipcub
