// Calls whose target or depth the compiler does not know: virtual functions, a table of functions, recursion. And votes of
// a whole workgroup, which the device library calls for.
#include "check.h"

struct Shape {
  __device__ virtual float area() const = 0;
  __device__ virtual ~Shape() {}
};
struct Square : Shape {
  float side;
  __device__ explicit Square(float s) : side(s) {}
  __device__ float area() const override { return side * side; }
};
struct Disc : Shape {
  float radius;
  __device__ explicit Disc(float r) : radius(r) {}
  __device__ float area() const override { return 3 * radius * radius; }
};
__device__ float twice(float x) { return 2 * x; }
__device__ float half_of(float x) { return x / 2; }
__device__ float (*table[2])(float) = {twice, half_of};

__global__ void choose(float* out, int shift) {
  const int i = (int)threadIdx.x;
  Square square((float)i);
  Disc disc((float)i);
  const Shape* shape = i % 2 ? (Shape*)&square : (Shape*)&disc;
  out[i] = table[(i + shift) % 2](shape->area());
}

__device__ __noinline__ int depth_first(int n) { return n < 2 ? n : depth_first(n - 1) + depth_first(n - 2); }
__global__ void recurse(int* out, int levels) { out[threadIdx.x] = depth_first((int)threadIdx.x % levels); }

__global__ void vote(int* out) {
  const int i = (int)threadIdx.x;
  const int count = __syncthreads_count(i % 3 == 0), all = __syncthreads_and(i < 200), any = __syncthreads_or(i == 77);
  if (i == 0) out[0] = count, out[1] = all, out[2] = any;
}

int main() {
  DeviceArray<float> areas(64);
  choose<<<1, 64>>>(areas.data, 0);
  std::vector<float> area = areas.host();
  for (int i = 0; i < 64; i++) EXPECT(area[i] == (i % 2 ? i * i / 2.f : 6.f * i * i));

  DeviceArray<int> out(64);
  recurse<<<1, 64>>>(out.data, 10);  // within the default limit of the stack
  EXPECT(out.host()[9] == 34);
  OK(hipDeviceSetLimit(hipLimitStackSize, 4096));
  recurse<<<1, 64>>>(out.data, 16);
  EXPECT(out.host()[15] == 610);
  EXPECT(hipDeviceSetLimit(hipLimitStackSize, 128 << 10) == hipErrorInvalidValue);

  vote<<<1, 200>>>(out.data);
  std::vector<int> votes = out.host();
  EXPECT(votes[0] == 67 && votes[1] && votes[2]);
  return 0;
}
