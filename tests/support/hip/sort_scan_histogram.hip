// Bitonic sort by a kernel per step, inclusive prefix sum in LDS with block totals, histogram with LDS and
// global atomics.
#include "check.h"
#include <algorithm>

__global__ void bitonic_step(unsigned* keys, unsigned span, unsigned distance) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x, j = i ^ distance;
  if (j <= i) return;
  bool ascending = (i & span) == 0;
  unsigned x = keys[i], y = keys[j];
  if ((x > y) == ascending) keys[i] = y, keys[j] = x;
}

__global__ void scan_block(const int* in, int* out, int* totals, int n) {
  __shared__ int cells[2][256];
  int t = threadIdx.x, i = blockIdx.x * 256 + t, from = 0;
  cells[0][t] = i < n ? in[i] : 0;
  __syncthreads();
  for (int d = 1; d < 256; d *= 2, from ^= 1) {
    cells[from ^ 1][t] = cells[from][t] + (t >= d ? cells[from][t - d] : 0);
    __syncthreads();
  }
  if (i < n) out[i] = cells[from][t];
  if (t == 255 && totals) totals[blockIdx.x] = cells[from][t];
}
__global__ void add_totals(int* out, const int* totals, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n && blockIdx.x) out[i] += totals[blockIdx.x - 1];
}

__global__ void histogram(const unsigned* x, unsigned* bins, int n) {
  __shared__ unsigned mine[64];
  if (threadIdx.x < 64) mine[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&mine[x[i] >> 26], 1u);
  __syncthreads();
  if (threadIdx.x < 64) atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

// A byte for each thread and bin; the two waves have every other byte of a dword.
__global__ void byte_histogram(const unsigned* x, unsigned* bins, int per_thread) {
  __shared__ unsigned char mine[16][128];
  int column = threadIdx.x % 64 * 2 + threadIdx.x / 64;
  for (int b = 0; b < 16; b++) mine[b][column] = 0;
  __syncthreads();
  for (int i = 0; i < per_thread; i++) mine[x[threadIdx.x * per_thread + i] >> 28][column]++;
  __syncthreads();
  unsigned sum = 0;
  for (int k = 0; k < 128 && threadIdx.x < 16; k++) sum += mine[threadIdx.x][k];
  if (threadIdx.x < 16) bins[threadIdx.x] = sum;
}

int main() {
  const int n = 2048;
  std::vector<unsigned> keys(n);
  for (int i = 0; i < n; i++) keys[i] = hashed(i);
  DeviceArray<unsigned> dk(keys);
  for (unsigned span = 2; span <= n; span *= 2)
    for (unsigned d = span / 2; d; d /= 2) bitonic_step<<<n / 256, 256>>>(dk.data, span, d);
  std::vector<unsigned> sorted = dk.host(), want = keys;
  std::sort(want.begin(), want.end());
  EXPECT(sorted == want);

  DeviceArray<unsigned> dx(keys), bins(64);
  OK(hipMemset(bins.data, 0, 64 * 4));
  histogram<<<4, 128>>>(dx.data, bins.data, n);
  std::vector<unsigned> counted = bins.host(), expected(64);
  for (unsigned k : keys) expected[k >> 26]++;
  EXPECT(counted == expected);

  byte_histogram<<<1, 128>>>(dx.data, bins.data, n / 128);
  counted = bins.host();
  for (int b = 0; b < 16; b++)
    EXPECT(counted[b] == expected[4 * b] + expected[4 * b + 1] + expected[4 * b + 2] + expected[4 * b + 3]);

  const int m = 1000;
  std::vector<int> v(m);
  for (int i = 0; i < m; i++) v[i] = int(hashed(i) % 21) - 10;
  DeviceArray<int> in(v), out(m), totals(4), totals_scanned(4);
  scan_block<<<4, 256>>>(in.data, out.data, totals.data, m);
  scan_block<<<1, 256>>>(totals.data, totals_scanned.data, nullptr, 4);
  add_totals<<<4, 256>>>(out.data, totals_scanned.data, m);
  std::vector<int> scanned = out.host();
  for (int i = 0, sum = 0; i < m; i++) EXPECT(scanned[i] == (sum += v[i]));
}
