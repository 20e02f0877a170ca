#include "check.h"

__global__ void saxpy(float a, const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];
}

int main() {
  const int n = 10007;  // prime: the last block is not full
  std::vector<float> x(n), y(n);
  for (int i = 0; i < n; i++) x[i] = i % 64, y[i] = i % 31;
  DeviceArray<float> dx(x), dy(y);
  saxpy<<<8, 256>>>(3.0f, dx.data, dy.data, n);
  OK(hipGetLastError());
  std::vector<float> got = dy.host();
#ifdef WRONG
  got[n - 1] += 1;
#endif
  for (int i = 0; i < n; i++) EXPECT(got[i] == 3.0f * x[i] + y[i]);
}
