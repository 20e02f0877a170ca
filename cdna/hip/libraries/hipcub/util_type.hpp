// Types that the other headers share.
#pragma once

#include <hipcub/config.hpp>

namespace hipcub {

struct NullType {};

template <typename KeyT, typename ValueT>
struct KeyValuePair {
  using Key = KeyT;
  using Value = ValueT;
  KeyT key;
  ValueT value;
  __host__ __device__ KeyValuePair() {}
  __host__ __device__ KeyValuePair(const KeyT& k, const ValueT& v) : key(k), value(v) {}
  __host__ __device__ bool operator!=(const KeyValuePair& b) const { return key != b.key || value != b.value; }
  __host__ __device__ bool operator==(const KeyValuePair& b) const { return !(*this != b); }
};

// Two buffers, of which one holds what counts.
template <typename T>
struct DoubleBuffer {
  T* d_buffers[2];
  int selector;
  __host__ __device__ DoubleBuffer() : d_buffers{nullptr, nullptr}, selector(0) {}
  __host__ __device__ DoubleBuffer(T* current, T* alternate) : d_buffers{current, alternate}, selector(0) {}
  __host__ __device__ T* Current() { return d_buffers[selector]; }
  __host__ __device__ T* Alternate() { return d_buffers[selector ^ 1]; }
};

// Shared memory for a T, which is not constructed.
template <typename T>
struct Uninitialized {
  alignas(T) unsigned char storage[sizeof(T)];
  __host__ __device__ T& Alias() { return reinterpret_cast<T&>(storage); }
};

namespace cdna {

constexpr int WAVE = 64;

template <typename Iterator> using value_of = typename std::iterator_traits<Iterator>::value_type;
// What is written through an iterator; iterators that only write have no value type.
template <typename Iterator, typename Otherwise>
using written_to = std::conditional_t<std::is_void_v<value_of<Iterator>>, Otherwise, value_of<Iterator>>;

template <int X, int Y, int Z> __device__ inline int thread_in_block() {
  int thread = threadIdx.x;
  if constexpr (Y > 1 || Z > 1) thread += X * threadIdx.y;
  if constexpr (Z > 1) thread += X * Y * threadIdx.z;
  return thread;
}

// The value of another lane of the wave, for any type that may be copied as bytes.
template <typename T> __device__ inline T of_lane(const T& value, int lane) {
  constexpr int WORDS = (sizeof(T) + 3) / 4;
  int words[WORDS] = {};
  __builtin_memcpy(words, &value, sizeof(T));
#pragma unroll
  for (int i = 0; i < WORDS; i++) words[i] = __builtin_amdgcn_ds_bpermute(lane << 2, words[i]);
  alignas(T) unsigned char bytes[sizeof(T)];
  __builtin_memcpy(bytes, words, sizeof(T));
  return reinterpret_cast<T&>(bytes);
}

template <typename T> constexpr bool is_16_bit_float = std::is_same_v<T, __half> || std::is_same_v<T, _Float16> ||
                                                       std::is_same_v<T, __hip_bfloat16> ||
                                                       std::is_same_v<T, hip_bfloat16>;
template <typename T> constexpr bool is_float = std::is_floating_point_v<T> || is_16_bit_float<T>;

template <int BYTES>
using unsigned_of =
    std::conditional_t<BYTES == 1, uint8_t,
                       std::conditional_t<BYTES == 2, uint16_t, std::conditional_t<BYTES == 4, uint32_t, uint64_t>>>;

// A number's bits in the order of the numbers, as unsigned integers; both zeros are the same.
template <typename T> __host__ __device__ inline unsigned_of<sizeof(T)> ordered_bits(const T& value) {
  static_assert(std::is_integral_v<T> || is_float<T>, "hipCUB: keys of this type are not sorted by radix");
  using U = unsigned_of<sizeof(T)>;
  constexpr U SIGN = U(1) << (8 * sizeof(T) - 1);
  U bits;
  __builtin_memcpy(&bits, &value, sizeof(T));
  if constexpr (is_float<T>) {
    if (bits == SIGN) bits = 0;
    return bits & SIGN ? ~bits : bits | SIGN;
  } else {
    return std::is_signed_v<T> ? bits ^ SIGN : bits;
  }
}

// The largest and the smallest number, of 16-bit ones too.
template <typename T> __host__ __device__ inline T from_bits(unsigned bits) {
  T value;
  uint16_t low = bits;
  __builtin_memcpy(&value, &low, 2);
  return value;
}
template <typename T> __host__ __device__ inline T largest() {
  if constexpr (std::is_same_v<T, __half> || std::is_same_v<T, _Float16>) return from_bits<T>(0x7bff);
  else if constexpr (is_16_bit_float<T>) return from_bits<T>(0x7f7f);
  else return std::numeric_limits<T>::max();
}
template <typename T> __host__ __device__ inline T lowest() {
  if constexpr (std::is_same_v<T, __half> || std::is_same_v<T, _Float16>) return from_bits<T>(0xfbff);
  else if constexpr (is_16_bit_float<T>) return from_bits<T>(0xff7f);
  else return std::numeric_limits<T>::lowest();
}

}  // namespace cdna

// A number's bits, and the same in the order of the numbers, and back.
template <typename T>
struct Traits {
  using UnsignedBits = cdna::unsigned_of<sizeof(T)>;
  static constexpr UnsignedBits HIGH_BIT = UnsignedBits(1) << (8 * sizeof(T) - 1);
  __host__ __device__ static UnsignedBits TwiddleIn(UnsignedBits bits) {
    if constexpr (cdna::is_float<T>) return bits & HIGH_BIT ? ~bits : bits ^ HIGH_BIT;
    else return std::is_signed_v<T> ? bits ^ HIGH_BIT : bits;
  }
  __host__ __device__ static UnsignedBits TwiddleOut(UnsignedBits bits) {
    if constexpr (cdna::is_float<T>) return bits & HIGH_BIT ? bits ^ HIGH_BIT : ~bits;
    else return std::is_signed_v<T> ? bits ^ HIGH_BIT : bits;
  }
  __host__ __device__ static T Max() { return cdna::largest<T>(); }
  __host__ __device__ static T Lowest() { return cdna::lowest<T>(); }
};
template <typename T> using NumericTraits = Traits<T>;

}  // namespace hipcub
