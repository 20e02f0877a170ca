// What lanes of a wave tell each other; dynamic LDS; inline assembly; registers that an index picks; printf.
#include "check.h"

__global__ void transpose_by_shuffle(const int* in, int* out) {  // 8 x 8, one wave
  int lane = threadIdx.x;
  out[lane] = __shfl(in[lane], lane % 8 * 8 + lane / 8);
}
__global__ void wave_sum(const int* in, int* out) {
  int x = in[blockIdx.x * 64 + threadIdx.x];
  for (int d = 32; d; d /= 2) x += __shfl_down(x, d);
  if (threadIdx.x == 0) out[blockIdx.x] = x;
}
__global__ void votes(const int* in, unsigned long long* out) {
  bool odd = in[threadIdx.x] & 1;
  unsigned long long set = __ballot(odd);
  int any = __any(odd), all = __all(odd);
  if (threadIdx.x == 0) out[0] = set, out[1] = __popcll(set), out[2] = any, out[3] = all;
}
__global__ void reverse(int* x, int n) {
  extern __shared__ int cells[];
  cells[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = cells[n - 1 - threadIdx.x];
}
__global__ void add_by_assembly(const float* a, const float* b, float* c) {
  float x = a[threadIdx.x], y = b[threadIdx.x], z;
  asm volatile("v_add_f32 %0, %1, %2" : "=v"(z) : "v"(x), "v"(y));
  c[threadIdx.x] = z;
}
__global__ void rotate(const int* in, int* out, int steps) {  // the array lives in registers
  int mine[24];
  for (int i = 0; i < 24; i++) mine[i] = in[i] + threadIdx.x;
  for (int i = 0; i < steps; i++) mine[i * 5 % 24] += i;
  int sum = 0;
  for (int i = 0; i < 24; i++) sum = sum * 3 + mine[(i + steps) % 24];
  out[threadIdx.x] = sum;
}
__global__ void speak(int n) {
  if (threadIdx.x < n) printf("lane %d says %s and %.2f\n", int(threadIdx.x), "hello", threadIdx.x * 0.25);
}

int main() {
  std::vector<int> x(256);
  for (int i = 0; i < 256; i++) x[i] = hashed(i) % 1000;
  DeviceArray<int> in(x), out(256);
  transpose_by_shuffle<<<1, 64>>>(in.data, out.data);
  std::vector<int> got = out.host();
  for (int i = 0; i < 64; i++) EXPECT(got[i] == x[i % 8 * 8 + i / 8]);

  wave_sum<<<4, 64>>>(in.data, out.data);
  got = out.host();
  for (int w = 0; w < 4; w++) {
    int sum = 0;
    for (int i = 0; i < 64; i++) sum += x[w * 64 + i];
    EXPECT(got[w] == sum);
  }

  DeviceArray<unsigned long long> dv(4);
  votes<<<1, 64>>>(in.data, dv.data);
  unsigned long long set = 0;
  for (int i = 0; i < 64; i++) set |= (unsigned long long)(x[i] & 1) << i;
  std::vector<unsigned long long> v = dv.host();
  EXPECT(v[0] == set && v[1] == (unsigned long long)__builtin_popcountll(set) && v[2] == (set != 0) &&
         v[3] == (set == ~0ull));

  reverse<<<1, 256, 256 * sizeof(int)>>>(in.data, 256);
  got = in.host();
  for (int i = 0; i < 256; i++) EXPECT(got[i] == x[255 - i]);

  std::vector<float> a(64), b(64);
  for (int i = 0; i < 64; i++) a[i] = i * 0.5f, b[i] = 100 - i;
  DeviceArray<float> da(a), db(b), dc(64);
  add_by_assembly<<<1, 64>>>(da.data, db.data, dc.data);
  std::vector<float> c = dc.host();
  for (int i = 0; i < 64; i++) EXPECT(c[i] == a[i] + b[i]);

  DeviceArray<int> dx(x);
  rotate<<<1, 64>>>(dx.data, out.data, 31);
  got = out.host();
  for (int lane = 0; lane < 64; lane++) {
    int mine[24], sum = 0;
    for (int i = 0; i < 24; i++) mine[i] = x[i] + lane;
    for (int i = 0; i < 31; i++) mine[i * 5 % 24] += i;
    for (int i = 0; i < 24; i++) sum = sum * 3 + mine[(i + 31) % 24];
    EXPECT(got[lane] == sum);
  }
  speak<<<1, 64>>>(3);
  OK(hipDeviceSynchronize());
}
