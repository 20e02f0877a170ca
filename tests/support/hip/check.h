// What the test programs share: an error check that names its line, and a random number anybody can
// recompute.
#pragma once
#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define OK(call)                                                                            \
  do {                                                                                      \
    hipError_t error_ = (call);                                                             \
    if (error_ != hipSuccess) {                                                             \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, hipGetErrorString(error_)); \
      std::exit(3);                                                                         \
    }                                                                                       \
  } while (0)

#define EXPECT(condition)                                                 \
  do {                                                                    \
    if (!(condition)) {                                                   \
      std::printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                       \
    }                                                                     \
  } while (0)

inline unsigned hashed(unsigned x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ x >> 16;
}

template <class T>
struct DeviceArray {
  T* data = nullptr;
  size_t count;
  explicit DeviceArray(size_t n) : count(n) { OK(hipMalloc(&data, n * sizeof(T))); }
  explicit DeviceArray(const std::vector<T>& host) : DeviceArray(host.size()) {
    OK(hipMemcpy(data, host.data(), count * sizeof(T), hipMemcpyHostToDevice));
  }
  ~DeviceArray() { (void)hipFree(data); }
  std::vector<T> host() const {
    std::vector<T> out(count);
    OK(hipMemcpy(out.data(), data, count * sizeof(T), hipMemcpyDeviceToHost));
    return out;
  }
};
