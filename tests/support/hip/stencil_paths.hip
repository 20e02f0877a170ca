// Convolution with its mask in constant memory, moving average over a padded copy, shortest paths
// (Floyd-Warshall).
#include "check.h"
#include <algorithm>

__constant__ float mask[5 * 5];

__global__ void convolve(const float* in, float* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float sum = 0;
  for (int j = -2; j <= 2; j++)
    for (int i = -2; i <= 2; i++)
      if (unsigned(x + i) < unsigned(width) && unsigned(y + j) < unsigned(height))
        sum += mask[(j + 2) * 5 + i + 2] * in[(y + j) * width + x + i];
  out[y * width + x] = sum;
}

__global__ void moving_average(const float* in, float* out, int n, int window) {
  extern __shared__ float part[];
  int first = blockIdx.x * blockDim.x;
  for (int i = threadIdx.x; i < int(blockDim.x) + window - 1; i += blockDim.x)
    part[i] = first + i < n + window - 1 ? in[first + i] : 0;
  __syncthreads();
  float sum = 0;
  for (int k = 0; k < window; k++) sum += part[threadIdx.x + k];
  if (first + int(threadIdx.x) < n) out[first + threadIdx.x] = sum / window;
}

__global__ void relax(unsigned* distance, int n, int through) {
  int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || j >= n) return;
  unsigned around = distance[i * n + through] + distance[through * n + j];
  if (around < distance[i * n + j]) distance[i * n + j] = around;
}

int main() {
  const int width = 50, height = 37;
  std::vector<float> weights(25), image(width * height);
  for (int i = 0; i < 25; i++) weights[i] = i % 4;
  for (int i = 0; i < width * height; i++) image[i] = hashed(i) % 16;
  OK(hipMemcpyToSymbol(HIP_SYMBOL(mask), weights.data(), 25 * sizeof(float)));
  DeviceArray<float> din(image), dout(width * height);
  convolve<<<dim3(4, 5), dim3(16, 8)>>>(din.data, dout.data, width, height);
  std::vector<float> got = dout.host();
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) {
      float sum = 0;
      for (int j = std::max(0, y - 2); j <= std::min(height - 1, y + 2); j++)
        for (int i = std::max(0, x - 2); i <= std::min(width - 1, x + 2); i++)
          sum += weights[(j - y + 2) * 5 + i - x + 2] * image[j * width + i];
      EXPECT(got[y * width + x] == sum);
    }

  const int n = 500, window = 8;
  std::vector<float> series(n + window - 1);
  for (size_t i = 0; i < series.size(); i++) series[i] = hashed(i) % 100;
  DeviceArray<float> ds(series), da(n);
  moving_average<<<(n + 127) / 128, 128, (128 + window - 1) * sizeof(float)>>>(ds.data, da.data, n, window);
  std::vector<float> average = da.host();
  for (int i = 0; i < n; i++) {
    float sum = 0;
    for (int k = 0; k < window; k++) sum += series[i + k];
    EXPECT(average[i] == sum / window);
  }

  const int nodes = 40;
  std::vector<unsigned> d(nodes * nodes);
  for (int i = 0; i < nodes; i++)
    for (int j = 0; j < nodes; j++) d[i * nodes + j] = i == j ? 0 : 1 + hashed(i * nodes + j) % 1000;
  DeviceArray<unsigned> dd(d);
  for (int k = 0; k < nodes; k++) relax<<<dim3(3, 3), dim3(16, 16)>>>(dd.data, nodes, k);
  for (int k = 0; k < nodes; k++)
    for (int i = 0; i < nodes; i++)
      for (int j = 0; j < nodes; j++)
        d[i * nodes + j] = std::min(d[i * nodes + j], d[i * nodes + k] + d[k * nodes + j]);
  EXPECT(dd.host() == d);
}
