// Faults on purpose: argument 1 writes far beyond the end, 2 uses freed memory, 3 fails an assertion.
#include "check.h"
#include <cassert>

__global__ void store_at(int* x, long index) { x[index] = 1; }
__global__ void insist(const int* x) { assert(x[0] == 12345); }

int main(int argc, char** argv) {
  int kind = argc > 1 ? std::atoi(argv[1]) : 0;
  DeviceArray<int> x(1024);
  if (kind == 1) store_at<<<1, 1>>>(x.data, 1030);
  if (kind == 2) {
    OK(hipFree(x.data));
    store_at<<<1, 1>>>(x.data, 3);
  }
  if (kind == 3) insist<<<1, 1>>>(x.data);
  hipError_t error = hipDeviceSynchronize();
  int* y;
  EXPECT(error == hipErrorLaunchFailure && hipMalloc(&y, 4) == hipErrorLaunchFailure);
  return 7;
}
