// What kernels borrow from composable kernel: vectors, sequences, buffer loads and stores with their bounds.
#include <ck/ck.hpp>
#include <ck/utility/amd_buffer_addressing.hpp>
#include <ck/utility/data_type.hpp>
#include "check.h"

template <ck::index_t... Is> using S = ck::Sequence<Is...>;
static_assert(S<3, 4, 5>::mSize == 3);
static_assert(ck::scalar_type<ck::half8_t>::vector_size == 8 && ck::scalar_type<float>::vector_size == 1);
static_assert(std::is_same_v<ck::scalar_type<ck::int32x4_t>::type, int32_t>);

// A raw buffer's; what lies beyond its bytes loads as zero and is not stored.
template <typename T> __device__ ck::int32x4_t resource(T* base, int bytes) {
  uint64_t address = reinterpret_cast<uint64_t>(base);
  return {int(address), int(address >> 32), bytes, 0x00020000};
}

// Lane i reads N values from i * N on and writes them to the same place of `out`, but for the last `kept` lanes.
template <typename T, int N>
__global__ void through_registers(const T* in, T* out, int elements, int kept) {
  using Vector = typename ck::vector_type<T, N>::type;
  ck::int32x4_t source = resource(in, elements * sizeof(T)), target = resource(out, kept * N * sizeof(T));
  int offset = threadIdx.x * sizeof(Vector);
  Vector x = ck::amd_buffer_load_impl<T, N, ck::AmdBufferCoherenceEnum::GLC>(source, offset, 0);
  reinterpret_cast<T*>(&x)[N - 1] += T(1);
  ck::amd_buffer_store_impl<T, N>(x, target, offset, 0);
}

template <typename T, int N> void registers() {
  constexpr int LANES = 64, SHORT = 5, KEPT = 60;
  std::vector<T> in(LANES * N), before(LANES * N, T(99));
  for (size_t i = 0; i < in.size(); i++) in[i] = T(1 + i % 50);
  DeviceArray<T> a(in), b(before);
  through_registers<T, N><<<1, LANES>>>(a.data, b.data, LANES * N - SHORT, KEPT);
  OK(hipDeviceSynchronize());
  std::vector<T> got = b.host();
  for (size_t i = 0; i < got.size(); i++) {
    // an access of 16 bytes or less is bounded by 32-bit words, one of 16-bit elements by elements
    T loaded = i < in.size() - SHORT ? in[i] : T(0);
    T wanted = i >= KEPT * N ? T(99) : T(loaded + T(i % N == N - 1));
    EXPECT(got[i] == wanted);
  }
}

int main() {
  registers<float, 4>();
  registers<float, 1>();
  registers<ck::half_t, 8>();
  registers<ck::half_t, 2>();
  registers<int8_t, 4>();
  registers<int8_t, 1>();
  registers<int32_t, 8>();
  registers<double, 1>();
}
