// Workgroups on several host threads that only poll, without s_sleep, for argv[1] seconds of the device's clock. Prints the
// longest step of that clock from one read to the next, in seconds.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>

__global__ void poll(const int* flag, unsigned long long* longest, unsigned long long ticks) {
  const unsigned long long start = wall_clock64();
  unsigned long long now = start;
  while (!__hip_atomic_load(flag, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM) && now - start < ticks) {
    const unsigned long long before = now;
    now = wall_clock64();
    if (threadIdx.x == 0) atomicMax(longest, now - before);
  }
}

int main(int, char** argv) {
  int* flag;
  unsigned long long* longest;
  int kilohertz;
  if (hipMalloc(&flag, 4) || hipMemset(flag, 0, 4)) return 1;
  if (hipMallocManaged(&longest, 8) || hipMemset(longest, 0, 8)) return 1;
  if (hipDeviceGetAttribute(&kilohertz, hipDeviceAttributeWallClockRate, 0)) return 1;
  poll<<<1024, 64>>>(flag, longest, static_cast<unsigned long long>(atof(argv[1]) * 1e3 * kilohertz));
  if (hipDeviceSynchronize()) return 1;
  printf("%.6f\n", *longest / (1e3 * kilohertz));
}
