// Buffer loads and stores: 1 to 64 bytes a lane at a resource's base + the lane's offset + the wave's, in bytes. What
// lies beyond the resource's size loads as zero and is not stored.
#pragma once

#include <ck/utility/data_type.hpp>

namespace ck {

// The instruction's cache bits, by their old names and by what gfx940 and later make of them (sc0 1, nt 2, sc1 16).
enum struct AmdBufferCoherenceEnum {
  DefaultCoherence = 0,
  GLC = 1,
  SLC = 2,
  GLC_SLC = 3,
  WAVE_NT0 = 0,
  WAVE_NT1 = 2,
  GROUP_NT0 = 1,
  GROUP_NT1 = 3,
  DEVICE_NT0 = 16,
  DEVICE_NT1 = 18,
  SYSTEM_NT0 = 17,
  SYSTEM_NT1 = 19,
};

namespace cdna {

// The compiler's intrinsics, with the resource as four words.
#define CDNA_CK_BUFFER(name, type, llvm)                                                                 \
  __device__ type load_##name(int32x4_t resource, int32_t lane_offset, int32_t wave_offset,              \
                              int32_t cache) __asm("llvm.amdgcn.raw.buffer.load." llvm);                 \
  __device__ void store_##name(type value, int32x4_t resource, int32_t lane_offset, int32_t wave_offset, \
                               int32_t cache) __asm("llvm.amdgcn.raw.buffer.store." llvm);
CDNA_CK_BUFFER(b8, int8_t, "i8")
CDNA_CK_BUFFER(b16, int16_t, "i16")
CDNA_CK_BUFFER(b32, int32_t, "i32")
CDNA_CK_BUFFER(b64, int32x2_t, "v2i32")
CDNA_CK_BUFFER(b128, int32x4_t, "v4i32")
#undef CDNA_CK_BUFFER

template <typename V, AmdBufferCoherenceEnum coherence>
__device__ inline V load(int32x4_t resource, index_t lane_offset, index_t wave_offset) {
  constexpr int bytes = sizeof(V), cache = static_cast<int>(coherence);
  static_assert(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes % 16 == 0,
                "composable kernel, amd_buffer_load_impl: no such number of bytes is loaded at once");
  V value;
#pragma unroll
  for (int at = 0; at < bytes; at += 16) {
    auto part = [&] {
      if constexpr (bytes == 1) return load_b8(resource, lane_offset, wave_offset, cache);
      else if constexpr (bytes == 2) return load_b16(resource, lane_offset, wave_offset, cache);
      else if constexpr (bytes == 4) return load_b32(resource, lane_offset, wave_offset, cache);
      else if constexpr (bytes == 8) return load_b64(resource, lane_offset, wave_offset, cache);
      else return load_b128(resource, lane_offset, wave_offset + at, cache);
    }();
    __builtin_memcpy(reinterpret_cast<char*>(&value) + at, &part, sizeof part);
  }
  return value;
}

template <typename V, AmdBufferCoherenceEnum coherence>
__device__ inline void store(V value, int32x4_t resource, index_t lane_offset, index_t wave_offset) {
  constexpr int bytes = sizeof(V), cache = static_cast<int>(coherence);
  static_assert(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes % 16 == 0,
                "composable kernel, amd_buffer_store_impl: no such number of bytes is stored at once");
  if constexpr (bytes == 1) {
    store_b8(__builtin_bit_cast(int8_t, value), resource, lane_offset, wave_offset, cache);
  } else if constexpr (bytes == 2) {
    store_b16(__builtin_bit_cast(int16_t, value), resource, lane_offset, wave_offset, cache);
  } else if constexpr (bytes == 4) {
    store_b32(__builtin_bit_cast(int32_t, value), resource, lane_offset, wave_offset, cache);
  } else if constexpr (bytes == 8) {
    store_b64(__builtin_bit_cast(int32x2_t, value), resource, lane_offset, wave_offset, cache);
  } else {
#pragma unroll
    for (int at = 0; at < bytes; at += 16) {
      int32x4_t part;
      __builtin_memcpy(&part, reinterpret_cast<char*>(&value) + at, 16);
      store_b128(part, resource, lane_offset, wave_offset + at, cache);
    }
  }
}

}  // namespace cdna

template <typename T, index_t N, AmdBufferCoherenceEnum coherence = AmdBufferCoherenceEnum::DefaultCoherence>
__device__ inline typename vector_type<T, N>::type amd_buffer_load_impl(int32x4_t resource, index_t lane_offset,
                                                                        index_t wave_offset) {
  return cdna::load<typename vector_type<T, N>::type, coherence>(resource, lane_offset, wave_offset);
}
template <typename T, index_t N, AmdBufferCoherenceEnum coherence = AmdBufferCoherenceEnum::DefaultCoherence>
__device__ inline void amd_buffer_store_impl(typename vector_type<T, N>::type value, int32x4_t resource,
                                             index_t lane_offset, index_t wave_offset) {
  cdna::store<typename vector_type<T, N>::type, coherence>(value, resource, lane_offset, wave_offset);
}

}  // namespace ck
