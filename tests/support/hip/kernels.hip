// What HIP kernels use most: mathematics, lanes, LDS, atomics, groups, matrix instructions, inline assembly.
#include <hip/hip_cooperative_groups.h>
#include <hip/hip_runtime.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdio>
namespace cg = cooperative_groups;

__device__ float total;
__constant__ float table[4] = {1, 2, 3, 4};
extern __shared__ float dynamic[];

template <int Times> __global__ void axpy(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i] * Times;
}
template __global__ void axpy<3>(const float*, float*, float, int);

// Row r of out (64 wide): function r of x.
extern "C" __global__ void maths(const float* x, float* out) {
  int t = threadIdx.x;
  float v = x[t], whole, sine, cosine;
  int exponent;
  float* o = out + t;
  sincosf(v, &sine, &cosine);
  o[0 * 64] = expf(v), o[1 * 64] = std::sin(v), o[2 * 64] = cosf(v), o[3 * 64] = powf(v, 2.5f);
  o[4 * 64] = erff(v), o[5 * 64] = std::log(v), o[6 * 64] = rsqrtf(v), o[7 * 64] = std::tanh(v);
  o[8 * 64] = __expf(v), o[9 * 64] = sine + cosine, o[10 * 64] = lgammaf(v), o[11 * 64] = cbrtf(v);
  o[12 * 64] = std::pow(v, 3), o[13 * 64] = (float)std::exp((double)v), o[14 * 64] = modff(v, &whole) + whole;
  o[15 * 64] = ldexpf(frexpf(v, &exponent), exponent), o[16 * 64] = std::abs(std::complex<float>(v, 1.0f));
  o[17 * 64] = std::fma(v, v, v), o[18 * 64] = std::max(v, 1.0f) + min(v, 2.0f), o[19 * 64] = std::sqrt((double)v);
}

extern "C" __global__ void lanes(int* out, unsigned long long* ballots) {
  __shared__ int swapped[64];
  int t = threadIdx.x;
  swapped[t] = __shfl(t, 3) + 100 * __shfl_xor(t, 1) + 10000 * __shfl_down(t, 2);
  dynamic[t] = table[t & 3];
  __syncthreads();
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  int sum = cg::reduce(tile, t, cg::plus<int>());
  out[t] = swapped[63 - t], out[64 + t] = sum, out[128 + t] = (int)dynamic[63 - t];
  out[192 + t] = (int)tile.meta_group_rank() * 100 + (int)tile.thread_rank();
  if (t % 3 == 0) {
    auto active = cg::coalesced_threads();
    out[256 + t] = active.shfl(t, 2) * 100 + (int)active.thread_rank();
  }
  ballots[t] = __ballot(t > 40);
  atomicAdd(&total, 1.0f);
  if (t == 0) atomicMax(&out[320], 7);
  asm volatile("s_sleep 1");
}

typedef float f4 __attribute__((ext_vector_type(4)));
extern "C" __global__ __launch_bounds__(64) void matrix(const long* a, const long* b, f4* c) {
  c[threadIdx.x] = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(a[threadIdx.x], b[threadIdx.x], c[threadIdx.x], 0, 0, 0);
}

extern "C" __global__ void says(std::array<int, 4> values) { printf("thread %d: %d\n", (int)threadIdx.x, values[0]); }

int main() {
  float* x = nullptr;
  if (hipMalloc(&x, 1024) != hipSuccess) return 1;
  axpy<3><<<4, 256>>>(x, x, 2.0f, 256);
  hipLaunchKernelGGL(lanes, dim3(1), dim3(64), 256, 0, (int*)x, nullptr);
  return hipDeviceSynchronize();
}
