// Kernels that wait for the host or for another queue, and what is put behind them.
#include "check.h"

__global__ void wait_for(const int* flag, int value, int* out, int result) {
  while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) != value) __builtin_amdgcn_s_sleep(8);
  *out = result;
}
__global__ void spin_for(const volatile int* flag, int* out) {
  while (*flag == 0) {}
  *out = 1;
}
__global__ void set(int* flag, int value) {
  __hip_atomic_store(flag, value, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
}
__global__ void add(int* x, int y) { *x += y; }
__global__ void wait_and_fault(const int* flag, int* out) {
  while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) != 1) __builtin_amdgcn_s_sleep(8);
  out[1 << 28] = 1;
}

int main(int count, char**) {
  int *flag, *x, *seen;
  OK(hipHostMalloc(&flag, 64, 0));
  OK(hipHostMalloc(&seen, 64, 0));
  OK(hipMalloc(&x, 64));
  OK(hipMemset(x, 0, 64));
  hipStream_t one, two, blocking;
  OK(hipStreamCreateWithFlags(&one, hipStreamNonBlocking));
  OK(hipStreamCreateWithFlags(&two, hipStreamNonBlocking));
  OK(hipStreamCreate(&blocking));
  hipEvent_t done, other;
  OK(hipEventCreate(&done));
  OK(hipEventCreate(&other));

  // The host answers a kernel, and what is behind the kernel waits.
  *flag = *seen = 0;
  wait_for<<<1, 64, 0, one>>>(flag, 1, x, 10);
  add<<<1, 1, 0, one>>>(x, 1);
  OK(hipMemcpyAsync(seen, x, 4, hipMemcpyDeviceToHost, one));
  OK(hipEventRecord(done, one));
  EXPECT(hipStreamQuery(one) == hipErrorNotReady && hipEventQuery(done) == hipErrorNotReady && *seen == 0);
  float ms;
  EXPECT(hipEventElapsedTime(&ms, done, done) == hipErrorNotReady);
  OK(hipStreamSynchronize(two));
  // A queue that waits for an event of the first.
  OK(hipStreamWaitEvent(two, done, 0));
  add<<<1, 1, 0, two>>>(x, 100);
  OK(hipEventRecord(other, two));
  EXPECT(hipEventQuery(other) == hipErrorNotReady);
  __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
  OK(hipEventSynchronize(done));
  EXPECT(*seen == 11 && hipEventQuery(done) == hipSuccess);
  OK(hipEventSynchronize(other));
  OK(hipMemcpy(seen, x, 4, hipMemcpyDeviceToHost));
  EXPECT(*seen == 111);

  // One kernel waits for another queue's.
  wait_for<<<1, 64, 0, one>>>(flag, 2, x, 20);
  set<<<1, 1, 0, two>>>(flag, 2);
  OK(hipDeviceSynchronize());
  OK(hipMemcpy(seen, x, 4, hipMemcpyDeviceToHost));
  EXPECT(*seen == 20);

  // The null queue waits for those that block, and they for it.
  wait_for<<<1, 64, 0, blocking>>>(flag, 3, x, 30);
  add<<<1, 1>>>(x, 1);
  OK(hipMemcpyAsync(seen, x, 4, hipMemcpyDeviceToHost, blocking));
  EXPECT(hipStreamQuery(nullptr) == hipErrorNotReady && *seen == 20);
  EXPECT(hipStreamQuery(two) == hipSuccess);
  set<<<1, 1, 0, two>>>(flag, 3);
  OK(hipStreamSynchronize(blocking));
  EXPECT(*seen == 31);

  // A callback and a graph behind a kernel; a queue destroyed with work on it.
  static int called;
  called = 0;
  wait_for<<<1, 64, 0, one>>>(flag, 4, x, 40);
  OK(hipLaunchHostFunc(one, [](void* p) { called = *(int*)p; }, flag));
  EXPECT(called == 0);
  OK(hipStreamDestroy(one));
  __atomic_store_n(flag, 4, __ATOMIC_RELEASE);
  OK(hipDeviceSynchronize());
  EXPECT(called == 4);

  // Polling without a pause, for a second.
  if (count > 1) {
    __atomic_store_n(flag, 0, __ATOMIC_RELEASE);
    spin_for<<<1, 64, 0, two>>>(flag, x);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    OK(hipStreamSynchronize(two));
  }

  // A fault is told where the work is waited for.
  __atomic_store_n(flag, 0, __ATOMIC_RELEASE);
  wait_and_fault<<<1, 64, 0, two>>>(flag, x);
  OK(hipGetLastError());
  __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
  EXPECT(hipStreamSynchronize(two) != hipSuccess);
  return 0;
}
