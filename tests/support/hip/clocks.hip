// The device's clocks: what they count, that launches and waiting move them, that a wait with a bound ends.
// Arguments: how long to wait for what never comes, in seconds of the device. Prints every time that it read.
#include "check.h"
#include <cstdlib>

__global__ void chain(float* x, long long* times) {
  x += blockIdx.x * blockDim.x;
  float a = x[threadIdx.x];
  long long before = clock64(), wall = wall_clock64();
  for (int i = 0; i < 250; i++) a = a * 1.5f + 1.0f;
  x[threadIdx.x] = a;
  if (threadIdx.x == 0) {
    times[3 * blockIdx.x] = before;
    times[3 * blockIdx.x + 1] = clock64() - before;
    times[3 * blockIdx.x + 2] = wall;
  }
}

// One workgroup works a while, the other waits for it.
__global__ void wait_for_work(int* flag, float* x, long long* waited) {
  long long start = wall_clock64();
  if (blockIdx.x == 1) {
    float a = x[threadIdx.x];
    for (int i = 0; i < 300000; i++) a = a * 0.5f + 1.0f;
    x[threadIdx.x] = a;
    __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
  } else {
    while (!__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM)) __builtin_amdgcn_s_sleep(1);
    *waited = wall_clock64() - start;
  }
}

__global__ void wait_in_vain(const int* flag, long long bound, long long* waited) {
  long long start = wall_clock64();
  while (!__hip_atomic_load(flag, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM) && wall_clock64() - start < bound)
    __builtin_amdgcn_s_sleep(2);
  *waited = wall_clock64() - start;
}

int main(int, char** arguments) {
  float* x;
  int* flag;
  long long* times;
  OK(hipMalloc(&x, 5000 * 1024));
  OK(hipMalloc(&flag, 4));
  OK(hipHostMalloc(&times, 5000 * 3 * sizeof *times, 0));
  OK(hipMemset(x, 0, 5000 * 1024));
  OK(hipMemset(flag, 0, 4));
  hipDeviceProp_t card;
  OK(hipGetDeviceProperties(&card, 0));
  int wall_khz;
  OK(hipDeviceGetAttribute(&wall_khz, hipDeviceAttributeWallClockRate, 0));
  EXPECT(wall_khz == 100000);

  // The card has room for fewer than 5000 workgroups of four waves: the last ones start later.
  long long last_start = 0;
  for (int launch = 0; launch < 2; launch++) {
    hipLaunchKernelGGL(chain, dim3(5000), dim3(256), 0, 0, x, times);
    OK(hipDeviceSynchronize());
    EXPECT(times[0] >= last_start);
    EXPECT(times[3 * 4999] > times[0]);
    for (int i = 0; i < 5000; i++) {
      EXPECT(times[3 * i] >= times[0] && times[3 * i + 1] >= 1000 && times[3 * i + 1] < 10000);
      double wall = times[3 * i] * 1e5 / card.clockRate;  // both clocks count the same time
      EXPECT(times[3 * i + 2] >= wall - 1 && times[3 * i + 2] <= wall + 2);
      if (times[3 * i] > last_start) last_start = times[3 * i];
    }
  }
  printf("%lld %lld\n", times[3 * 4999], times[3 * 4999 + 1]);

  hipLaunchKernelGGL(wait_for_work, dim3(2), dim3(64), 0, 0, flag, x, times);
  OK(hipDeviceSynchronize());
  // 300000 steps of two instructions and more, 2100 or 2400 cycles a microsecond
  EXPECT(times[0] > 50000 && times[0] < 1000000);

  OK(hipMemset(flag, 0, 4));
  double seconds = atof(arguments[1]);
  hipLaunchKernelGGL(wait_in_vain, dim3(1), dim3(64), 0, 0, flag, (long long)(seconds * 1e8), times);
  OK(hipDeviceSynchronize());
  EXPECT(times[0] >= seconds * 1e8 && times[0] < seconds * 1e8 + 2e7);
  return 0;
}
