// What kernels borrow from composable kernel: vectors, sequences, buffer loads and stores with their bounds.
#include <ck/ck.hpp>
#include <ck/utility/amd_buffer_addressing.hpp>
#include <ck/utility/data_type.hpp>
#include "check.h"

template <ck::index_t... Is> using S = ck::Sequence<Is...>;
static_assert(S<3, 4, 5>::Size() == 3 && S<3, 4, 5>{}[ck::Number<1>{}] == 4 && S<7, 9>::At(1) == 9);
static_assert(ck::scalar_type<ck::half8_t>::vector_size == 8 && ck::scalar_type<float>::vector_size == 1);
static_assert(std::is_same_v<ck::scalar_type<ck::int32x4_t>::type, int32_t>);
static_assert(sizeof(ck::vector_type_maker_t<ck::half4_t, 2>::type) == 16);

// Lane i reads N values from i * N on and writes them to the same place of `out`, but for the last `kept` lanes.
template <typename T, int N>
__global__ void through_registers(const T* in, T* out, int elements, int kept) {
  using Vector = typename ck::vector_type<T, N>::type;
  ck::int32x4_t source = ck::make_wave_buffer_resource(in, elements);
  ck::int32x4_t target = ck::make_wave_buffer_resource_with_default_range(out);
  target[2] = kept * N * sizeof(T);
  int offset = threadIdx.x * sizeof(Vector);
  Vector x = ck::amd_buffer_load_impl<T, N, ck::AmdBufferCoherenceEnum::GLC>(source, offset, 0);
  ck::vector_type<T, N> v(x);
  v.template AsType<T>()(ck::Number<N - 1>{}) += T(1);
  ck::amd_buffer_store_impl<T, N>(v.template AsType<Vector>()[ck::Number<0>{}], target, offset, 0);
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

__global__ void valid_or_not(const float* in, float* out) {
  bool valid = threadIdx.x % 3 != 0;
  ck::float2_t x = ck::amd_buffer_load_invalid_element_return_zero<float, 2>(in, 2 * threadIdx.x, valid, 128);
  ck::float2_t y =
      ck::amd_buffer_load_invalid_element_return_customized_value<float, 2>(in, 2 * threadIdx.x, valid, 128, -1.0f);
  ck::amd_buffer_store<float, 2>(x + y, out, 2 * threadIdx.x, threadIdx.x != 7, 128);
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

  std::vector<float> in(128);
  for (int i = 0; i < 128; i++) in[i] = i;
  DeviceArray<float> a(in), b(std::vector<float>(128, 99));
  valid_or_not<<<1, 64>>>(a.data, b.data);
  OK(hipDeviceSynchronize());
  std::vector<float> got = b.host();
  for (int i = 0; i < 128; i++) EXPECT(got[i] == (i / 2 == 7 ? 99 : i / 2 % 3 ? 2 * i : -1));
}
