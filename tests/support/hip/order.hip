// Two kernels: one gives the same result whatever order workgroups and waves run in, the other only by luck.
#include "check.h"

__global__ void counted(unsigned* bins, const unsigned* x) {
  atomicAdd(&bins[x[blockIdx.x * blockDim.x + threadIdx.x] & 15], 1u);
}

// Takes for granted that workgroups end one after the other.
__global__ void running_sum(volatile unsigned* sums, const unsigned* x) {
  unsigned before = blockIdx.x ? sums[blockIdx.x - 1] : 0;
  if (threadIdx.x == 0) sums[blockIdx.x] = before + x[blockIdx.x];
}

// Takes for granted that the first wave is ahead of the others: there is no barrier.
__global__ void through_lds(unsigned* out) {
  __shared__ volatile unsigned shared[256];
  shared[threadIdx.x] = threadIdx.x;
  out[blockIdx.x * 256 + threadIdx.x] = shared[threadIdx.x < 64 ? threadIdx.x : threadIdx.x - 64];
}

int main(int, char** arguments) {
  constexpr unsigned GROUPS = 40;
  std::vector<unsigned> x(GROUPS * 256), bins(16);
  for (unsigned i = 0; i < x.size(); i++) bins[(x[i] = hashed(i)) & 15]++;
  DeviceArray<unsigned> in(x), counts(std::vector<unsigned>(16, 0)), sums(std::vector<unsigned>(GROUPS, 0)),
      out(GROUPS * 256);
  int which = atoi(arguments[1]);
  if (which == 0) hipLaunchKernelGGL(counted, dim3(GROUPS), dim3(256), 0, 0, counts.data, in.data);
  if (which == 1) hipLaunchKernelGGL(running_sum, dim3(GROUPS), dim3(64), 0, 0, sums.data, in.data);
  if (which == 2) hipLaunchKernelGGL(through_lds, dim3(GROUPS), dim3(256), 0, 0, out.data);
  OK(hipDeviceSynchronize());
  if (which == 0) EXPECT(counts.host() == bins);
  unsigned sum = 0, i = 0;
  if (which == 1)
    for (unsigned found : sums.host()) EXPECT(found == (sum += x[i++]));
  if (which == 2)
    for (unsigned found : out.host()) {
      EXPECT(found == (i % 256 < 64 ? i % 256 : i % 256 - 64));
      i++;
    }
  return 0;
}
