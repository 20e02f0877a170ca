// Workgroups, or streams, that store the same values to the same places at the same time: no race. Argument 1: "dwords",
// "bytes", "unaligned" (16 bytes at odd multiples of 2), "streams"; argument 2: "unlike" has one store another value.
#include "check.h"
#include <atomic>
#include <string>
#include <thread>

constexpr int WORDS = 1 << 12, GROUPS = 16, LAUNCHES = 300;
struct __attribute__((packed, aligned(2))) Unaligned {
  int word[4];
};

template <class T>
__global__ void store(T* x, T value, T other, int unlike) {
  for (int i = threadIdx.x; i < (int)(WORDS * 4 / sizeof(T)) - 1; i += blockDim.x)
    x[i] = i == 777 && (int)blockIdx.x == unlike ? other : value;
}

// Two threads of the program, each with a stream of its own, in step.
void store_on_streams(int* x, int unlike) {
  std::atomic<int> arrived{0};
  const auto launches = [&](int place) {
    hipStream_t stream;
    OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    for (int r = 1; r <= LAUNCHES; r++) {
      for (arrived++; arrived < 2 * r;) std::this_thread::yield();
      store<int><<<1, 256, 0, stream>>>(x, r, r + 1, place ? unlike - 5 : -1);
      (void)hipStreamSynchronize(stream);
    }
  };
  std::thread other(launches, 1);
  launches(0);
  other.join();
}

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "";
  const int unlike = argc > 2 ? 5 : -1;
  DeviceArray<int> x(WORDS);
  OK(hipMemset(x.data, 0, WORDS * 4));
  OK(hipDeviceSynchronize());
  if (kind == "streams") store_on_streams(x.data, unlike);
  for (int r = 1; kind != "streams" && r <= LAUNCHES; r++) {
    const Unaligned wide = {{r, r, r, r}}, other = {{r, r + 1, r, r}};
    if (kind == "dwords") store<int><<<GROUPS, 64>>>(x.data, r, r + 1, unlike);
    if (kind == "bytes") store<char><<<GROUPS, 64>>>((char*)x.data, (char)r, (char)(r + 1), unlike);
    if (kind == "unaligned") store<Unaligned><<<GROUPS, 64>>>((Unaligned*)((char*)x.data + 2), wide, other, unlike);
    if (hipDeviceSynchronize()) break;
  }
  if (hipError_t error = hipDeviceSynchronize()) return std::puts(hipGetErrorName(error)), 1;
  std::puts("no finding");
}
