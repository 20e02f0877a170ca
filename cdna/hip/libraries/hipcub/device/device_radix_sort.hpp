// A device's keys sorted, with values that go with them or without: stable, by digits of 8 bits from the lowest on.
#pragma once

#include <hipcub/cdna/device_parts.hpp>
#include <hipcub/cdna/digit_rank.hpp>

namespace hipcub {
namespace cdna {

constexpr int SORT_ITEMS = 8, SORT_BITS = 8, SORT_DIGITS = 1 << SORT_BITS, SORT_TILE = BLOCK * SORT_ITEMS;

// counts[digit][tile]: how many keys of a tile have a digit.
template <typename KeyT>
__global__ __launch_bounds__(BLOCK) void count_digits(const KeyT* keys, unsigned n, int first, int bits,
                                                      bool descending, unsigned* counts) {
  __shared__ unsigned count[SORT_DIGITS];
  for (int d = threadIdx.x; d < SORT_DIGITS; d += BLOCK) count[d] = 0;
  __syncthreads();
  for (unsigned i = threadIdx.x; i < SORT_TILE; i += BLOCK)
    if (blockIdx.x * SORT_TILE + i < n)
      atomicAdd(&count[digit_of(keys[blockIdx.x * SORT_TILE + i], first, bits, descending)], 1u);
  __syncthreads();
  for (int d = threadIdx.x; d < SORT_DIGITS; d += BLOCK) counts[d * gridDim.x + blockIdx.x] = count[d];
}

// starts[digit][tile]: where the tile's keys with a digit go.
template <typename KeyT, typename ValueT>
__global__ __launch_bounds__(BLOCK) void move_by_digit(const KeyT* keys_in, KeyT* keys_out, const ValueT* values_in,
                                                       ValueT* values_out, unsigned n, int first, int bits,
                                                       bool descending, const unsigned* starts) {
  using Rank = DigitRank<BLOCK, SORT_ITEMS, SORT_BITS>;
  __shared__ typename Rank::Storage storage;
  unsigned digit[SORT_ITEMS], rank[SORT_ITEMS];
  KeyT key[SORT_ITEMS];
#pragma unroll
  for (int i = 0; i < SORT_ITEMS; i++) {
    unsigned at = blockIdx.x * SORT_TILE + Rank::place(threadIdx.x, i);
    digit[i] = Rank::NONE;
    if (at >= n) continue;
    key[i] = keys_in[at];
    digit[i] = digit_of(key[i], first, bits, descending);
  }
  Rank::rank(storage, threadIdx.x, digit, rank);
#pragma unroll
  for (int i = 0; i < SORT_ITEMS; i++) {
    if (digit[i] == Rank::NONE) continue;
    unsigned to = starts[digit[i] * gridDim.x + blockIdx.x] + rank[i] - storage.start[digit[i]];
    keys_out[to] = key[i];
    if constexpr (!std::is_same_v<ValueT, NullType>)
      values_out[to] = values_in[blockIdx.x * SORT_TILE + Rank::place(threadIdx.x, i)];
  }
}

template <typename KeyT, typename ValueT>
struct Pairs {
  KeyT* keys;
  ValueT* values;
};

inline int sort_passes(int begin_bit, int end_bit) { return (end_bit - begin_bit + SORT_BITS - 1) / SORT_BITS; }

// The passes: from `from` to `to` and on between `to` and `other`. counts: [SORT_DIGITS][tiles].
template <typename KeyT, typename ValueT>
hipError_t sort(Pairs<const KeyT, const ValueT> from, Pairs<KeyT, ValueT> to, Pairs<KeyT, ValueT> other, unsigned n,
                int begin_bit, int end_bit, bool descending, unsigned* counts, hipStream_t stream, bool synchronous) {
  unsigned tiles = divided_up(n, SORT_TILE);
  for (int first = begin_bit; n && first < end_bit; first += SORT_BITS) {
    int bits = end_bit - first < SORT_BITS ? end_bit - first : SORT_BITS;
    count_digits<<<tiles, BLOCK, 0, stream>>>(from.keys, n, first, bits, descending, counts);
    to_prefixes<<<1, BLOCK, 0, stream>>>(counts, SORT_DIGITS * tiles, hipcub::Sum(), true, 0u);
    move_by_digit<<<tiles, BLOCK, 0, stream>>>(from.keys, to.keys, from.values, to.values, n, first, bits, descending,
                                               counts);
    from = {to.keys, to.values};
    Pairs<KeyT, ValueT> next = other;
    other = to;
    to = next;
  }
  return launched(synchronous, stream);
}

template <typename KeyT, typename ValueT>
hipError_t sort_to(void* storage, size_t& bytes, const KeyT* keys_in, KeyT* keys_out, const ValueT* values_in,
                   ValueT* values_out, unsigned n, int begin_bit, int end_bit, bool descending, hipStream_t stream,
                   bool synchronous) {
  constexpr bool HAS_VALUES = !std::is_same_v<ValueT, NullType>;
  int passes = sort_passes(begin_bit, end_bit);
  Storage parts(storage);
  unsigned* counts = parts.part<unsigned>(SORT_DIGITS * size_t(divided_up(n, SORT_TILE)));
  Pairs<KeyT, ValueT> out = {keys_out, values_out}, other = {nullptr, nullptr};
  if (passes > 1) {
    other.keys = parts.part<KeyT>(n);
    if (HAS_VALUES) other.values = parts.part<ValueT>(n);
  }
  hipError_t error;
  if (parts.ends_call(bytes, error)) return error;
  if (passes <= 0) {
    error = n ? hipMemcpyAsync(keys_out, keys_in, n * sizeof(KeyT), hipMemcpyDeviceToDevice, stream) : hipSuccess;
    if (HAS_VALUES && n && error == hipSuccess)
      error = hipMemcpyAsync(values_out, values_in, n * sizeof(ValueT), hipMemcpyDeviceToDevice, stream);
    return error;
  }
  bool odd = passes % 2;  // the last pass is to end in the output
  return sort<KeyT, ValueT>({keys_in, values_in}, odd ? out : other, odd ? other : out, n, begin_bit, end_bit,
                            descending, counts, stream, synchronous);
}

template <typename KeyT, typename ValueT>
hipError_t sort_within(void* storage, size_t& bytes, DoubleBuffer<KeyT>& keys, DoubleBuffer<ValueT>* values, unsigned n,
                       int begin_bit, int end_bit, bool descending, hipStream_t stream, bool synchronous) {
  Storage parts(storage);
  unsigned* counts = parts.part<unsigned>(SORT_DIGITS * size_t(divided_up(n, SORT_TILE)));
  hipError_t error;
  if (parts.ends_call(bytes, error)) return error;
  Pairs<KeyT, ValueT> now = {keys.Current(), values ? values->Current() : nullptr};
  Pairs<KeyT, ValueT> then = {keys.Alternate(), values ? values->Alternate() : nullptr};
  error = sort<KeyT, ValueT>({now.keys, now.values}, then, now, n, begin_bit, end_bit, descending, counts, stream,
                             synchronous);
  if (sort_passes(begin_bit, end_bit) > 0 && sort_passes(begin_bit, end_bit) % 2) {
    keys.selector ^= 1;
    if (values) values->selector ^= 1;
  }
  return error;
}

}  // namespace cdna

struct DeviceRadixSort {
#define CDNA_HIPCUB_SORT(NAME, DESCENDING)                                                                            \
  template <typename KeyT, typename ValueT, typename NumItemsT>                                                       \
  static hipError_t SortPairs##NAME(void* d_temp_storage, size_t& temp_storage_bytes, const KeyT* d_keys_in,          \
                                    KeyT* d_keys_out, const ValueT* d_values_in, ValueT* d_values_out,                \
                                    NumItemsT num_items, int begin_bit = 0, int end_bit = sizeof(KeyT) * 8,           \
                                    hipStream_t stream = 0, bool debug_synchronous = false) {                         \
    return cdna::sort_to(d_temp_storage, temp_storage_bytes, d_keys_in, d_keys_out, d_values_in, d_values_out,        \
                         num_items, begin_bit, end_bit, DESCENDING, stream, debug_synchronous);                       \
  }                                                                                                                   \
  template <typename KeyT, typename ValueT, typename NumItemsT>                                                       \
  static hipError_t SortPairs##NAME(void* d_temp_storage, size_t& temp_storage_bytes, DoubleBuffer<KeyT>& d_keys,     \
                                    DoubleBuffer<ValueT>& d_values, NumItemsT num_items, int begin_bit = 0,           \
                                    int end_bit = sizeof(KeyT) * 8, hipStream_t stream = 0,                           \
                                    bool debug_synchronous = false) {                                                 \
    return cdna::sort_within(d_temp_storage, temp_storage_bytes, d_keys, &d_values, num_items, begin_bit, end_bit,    \
                             DESCENDING, stream, debug_synchronous);                                                  \
  }                                                                                                                   \
  template <typename KeyT, typename NumItemsT>                                                                        \
  static hipError_t SortKeys##NAME(                                                                                   \
      void* d_temp_storage, size_t& temp_storage_bytes, const KeyT* d_keys_in, KeyT* d_keys_out, NumItemsT num_items, \
      int begin_bit = 0, int end_bit = sizeof(KeyT) * 8, hipStream_t stream = 0, bool debug_synchronous = false) {    \
    return cdna::sort_to<KeyT, NullType>(d_temp_storage, temp_storage_bytes, d_keys_in, d_keys_out, nullptr, nullptr, \
                                         num_items, begin_bit, end_bit, DESCENDING, stream, debug_synchronous);       \
  }                                                                                                                   \
  template <typename KeyT, typename NumItemsT>                                                                        \
  static hipError_t SortKeys##NAME(void* d_temp_storage, size_t& temp_storage_bytes, DoubleBuffer<KeyT>& d_keys,      \
                                   NumItemsT num_items, int begin_bit = 0, int end_bit = sizeof(KeyT) * 8,            \
                                   hipStream_t stream = 0, bool debug_synchronous = false) {                          \
    return cdna::sort_within<KeyT, NullType>(d_temp_storage, temp_storage_bytes, d_keys, nullptr, num_items,          \
                                             begin_bit, end_bit, DESCENDING, stream, debug_synchronous);              \
  }
  CDNA_HIPCUB_SORT(, false)
  CDNA_HIPCUB_SORT(Descending, true)
#undef CDNA_HIPCUB_SORT
};

}  // namespace hipcub
