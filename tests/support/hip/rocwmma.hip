// One block of a matrix product for every type, block size and layout that test_hip_headers.py asks for.
#include <rocwmma/internal/type_traits.hpp>
#include <rocwmma/rocwmma.hpp>

using namespace rocwmma;

// d [B][B] = a [B][K] @ b [K][B] + c [B][B]; all in memory as the layouts say, with 8 elements after each row.
template <uint32_t B, uint32_t K, typename In, typename Out, typename LayoutA, typename LayoutB>
__device__ void product(const In* a, const In* b, const Out* c, Out* d, layout_t result) {
  fragment<matrix_a, B, B, K, In, LayoutA> fa;
  fragment<matrix_b, B, B, K, In, LayoutB> fb;
  fragment<accumulator, B, B, K, Out> sum, before;
  static_assert(decltype(fa)::num_elements == B * K / 64 && decltype(sum)::num_elements == B * B / 64);
  load_matrix_sync(fa, a, (std::is_same_v<LayoutA, row_major> ? K : B) + 8);
  load_matrix_sync(fb, b, (std::is_same_v<LayoutB, row_major> ? B : K) + 8);
  load_matrix_sync(before, c, B + 8, result);
  fill_fragment(sum, Out(0));
  mma_sync(sum, fa, fb, sum);
  for (uint32_t i = 0; i < sum.num_elements; i++) sum.x[i] = Out(sum[i] + before.x[i]);
  store_matrix_sync(d, sum, B + 8, result);
}

#define KERNELS(name, B, K, In, Out)                                                     \
  extern "C" __global__ void name##_rr(const In* a, const In* b, const Out* c, Out* d) { \
    product<B, K, In, Out, row_major, row_major>(a, b, c, d, mem_row_major);             \
  }                                                                                      \
  extern "C" __global__ void name##_cc(const In* a, const In* b, const Out* c, Out* d) { \
    product<B, K, In, Out, col_major, col_major>(a, b, c, d, mem_col_major);             \
  }
KERNELS(f16_16, 16, 32, float16_t, float)
KERNELS(f16_32, 32, 16, hfloat16_t, float)
KERNELS(half_16, 16, 16, __half, __half)
KERNELS(bf16_16, 16, 16, bfloat16_t, float)
KERNELS(bf16_32, 32, 8, __hip_bfloat16, float)
KERNELS(i8_16, 16, 64, int8_t, int32_t)
KERNELS(i8_32, 32, 16, int8_t, int32_t)
KERNELS(f32_16, 16, 8, float, float)
KERNELS(f32_32, 32, 4, float, float)
KERNELS(f64_16, 16, 8, double, double)
#if !defined(__gfx950__)
KERNELS(fp8_16, 16, 64, float8_fnuz_t, float)
KERNELS(fp8_32, 32, 32, __hip_fp8_e4m3_fnuz, float)
KERNELS(bf8_16, 16, 32, bfloat8_fnuz_t, float)
#else
KERNELS(fp8_16, 16, 64, float8_t, float)
KERNELS(fp8_32, 32, 32, __hip_fp8_e4m3, float)
KERNELS(bf8_16, 16, 32, bfloat8_t, float)
#endif

// d [32][32] fp32 = a [32][16] @ b [16][32], a wave a block.
extern "C" __global__ void mapped(const float16_t* a, const float16_t* b, float* d) {
  static_assert(ceilDiv(33u, 16u) == 3 && Log2<16>::value == 4 && Constants::AMDGCN_WAVE_SIZE == 64);
  static_assert(std::numeric_limits<float16_t>::epsilon() == convert<float16_t>(0x1p-10f));
  using In = MappingUtil<16, 16, float16_t, row_major>;
  using Out = MappingUtil<16, 16, float, col_major>;
  Coord2d at = Out::matrixCoord();
  fragment<matrix_a, 16, 16, 16, float16_t, row_major> fa;
  fragment<matrix_b, 16, 16, 16, float16_t, row_major> fb;
  fragment<accumulator, 16, 16, 16, float> sum;
  load_matrix_sync(fa, In::dataCoord(a, make_coord2d(get<0>(at), 0), 16), 16);
  load_matrix_sync(fb, In::dataCoord(b, make_coord2d(0, get<1>(at)), 32), 32);
  fill_fragment(sum, 0.0f);
  mma_sync(sum, fa, fb, sum);
  store_matrix_sync(Out::dataCoord(d, at, 32), sum, 32, mem_col_major);
}
