// One kernel for each planted slow-down, and one without any; the line that is to blame is marked.
#include <hip/hip_runtime.h>
#include <cstdio>

#define KERNEL __global__ __launch_bounds__(256) void

template <int ROW>
__device__ void transposed(const float* in, float* out) {
  __shared__ float tile[32 * ROW];
  int x = threadIdx.x % 32, y = threadIdx.x / 32;
  float sum = 0;
  for (int turn = 0; turn < 32; turn++) {
    for (int i = y; i < 32; i += 8) tile[i * ROW + x] = in[(turn * 32 + i) * 32 + x];
    __syncthreads();
    for (int i = y; i < 32; i += 8) sum += tile[x * ROW + i];  // conflicts
    __syncthreads();
  }
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}
KERNEL rows_of_32(const float* in, float* out) { transposed<32>(in, out); }
KERNEL rows_of_33(const float* in, float* out) { transposed<33>(in, out); }

KERNEL uncoalesced(const float* in, float* out) {
  float sum = 0;
  for (int i = 0; i < 8; i++) sum += in[(blockIdx.x * 256 + threadIdx.x) * 24 + i * 3 & 0xffffff];  // uncoalesced
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}

KERNEL power_of_two(const float* in, float* out) {
  float sum = 0;
  for (int i = 0; i < 8; i++) sum += in[threadIdx.x * 4096 + i * 32 + blockIdx.x % 4 * 256];  // stride
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}

KERNEL barrier_too_many(const float* in, float* out) {
  __shared__ float all[256];
  float x = in[threadIdx.x];
  for (int turn = 0; turn < 16; turn++) {
    int steps = (threadIdx.x / 64 + turn) % 4 == 0 ? 64 : 1;
    for (int i = 0; i < steps; i++) x = x * 0.5f + 1.0f;
    __syncthreads();  // barrier
  }
  all[threadIdx.x] = x;
  __syncthreads();
  out[blockIdx.x * 256 + threadIdx.x] = all[threadIdx.x ^ 1];
}

__attribute__((amdgpu_num_vgpr(24))) KERNEL spilled(const float* in, float* out) {
  float held[96], sum = 0;
#pragma unroll
  for (int i = 0; i < 96; i++) held[i] = in[i * 256 + threadIdx.x];
  for (int turn = 0; turn < 8; turn++)
#pragma unroll
    for (int i = 0; i < 96; i++) asm volatile("" : "+v"(held[i]));  // scratch
#pragma unroll
  for (int i = 0; i < 96; i++) sum += held[i];
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}

KERNEL one_counter(int* counts) {
  atomicAdd(counts + threadIdx.x % 8, (int)threadIdx.x);  // atomics
}

int main() {
  float *in, *out;
  if (hipMalloc(&in, 64 << 20) || hipMalloc(&out, 4 << 20)) return 1;
  (void)hipMemset(in, 0, 64 << 20);
  rows_of_32<<<304, 256>>>(in, out);
  rows_of_33<<<304, 256>>>(in, out);
  uncoalesced<<<304, 256>>>(in, out);
  power_of_two<<<304, 256>>>(in, out);
  barrier_too_many<<<304, 256>>>(in, out);
  spilled<<<304, 256>>>(in, out);
  one_counter<<<304, 256>>>((int*)out);
  return hipDeviceSynchronize();
}
